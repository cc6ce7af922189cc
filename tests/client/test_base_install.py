"""What ``pip install .`` brings, without extras: no numpy, and enough for every command of a phone."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.client.lists_on_disk import BLOCKED, put_list
from tests.formats.calls.writers import write

from hushcall.client.storage.store import Store
from hushcall.formats.calls.reading import READERS

ROOT = Path(__file__).parent.parent.parent
HEAVY = {"numpy", "scipy", "numba", "pandas", "sqlalchemy", "fastapi", "pyarrow", "matplotlib"}


def closure(wanted: list[str]) -> set[str]:
    """Every distribution that these requirements bring along here, by the metadata of what is installed."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    todo = [(Requirement(text), "") for text in wanted]
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found.add(name)
        for inner in ("", *sorted(requirement.extras)):
            if (name, inner) in seen:
                continue
            seen.add((name, inner))
            try:
                todo += [(Requirement(text), inner) for text in requires(name) or ()]
            except PackageNotFoundError:  # for another system or version of Python
                continue
    return found


def project() -> dict[str, list[str]]:
    parsed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": parsed["dependencies"], "server": parsed["optional-dependencies"]["server"]}


def test_the_base_install_brings_no_numpy() -> None:
    base = closure(project()[""])
    assert not base & HEAVY
    assert base >= {"phonenumberslite", "tuf", "urllib3", "cryptography", "typer"}
    assert len(base) < 25
    assert closure(project()["server"]) >= {"numpy", "sqlalchemy"}  # the walk would have seen it


# Whatever the base install does not bring cannot be imported; then each command runs in turn.
RUN = """
import json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
from hushcall.cli import main
for words in json.loads(sys.argv[2]):
    sys.argv = ["hushcall", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
"""


def foreign() -> list[str]:
    """Top-level modules of all that is installed and not part of the base install."""
    base = closure(project()[""]) | {"hushcall"}
    return sorted(
        name for name, owners in packages_distributions().items() if not {canonicalize_name(o) for o in owners} & base
    )


def test_the_commands_of_a_phone_run_on_the_base_install(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store.open(home).close()
    put_list(home, 1_800_000_000, 1_900_000_000)
    logs = []
    for reader in READERS.values():
        (tmp_path / reader.name).write_bytes(write(reader.name, []) or b"\n")
        logs.append(str(tmp_path / reader.name))
    (tmp_path / "contacts.vcf").write_text("BEGIN:VCARD\nTEL:202-555-0143\nEND:VCARD\n")
    at = ["--home", str(home)]
    commands = [
        ["phone", "ingest", *logs, "--columns", "guess", "--contacts", str(tmp_path / "contacts.vcf"), *at],
        ["phone", "check", BLOCKED, *at],
        ["phone", "ledger", *at],
        ["phone", "explain", "--example"],
        ["export", "--names"],
        ["export", "--to", "fritzbox", "--list", str(home / "lists" / "list.jsonl")],
        ["serve", "--help"],
        ["phone", "forget", "--yes", *at],
        ["phone", "forget", "--all", "--yes", *at],
    ]
    assert "numpy" in foreign()
    command = [sys.executable, "-c", RUN, json.dumps(foreign()), json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "allow: one of your contacts" in done.stdout
    assert not home.exists()


@pytest.mark.parametrize(
    "module",
    ["hushcall.client.screening.list_sync", "hushcall.client.screening.agi", "hushcall_home.daemon"],
)
def test_every_part_of_the_client_imports_on_the_base_install(module: str) -> None:
    code = f"import json, sys\nfor name in json.loads(sys.argv[1]): sys.modules[name] = None\nimport {module}"
    subprocess.run([sys.executable, "-c", code, json.dumps(foreign())], check=True)

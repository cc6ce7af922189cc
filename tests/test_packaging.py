"""What leaves the clone: a wheel and a source archive that install and work, locks, licences, completion."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.environments import empty_environment, run
from tests.lists import sample

from hushcall.formats.blocklists import WRITERS
from hushcall.version import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = {name: (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8") for name in ("lab", "dev")}
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]


def wanted(extra: str | None) -> list[Requirement]:
    """What an extra needs, its own and those of the extras that it names; None is the base."""
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = [Requirement(line) for line in lines]
    inner = [more for one in found if one.name == PROJECT["name"] for name in one.extras for more in wanted(name)]
    return [one for one in found if one.name != PROJECT["name"]] + inner


def pins(lock: str) -> dict[str, list[str]]:
    """Package → versions; a package may have another one on another platform or Python."""
    found: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^ ;]+)", lock, re.MULTILINE):
        found.setdefault(name, []).append(version)
    return found


@pytest.mark.parametrize("extra", LOCKS)
def test_a_lock_names_all_that_an_extra_needs_in_versions_that_it_allows(extra: str) -> None:
    found = pins(LOCKS[extra])
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    for one in (*wanted(extra), *wanted(None), *map(Requirement, build)):
        versions = found.get(canonicalize_name(one.name), [])
        assert versions, f"{one.name} is not in locks/{extra}.txt: make lock"
        assert all(version in one.specifier for version in versions), f"{one}: make lock"


@pytest.mark.parametrize("extra", LOCKS)
def test_everything_in_a_lock_has_its_hash_and_no_lock_names_a_host(extra: str) -> None:
    entries = re.split(r"\n(?=\S)", LOCKS[extra].strip())
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in LOCKS[extra]
    assert "index" not in LOCKS[extra]


def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "docs" / "licences.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_has_its_licence_on_the_page_and_what_is_installed_says_the_same() -> None:
    script = licences()
    known = script.rows(PAGE)
    assert list(known) == script.locked(LOCKS["dev"]), "python docs/licences.py"
    assert all(known.values())
    direct = {
        canonicalize_name(one.name)
        for extra in (None, "server", "lab", "scale", "docs", "dev")
        for one in wanted(extra)
    }
    assert direct <= set(known)
    assert script.licence("pytest") == known["pytest"]
    assert script.licence("no-such-package") is None


def test_the_version_is_said_and_is_the_package_s() -> None:
    said = subprocess.run([*HUSHCALL, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"hushcall {__version__}\n"
    assert PROJECT["version"] == __version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_our_commands(shell: str) -> None:
    def asked(**variables: str) -> str:
        program = "import sys; sys.argv[0] = 'hushcall'; from hushcall.cli import main; main()"
        env = {**os.environ, **variables}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
        return done.stdout

    assert "_HUSHCALL_COMPLETE" in asked(_HUSHCALL_COMPLETE=f"source_{shell}")
    typed = {"COMP_WORDS": "hushcall expo", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "hushcall expo"}
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"} if shell == "fish" else {}
    assert "export" in asked(_HUSHCALL_COMPLETE=f"complete_{shell}", **typed, **fish)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and a source archive, by ``python -m build``."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", folder, ROOT], folder)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


@pytest.mark.slow
def test_both_hold_all_that_they_need(built: tuple[Path, Path]) -> None:
    wheel, archive = built
    inside = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/hushcall").rglob("*.*") if path.is_file()
    }
    assert {name for name in ours if "__pycache__" not in name} <= inside
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"Makefile", "LICENSE", "locks/dev.txt", "deploy/Containerfile", "tests/test_packaging.py"} <= names


@pytest.mark.slow
@pytest.mark.parametrize("kind", [0, 1], ids=["wheel", "sdist"])
def test_both_install_into_an_empty_environment_and_work(kind: int, built: tuple[Path, Path], tmp_path: Path) -> None:
    programs = empty_environment(tmp_path / "empty")
    run([programs / "pip", "install", "-q", "--no-compile", built[kind]], tmp_path)
    assert run([programs / "hushcall", "--version"], tmp_path) == f"hushcall {__version__}\n"
    assert "ingest" in run([programs / "hushcall", "phone", "--help"], tmp_path)
    (tmp_path / "list.jsonl").write_bytes(sample().to_bytes())
    exported = run([programs / "hushcall", "export", "--to", "plain", "--list", "list.jsonl"], tmp_path)
    assert exported.encode() == WRITERS["plain"].write(sample())
    plans = "from hushcall import NANP; from hushcall.numbers import plan_named; print(plan_named('FR').country_code)"
    assert run([programs / "python", "-c", plans], tmp_path) == "33\n"

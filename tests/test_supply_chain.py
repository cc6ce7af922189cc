"""What a release is made of, and what is known against it: the bill of materials, and the audit from a file."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.version import Version

LOCKS = Path(__file__).parent.parent / "locks"
LAB = (LOCKS / "lab.txt").read_text(encoding="utf-8")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, LOCKS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def advisory(package: str, **affected: Any) -> dict[str, Any]:
    entry = {"package": {"ecosystem": "PyPI", "name": package}, **affected}
    return {"id": f"TEST-{package}", "summary": "a hole", "affected": [entry]}


def events(*steps: dict[str, str]) -> dict[str, Any]:
    return {"ranges": [{"type": "ECOSYSTEM", "events": list(steps)}]}


def test_every_package_of_the_lock_is_in_the_bill_with_all_its_hashes_and_a_licence() -> None:
    sbom = script("sbom")
    locks = {name: (LOCKS / f"{lock}.txt").read_text(encoding="utf-8") for name, lock in sbom.LOCKS.items()}
    assert set(locks) == {"hushcall", "hushcall-lab", "hushcall-home"}
    made = sbom.document(locks, sbom.licences(), "1.2.3")
    pinned = script("audit").pins(LAB) | script("audit").pins(locks["hushcall-home"])
    assert {one["name"]: one["version"] for one in made["components"]} == pinned
    hashes = [file["content"] for one in made["components"] for file in one["externalReferences"][0]["hashes"]]
    assert set(hashes) == set(re.findall(r"sha256:([0-9a-f]{64})", "".join(locks.values())))
    for distribution in made["dependencies"]:
        needed = {purl.removeprefix("pkg:pypi/").partition("@")[0] for purl in distribution["dependsOn"]}
        assert needed == set(script("audit").pins(locks[distribution["ref"]]))
    assert all("unknown" not in json.dumps(one["licenses"]) for one in made["components"])
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made == sbom.document(locks, sbom.licences(), "1.2.3")
    assert made["serialNumber"] != sbom.document(locks, sbom.licences(), "1.2.4")["serialNumber"]


@pytest.mark.parametrize(
    ("steps", "version", "inside"),
    [
        ([{"introduced": "0"}], "1.0", True),
        ([{"introduced": "0"}, {"fixed": "1.0"}], "1.0", False),
        ([{"introduced": "0"}, {"fixed": "1.0"}], "0.9.9", True),
        ([{"introduced": "1.0"}, {"fixed": "2.0"}], "0.9", False),
        ([{"introduced": "0"}, {"last_affected": "1.0"}], "1.0", True),
        ([{"introduced": "0"}, {"last_affected": "1.0"}], "1.0.1", False),
        ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "2.0"}, {"fixed": "2.5"}], "1.5", False),
        ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "2.0"}, {"fixed": "2.5"}], "2.4", True),
        ([{"introduced": "2.0"}, {"fixed": "2.5"}, {"introduced": "0"}, {"fixed": "1.0"}], "2.4", True),
        ([{"introduced": "not a version"}], "1.0", True),
    ],
)
def test_ranges_are_read_as_the_format_says(steps: list[dict[str, str]], version: str, inside: bool) -> None:
    assert script("audit").affects(events(*steps), version) is inside


def test_a_hole_in_what_is_locked_is_found_and_one_that_is_mended_or_withdrawn_is_not(tmp_path: Path) -> None:
    pinned = script("audit").pins(LAB)
    now = Version(pinned["urllib3"])
    holes = [
        advisory("urllib3", **events({"introduced": "0"}, {"fixed": f"{now.major + 1}.0"})),
        advisory("fastapi", **events({"introduced": "0"}, {"fixed": pinned["fastapi"]})),
        advisory("SQLAlchemy", versions=[pinned["sqlalchemy"]]),
        {**advisory("numpy", versions=[pinned["numpy"]]), "withdrawn": "2026-01-01T00:00:00Z"},
        advisory("nobody-uses-this", **events({"introduced": "0"})),
    ]
    file = tmp_path / "all.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for place, one in enumerate(holes):
            archive.writestr(f"{place}.json", json.dumps(one))
    command = [sys.executable, str(LOCKS / "audit.py"), str(file), "--lock", str(LOCKS / "lab.txt")]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert [row["package"] for row in json.loads(done.stdout)["found"]] == ["sqlalchemy", "urllib3"]
    (tmp_path / "one.json").write_text(json.dumps(holes[1]))
    quiet = subprocess.run([*command[:2], str(tmp_path / "one.json")], capture_output=True, text=True, check=False)
    assert (quiet.returncode, "0 known holes" in quiet.stdout) == (0, True)


@pytest.mark.parametrize("content", [None, b"{", b"[1]"])
def test_what_holds_no_advisories_is_said(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "advisories.json"
    if content is not None:
        file.write_bytes(content)
    done = subprocess.run(
        [sys.executable, str(LOCKS / "audit.py"), str(file)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "must hold OSV advisories" in done.stderr) == (2, True)

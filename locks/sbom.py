"""What a release is made of: ``make sbom`` writes dist/hushcall.cdx.json, a bill of materials in CycloneDX 1.6.

Every package of ``locks/lab.txt`` (phone, server and lab) with its version, licence, and the hashes of all files that
the lock allows. The same lock gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "locks" / "lab.txt"
OUT = ROOT / "dist" / "hushcall.cdx.json"
_BLOCK = re.compile(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^ ;\\\n]+)[^\n]*\n((?:    --hash=[^\n]+\n?)*)", re.MULTILINE)
_ROW = re.compile(r"^\| ([a-z0-9-]+) \| (.+) \|$", re.MULTILINE)
_SPDX = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


def licences() -> dict[str, str]:
    """As docs/dependencies.md has them."""
    return dict(_ROW.findall((ROOT / "docs" / "dependencies.md").read_text("utf-8").partition("## Licences\n")[2]))


def component(name: str, version: str, hashes: list[str], licence: str) -> dict[str, Any]:
    """One package. A licence that is an SPDX expression is given as one, any other as its name."""
    purl = f"pkg:pypi/{name}@{version}"
    kind = "expression" if _SPDX.fullmatch(licence) else "license"
    given: dict[str, Any] = {"expression": licence} if kind == "expression" else {"license": {"name": licence}}
    files = [{"alg": "SHA-256", "content": one} for one in hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [given],
        "purl": purl,
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": files}],
    }


def document(lock: str, known: dict[str, str], version: str) -> dict[str, Any]:
    """The bill. Its serial number follows from what is in it."""
    parts = []
    for name, found, hashes in _BLOCK.findall(lock):
        parts.append(component(name, found, re.findall(r"[0-9a-f]{64}", hashes), known.get(name, "unknown")))
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([version, parts], sort_keys=True))
    about = {"type": "application", "bom-ref": "hushcall", "name": "hushcall", "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {**about, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": parts,
        "dependencies": [{"ref": "hushcall", "dependsOn": [one["bom-ref"] for one in parts]}],
    }


def main() -> None:
    """Write it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    made = document(LOCK.read_text(encoding="utf-8"), licences(), version)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{OUT.relative_to(ROOT)}: {len(made['components'])} packages\n")


if __name__ == "__main__":
    main()

"""The bill of materials of a release, in CycloneDX 1.6: ``make sbom`` writes dist/hushcall.cdx.json.

It has every package of ``locks/lab.txt`` (needed by hushcall, its server or hushcall-lab) with its version, its licence
and the hashes that the lock allows. Equal locks give equal bytes.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from runpy import run_path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "locks" / "lab.txt"
OUT = ROOT / "dist" / "hushcall.cdx.json"
_BLOCK = re.compile(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^ ;\\\n]+)[^\n]*\n((?:    --hash=[^\n]+\n?)*)", re.MULTILINE)
_SPDX = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")


def licences() -> dict[str, str]:
    """Package → licence, from locks/README.md."""
    page = (ROOT / "locks" / "README.md").read_text("utf-8")
    licence_of: dict[str, str] = run_path(str(ROOT / "docs" / "licences.py"))["rows"](page)
    return licence_of


def component(name: str, version: str, hashes: list[str], licence: str) -> dict[str, Any]:
    """One package. A licence that is no SPDX expression is given by its name."""
    purl = f"pkg:pypi/{name}@{version}"
    kind = "expression" if _SPDX.fullmatch(licence) else "license"
    choice: dict[str, Any] = {"expression": licence} if kind == "expression" else {"license": {"name": licence}}
    files = [{"alg": "SHA-256", "content": digest} for digest in hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [choice],
        "purl": purl,
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": files}],
    }


def document(lock: str, known: dict[str, str], version: str) -> dict[str, Any]:
    """The bill of materials. Its serial number depends on its content only."""
    parts = []
    for name, release, hashes in _BLOCK.findall(lock):
        parts.append(component(name, release, re.findall(r"[0-9a-f]{64}", hashes), known.get(name, "unknown")))
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([version, parts], sort_keys=True))
    about = {"type": "application", "bom-ref": "hushcall", "name": "hushcall", "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {**about, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": parts,
        "dependencies": [{"ref": "hushcall", "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def main() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    bill = document(LOCK.read_text(encoding="utf-8"), licences(), version)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{OUT.relative_to(ROOT)}: {len(bill['components'])} packages\n")


if __name__ == "__main__":
    main()

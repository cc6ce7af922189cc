"""The bill of materials of a release, in CycloneDX 1.6: ``make sbom`` writes dist/hushcall.cdx.json.

It has every package of ``locks/lab.txt`` (needed by hushcall, its server or hushcall-lab) and ``locks/home.txt`` (by
hushcall-home), with its version, its licence and the hashes that the lock allows. Equal locks give equal bytes.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from pathlib import Path
from runpy import run_path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCKS = {"hushcall": "lab", "hushcall-lab": "lab", "hushcall-home": "home"}
"""Distribution → the lock that has what it needs."""
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


def document(lock_of: dict[str, str], known: dict[str, str], version: str) -> dict[str, Any]:
    """The bill of materials of these distributions. Its serial number depends on its content only."""
    needs: dict[str, list[str]] = {}
    found: dict[str, dict[str, Any]] = {}
    for distribution, lock in lock_of.items():
        for name, release, hashes in _BLOCK.findall(lock):
            part = component(name, release, re.findall(r"[0-9a-f]{64}", hashes), known.get(name, "unknown"))
            found[part["purl"]] = part
            needs.setdefault(distribution, []).append(part["purl"])
    parts = [found[purl] for purl in sorted(found)]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([version, parts], sort_keys=True))
    ours = [
        {"type": "application", "bom-ref": name, "name": name, "version": version}
        | {"licenses": [{"expression": "Apache-2.0"}]}
        for name in lock_of
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {**ours[0], "components": ours[1:]}},
        "components": parts,
        "dependencies": [{"ref": name, "dependsOn": purls} for name, purls in needs.items()],
    }


def main() -> None:
    version = str(run_path(str(ROOT / "src" / "hushcall" / "version.py"))["__version__"])
    lock_of = {name: (ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8") for name, lock in LOCKS.items()}
    bill = document(lock_of, licences(), version)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{OUT.relative_to(ROOT)}: {len(bill['components'])} packages\n")


if __name__ == "__main__":
    main()

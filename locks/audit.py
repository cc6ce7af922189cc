"""Known holes in what the locks name: ``make audit ADVISORIES=FILE`` reads a file of advisories, and no network.

FILE is the OSV database's download for PyPI (``all.zip``, one JSON file an advisory, format OSV 1.x), a folder of such
files, or one of them. A package is affected if an advisory names its version, or a range that it is in. Ends with
1 where something is found, and with 2 where there is nothing to read.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

LOCKS = Path(__file__).parent
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^ ;\\\n]+)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    """Package → version, as a lock has them."""
    return {_plain(name): version for name, version in _PIN.findall(lock)}


def _plain(name: str) -> str:
    """As the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def advisories(place: Path) -> Iterator[dict[str, Any]]:
    """All that a file, a folder or an archive holds."""
    if zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            for name in archive.namelist():
                yield json.loads(archive.read(name))
    else:
        for file in sorted(place.rglob("*.json")) if place.is_dir() else [place]:
            yield json.loads(file.read_bytes())


def affects(entry: Mapping[str, Any], version: str) -> bool:
    """Whether an ``affected`` entry covers a version: by name, or by the events of a range."""
    if version in entry.get("versions", ()):
        return True
    ranges = [one for one in entry.get("ranges", ()) if one.get("type") == "ECOSYSTEM"]
    return any(_within(one.get("events", ()), Version(version)) for one in ranges)


def _within(events: Any, version: Version) -> bool:
    """Events in order of their versions: the last one at or before ours says whether it is in."""
    inside, steps = False, list[tuple[Version, int, bool]]()
    for event in events:
        for kind, text in event.items():
            try:
                steps.append((Version(text), kind == "last_affected", kind in ("introduced", "last_affected")))
            except InvalidVersion:
                return True  # what cannot be read is looked at by a person
    for at, only_beyond, starts in sorted(steps):
        if only_beyond:
            inside = inside and version <= at
        elif version >= at:
            inside = starts
    return inside


def found_in(place: Path, pinned: Mapping[str, str]) -> list[dict[str, str]]:
    """Each hole, once a package: its name, version, advisory and what it is about."""
    rows = []
    for advisory in advisories(place):
        for entry in advisory.get("affected", ()):
            package = entry.get("package", {})
            name = _plain(package.get("name", ""))
            ours = package.get("ecosystem") == "PyPI" and name in pinned and "withdrawn" not in advisory
            if ours and affects(entry, pinned[name]):
                about = advisory.get("summary") or advisory.get("details", "")[:80]
                rows.append({"package": name, "version": pinned[name], "advisory": advisory["id"], "about": about})
    return sorted({row["advisory"]: row for row in rows}.values(), key=lambda row: (row["package"], row["advisory"]))


def main() -> int:
    """Look, and say what was found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("advisories", type=Path, help="OSV's all.zip for PyPI, a folder of its files, or one")
    options.add_argument("--lock", type=Path, default=LOCKS / "dev.txt")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    pinned = pins(chosen.lock.read_text(encoding="utf-8"))
    try:
        rows = found_in(chosen.advisories, pinned)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        print(f"audit: {chosen.advisories} must hold OSV advisories ({type(error).__name__})", file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps({"packages": len(pinned), "found": rows}, indent=1))
    else:
        for row in rows:
            print(f"{row['package']} {row['version']}: {row['advisory']}: {row['about']}")
        print(f"{len(pinned)} packages, {len(rows)} known holes.")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())

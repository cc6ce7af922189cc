"""Under which licence each package of the locks is: ``python docs/licences.py`` writes the table of dependencies.md.

What is installed says it of itself (importlib.metadata). A package of another platform keeps the row that it had.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "dependencies.md"
LOCK = ROOT / "locks" / "dev.txt"
HEADING = "## Licences\n"
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")
_ROW = re.compile(r"^\| ([a-z0-9-]+) \| (.+) \|$", re.MULTILINE)


def locked(lock: str) -> list[str]:
    """The packages that a lock names."""
    return sorted(set(re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==", lock, re.MULTILINE)))


def licence(name: str) -> str | None:
    """What a package says of itself: an SPDX expression, its classifiers, a text, or how its file begins."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return None
    about = package.metadata
    if "License-Expression" in about:
        return str(about["License-Expression"])
    classified = [found[1] for text in about.get_all("Classifier", []) if (found := _CLASSIFIER.fullmatch(text))]
    text = str(about["License"] or "").strip().split("\n", maxsplit=1)[0]
    brought = package.read_text(f"licenses/{about['License-File']}") or ""
    return ", ".join(classified) or text or " ".join(brought.split()[:4]).rstrip(",") or None


def rows(page: str) -> dict[str, str]:
    """The table as the page has it."""
    return dict(_ROW.findall(page.partition(HEADING)[2].partition("|---|---|")[2]))


def section(names: list[str], known: dict[str, str]) -> str:
    """The table, one row a package; one of which nobody knows is an error."""
    found = {name: licence(name) or known.get(name, "") for name in names}
    if unknown := [name for name, text in found.items() if not text]:
        sys.exit(f"no licence is known of {', '.join(unknown)}: add a row by hand")
    table = "".join(f"| {name} | {text} |\n" for name, text in found.items())
    return (
        f"{HEADING}\nOf all that `locks/dev.txt` names, as the packages say it themselves: "
        f"`python docs/licences.py` writes this.\n\n"
        f"| package | licence |\n|---|---|\n{table}"
    )


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    made = section(locked(LOCK.read_text(encoding="utf-8")), rows(text))
    PAGE.write_text(f"{text.partition(HEADING)[0].rstrip()}\n\n{made}", encoding="utf-8")

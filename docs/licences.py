"""Writes the tables of docs/dependencies.md and locks/README.md: ``python docs/licences.py``.

Licences are those in the metadata of the installed packages. A package of another platform keeps the licence of its
row, and each direct dependency keeps the reason of its row.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent
REASONS_PAGE = ROOT / "docs" / "dependencies.md"
LICENCES_PAGE = ROOT / "locks" / "README.md"
LOCK = ROOT / "locks" / "dev.txt"
PACKAGES, LICENCES = "## Packages\n", "## Licences\n"
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_SPDX = {
    "Apache License Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF",
}
"""Other names of licences, as older metadata has them."""


def locked(lock: str) -> list[str]:
    """The packages that a lock names."""
    return sorted(set(re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==", lock, re.MULTILINE)))


def licence(name: str) -> str | None:
    """From its metadata: an SPDX expression, its classifiers, a text, or the first words of its licence file.

    Names become SPDX's, or shorter where the metadata leaves the version open: Apache, BSD, PSF.
    """
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return None
    about = package.metadata
    if "License-Expression" in about:
        return str(about["License-Expression"])
    classifiers = [match[1] for text in about.get_all("Classifier", []) if (match := _CLASSIFIER.fullmatch(text))]
    classified = [_SPDX.get(name, name) for name in classifiers]
    text = str(about["License"] or "").strip().split("\n", maxsplit=1)[0]
    file = package.read_text(f"licenses/{about['License-File']}") or ""
    text = text or " ".join(file.split()[:4]).rstrip(",")
    return ", ".join(classified) or _SPDX.get(text, text) or None


def rows(page: str) -> dict[str, str]:
    """Package → licence, from locks/README.md."""
    table = page.partition(LICENCES)[2]
    return {name: text for text, names in _ROW.findall(table) for name in names.split(", ") if text != "licence"}


def reasons(page: str) -> dict[str, str]:
    """Direct dependency → reason, from docs/dependencies.md."""
    tables = page.partition(PACKAGES)[2]
    return {package.partition("[")[0]: reason for package, reason in _ROW.findall(tables) if reason != "why"}


def groups(
    project: Mapping[str, Mapping[str, object]], home: Sequence[str], lab: Sequence[str]
) -> dict[str, list[str]]:
    """Heading → packages with their extras. A package is in the first group that names it."""
    extras = project["optional-dependencies"]
    lists = {"Base: the phone": project["dependencies"], "`hushcall-home`": home}
    lists |= {f"`hushcall[{name}]`": extras[name] for name in ("server", "scale", "gpu")}
    lists |= {"`hushcall-lab`": lab, "`hushcall[docs]`": extras["docs"], "`hushcall[dev]`": extras["dev"]}
    named: set[str] = set()
    packages = {}
    for heading, requirements in lists.items():
        names = {re.split(r"[<>=;~! ]", text)[0] for text in requirements if not text.startswith("hushcall")}
        packages[heading] = sorted(names - named)
        named |= names
    return packages


def table_of_reasons(direct: Mapping[str, list[str]], page: str) -> str:
    """A direct dependency without a reason is an error."""
    why = reasons(page)
    if unexplained := [name for names in direct.values() for name in names if not why.get(name.partition("[")[0])]:
        sys.exit(f"no reason is given for {', '.join(unexplained)}: add a row by hand")
    text = f"{PACKAGES}\n| package | why |\n|---|---|\n"
    for heading, packages in direct.items():
        text += f"| **{heading}** | |\n"
        text += "".join(f"| {name} | {why[name.partition('[')[0]]} |\n" for name in packages)
    return text


def table_of_licences(names: list[str], page: str) -> str:
    """A package without a known licence is an error."""
    known = rows(page)
    licences: dict[str, list[str]] = {}
    for name in names:
        licences.setdefault(licence(name) or known.get(name, ""), []).append(name)
    if "" in licences:
        sys.exit(f"no licence is known of {', '.join(licences[''])}: add a row by hand")
    text = f"{LICENCES}\nOf all packages in `locks/dev.txt`.\n\n| licence | packages |\n|---|---|\n"
    return text + "".join(f"| {licence} | {', '.join(packages)} |\n" for licence, packages in sorted(licences.items()))


def rewrite(path: Path, heading: str, table: str) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text.partition(heading)[0].rstrip()}\n\n{table}", encoding="utf-8")


def project(path: Path) -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(path.read_text(encoding="utf-8"))["project"]


if __name__ == "__main__":
    home, lab = (project(ROOT / name / "pyproject.toml")["dependencies"] for name in ("home", "lab"))
    direct = groups(project(ROOT / "pyproject.toml"), home, lab)
    rewrite(REASONS_PAGE, PACKAGES, table_of_reasons(direct, REASONS_PAGE.read_text(encoding="utf-8")))
    names = locked(LOCK.read_text(encoding="utf-8"))
    rewrite(LICENCES_PAGE, LICENCES, table_of_licences(names, LICENCES_PAGE.read_text(encoding="utf-8")))

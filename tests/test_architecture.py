"""The rooms of ``docs/architecture.md`` are the rooms of the code, and nobody imports from a floor above their own."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hushcall

PACKAGE = Path(hushcall.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
FEWEST_STEPS = 15


def floors(page: str) -> dict[str, int]:
    """Room → floor, as the page's table lists them from the ground up."""
    table = page.partition("## What may import what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", table, flags=re.MULTILINE)
    return {room: int(floor) for floor, rooms in rows for room in re.findall(r"`([\w./]+)`", rooms)}


def module_name(path: Path, package: Path) -> str:
    """``phone/home/store.py`` → ``phone.home.store``; a package is named by its folder."""
    return ".".join(path.relative_to(package).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def imports_of(package: Path) -> Iterator[tuple[str, str]]:
    """(module, module of ours that it imports), at any depth of nesting, type checking included."""
    modules = {module_name(path, package): path for path in package.rglob("*.py")}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                wanted = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for dotted in wanted:
                head, _, rest = dotted.partition(".")
                if head == "hushcall":  # from a module comes a name, from a package perhaps a module
                    yield name, rest if rest in modules else rest.rpartition(".")[0]


def room_of(module: str, known: dict[str, int]) -> str | None:
    """The innermost room of the table that a module lies in. The surface, ``hushcall`` itself, is the room ``.``."""
    parts = module.split(".") if module else []
    candidates = ["/".join(parts[:length]) for length in range(len(parts), 0, -1)] + ([] if parts else ["."])
    return next((room for name in candidates for room in (name, f"{name}.py") if room in known), None)


def upward(package: Path, known: dict[str, int]) -> list[str]:
    """Every import that goes up, or sideways into another room, or has no room at all."""
    found = set()
    for module, target in imports_of(package):
        here, there = room_of(module, known), room_of(target, known)
        if here is None or there is None:
            found.add(f"{module} or {target} has no room")
        elif here != there and known[there] >= known[here]:
            found.add(f"{module} ({here}, floor {known[here]}) imports {target} ({there}, floor {known[there]})")
    return sorted(found)


def test_nothing_imports_from_a_floor_above_its_own() -> None:
    assert upward(PACKAGE, floors(PAGE.read_text())) == []


def test_every_room_of_the_table_exists() -> None:
    known = floors(PAGE.read_text())
    assert len(known) > 20
    missing = [room for room in known if room != "." and not (PACKAGE / room).exists()]
    assert not missing


@pytest.mark.parametrize(
    ("place", "source", "complaint"),
    [
        ("privacy/coins.py", "from hushcall.phone.home import store\n", "privacy.coins"),
        ("privacy/coins.py", "def f() -> None:\n    import hushcall.server.settings\n", "privacy.coins"),
        ("phone/home/store.py", "from hushcall.server.db import store\n", "phone.home.store"),
        ("attic/x.py", "from hushcall.errors import HushcallError\n", "has no room"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, place: str, source: str, complaint: str) -> None:
    for name in ("errors", "server/settings", "server/db/store", "phone/home/store", "privacy/coins"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    known = floors(PAGE.read_text())
    assert upward(tmp_path, known) == []
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(source)
    (line,) = upward(tmp_path, known)
    assert complaint in line


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|md|html|js))`", PAGE.read_text()))
    assert len(named) > 40
    top = PAGE.parents[1]
    missing = [n for n in sorted(named) if not any((root / n).exists() for root in (PACKAGE, top, top / "docs"))]
    assert not missing


def test_the_walk_has_its_steps_and_each_names_a_file() -> None:
    walk = PAGE.read_text().partition("## The walk of one report")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \d+ \|.*$", walk, flags=re.MULTILINE)
    assert len(rows) >= FEWEST_STEPS
    assert all(re.search(r"`[\w/]+\.py`", row) for row in rows)

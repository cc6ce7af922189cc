"""Modules import from lower layers only, as the table in ``docs/architecture.md`` says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hushcall

PACKAGE = Path(hushcall.__file__).parent
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def layers(page: str) -> dict[str, int]:
    """Unit → layer: a unit is a folder or a module at the top of the package."""
    table = page.partition("## Layers")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", table, flags=re.MULTILINE)
    return {unit.removesuffix(".py"): int(layer) for layer, units in rows for unit in re.findall(r"`([\w.]+)`", units)}


def imports_of(package: Path) -> Iterator[tuple[str, str]]:
    """(module, module that it imports), type checking and imports inside functions included."""
    paths = {".".join(path.relative_to(package).with_suffix("").parts): path for path in package.rglob("*.py")}
    modules = {name.removesuffix("__init__").rstrip("."): path for name, path in paths.items()}
    for name, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for dotted in imported:
                head, _, rest = dotted.partition(".")
                if head in ("hushcall_lab", "hushcall_home"):
                    yield name, dotted
                elif head == "hushcall":  # a name from a module, or a module from a package
                    yield name, rest if rest in modules else rest.rpartition(".")[0]


def violations(package: Path, known: dict[str, int]) -> list[str]:
    """Every import that goes up, or sideways into another unit, or comes from no unit of the table."""
    found = set()
    for module, target in imports_of(package):
        here, there = module.partition(".")[0] or ".", target.partition(".")[0] or "."
        layer, target_layer = known.get(here, 0), known.get(there, 99)
        allowed = here == there or target_layer < layer or layer == target_layer == 1 or {here, there} == {".", "round"}
        if not allowed:
            found.add(f"{module} imports {target}")
    return sorted(found)


def test_nothing_imports_from_a_layer_above_its_own() -> None:
    assert violations(PACKAGE, layers(PAGE)) == []


def test_the_table_has_six_layers_and_every_unit_is_in_it() -> None:
    known = layers(PAGE)
    assert set(known.values()) == set(range(1, 7))
    units = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert units - {"__init__"} == set(known) - {"."}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("protocol/wire", "from hushcall.client import store\n"),
        ("protocol/wire", "def f() -> None:\n    import hushcall.server.settings\n"),
        ("client/store", "from hushcall.server import settings\n"),
        ("client/store", "import hushcall_lab.proofs\n"),
        ("attic/x", "from hushcall.errors import HushcallError\n"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, module: str, source: str) -> None:
    for name in ("errors", "server/__init__", "server/settings", "client/__init__", "client/store", "protocol/wire"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    known = layers(PAGE)
    assert violations(tmp_path, known) == []
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / f"{module}.py").write_text(source)
    (line,) = violations(tmp_path, known)
    assert line.startswith(module.replace("/", "."))


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|md|html|js))`", PAGE))
    assert named
    bare = {
        path.name for folder in (PACKAGE, ROOT / "lab" / "src", ROOT / "home" / "src") for path in folder.rglob("*.py")
    }
    roots = (PACKAGE, ROOT, ROOT / "docs")
    missing = [name for name in sorted(named) if name not in bare and not any((root / name).exists() for root in roots)]
    assert not missing


def test_every_step_of_a_report_names_a_file() -> None:
    path = PAGE.partition("## The path of one report")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \d+ \|.*$", path, flags=re.MULTILINE)
    assert rows
    assert all(re.search(r"`[\w/]+\.py`", row) for row in rows)

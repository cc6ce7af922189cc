"""Nobody but the spec table asks which mechanism it is: no name spelled out, no question for a class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import hushcall
import hushcall_lab
from hushcall.mechanisms.registry import MECHANISMS
from hushcall_lab.rivals import names

PACKAGE = Path(hushcall.__file__).parent
HALVES = {row.server_module for row in MECHANISMS.values()} | {row.client.__module__ for row in MECHANISMS.values()}
LAB = Path(hushcall_lab.__file__).parent
OTHERS = sorted(
    path
    for path in [*PACKAGE.rglob("*.py"), *LAB.rglob("*.py")]
    if not path.is_relative_to(PACKAGE / "mechanisms") and not path.is_relative_to(LAB / "rivals")
)
BESIDE = {row.hundreds for row in MECHANISMS.values() if row.hundreds}
SPELLED = {row.name for row in MECHANISMS.values()} | {row.wire_name for row in MECHANISMS.values()} | BESIDE | {"sh-"}
AGGREGATORS = {
    name
    for row in MECHANISMS.values()
    for name in vars(import_module(row.server_module))
    if name.endswith(("Aggregator", "Tested"))
}
CLASSES = AGGREGATORS | {row.client.__name__ for row in MECHANISMS.values()}


def violations(source: str) -> Iterator[str]:
    """What a module says that only the table may."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in SPELLED:
            yield f"line {node.lineno} spells out {node.value!r}"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            yield from (f"line {node.lineno} asks for {name}" for name in _classes(*node.args[1:]))
        elif isinstance(node, ast.Compare):
            yield from (f"line {node.lineno} compares with {name}" for name in _classes(node.left, *node.comparators))
        elif isinstance(node, ast.MatchClass):
            yield from (f"line {node.lineno} matches {name}" for name in _classes(node.cls))


def _classes(*nodes: ast.expr) -> list[str]:
    """The classes that an expression names by themselves; what is called or asked for an attribute is no question."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Tuple):
            found += _classes(*node.elts)
        elif isinstance(node, ast.BinOp):
            found += _classes(node.left, node.right)
        else:
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            found += [name] if name in CLASSES else []
    return found


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.as_posix().rpartition("/src/")[2])
def test_no_module_but_the_table_knows_a_mechanism_by_name_or_class(path: Path) -> None:
    assert list(violations(path.read_text(encoding="utf-8"))) == []


def test_the_rows_halves_and_classes_are_what_the_scan_looks_for() -> None:
    assert len(OTHERS) > 150
    assert {"SubspaceAggregator", "WholeNumber", "Subspace"} <= CLASSES
    spelled_out = {value for key, value in vars(names).items() if key.isupper()}
    assert spelled_out == set(MECHANISMS) | BESIDE


@pytest.mark.parametrize(
    "planted",
    [
        'if profile.mechanism == "whole-number":\n    pass',
        'kinds = ("basic", "sh-original")',
        'kind = f"sh-{randomiser}"',
        "dense = isinstance(aggregator, SubspaceAggregator)",
        "dense = isinstance(aggregator, SubspaceAggregator | SuccinctHistogramAggregator)",
        "dense = isinstance(aggregator, (int, subspace.SubspaceAggregator))",
        "dense = type(mechanism) is Subspace",
        "match mechanism:\n    case WholeNumber():\n        pass",
    ],
)
def test_a_planted_violation_is_found(planted: str) -> None:
    assert list(violations(planted))


@pytest.mark.parametrize(
    "innocent", ['"""A subspace, whole-number or sh-original."""', "b = Subspace(4.0, 5).bits == 5", "names.SUBSPACE"]
)
def test_what_is_no_question_is_left_alone(innocent: str) -> None:
    assert not list(violations(innocent))

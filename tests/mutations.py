"""Changes one operator at a time where privacy, counts and signatures are guarded, and lists what no test notices.

``python -m tests.mutations [--each 10] [--only PART]``: the tests of a part run against a copy of the sources with one
mutation. A survivor is a test to write, or a row of ``EXPLAINED``. A row whose mutation is gone is an error.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path

import coverage
import pytest

from hushcall.cli import show
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.aggregator import quiet

ROOT = Path(__file__).parent.parent
PACKAGE = "src/hushcall"
LIMIT_SECONDS = 600
"""For the tests of one mutation: it may loop for ever."""
PRELOADED = (
    *("hypothesis.stateful", "numpy", "sqlalchemy.dialects.sqlite", "alembic.command", "fastapi", "httpx", "uvicorn"),
    *("starlette.testclient", "cryptography.hazmat.primitives.asymmetric.rsa", "tuf.ngclient", "pydantic_settings"),
)
Mutant = tuple[str, int, str, str]
"""Part, line, new text, whole source."""
PARTS = {
    "client/calls/candidates.py": "client/test_unknown.py client/test_phone.py client/test_hostile.py",
    "client/reporting/anonymity.py": "client/test_anonymity.py lab/test_prove.py",
    "client/reporting/consent.py": "client/test_terms.py client/test_hostile.py client/test_phone.py",
    "client/reporting/ledger.py": "client/test_ledger.py client/test_saving.py client/test_hostile.py",
    "client/reporting/participation.py": "client/test_phone.py client/test_hostile.py client/test_client.py",
    "client/reporting/split_view.py": "client/test_phone.py client/test_anonymity.py server/test_signed_rounds.py",
    "client/round_session.py": "client/test_phone.py client/test_hostile.py client/test_terms.py "
    "client/test_anonymity.py server/test_unlinkable.py",
    "client/screening/list_sync.py": "client/test_lists.py client/test_anonymity.py",
    "mechanisms/mechanism.py": "mechanisms/test_randomisers.py mechanisms/test_reports.py test_vectors.py",
    "mechanisms/parameters.py": "mechanisms/test_all_mechanisms.py mechanisms/test_randomisers.py client/test_terms.py",
    "mechanisms/randomisers.py": "mechanisms/test_randomisers.py test_vectors.py",
    "mechanisms/subspace/client.py": "test_vectors.py mechanisms/test_all_mechanisms.py client/test_terms.py",
    "mechanisms/succinct_histogram/client.py": "test_vectors.py mechanisms/test_all_mechanisms.py "
    "lab/audit/test_audit.py",
    "mechanisms/tallies.py": "mechanisms/test_tally.py",
    "mechanisms/decision.py": "mechanisms/test_decide.py mechanisms/test_gate.py decoding/test_windows.py",
    "protocol/anonymity/blind_rsa.py": "protocol/anonymity/test_blind_rsa.py",
    "protocol/anonymity/hpke.py": "protocol/anonymity/test_hpke.py",
    "protocol/anonymity/ohttp.py": "protocol/anonymity/test_ohttp.py",
    "protocol/anonymity/tokens.py": "protocol/anonymity/test_tokens.py",
    "protocol/blocklist.py": "protocol/test_blocklist.py protocol/test_tiers.py client/test_lookup.py",
    "protocol/exact.py": "protocol/test_exact.py mechanisms/test_randomisers.py",
    "protocol/randomness.py": "protocol/test_randomness.py test_vectors.py",
    "protocol/round_commitment.py": "protocol/test_round_document.py test_vectors.py client/test_anonymity.py",
    "protocol/wire.py": "protocol/test_wire.py mechanisms/test_reports.py",
    "server/anonymity.py": "server/test_nameless.py server/test_relay.py",
    "server/auth/devices.py": "server/test_devices.py server/test_enrolment.py",
    "server/ingest/group_commit.py": "server/test_batches.py server/test_gathering.py server/test_shedding.py",
    "server/ingest/ingest.py": "server/test_intake.py server/test_cover.py server/test_nameless.py",
    "server/publishing/exclusions.py": "server/test_never.py server/test_large_lists.py",
    "server/publishing/publisher.py": "server/test_large_lists.py server/test_round_states.py",
    "server/rounds/jobs.py": "server/test_round_states.py server/test_stored_reports.py server/test_forgetting.py",
    "server/signing/keys.py": "server/test_keys.py server/test_signing.py",
    "server/signing/signer.py": "server/test_signing.py server/test_keys.py",
}
SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.LShift: ">>",
    ast.RShift: "<<",
    ast.BitAnd: "|",
}
SWAPS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
EXPLAINED: dict[str, str] = {
    "protocol/blocklist.py: entry.block is not None": "it asks whether all entries agree: both say so",
    "client/reporting/ledger.py: spend.what != ASSUMED": "both kinds are summed: their order does not matter",
    "client/reporting/consent.py: (False and (info.mechanism not in MECHANISMS))": "the owner agreed to none such",
    "protocol/anonymity/tokens.py: (3 - SIGNATURE_BYTES)": "a figure in the message of the refusal",
    "server/ingest/ingest.py: (False and (not tickets))": "a question about no ticket has no answer",
    "server/ingest/ingest.py: device >= 0": "devices count from 1, blind tokens from -1 down",
    "server/ingest/group_commit.py: pending.since >= oldest": "an upload of exactly that age is refused, and stored",
    "protocol/blocklist.py: len(parts) <= 4": "a line with three quotes is no line of a list: its digest is another",
}
"""``part: mutated text`` -> why it breaks no promise."""


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, new text, whole source) of every mutation."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS and len(node.ops) == 1:
            left, right = (_side(side) for side in (node.left, node.comparators[0]))
            yield _replaced(source, node, f"{left} {SWAPS[type(node.ops[0])]} {right}")
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield _replaced(source, node, f"({word.join(f'({ast.unparse(value)})' for value in node.values)})")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield _replaced(source, node, f"bool({ast.unparse(node.operand)})")
        elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise | ast.Return):
            yield _replaced(source, node.test, f"(False and ({ast.unparse(node.test)}))")
        elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS and not _text(node):
            text = f"({_side(node.left)} {SIGNS[type(node.op)]} {_side(node.right)})"
            yield _replaced(source, node, text)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield _replaced(source, node.value, f"(None and {ast.unparse(node.value)})")


def _side(node: ast.expr) -> str:
    return f"({ast.unparse(node)})" if isinstance(node, ast.BoolOp | ast.BinOp | ast.IfExp) else ast.unparse(node)


def _text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.Constant | ast.List | ast.Tuple) for side in ast.walk(node)) and (
        '"' in ast.unparse(node) or "'" in ast.unparse(node)
    )


def _replaced(source: str, node: ast.expr, text: str) -> tuple[int, str, str]:
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or 1) - 1])) + (node.end_col_offset or 0)
    data = source.encode()
    return node.lineno, text, (data[:start] + f"({text})".encode() + data[end:]).decode()


def chosen(only: str, each: int) -> list[Mutant]:
    """Spread over each part."""
    rows = []
    for part in (part for part in PARTS if part.startswith(only)):
        mutants_of_part = sorted(mutants((ROOT / PACKAGE / part).read_text()))
        step = max(len(mutants_of_part) / each, 1.0)
        rows += [(part, *mutants_of_part[int(place * step)]) for place in range(min(len(mutants_of_part), each))]
    return rows


def stale() -> list[str]:
    """Explanations of mutations that are none, and tests that are gone."""
    names = [f"{part}: {text}" for part in PARTS for _, text, _ in mutants((ROOT / PACKAGE / part).read_text())]
    tests = [name for text in PARTS.values() for name in text.split()]
    return [name for name in EXPLAINED if name not in names] + [
        name for name in tests if not (ROOT / "tests" / name).exists()
    ]


class Tracer:
    """A pytest plugin: which tests pass through which lines of a file, and how long each takes."""

    def __init__(self, file: Path) -> None:
        self.file, self.seconds = file, dict[str, float]()
        self.coverage = coverage.Coverage(data_file=None, include=[str(file)])
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began = time.process_time()
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.seconds[item.nodeid] = time.process_time() - began
        return result

    def tests_by_line(self) -> dict[str, list[str]]:
        """Those of each line, the fastest first."""
        self.coverage.stop()
        contexts = self.coverage.get_data().contexts_by_lineno(str(self.file))
        return {
            str(line): sorted(filter(None, names), key=lambda name: self.seconds[name])
            for line, names in contexts.items()
        }


def in_child(folder: Path, tests: list[str], tracer: Path | None = None, out: Path | None = None) -> bool:
    """Whether tests pass in a fork of this process, which has imported the packages of others already."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        signal.alarm(LIMIT_SECONDS)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("hushcall", "hushcall_lab", "tests")]:
            del sys.modules[name]
        os.chdir(folder)
        paths = [str(folder), str(folder / "src"), str(folder / "lab/src")]
        sys.path[:0] = paths
        os.environ |= {"PYTHONPATH": ":".join(paths[1:]), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        plugin = Tracer(tracer) if tracer else None
        options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", "-k", "not postgresql"]
        status = int(pytest.main([*options, *tests], plugins=[plugin] if plugin else []))
        if plugin and out:
            out.write_text(json.dumps(plugin.tests_by_line()))
    finally:
        os._exit(status)


def run(rows: list[Mutant], tell: Callable[[int, int], None] = quiet) -> Iterator[tuple[str, int, str, bool]]:
    """(part, line, new text, whether it survived)."""
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for tree in ("src", "lab", "tests", "docs", "examples", "pyproject.toml", "README.md"):
            (shutil.copytree if (ROOT / tree).is_dir() else shutil.copy)(ROOT / tree, folder / tree)
        last, by_line = "", dict[str, list[str]]()
        for place, (part, line, text, source) in enumerate(rows):
            tell(place, len(rows))
            path, tests = folder / PACKAGE / part, [f"tests/{name}" for name in PARTS[part].split()]
            if part != last:
                if not in_child(folder, tests, path, folder / "lines.json"):
                    raise InvalidParameter("tests", f"pass without a mutation of {part}", PARTS[part])
                last, by_line = part, json.loads((folder / "lines.json").read_text())
            before = path.read_text()
            path.write_text(source)
            yield part, line, text, in_child(folder, by_line.get(str(line)) or tests)
            path.write_text(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=10, help="mutations of a part, spread over it")
    parser.add_argument("--only", default="", help="a part's name, or its beginning")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if gone := stale():
        print("\n".join(f"gone: {name}" for name in gone), file=sys.stderr)
        return 2
    ran, survivors = 0, list[dict[str, object]]()
    with show.progress("mutating") as bar:
        for part, line, text, survived in run(chosen(options.only, options.each), partial(show.step, bar, "mutations")):
            ran += 1
            if survived:
                why = EXPLAINED.get(f"{part}: {text}", "")
                survivors.append({"part": part, "line": line, "text": text, "why": why})
                if not options.json:
                    print(f"survived: {part}:{line}: {text}: {why or 'NO TEST NOTICES'}", flush=True)
    unexplained = sum(not row["why"] for row in survivors)
    if options.json:
        show.print_json({"mutations": ran, "unexplained": unexplained, "survivors": survivors})
    else:
        print(f"{ran} mutations, {ran - len(survivors)} noticed, {unexplained} survived without an explanation")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())

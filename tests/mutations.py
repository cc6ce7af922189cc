"""Changes one operator at a time where privacy, counts and signatures are guarded, and lists what no test notices.

``python -m tests.mutations [--each 25] [--only PART]``: the tests of a part run against a copy of the sources with one
mutation. A survivor is a test to write, or a row of ``EXPLAINED``.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "src/hushcall"
PARTS = {
    "protocol/blocklist.py": "protocol/test_blocklist.py protocol/test_tiers.py client/test_lookup.py",
    "protocol/wire.py": "protocol/test_wire.py mechanisms/test_reports.py",
    "protocol/anonymity/tokens.py": "protocol/anonymity",
    "client/reporting/ledger.py": "client/test_ledger.py client/test_saving.py client/test_hostile.py",
    "client/reporting/consent.py": "client/test_hostile.py client/test_terms.py client/test_phone.py",
    "client/round_session.py": "client/test_phone.py client/test_anonymity.py",
    "client/screening/list_sync.py": "client/test_lists.py",
    "server/ingest/ingest.py": "server/test_intake.py server/test_cover.py server/test_nameless.py",
    "server/publishing/exclusions.py": "server/test_never.py server/test_large_lists.py",
    "server/publishing/publisher.py": "server/test_large_lists.py server/test_round_states.py",
    "server/signing/signer.py": "server/test_signing.py",
    "mechanisms/decision.py": "mechanisms/test_decide.py mechanisms/test_gate.py decoding/test_windows.py",
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
    "protocol/blocklist.py: len(parts) <= 4": "a line with three quotes is no line of a list: its digest is another",
}
"""``part: mutated text`` -> why it breaks no promise."""


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, new text, whole source) of every mutation."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS and len(node.ops) == 1:
            left, right = (ast.unparse(side) for side in (node.left, node.comparators[0]))
            yield _replaced(source, node, f"{left} {SWAPS[type(node.ops[0])]} {right}")
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield _replaced(source, node, f"({word.join(f'({ast.unparse(value)})' for value in node.values)})")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield _replaced(source, node, f"bool({ast.unparse(node.operand)})")
        elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise | ast.Return):
            yield _replaced(source, node.test, f"(False and ({ast.unparse(node.test)}))")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and not _text(node):
            sign = "-" if isinstance(node.op, ast.Add) else "+"
            yield _replaced(source, node, f"({ast.unparse(node.left)} {sign} {ast.unparse(node.right)})")


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


def survives(folder: Path, part: str, text: str) -> bool:
    path = folder / PACKAGE / part
    before = path.read_text()
    path.write_text(text)
    chosen = [str(folder / "tests" / name) for name in PARTS[part].split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", *chosen]
    command += ["-k", "not postgresql"]
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder / 'lab/src'}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300, check=False)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_text(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=25, help="mutations of a part, spread over it")
    parser.add_argument("--only", default="", help="a part's name, or its beginning")
    parser.add_argument("--seconds", type=float, default=3600)
    options = parser.parse_args()
    end, ran, unexplained = time.monotonic() + options.seconds, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for tree in ("src", "lab", "tests", "pyproject.toml"):
            copy = shutil.copytree if (ROOT / tree).is_dir() else shutil.copy
            copy(ROOT / tree, folder / tree)
        for part in (part for part in PARTS if part.startswith(options.only)):
            found = sorted(mutants((folder / PACKAGE / part).read_text()))
            step = max(len(found) / options.each, 1.0)
            for place in range(min(len(found), options.each)):
                line, text, source = found[int(place * step)]
                if time.monotonic() > end:
                    break
                ran += 1
                if survives(folder, part, source):
                    why = EXPLAINED.get(f"{part}: {text}", "")
                    unexplained += not why
                    print(f"survived: {part}:{line}: {text}: {why or 'NO TEST NOTICES'}", flush=True)
    print(f"{ran} mutations, {unexplained} survived without an explanation")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Writes the vectors: ``inputs.py`` asks, the library answers. ``--check`` compares instead of writing.

A vector is {"name", "op", "in", "out", "error"}; README.md says what the operations are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

if not __package__:  # run as a file: its neighbours are found from the root of the repository
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.vectors import inputs, operations

HERE = Path(__file__).parent

FILES: dict[str, Callable[[], list[tuple[str, str, operations.Vector]]]] = {
    "codes.json": inputs.codes,
    "hashes.json": inputs.hashes,
    "coins.json": inputs.coins,
    "randomisers.json": inputs.odds,
    "numbers.json": inputs.numbers,
    "plans.json": inputs.plans,
    "reports.json": inputs.reports,
    "bad_reports.json": inputs.bad_reports,
    "phone.json": inputs.phone_steps,
    "rounds.json": inputs.rounds,
    "lists.json": inputs.lists,
    "hundreds.json": inputs.hundreds,
}


def contents(file: str) -> str:
    """The text of one file of vectors."""
    vectors = []
    for name, op, given in FILES[file]():
        out, error = operations.answer(op, given)
        if name.startswith("bad: ") != (error is not None):
            raise SystemExit(f"{file}: {name!r} gave out {out}, error {error}")
        vectors.append({"name": name, "op": op, "in": given, "out": out, "error": error})
    # One vector a line: a changed vector is a changed line.
    lines = ",\n".join(json.dumps(vector, ensure_ascii=True) for vector in vectors)
    return f"[\n{lines}\n]\n"


def main(arguments: list[str]) -> int:
    """Write all files, or say which ones are stale."""
    if arguments not in ([], ["--check"]):
        print("usage: make.py [--check]", file=sys.stderr)
        return 2
    stale = []
    for file in FILES:
        path, text = HERE / file, contents(file)
        if not arguments:
            path.write_text(text, encoding="ascii")
        elif not path.exists() or path.read_text(encoding="ascii") != text:
            stale.append(file)
    for file in stale:
        print(f"{file} is not what the library makes: run python tests/vectors/make.py and look at the difference")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

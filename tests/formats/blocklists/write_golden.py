"""Writes golden files: ``python -m tests.formats.blocklists.write_golden`` those that are missing, ``--all`` all."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lists import sample

from hushcall.formats.blocklists import WRITERS

GOLDEN = Path(__file__).parent / "golden"


def main(arguments: list[str]) -> None:
    for writer in WRITERS.values():
        file = GOLDEN / writer.filename
        if "--all" in arguments or not file.exists():
            file.write_bytes(writer.write(sample()))
            print(file)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The published vectors that the tests of this folder share: facts from RFCs, kept beside our own vectors."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors" / "published"


def vectors(name: str) -> Any:
    """The contents of one file."""
    return json.loads((FOLDER / name).read_text(encoding="ascii"))


def in_turn(*blocks: bytes) -> Any:
    """A byte source that hands out these blocks, each to a read of exactly its size."""
    left = list(blocks)

    def rand(count: int) -> bytes:
        block = left.pop(0)
        assert len(block) == count
        return block

    return rand

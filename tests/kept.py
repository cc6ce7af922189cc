"""Folders that earlier releases left: packed once, unpacked for each test that goes on with one."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any


def unpacked(packed: Path, folder: Path) -> dict[str, Any]:
    """What the archive holds, in the folder; and what was known of it when it was made."""
    with tarfile.open(packed) as files:
        files.extractall(folder, filter="data")
    known: dict[str, Any] = json.loads((folder / "known.json").read_text(encoding="utf-8"))
    return known

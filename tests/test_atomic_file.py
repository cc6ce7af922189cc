"""A file is there whole, or as it was before."""

from pathlib import Path

import pytest

from hushcall.atomic_file import atomic_write
from hushcall.errors import InvalidData


def test_bytes_and_text_replace_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, "größer\n")
    assert path.read_text(encoding="utf-8") == "größer\n"
    atomic_write(path, b"\x00")
    assert path.read_bytes() == b"\x00"
    assert list(tmp_path.iterdir()) == [path], "no draft is left"


def test_what_cannot_be_finished_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    atomic_write(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hushcall.atomic_file.os.fsync", full)
    with pytest.raises(InvalidData, match=r"list must be one that can be written \(No space left on device\)"):
        atomic_write(path, "new", "list")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="file must be one that can be written"):
        atomic_write(tmp_path / "nowhere" / "file", "x")

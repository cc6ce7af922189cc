"""The operator's ceremonies: keys and published files stay in step, even when killed in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hushcall.errors import InvalidParameter
from hushcall.server.signing import ceremony, keys, signer
from hushcall.server.signing.keys import ONLINE, KeyRing

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TARGETS = {"exports/plain.txt": b"1\n"}


class Killed(Exception):
    """The process ends here."""


@dataclass
class Shelf:
    """Published files in memory."""

    held: dict[str, bytes] = field(default_factory=dict)
    dead: bool = False

    def files(self) -> dict[str, bytes]:
        return dict(self.held)

    def change_files(self, change: Callable[[Mapping[str, bytes]], Mapping[str, bytes | None]]) -> None:
        changed = change(dict(self.held))
        if self.dead:
            raise Killed
        self.held = {p: d for p, d in {**self.held, **changed}.items() if d is not None}


def never(path: Path) -> bytes:
    raise AssertionError(path)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    made = Shelf()
    ceremony.init(made, tmp_path, NOON)
    return made


def test_init_makes_keys_and_a_root_once(shelf: Shelf, tmp_path: Path) -> None:
    assert "metadata/1.root.json" in shelf.held
    with pytest.raises(InvalidParameter, match="not have been made before"):
        ceremony.init(shelf, tmp_path, NOON)
    standing = ceremony.status(shelf, tmp_path, NOON)
    assert (standing.ok, standing.root_key_here, standing.missing) == (True, True, frozenset())


def test_the_server_publishes_without_the_root_key(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "offline" / "root.pem").unlink()
    shelf.change_files(lambda files: signer.publish(files, KeyRing.load(tmp_path), TARGETS, NOON))
    standing = ceremony.status(shelf, tmp_path, NOON)
    assert (standing.ok, standing.root_key_here) == (True, False)
    with pytest.raises(InvalidParameter, match="give its file with --root-key"):
        ceremony.rotate(shelf, tmp_path, "targets", NOON, never)


@pytest.mark.parametrize("role", ONLINE)
def test_rotating_an_online_key_leaves_one_file_and_a_server_that_publishes(
    role: str, shelf: Shelf, tmp_path: Path
) -> None:
    before = keys.load(tmp_path / f"{role}.pem").public_key
    rotated = ceremony.rotate(shelf, tmp_path, role, NOON, never)
    assert keys.key_files(tmp_path, role) == [rotated.saved]
    assert rotated.key_id != before.keyid
    shelf.change_files(lambda files: signer.publish(files, KeyRing.load(tmp_path), TARGETS, NOON))
    assert ceremony.status(shelf, tmp_path, NOON).ok


def test_the_root_key_can_come_from_elsewhere_and_keeps_its_passphrase(tmp_path: Path) -> None:
    shelf, stick = Shelf(), tmp_path / "stick"
    made = ceremony.init(shelf, tmp_path / "keys", NOON, b"secret")
    stick.mkdir()
    moved = made.rename(stick / "root.pem")
    asked: list[Path] = []

    def ask(path: Path) -> bytes:
        asked.append(path)
        return b"secret"

    rotated = ceremony.rotate(shelf, tmp_path / "keys", "root", NOON, ask, moved)
    assert (rotated.saved.parent, rotated.old, asked) == (stick, (moved,), [moved])
    assert keys.load(rotated.saved, b"secret").public_key.keyid == rotated.key_id
    assert moved.exists()  # for its owner to destroy
    with pytest.raises(InvalidParameter, match="root key must be the current one"):
        ceremony.rotate(shelf, tmp_path / "keys", "targets", NOON, ask, moved)
    ceremony.rotate(shelf, tmp_path / "keys", "targets", NOON, ask, rotated.saved)
    assert ceremony.status(shelf, tmp_path / "keys", NOON).ok


@pytest.mark.parametrize("role", ["root", *ONLINE])
def test_a_rotation_killed_before_the_commit_can_be_run_again(role: str, shelf: Shelf, tmp_path: Path) -> None:
    shelf.dead = True
    with pytest.raises(Killed):
        ceremony.rotate(shelf, tmp_path, role, NOON, never)
    shelf.dead = False
    shelf.change_files(lambda files: signer.publish(files, KeyRing.load(tmp_path), TARGETS, NOON))
    ceremony.rotate(shelf, tmp_path, role, NOON, never)
    if role != "root":
        assert len(keys.key_files(tmp_path, role)) == 1
    assert ceremony.status(shelf, tmp_path, NOON).ok


@pytest.mark.parametrize("role", ONLINE)
def test_a_rotation_killed_after_the_commit_has_happened(
    role: str, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: Path) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(Killed):
            ceremony.rotate(shelf, tmp_path, role, NOON, never)
    assert len(keys.key_files(tmp_path, role)) == 2
    shelf.change_files(lambda files: signer.publish(files, KeyRing.load(tmp_path), TARGETS, NOON))
    assert ceremony.status(shelf, tmp_path, NOON).ok


def test_status_names_what_is_missing_and_what_expired(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "snapshot.pem").unlink()
    standing = ceremony.status(shelf, tmp_path, NOON)
    assert (standing.ok, standing.missing) == (False, frozenset({"snapshot"}))
    late = ceremony.status(shelf, tmp_path, NOON + timedelta(days=4))
    assert [row.role for row in late.roles if row.expired] == ["timestamp"]


def test_an_unknown_role_makes_no_key(shelf: Shelf, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidParameter, match="role must be one of root, timestamp, snapshot, targets, got 'mirror'"):
        ceremony.rotate(shelf, tmp_path, "mirror", NOON, never)
    assert sorted(tmp_path.rglob("*")) == before

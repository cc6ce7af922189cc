"""Keys on disk: who may read them, what is never overwritten, and what is said when something is wrong."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest
from securesystemslib.signer import CryptoSigner

from hushcall.errors import InvalidParameter
from hushcall.server.signing import keys
from hushcall.server.signing.keys import ONLINE, KeyRing

KEY_TYPE = "-----BEGIN PRIVATE KEY-----"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_created_keys_are_private_and_the_root_lies_apart(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "keys"
    ring, root = keys.create(folder)
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert files == ["offline/root.pem", "snapshot.pem", "targets.pem", "timestamp.pem"]
    assert {mode(folder / name) for name in files} == {0o600}
    assert {mode(folder), mode(folder / "offline")} == {0o700}
    ids = {signer.public_key.keyid for signers in ring.signers.values() for signer in signers}
    assert len({*ids, root.public_key.keyid}) == 4


def test_creating_again_keeps_what_is_there(tmp_path: Path) -> None:
    first, root = keys.create(tmp_path)
    (tmp_path / "targets.pem").unlink()
    second, same_root = keys.create(tmp_path)
    assert root.public_key == same_root.public_key
    for role in ONLINE:
        same = first.signers[role][0].public_key == second.signers[role][0].public_key
        assert same == (role != "targets")


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    one, two = CryptoSigner.generate_ed25519(), CryptoSigner.generate_ed25519()
    first = keys.save(tmp_path, "targets", one)
    second = keys.save(tmp_path, "targets", two)
    assert second.name == f"targets-{two.public_key.keyid[:8]}.pem"
    assert [keys.load(path).public_key for path in (first, second)] == [one.public_key, two.public_key]
    with pytest.raises(InvalidParameter, match="key file must not exist yet"):
        keys.save(tmp_path, "targets", two)
    assert sorted(tmp_path.iterdir()) == sorted([first, second])  # no draft is left behind


def test_a_key_and_its_name_are_on_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[object] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    monkeypatch.setattr(keys, "sync_to_disk", synced.append)
    path = keys.save(tmp_path, "timestamp", CryptoSigner.generate_ed25519())
    assert synced == [path.stat().st_size, tmp_path]


def test_a_passphrase_locks_the_root_key(tmp_path: Path) -> None:
    _, root = keys.create(tmp_path, b"correct horse")
    path = tmp_path / "offline" / "root.pem"
    assert keys.needs_passphrase(path)
    assert KEY_TYPE not in path.read_text()
    assert keys.load(path, b"correct horse").public_key == root.public_key
    with pytest.raises(InvalidParameter, match="come with its passphrase"):
        keys.load(path)
    with pytest.raises(InvalidParameter, match="open with this passphrase") as caught:
        keys.load(path, b"wrong horse")
    assert "horse" not in str(caught.value)
    assert KEY_TYPE in (tmp_path / "targets.pem").read_text()


def test_a_passphrase_for_an_open_key_is_ignored(tmp_path: Path) -> None:
    signer = CryptoSigner.generate_ed25519()
    assert keys.load(keys.save(tmp_path, "root", signer), b"anything").public_key == signer.public_key


def test_a_key_that_others_can_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys.create(tmp_path)
    with caplog.at_level(logging.WARNING):
        KeyRing.load(tmp_path)
    assert not caplog.records
    (tmp_path / "targets.pem").chmod(0o640)
    with caplog.at_level(logging.WARNING):
        KeyRing.load(tmp_path)
    assert len(caplog.records) == 1
    assert "targets.pem can be read by others (mode 640)" in caplog.text


def test_missing_and_unreadable_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="none for timestamp, snapshot, targets"):
        KeyRing.load(tmp_path / "nowhere")
    keys.create(tmp_path)
    (tmp_path / "snapshot.pem").unlink()
    with pytest.raises(InvalidParameter, match="none for snapshot"):
        KeyRing.load(tmp_path)
    with pytest.raises(InvalidParameter, match="key file must be readable"):
        keys.load(tmp_path / "snapshot.pem")


@pytest.mark.parametrize("content", [b"", b"garbage", KEY_TYPE.encode() + b"\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_without_a_key_is_an_error_of_ours(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "targets.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidParameter, match="hold an ed25519 private key"):
        keys.load(path)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "targets.pem"
    path.write_bytes(CryptoSigner.generate_ecdsa().private_bytes)
    path.chmod(0o600)
    with pytest.raises(InvalidParameter, match="ed25519"):
        keys.load(path)

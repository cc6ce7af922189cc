"""The operator's signing keys, as PEM files in a folder.

The server signs with ``timestamp.pem``, ``snapshot.pem`` and ``targets.pem``. It never needs ``offline/root.pem``. A
role may have several keys on disk during a rotation. The published root says which of them are valid.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from securesystemslib.signer import CryptoSigner

from hushcall import checks
from hushcall.atomic_file import sync_to_disk
from hushcall.errors import InvalidParameter
from hushcall.protocol import round_commitment

ROOT = "root"
ONLINE = ("timestamp", "snapshot", "targets")
OFFLINE_FOLDER = "offline"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyRing:
    signers: Mapping[str, tuple[CryptoSigner, ...]]

    def __post_init__(self) -> None:
        missing = [role for role in ONLINE if not self.signers.get(role)]
        if missing:
            raise InvalidParameter("keys", f"hold one for {', '.join(ONLINE)}", f"none for {', '.join(missing)}")

    @classmethod
    def load(cls, folder: Path) -> KeyRing:
        return cls({role: tuple(load(path) for path in key_files(folder, role)) for role in ONLINE})

    def named(self, role: str, key_ids: Collection[str]) -> tuple[CryptoSigner, ...]:
        return tuple(signer for signer in self.signers[role] if signer.public_key.keyid in key_ids)

    def adding(self, role: str, signer: CryptoSigner) -> KeyRing:
        return KeyRing({**self.signers, role: (*self.signers[role], signer)})


def create(folder: Path, passphrase: bytes | None = None) -> tuple[KeyRing, CryptoSigner]:
    """Creates the missing online keys and root key. The passphrase protects the root key."""
    for role in ONLINE:
        if not key_files(folder, role):
            save(folder, role, CryptoSigner.generate_ed25519())
    offline = folder / OFFLINE_FOLDER
    if not key_files(offline, ROOT):
        save(offline, ROOT, CryptoSigner.generate_ed25519(), passphrase)
    return KeyRing.load(folder), load(key_files(offline, ROOT)[0], passphrase)


def check_role(role: str) -> None:
    checks.one_of("role", role, (ROOT, *ONLINE))


def key_files(folder: Path, role: str) -> list[Path]:
    return sorted([*folder.glob(f"{role}.pem"), *folder.glob(f"{role}-*.pem")])


def save(folder: Path, role: str, signer: CryptoSigner, passphrase: bytes | None = None) -> Path:
    """Writes a private key atomically, readable by its owner only. It never replaces another key."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{role}.pem"
    if path.exists():
        path = folder / f"{role}-{signer.public_key.keyid[:8]}.pem"
    handle, draft = tempfile.mkstemp(dir=folder)  # its mode is 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_pem(signer, passphrase))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename, fails where a file exists
    except FileExistsError:
        raise InvalidParameter("key file", "not exist yet", str(path)) from None
    finally:
        os.unlink(draft)
    sync_to_disk(folder)
    return path


def load(path: Path, passphrase: bytes | None = None) -> CryptoSigner:
    """Reads a private key. A passphrase for an unencrypted key is ignored."""
    try:
        pem = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise InvalidParameter("key file", f"be readable ({error.strerror})", str(path)) from None
    if mode & 0o077:
        _log.warning("key file %s can be read by others (mode %03o): chmod 600 it", path, mode & 0o777)
    locked = _is_encrypted(pem)
    if locked and not passphrase:
        raise InvalidParameter("key file", "come with its passphrase", str(path))
    try:
        key = load_pem_private_key(pem, passphrase if locked else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        rule = "open with this passphrase" if locked else "hold an ed25519 private key (PEM, PKCS8)"
        raise InvalidParameter("key file", rule, str(path)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidParameter("key file", "hold an ed25519 private key (PEM, PKCS8)", str(path))
    return CryptoSigner(key)


def needs_passphrase(path: Path) -> bool:
    """Whether a key file is encrypted. :func:`load` reports a file that cannot be read."""
    return path.is_file() and os.access(path, os.R_OK) and _is_encrypted(path.read_bytes())


def _is_encrypted(pem: bytes) -> bool:
    return b"BEGIN ENCRYPTED PRIVATE KEY" in pem


def _pem(signer: CryptoSigner, passphrase: bytes | None) -> bytes:
    if not passphrase:
        return signer.private_bytes
    key = load_pem_private_key(signer.private_bytes, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase))


class RoundSigner:
    """Signs round documents with every timestamp key: during a rotation phones may know the old root or the new one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cached: dict[tuple[object, bytes], list[dict[str, str]]] = {}

    def signed(self, document: dict[str, Any]) -> dict[str, Any]:
        files = key_files(self._folder, "timestamp")
        stamp = tuple((path.name, path.stat().st_mtime_ns) for path in files)
        message = round_commitment.to_sign(document)
        if (stamp, message) not in self._cached:
            signatures = [load(path).sign(message) for path in files]
            entries = [{"keyid": signature.keyid, "sig": signature.signature} for signature in signatures]
            self._cached = {(stamp, message): entries}
        return {**document, "signatures": self._cached[stamp, message]}

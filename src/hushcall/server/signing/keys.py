"""The operator's signing keys: PEM files of a folder come in, signers leave.

``keys/timestamp.pem``, ``snapshot.pem`` and ``targets.pem`` stay with the server, which signs every list with them.
``keys/offline/root.pem`` says which keys those are; the server never needs it, and it belongs on a stick in a drawer.
A role may have several keys on disk for a moment: which one counts is for the published root to say. So a rotation
killed half way leaves a key too many, and never one too few.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from securesystemslib.signer import CryptoSigner

from hushcall.errors import InvalidParameter
from hushcall.whole_file import to_disk

ROOT = "root"
ONLINE = ("timestamp", "snapshot", "targets")
OFFLINE_FOLDER = "offline"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyRing:
    """The online keys, by role."""

    signers: Mapping[str, tuple[CryptoSigner, ...]]

    def __post_init__(self) -> None:
        missing = [role for role in ONLINE if not self.signers.get(role)]
        if missing:
            raise InvalidParameter("keys", f"hold one for {', '.join(ONLINE)}", f"none for {', '.join(missing)}")

    @classmethod
    def generate(cls) -> KeyRing:
        """Fresh keys that are on no disk yet."""
        return cls({role: (CryptoSigner.generate_ed25519(),) for role in ONLINE})

    @classmethod
    def load(cls, folder: Path) -> KeyRing:
        """Read a key folder. Cheap: do it at every publication, and a rotation is seen without a restart."""
        return cls({role: tuple(load(path) for path in key_files(folder, role)) for role in ONLINE})

    def named(self, role: str, key_ids: Collection[str]) -> tuple[CryptoSigner, ...]:
        """Those keys of a role that have one of these ids."""
        return tuple(signer for signer in self.signers[role] if signer.public_key.keyid in key_ids)

    def adding(self, role: str, signer: CryptoSigner) -> KeyRing:
        """The same ring with one key more."""
        return KeyRing({**self.signers, role: (*self.signers[role], signer)})


def create(folder: Path, passphrase: bytes | None = None) -> tuple[KeyRing, CryptoSigner]:
    """Make the online keys and the root key where they are not there yet; the passphrase protects the root key."""
    for role in ONLINE:
        if not key_files(folder, role):
            save(folder, role, CryptoSigner.generate_ed25519())
    offline = folder / OFFLINE_FOLDER
    if not key_files(offline, ROOT):
        save(offline, ROOT, CryptoSigner.generate_ed25519(), passphrase)
    return KeyRing.load(folder), load(key_files(offline, ROOT)[0], passphrase)


def check_role(role: str) -> None:
    """Only four roles have keys."""
    if role not in (ROOT, *ONLINE):
        raise InvalidParameter("role", f"be one of {', '.join((ROOT, *ONLINE))}", role)


def key_files(folder: Path, role: str) -> list[Path]:
    """The files that hold keys of a role: ``role.pem`` and ``role-1a2b3c4d.pem``."""
    return sorted([*folder.glob(f"{role}.pem"), *folder.glob(f"{role}-*.pem")])


def save(folder: Path, role: str, signer: CryptoSigner, passphrase: bytes | None = None) -> Path:
    """Write a private key, readable by its owner only: whole or not at all, and never over another key."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{role}.pem"
    if path.exists():
        path = folder / f"{role}-{signer.public_key.keyid[:8]}.pem"
    handle, draft = tempfile.mkstemp(dir=folder)  # made with mode 0600
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
    to_disk(folder)
    return path


def load(path: Path, passphrase: bytes | None = None) -> CryptoSigner:
    """Read a private key. A passphrase for a key that has none is ignored."""
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
    """Whether a key file is encrypted; a file that cannot be read is left for :func:`load` to complain about."""
    return path.is_file() and os.access(path, os.R_OK) and _is_encrypted(path.read_bytes())


def _is_encrypted(pem: bytes) -> bool:
    return b"BEGIN ENCRYPTED PRIVATE KEY" in pem


def _pem(signer: CryptoSigner, passphrase: bytes | None) -> bytes:
    if not passphrase:
        return signer.private_bytes
    key = load_pem_private_key(signer.private_bytes, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase))

"""The operator's ceremonies: a key folder and the published files come in, both leave in step with each other.

A key is on disk before the root that names it is published, and the old key is removed last. Killed anywhere, run
again: there is always a key that counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from securesystemslib.signer import CryptoSigner

from hushcall.errors import InvalidParameter
from hushcall.server.signing import keys, signer, tuf_files
from hushcall.server.signing.keys import OFFLINE_FOLDER, ONLINE, ROOT, KeyRing, check_role

Ask = Callable[[Path], bytes]


class Published(Protocol):
    """Where published files are kept."""

    def files(self) -> dict[str, bytes]:
        """All of them, by path."""

    def change_files(self, change: Callable[[Mapping[str, bytes]], Mapping[str, bytes | None]]) -> None:
        """Put some and take some away (None), all at once, given what is there; nobody else publishes meanwhile."""


@dataclass(frozen=True)
class Rotated:
    """A role's new key and its file, and the files of the keys that no longer count.

    Those of an online role are gone. An old root key is left for its owner to destroy, once there is a copy of the new.
    """

    role: str
    key_id: str
    saved: Path
    old: tuple[Path, ...]


@dataclass(frozen=True)
class Standing:
    """How the roles stand, which of them lack their key here, and whether the root key lies where it should not."""

    roles: tuple[signer.RoleStatus, ...]
    missing: frozenset[str]
    root_key_here: bool
    root_sha256: str

    @property
    def ok(self) -> bool:
        """Nothing expired, no key missing."""
        return not self.missing and not any(role.expired for role in self.roles)


def init(published: Published, folder: Path, now: datetime, passphrase: bytes | None = None) -> Path:
    """Make all keys and publish the first root; the root key's file comes back, to be moved away."""
    if any(path.endswith(".root.json") for path in published.files()):
        raise InvalidParameter("keys", "not have been made before (hushcall keys status)", str(folder))
    ring, root_signer = keys.create(folder, passphrase)
    published.change_files(lambda _: signer.start(ring, [root_signer], now))
    return keys.key_files(folder / OFFLINE_FOLDER, ROOT)[0]


def rotate(
    published: Published, folder: Path, role: str, now: datetime, ask: Ask, root_key: Path | None = None
) -> Rotated:
    """Replace the key of a role. ``ask`` gives the passphrase of a file; a new root key gets the old one's.

    Somebody may take their time to type it: what is published is read again afterwards, when nobody else publishes.
    """
    check_role(role)
    root_path, root_signer, passphrase = _root_in_force(published.files(), folder, ask, root_key)
    new = CryptoSigner.generate_ed25519()
    old = [root_path] if role == ROOT else keys.key_files(folder, role)
    saved = keys.save(root_path.parent, ROOT, new, passphrase) if role == ROOT else keys.save(folder, role, new)
    ring = KeyRing.load(folder)
    published.change_files(lambda files: signer.rotate(files, ring, role, new, [root_signer], now))
    if role != ROOT:
        for path in old:
            path.unlink()
    return Rotated(role, new.public_key.keyid, saved, tuple(old))


def status(published: Published, folder: Path, now: datetime) -> Standing:
    """Roles with their keys and expiry, and which online keys are missing here."""
    files = published.files()
    roles = tuple(signer.status(files, now))
    missing = set()
    for row in roles:
        if row.role in ONLINE:
            held = {keys.load(path).public_key.keyid for path in keys.key_files(folder, row.role)}
            missing |= set() if held & set(row.key_ids) else {row.role}
    here = bool(keys.key_files(folder / OFFLINE_FOLDER, ROOT))
    return Standing(roles, frozenset(missing), here, root_sha256(files))


def root_sha256(files: Mapping[str, bytes]) -> str:
    """What an operator reads out to phone owners who want to be sure of the root they start from."""
    return hashlib.sha256(signer.newest_root(files)).hexdigest()


def _root_in_force(
    files: Mapping[str, bytes], folder: Path, ask: Ask, given: Path | None
) -> tuple[Path, CryptoSigner, bytes | None]:
    """The root key that counts now: its file, itself, and the passphrase that opened it."""
    named = tuf_files.read_root(files).roles[ROOT].keyids
    paths = keys.key_files(folder / OFFLINE_FOLDER, ROOT) if given is None else [given]
    for path in paths:
        passphrase = ask(path) if keys.needs_passphrase(path) else None
        signer = keys.load(path, passphrase)
        if signer.public_key.keyid in named:
            return path, signer, passphrase
    rule = f"be the one in force ({', '.join(key[:8] for key in named)}): give its file with --root-key"
    raise InvalidParameter("root key", rule, ", ".join(map(str, paths)) or f"none in {folder / OFFLINE_FOLDER}")

"""Creates and rotates the operator's keys, in the key folder and in the published files.

A key is on disk before the root that names it is published, and the old key is removed last. After a kill at any point
there is a valid key, and the ceremony can run again.
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
from hushcall.server.signing import keys, signer
from hushcall.server.signing.keys import OFFLINE_FOLDER, ONLINE, ROOT, KeyRing, check_role

Ask = Callable[[Path], bytes]


class Published(Protocol):
    """The published files by path. ``change_files`` locks out other publishers. None deletes a file."""

    def files(self) -> dict[str, bytes]: ...

    def change_files(self, change: Callable[[Mapping[str, bytes]], Mapping[str, bytes | None]]) -> None: ...


@dataclass(frozen=True)
class Rotated:
    """A role's new key, and the files of its old ones.

    Old keys of an online role are deleted. An old root key is left to its owner, who first makes a copy of the new one.
    """

    role: str
    key_id: str
    saved: Path
    old: tuple[Path, ...]


@dataclass(frozen=True)
class KeyStatus:
    """Roles, those whose key is missing here, and whether the root key is still in the folder."""

    roles: tuple[signer.RoleStatus, ...]
    missing: frozenset[str]
    root_key_here: bool
    root_sha256: str

    @property
    def ok(self) -> bool:
        return not self.missing and not any(role.expired for role in self.roles)


def init(published: Published, folder: Path, now: datetime, passphrase: bytes | None = None) -> Path:
    """Creates all keys and publishes the first root. Returns the root key's file, which its owner moves away."""
    if any(path.endswith(".root.json") for path in published.files()):
        raise InvalidParameter("keys", "not have been made before (hushcall keys status)", str(folder))
    ring, root_signer = keys.create(folder, passphrase)
    published.change_files(lambda _: signer.start(ring, [root_signer], now))
    return keys.key_files(folder / OFFLINE_FOLDER, ROOT)[0]


def rotate(
    published: Published, folder: Path, role: str, now: datetime, ask: Ask, root_key: Path | None = None
) -> Rotated:
    """Replaces the key of a role. ``ask`` gives the passphrase of a file. A new root key gets the old one's."""
    check_role(role)
    root_path, root_signer, passphrase = _current_root(published.files(), folder, ask, root_key)
    new = CryptoSigner.generate_ed25519()
    old = [root_path] if role == ROOT else keys.key_files(folder, role)
    saved = keys.save(root_path.parent, ROOT, new, passphrase) if role == ROOT else keys.save(folder, role, new)
    ring = KeyRing.load(folder)
    published.change_files(lambda files: signer.rotate(files, ring, role, new, [root_signer], now))
    if role != ROOT:
        for path in old:
            path.unlink()
    return Rotated(role, new.public_key.keyid, saved, tuple(old))


def status(published: Published, folder: Path, now: datetime) -> KeyStatus:
    files = published.files()
    roles = tuple(signer.status(files, now))
    missing = set()
    for row in roles:
        if row.role in ONLINE:
            key_ids = {keys.load(path).public_key.keyid for path in keys.key_files(folder, row.role)}
            missing |= set() if key_ids & set(row.key_ids) else {row.role}
    root_key_here = bool(keys.key_files(folder / OFFLINE_FOLDER, ROOT))
    return KeyStatus(roles, frozenset(missing), root_key_here, root_sha256(files))


def root_sha256(files: Mapping[str, bytes]) -> str:
    return hashlib.sha256(files[signer.newest_root_path(files)]).hexdigest()


def _current_root(
    files: Mapping[str, bytes], folder: Path, ask: Ask, root_key: Path | None
) -> tuple[Path, CryptoSigner, bytes | None]:
    key_ids = signer.read_root(files).roles[ROOT].keyids
    paths = keys.key_files(folder / OFFLINE_FOLDER, ROOT) if root_key is None else [root_key]
    for path in paths:
        passphrase = ask(path) if keys.needs_passphrase(path) else None
        key = keys.load(path, passphrase)
        if key.public_key.keyid in key_ids:
            return path, key, passphrase
    rule = f"be the current one ({', '.join(key[:8] for key in key_ids)}): give its file with --root-key"
    raise InvalidParameter("root key", rule, ", ".join(map(str, paths)) or f"none in {folder / OFFLINE_FOLDER}")

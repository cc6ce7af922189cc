"""Signs published files with TUF metadata.

Each function takes the published files by path, in TUF's layout with consistent snapshots, and returns changes, which
the caller applies in one transaction. ``None`` deletes a file. Only metadata is read, so ``files`` may fetch lazily.
The time is an argument and ed25519 is deterministic, so the same inputs give the same bytes.
"""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from securesystemslib.signer import CryptoSigner
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, MetaFile, Root, Signed, Snapshot, TargetFile, Targets, Timestamp
from tuf.api.serialization.json import JSONSerializer

from hushcall.errors import InvalidList, InvalidParameter
from hushcall.server.signing.keys import ONLINE, ROOT, KeyRing, check_role

LIST = "blocklist.jsonl"
KEPT_VERSIONS = 3  # the current one and two before it, so that a phone can finish its download

METADATA, TARGETS = "metadata/", "targets/"

Changes = dict[str, bytes | None]
_TARGET_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_VERSIONED = re.compile(r"metadata/([1-9][0-9]*)\.(snapshot|targets)\.json")
_ROOT_PATH = re.compile(r"metadata/([1-9][0-9]*)\.root\.json")
_HASHES = ["sha256"]


LIFETIMES = {
    "root": timedelta(days=365),
    "targets": timedelta(days=30),
    "snapshot": timedelta(days=30),
    "timestamp": timedelta(days=3),
}
"""An online role is signed again after half of it. The timestamp's bounds how long an old list may seem new."""


@dataclass(frozen=True)
class RoleStatus:
    """The current metadata of a role. The root names its ``key_ids``."""

    role: str
    version: int
    expires: datetime
    expired: bool
    key_ids: tuple[str, ...]


def start(ring: KeyRing, root_signers: Sequence[CryptoSigner], now: datetime) -> dict[str, bytes]:
    """The first metadata, without targets. Any one of the root keys can sign the next root."""
    root = Root(expires=_after(now, LIFETIMES[ROOT]), consistent_snapshot=True)
    for signer in root_signers:
        root.add_key(signer.public_key, ROOT)
    for role in ONLINE:
        root.add_key(ring.signers[role][-1].public_key, role)
    files = {path_of(ROOT, 1): _sign_root(root, None, root_signers)}
    changes = _Draft(files, root, ring, now).settle({})
    return files | {path: data for path, data in changes.items() if data is not None}


def publish(
    files: Mapping[str, bytes],
    ring: KeyRing,
    targets: Mapping[str, bytes | TargetFile] | None,
    now: datetime,
    beyond: int = 0,
) -> Changes:
    """Replaces all targets, or keeps them with None. ``beyond`` signs everything again, with versions raised by it.

    A target that is made when asked for is given by its info, and its file is empty.
    """
    infos = None if targets is None else {path: _target_info(path, data) for path, data in targets.items()}
    changes = _Draft(files, read_root(files), ring, now, beyond).settle(infos)
    for path, info in (infos or {}).items():
        place = place_of(info)
        if place not in files:
            data = (targets or {})[path]
            changes[place] = b"" if isinstance(data, TargetFile) else data
    return changes


def refresh(files: Mapping[str, bytes], ring: KeyRing, now: datetime) -> Changes:
    """Renews signatures after half of their lifetime, or that do not verify under the newest root."""
    return _Draft(files, read_root(files), ring, now).settle(None)


def rotate(
    files: Mapping[str, bytes],
    ring: KeyRing,
    role: str,
    new: CryptoSigner,
    root_signers: Sequence[CryptoSigner],
    now: datetime,
) -> Changes:
    """Replaces the keys of a role, with a new root, and signs again what the old keys had signed.

    A new root key and the old one both sign the new root, so that phones of either accept it.
    """
    check_role(role)
    before, root = read_root(files), read_root(files)
    for key_id in tuple(root.roles[role].keyids):
        root.revoke_key(key_id, role)
    root.add_key(new.public_key, role)
    root.version += 1
    root.expires = _after(now, LIFETIMES[ROOT])
    if role == ROOT:
        root_signers = [*root_signers, new]
    else:
        ring = ring.adding(role, new)
    new_root = {path_of(ROOT, root.version): _sign_root(root, before, root_signers)}
    after = ChainMap(new_root, cast("dict[str, bytes]", files))
    return {**new_root, **_Draft(after, root, ring, now).settle(None)}


def status(files: Mapping[str, bytes], now: datetime) -> list[RoleStatus]:
    root = read_root(files)
    online = {role: metadata.signed for role, metadata in read_online(files).items() if metadata}
    return [
        RoleStatus(role, signed.version, signed.expires, signed.is_expired(now), tuple(root.roles[role].keyids))
        for role, signed in {ROOT: root, **online}.items()
    ]


@dataclass
class _Draft:
    files: Mapping[str, bytes]
    root: Root
    ring: KeyRing
    now: datetime
    beyond: int = 0  # versions to skip, which signs everything again
    changes: Changes = field(default_factory=dict)

    def settle(self, infos: Mapping[str, TargetFile] | None) -> Changes:
        """Signs targets, snapshot and timestamp, in this order, each only if it has to be. None keeps the targets."""
        old = read_online(self.files)
        targets, snapshot, timestamp = old["targets"], old["snapshot"], old["timestamp"]
        if targets is None or self.stale(targets) or infos not in (None, targets.signed.targets):
            chosen = targets.signed.targets if targets and infos is None else infos
            targets = self.sign(targets, Targets(targets=dict(chosen or {}), expires=self.expiry("targets")))
        if snapshot is None or self.stale(snapshot) or targets is not old["targets"]:
            meta = {"targets.json": self.meta_file(targets)}
            snapshot = self.sign(snapshot, Snapshot(meta=meta, expires=self.expiry("snapshot")))
        if timestamp is None or self.stale(timestamp) or snapshot is not old["snapshot"]:
            meta_file = self.meta_file(snapshot)
            self.sign(timestamp, Timestamp(snapshot_meta=meta_file, expires=self.expiry("timestamp")))
        self.prune(targets.signed.version, snapshot.signed.version)
        return self.changes

    def stale(self, metadata: Metadata[Any]) -> bool:
        role = metadata.signed.type
        if self.beyond or metadata.signed.expires - self.now <= LIFETIMES[role] / 2:
            return True
        result = self.root.get_verification_result(role, metadata.signed_bytes, metadata.signatures)
        return not result.verified

    def sign(self, old: Metadata[Any] | None, signed: Signed) -> Metadata[Any]:
        role = signed.type
        signed.version = 1 if old is None else old.signed.version + 1 + self.beyond
        named = self.root.roles[role]
        signers = self.ring.named(role, named.keyids)
        if len(signers) < named.threshold:
            rule = f"hold the {role} key that root version {self.root.version} names ({_brief(named.keyids)})"
            raise InvalidParameter("keys", rule, _brief(signer.public_key.keyid for signer in self.ring.signers[role]))
        metadata: Metadata[Any] = Metadata(cast(Any, signed))
        for signer in signers:
            metadata.sign(signer, append=True)
        self.changes[path_of(role, signed.version)] = _to_bytes(metadata)
        return metadata

    def meta_file(self, metadata: Metadata[Any]) -> MetaFile:
        version = metadata.signed.version
        return MetaFile.from_data(version, self.content(path_of(metadata.signed.type, version)), _HASHES)

    def content(self, path: str) -> bytes:
        return self.changes.get(path) or _content(self.files, path)

    def expiry(self, role: str) -> datetime:
        return _after(self.now, LIFETIMES[role])

    def prune(self, targets: int, snapshot: int) -> None:
        """Deletes files that no phone needs which started within the last two versions. Roots stay."""
        first = {"targets": targets - KEPT_VERSIONS + 1, "snapshot": snapshot - KEPT_VERSIONS + 1}
        places = set()
        for version in range(max(1, first["targets"]), targets + 1):
            path = path_of("targets", version)
            if path not in self.files and path not in self.changes:
                continue  # a skipped version
            infos = parse_metadata(path, self.content(path)).signed.targets
            places |= {place_of(info) for info in infos.values()}
        for path in self.files:
            versioned = _VERSIONED.fullmatch(path)
            old = versioned is not None and int(versioned[1]) < first[versioned[2]]
            if old or (path.startswith(TARGETS) and path not in places):
                self.changes[path] = None


def target_infos(files: Mapping[str, bytes]) -> dict[str, TargetFile]:
    """The targets that are signed now, by path."""
    metadata = read_online(files)["targets"]
    return dict(metadata.signed.targets) if metadata else {}


def list_info(length: int, sha256: str, version: int) -> TargetFile:
    """The info of a list. Its version tells a phone which delta to fetch."""
    return TargetFile(length, {"sha256": sha256}, LIST, {"custom": {"version": version}})


def _target_info(path: str, data: bytes | TargetFile) -> TargetFile:
    if isinstance(data, TargetFile):
        return data
    if not _TARGET_PATH.fullmatch(path):
        raise InvalidParameter("target path", "be relative, of plain names", path)
    info = TargetFile.from_data(path, data, _HASHES)
    if path == LIST:  # tells a phone which delta to fetch
        info.unrecognized_fields["custom"] = {"version": _list_version(data)}
    return info


def _list_version(data: bytes) -> int:
    try:
        return int(json.loads(data[: data.find(b"\n")])["version"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidList(LIST, "start with a header that names its version", data[:40]) from None


def _sign_root(root: Root, before: Root | None, signers: Sequence[CryptoSigner]) -> bytes:
    metadata = Metadata(root)
    for signer in signers:
        metadata.sign(signer, append=True)
    result = root.get_root_verification_result(before, metadata.signed_bytes, metadata.signatures)
    if not result.verified:
        key_ids = _brief(signer.public_key.keyid for signer in signers)
        rule = f"be the current one ({_brief((before or root).roles[ROOT].keyids)})"
        raise InvalidParameter("root key", rule, key_ids)
    return _to_bytes(metadata)


def _after(now: datetime, lifetime: timedelta) -> datetime:
    if now.tzinfo is None:
        raise InvalidParameter("now", "have a time zone", now)
    return (now.astimezone(UTC) + lifetime).replace(microsecond=0)


def _brief(key_ids: Iterable[str]) -> str:
    return ", ".join(key_id[:8] for key_id in key_ids) or "none"


def path_of(role: str, version: int) -> str:
    """The path of a version of a role. Every version of the timestamp has the same."""
    return f"{METADATA}timestamp.json" if role == "timestamp" else f"{METADATA}{version}.{role}.json"


def place_of(info: TargetFile) -> str:
    """The path of a target. Its digest comes before its name, so that two versions never share a path."""
    (prefixed,) = info.get_prefixed_paths()
    return TARGETS + prefixed


def newest_root_path(files: Mapping[str, bytes]) -> str:
    """The newest root is for phones that trust on first use. An older one may name a leaked key."""
    versions = [int(match[1]) for match in map(_ROOT_PATH.fullmatch, files) if match]
    if not versions:
        raise InvalidParameter("published files", "start with a root (hushcall keys init)", f"{len(files)} files")
    return path_of("root", max(versions))


def read_root(files: Mapping[str, bytes]) -> Root:
    path = newest_root_path(files)
    root = parse_metadata(path, _content(files, path)).signed
    if not isinstance(root, Root):
        raise InvalidList(path, "be a root", root.type)
    return root


def read_online(files: Mapping[str, bytes]) -> dict[str, Metadata[Any] | None]:
    """The current metadata, as a client finds it: from the timestamp to the snapshot to the targets."""
    metadata: dict[str, Metadata[Any] | None] = dict.fromkeys(ONLINE)
    path = path_of("timestamp", 0)
    if path in files:
        timestamp = metadata["timestamp"] = parse_metadata(path, _content(files, path))
        path = path_of("snapshot", timestamp.signed.snapshot_meta.version)
        snapshot = metadata["snapshot"] = parse_metadata(path, _content(files, path))
        path = path_of("targets", snapshot.signed.meta["targets.json"].version)
        metadata["targets"] = parse_metadata(path, _content(files, path))
    return metadata


def _content(files: Mapping[str, bytes], path: str) -> bytes:
    try:
        return files[path]
    except KeyError:
        raise InvalidList("published files", f"hold {path}", f"{len(files)} files without it") from None


def parse_metadata(path: str, data: bytes) -> Metadata[Any]:
    """Parses metadata without verifying a signature. Other data is an :class:`InvalidList`."""
    try:
        return Metadata.from_bytes(data)
    except RepositoryError:
        raise InvalidList(path, "be TUF metadata", f"{len(data)} bytes") from None


def _to_bytes(metadata: Metadata[Any]) -> bytes:
    return metadata.to_bytes(JSONSerializer(compact=True))

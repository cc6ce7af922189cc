"""The server signs what it publishes: published files and new targets come in, the files that change leave.

Pure over bytes: ``files`` maps a path (``metadata/…``, ``targets/…``) to its content, wherever that is kept, and every
function returns changes (``None`` deletes) that the caller applies in one transaction. Only metadata is ever read, so a
mapping that fetches lazily will do. The time is an argument and ed25519 has no coins: same inputs, same bytes.

The layout is TUF's with consistent snapshots: ``metadata/3.root.json``, ``metadata/timestamp.json``,
``metadata/7.snapshot.json``, ``metadata/7.targets.json``, ``targets/<sha256>.blocklist.jsonl``,
``targets/exports/<sha256>.plain.txt``.
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
from tuf.api.metadata import Metadata, MetaFile, Root, Signed, Snapshot, TargetFile, Targets, Timestamp

from hushcall.errors import InvalidList, InvalidParameter
from hushcall.server.signing import tuf_files
from hushcall.server.signing.keys import ONLINE, ROOT, KeyRing, check_role

LIST = "blocklist.jsonl"
KEPT_VERSIONS = 3  # the current one and the two before it: a phone in the middle of a download finishes it

Changes = dict[str, bytes | None]
_TARGET_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_HASHES = ["sha256"]


@dataclass(frozen=True)
class Lifetimes:
    """How long a signature is good for. An online role is signed anew once half of its time has passed.

    The timestamp's is short: it bounds how long an attacker can pass off an old list as the newest.
    """

    root: timedelta = timedelta(days=365)
    targets: timedelta = timedelta(days=30)
    snapshot: timedelta = timedelta(days=30)
    timestamp: timedelta = timedelta(days=3)

    def of(self, role: str) -> timedelta:
        """The lifetime of a role."""
        return cast(timedelta, getattr(self, role))


LIFETIMES = Lifetimes()


@dataclass(frozen=True)
class RoleStatus:
    """Where one role stands. ``key_ids`` are the keys that the root names for it."""

    role: str
    version: int
    expires: datetime
    expired: bool
    threshold: int
    key_ids: tuple[str, ...]


def start(ring: KeyRing, root_signers: Sequence[CryptoSigner], now: datetime) -> dict[str, bytes]:
    """The first metadata, of a repository without targets. Any one of the root keys can sign the next root."""
    root = Root(expires=_after(now, LIFETIMES.root), consistent_snapshot=True)
    for signer in root_signers:
        root.add_key(signer.public_key, ROOT)
    for role in ONLINE:
        root.add_key(ring.signers[role][-1].public_key, role)
    files = {tuf_files.path_of(ROOT, 1): _sign_root(root, None, root_signers)}
    made = _Desk(files, root, ring, now).settle({})
    return files | {path: data for path, data in made.items() if data is not None}


def publish(
    files: Mapping[str, bytes],
    ring: KeyRing,
    targets: Mapping[str, bytes],
    now: datetime,
) -> Changes:
    """Make these the targets, all of them. The same targets again change nothing but what :func:`refresh` would."""
    infos = {path: _target_info(path, data) for path, data in targets.items()}
    changes = _Desk(files, tuf_files.read_root(files), ring, now).settle(infos)
    for path, info in infos.items():
        place = tuf_files.place_of(info)
        if place not in files:
            changes[place] = targets[path]
    return changes


def leap(
    files: Mapping[str, bytes], ring: KeyRing, targets: Mapping[str, bytes] | None, now: datetime, beyond: int
) -> Changes:
    """Sign all of it anew, with versions so much beyond those in force; None keeps the targets that there are."""
    infos = None if targets is None else {path: _target_info(path, data) for path, data in targets.items()}
    changes = _Desk(files, tuf_files.read_root(files), ring, now, beyond).settle(infos)
    for path, info in (infos or {}).items():
        place = tuf_files.place_of(info)
        if place not in files:
            changes[place] = (targets or {})[path]
    return changes


def refresh(files: Mapping[str, bytes], ring: KeyRing, now: datetime) -> Changes:
    """Sign anew what has lived half of its time, or no longer verifies under the newest root. Often: nothing."""
    return _Desk(files, tuf_files.read_root(files), ring, now).settle(None)


def rotate(
    files: Mapping[str, bytes],
    ring: KeyRing,
    role: str,
    new: CryptoSigner,
    root_signers: Sequence[CryptoSigner],
    now: datetime,
) -> Changes:
    """Replace the keys of a role by a new one: a new root, and everything that the old keys had signed signed anew.

    For ``root``, the new root is signed by the old key and by the new one, so that phones follow from either side.
    Every rotation also renews the root's lifetime.
    """
    check_role(role)
    before, root = tuf_files.read_root(files), tuf_files.read_root(files)
    for key_id in tuple(root.roles[role].keyids):
        root.revoke_key(key_id, role)
    root.add_key(new.public_key, role)
    root.version += 1
    root.expires = _after(now, LIFETIMES.root)
    if role == ROOT:
        root_signers = [*root_signers, new]
    else:
        ring = ring.adding(role, new)
    made = {tuf_files.path_of(ROOT, root.version): _sign_root(root, before, root_signers)}
    after = ChainMap(made, cast("dict[str, bytes]", files))
    return {**made, **_Desk(after, root, ring, now).settle(None)}


def status(files: Mapping[str, bytes], now: datetime) -> list[RoleStatus]:
    """Every role's version, expiry and keys."""
    root = tuf_files.read_root(files)
    online = {role: metadata.signed for role, metadata in tuf_files.read_online(files).items() if metadata}
    return [
        RoleStatus(
            role,
            signed.version,
            signed.expires,
            signed.is_expired(now),
            root.roles[role].threshold,
            tuple(root.roles[role].keyids),
        )
        for role, signed in {ROOT: root, **online}.items()
    ]


def newest_root(files: Mapping[str, bytes]) -> bytes:
    """What a phone that trusts on first use is given: the newest root, since an older one may name a leaked key."""
    return files[tuf_files.newest_root_path(files)]


@dataclass
class _Desk:
    """Where one set of changes is drawn up: what was published, and what will be."""

    files: Mapping[str, bytes]
    root: Root
    ring: KeyRing
    now: datetime
    beyond: int = 0  # how many versions to leave out; then everything is signed anew
    changes: Changes = field(default_factory=dict)

    def settle(self, wanted: Mapping[str, TargetFile] | None) -> Changes:
        """Sign targets, snapshot and timestamp, in this order, each only if it has to be; None wants no others."""
        old = tuf_files.read_online(self.files)
        targets, snapshot, timestamp = old["targets"], old["snapshot"], old["timestamp"]
        if targets is None or self.stale(targets) or wanted not in (None, targets.signed.targets):
            named = targets.signed.targets if targets and wanted is None else wanted
            targets = self.sign(targets, Targets(targets=dict(named or {}), expires=self.expiry("targets")))
        if snapshot is None or self.stale(snapshot) or targets is not old["targets"]:
            meta = {"targets.json": self.meta_file(targets)}
            snapshot = self.sign(snapshot, Snapshot(meta=meta, expires=self.expiry("snapshot")))
        if timestamp is None or self.stale(timestamp) or snapshot is not old["snapshot"]:
            meta_file = self.meta_file(snapshot)
            self.sign(timestamp, Timestamp(snapshot_meta=meta_file, expires=self.expiry("timestamp")))
        self.prune(targets.signed.version, snapshot.signed.version)
        return self.changes

    def stale(self, metadata: Metadata[Any]) -> bool:
        """Half of its time is over, or the root has named other keys since."""
        role = metadata.signed.type
        if self.beyond or metadata.signed.expires - self.now <= LIFETIMES.of(role) / 2:
            return True
        result = self.root.get_verification_result(role, metadata.signed_bytes, metadata.signatures)
        return not result.verified

    def sign(self, old: Metadata[Any] | None, signed: Signed) -> Metadata[Any]:
        """The next version of a role, signed by those keys of the ring that the root names."""
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
        self.changes[tuf_files.path_of(role, signed.version)] = tuf_files.write(metadata)
        return metadata

    def meta_file(self, metadata: Metadata[Any]) -> MetaFile:
        """What one role says of another: version, length and digest, so that no two versions can be mixed."""
        version = metadata.signed.version
        return MetaFile.from_data(version, self.content(tuf_files.path_of(metadata.signed.type, version)), _HASHES)

    def content(self, path: str) -> bytes:
        """A file as it will be."""
        return self.changes.get(path) or tuf_files.content(self.files, path)

    def expiry(self, role: str) -> datetime:
        """When a signature made now runs out."""
        return _after(self.now, LIFETIMES.of(role))

    def prune(self, targets: int, snapshot: int) -> None:
        """Drop what no phone that started within the last two versions can ask for. Roots stay for ever."""
        first = {"targets": targets - KEPT_VERSIONS + 1, "snapshot": snapshot - KEPT_VERSIONS + 1}
        wanted = set()
        for version in range(max(1, first["targets"]), targets + 1):
            path = tuf_files.path_of("targets", version)
            if path not in self.files and path not in self.changes:
                continue  # a number that was left out
            infos = tuf_files.parse(path, self.content(path)).signed.targets
            wanted |= {tuf_files.place_of(info) for info in infos.values()}
        for path in self.files:
            versioned = tuf_files.VERSIONED.fullmatch(path)
            old = versioned is not None and int(versioned[1]) < first[versioned[2]]
            if old or (path.startswith(tuf_files.TARGETS) and path not in wanted):
                self.changes[path] = None


def _target_info(path: str, data: bytes) -> TargetFile:
    if not _TARGET_PATH.fullmatch(path):
        raise InvalidParameter("target path", "be relative, of plain names", path)
    info = TargetFile.from_data(path, data, _HASHES)
    if path == LIST:  # a phone sees from the signed version which delta to ask for
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
        held = _brief(signer.public_key.keyid for signer in signers)
        raise InvalidParameter("root key", f"be the one in force ({_brief((before or root).roles[ROOT].keyids)})", held)
    return tuf_files.write(metadata)


def _after(now: datetime, lifetime: timedelta) -> datetime:
    if now.tzinfo is None:
        raise InvalidParameter("now", "have a time zone", now)
    return (now.astimezone(UTC) + lifetime).replace(microsecond=0)


def _brief(key_ids: Iterable[str]) -> str:
    return ", ".join(key_id[:8] for key_id in key_ids) or "none"

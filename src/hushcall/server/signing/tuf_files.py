"""Where TUF's files lie among the published ones: a mapping of paths to bytes comes in, parsed metadata leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Root, TargetFile
from tuf.api.serialization.json import JSONSerializer

from hushcall.errors import InvalidList, InvalidParameter
from hushcall.server.signing.keys import ONLINE

METADATA, TARGETS = "metadata/", "targets/"
VERSIONED = re.compile(r"metadata/([1-9][0-9]*)\.(snapshot|targets)\.json")
_ROOT_PATH = re.compile(r"metadata/([1-9][0-9]*)\.root\.json")


def path_of(role: str, version: int) -> str:
    """The path of a version of a role; only the timestamp has one name for all of its versions."""
    return f"{METADATA}timestamp.json" if role == "timestamp" else f"{METADATA}{version}.{role}.json"


def place_of(info: TargetFile) -> str:
    """The path of a target: its digest stands before its name, so that two versions never share a path."""
    (prefixed,) = info.get_prefixed_paths()
    return TARGETS + prefixed


def newest_root_path(files: Mapping[str, bytes]) -> str:
    """The path of the root in force."""
    versions = [int(match[1]) for match in map(_ROOT_PATH.fullmatch, files) if match]
    if not versions:
        raise InvalidParameter("published files", "start with a root (hushcall keys init)", f"{len(files)} files")
    return path_of("root", max(versions))


def read_root(files: Mapping[str, bytes]) -> Root:
    """The newest root among the files."""
    path = newest_root_path(files)
    root = parse(path, content(files, path)).signed
    if not isinstance(root, Root):
        raise InvalidList(path, "be a root", root.type)
    return root


def read_online(files: Mapping[str, bytes]) -> dict[str, Metadata[Any] | None]:
    """The metadata in force, found as a phone finds it: from the timestamp to the snapshot to the targets."""
    found: dict[str, Metadata[Any] | None] = dict.fromkeys(ONLINE)
    path = path_of("timestamp", 0)
    if path in files:
        timestamp = found["timestamp"] = parse(path, content(files, path))
        path = path_of("snapshot", timestamp.signed.snapshot_meta.version)
        snapshot = found["snapshot"] = parse(path, content(files, path))
        path = path_of("targets", snapshot.signed.meta["targets.json"].version)
        found["targets"] = parse(path, content(files, path))
    return found


def content(files: Mapping[str, bytes], path: str) -> bytes:
    """A file that has to be there."""
    try:
        return files[path]
    except KeyError:
        raise InvalidList("published files", f"hold {path}", f"{len(files)} files without it") from None


def parse(path: str, data: bytes) -> Metadata[Any]:
    """Read metadata without verifying a signature; what is none is an :class:`InvalidList`."""
    try:
        return Metadata.from_bytes(data)
    except RepositoryError:
        raise InvalidList(path, "be TUF metadata", f"{len(data)} bytes") from None


def write(metadata: Metadata[Any]) -> bytes:
    """The bytes that are published: keys sorted, no spaces."""
    return metadata.to_bytes(JSONSerializer(compact=True))

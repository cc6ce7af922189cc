"""Canonical bytes and digest of the round fields that all clients must see identically.

A round is decided in two steps. ``opened`` has the round, plan, window, seed, mechanism, ε and the keys for anonymous
reports. ``decided`` adds the buckets and the size of uploads. Times and state are in neither. A server that singles out
one client has to show it another part: its signature and the digests in the next list (:data:`ROUNDS_TARGET`) prove it.

>>> opened({"round": 7, "plan": "nanp-2026", "window": 7, "seed": "00", "profile": {"mechanism": "x", "epsilon": 4}})
b'{"epsilon":4,"mechanism":"x","plan":"nanp-2026","round":7,"seed":"00","window":7}'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

OPENED, DECIDED = "opened", "decided"
FORMAT = "hushcall-rounds/1"
ROUNDS_TARGET = "rounds.json"
"""The signed file beside the list with the digests of its rounds."""
NAMED_ROUNDS, NAMED_DAYS = 60, 7
"""The last so many rounds, and all of so many days: a client without a list of the last three days takes no part."""
_PREFIX = b"hushcall/1/round\n"  # no TUF metadata begins so, so that no signature is valid for both


def opened(document: Mapping[str, Any]) -> bytes:
    return _canonical(_opened(document))


def decided(document: Mapping[str, Any]) -> bytes:
    more = {"buckets": document["buckets"], "upload_bytes": document.get("upload_bytes")}
    return _canonical({**_opened(document), **more})


def parts(document: Mapping[str, Any]) -> dict[str, bytes]:
    return {OPENED: opened(document)} | ({} if document["buckets"] is None else {DECIDED: decided(document)})


def to_sign(document: Mapping[str, Any]) -> bytes:
    """The bytes that a server signs: the last part that the document settles."""
    return _PREFIX + (opened(document) if document["buckets"] is None else decided(document))


def digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


def rounds_file(digests: Mapping[int, Mapping[str, str]]) -> bytes:
    return _canonical({"format": FORMAT, "rounds": {str(id_): dict(parts) for id_, parts in digests.items()}}) + b"\n"


def read_rounds_file(data: bytes) -> dict[int, dict[str, str]]:
    try:
        parsed = json.loads(data)
        if parsed["format"] != FORMAT:
            return {}
        return {int(id_): {str(k): str(v) for k, v in parts.items()} for id_, parts in parsed["rounds"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _opened(document: Mapping[str, Any]) -> dict[str, Any]:
    profile = document["profile"]
    plain = {name: document[name] for name in ("round", "plan", "window", "seed")}
    keys = {"anonymous": document["anonymous"]} if document.get("anonymous") else {}
    return {**plain, **keys, "mechanism": profile["mechanism"], "epsilon": profile["epsilon"]}


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

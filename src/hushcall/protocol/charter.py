"""What of a round document must be the same for everybody: a document comes in, bytes to sign and a digest leave.

Two parts, because a round is decided in two steps: ``opened`` is what a phone joins (id, plan, window, seed, mechanism,
ε, and where phones take part without a name, the keys for it: a key of its own would tag a phone), ``decided`` is that
and what reports are made with (buckets, size of uploads). Times and state are in neither: they
move, and a phone acts on its own clock. A server that wanted to cut one phone out of the crowd would have to show it
another part; its signature and the digests that the next list names (:data:`ROUNDS_TARGET`) make that evidence.

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
"""The signed file beside the list that names the digests of the rounds behind it."""
NAMED_ROUNDS = 60
_PREFIX = b"hushcall/1/round\n"  # no metadata of a list begins so: a signature for one is none for the other


def opened(document: Mapping[str, Any]) -> bytes:
    """The part that stands when a round opens."""
    return _canonical(_opened(document))


def decided(document: Mapping[str, Any]) -> bytes:
    """The part that stands once buckets are decided."""
    more = {"buckets": document["buckets"], "upload_bytes": document.get("upload_bytes")}
    return _canonical({**_opened(document), **more})


def parts(document: Mapping[str, Any]) -> dict[str, bytes]:
    """The parts that a document settles."""
    return {OPENED: opened(document)} | ({} if document["buckets"] is None else {DECIDED: decided(document)})


def to_sign(document: Mapping[str, Any]) -> bytes:
    """What a server signs of a document: the last part that it settles."""
    return _PREFIX + (opened(document) if document["buckets"] is None else decided(document))


def digest(part: bytes) -> str:
    """What lists and phones know a part by: SHA-256, in hexadecimal."""
    return hashlib.sha256(part).hexdigest()


def rounds_file(digests: Mapping[int, Mapping[str, str]]) -> bytes:
    """The file beside the list: round → part → digest."""
    return _canonical({"format": FORMAT, "rounds": {str(one): dict(found) for one, found in digests.items()}}) + b"\n"


def read_rounds_file(data: bytes) -> dict[int, dict[str, str]]:
    """Read it back; what cannot be read names nothing."""
    try:
        found = json.loads(data)
        if found["format"] != FORMAT:
            return {}
        return {int(one): {str(k): str(v) for k, v in named.items()} for one, named in found["rounds"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _opened(document: Mapping[str, Any]) -> dict[str, Any]:
    profile = document["profile"]
    plain = {name: document[name] for name in ("round", "plan", "window", "seed")}
    keys = {"anonymous": document["anonymous"]} if document.get("anonymous") else {}
    return {**plain, **keys, "mechanism": profile["mechanism"], "epsilon": profile["epsilon"]}


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()

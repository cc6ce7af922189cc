"""A plan's file: bytes come in, a numbering plan leaves, if they are what the digest in its name says; and back."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hushcall.errors import InvalidData
from hushcall.numbers.plan import NumberingPlan
from hushcall.numbers.suffixes import first_of_length

FORMAT = "hushcall-plan/1"
MOST_BYTES = 1 << 20


def to_bytes(document: dict[str, Any]) -> bytes:
    """A plan's file, the same for the same plan."""
    return json.dumps(document, indent=1).encode() + b"\n"


def digest_of(document: dict[str, Any]) -> str:
    """What a plan is known by: the beginning of the SHA-256 of all that matters in it."""
    plain = {key: value for key, value in document.items() if key != "name"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:12]


def read_plan(data: bytes) -> NumberingPlan:
    """The plan of a file; one that was changed is refused, since its name is the digest of what it says."""
    try:
        if len(data) > MOST_BYTES:
            raise ValueError("too large")
        document = json.loads(data)
        region, given = document["region"], document["name"]
        if document["format"] != FORMAT or given != f"{region.lower()}-{digest_of(document)}":
            raise ValueError("another format or digest")
        return _plan(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidData(
            "plan", f"be a {FORMAT} file, unchanged (hushcall plan-of writes one)", f"{len(data)} bytes"
        ) from None


def _plan(document: dict[str, Any]) -> NumberingPlan:
    areas, fixed = document["areas"], int(document["suffix_digits"])
    masks = tuple(sum(1 << int(length) for length in lengths) for lengths in areas.values())
    shortest = min(int(lengths[0]) for lengths in areas.values())
    return NumberingPlan(
        name=document["name"],
        country_code=document["country_code"],
        region=document["region"],
        area_codes=tuple(int(area) for area in areas),
        suffix_digits=fixed,
        first_suffix=0 if fixed else first_of_length(shortest),
        area_digits=document["area_digits"],
        lengths=() if fixed else masks,
        national_prefix=document["national_prefix"],
        whole_from=document["whole_from"],
    )

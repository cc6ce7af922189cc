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
SHIPPED_DIGITS = 12
NAME_DIGITS = 32
"""Of the digest, in the names of plans: with fewer, somebody could make two plans of one name."""
MOST_AREA_DIGITS, MOST_SUFFIX_DIGITS = 4, 8
"""An area code travels in the clear, so it may be short only; and eight digits fit the decoder's 27 bits."""


def to_bytes(document: dict[str, Any]) -> bytes:
    """A plan's file, the same for the same plan."""
    return json.dumps(document, indent=1).encode() + b"\n"


def digest_of(document: dict[str, Any]) -> str:
    """What a plan is known by: the SHA-256 of all that matters in it."""
    plain = {key: value for key, value in document.items() if key != "name"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_plan(data: bytes) -> NumberingPlan:
    """The plan of a file; one that was changed is refused, since its name is the digest of what it says."""
    try:
        if len(data) > MOST_BYTES:
            raise ValueError("too large")
        document = json.loads(data)
        region, given = document["region"], document["name"].rpartition("-")
        if document["format"] != FORMAT or given[0] != region.lower() or len(given[2]) < SHIPPED_DIGITS:
            raise ValueError("another format or name")
        if not digest_of(document).startswith(given[2]):
            raise ValueError("another digest")
        return _plan(_checked(document))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidData(
            "plan", f"be a {FORMAT} file, unchanged (hushcall plan-of writes one)", f"{len(data)} bytes"
        ) from None


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    """A plan comes from whoever runs a server: what it may say is bounded, whatever its digest."""
    areas, width = document["areas"], document["area_digits"]
    texts = (*areas, *areas.values(), document["national_prefix"])
    sound = (
        document["region"].isascii() and document["region"].isalpha() and len(document["region"]) == 2,
        type(document["country_code"]) is int and 1 <= document["country_code"] <= 999,
        type(document["whole_from"]) is int and 0 <= document["whole_from"] <= 20,
        type(width) is int and 1 <= width <= MOST_AREA_DIGITS,
        document["suffix_digits"] in range(MOST_SUFFIX_DIGITS + 1),
        bool(areas) and all(len(area) == width for area in areas) and list(areas) == sorted(areas),
        all(text.isascii() and (text.isdecimal() or text == "") for text in texts),
        all(lengths and set(lengths) <= set("12345678") for lengths in areas.values()),
        len(document["national_prefix"]) <= 3,
    )
    if not all(sound):
        raise ValueError("no plan")
    return document


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

"""Every plan that this release knows, by name, and the file of a plan.

Their files lie in ``data``. All but North America's were drawn from phonenumberslite's metadata
(:mod:`~hushcall.protocol.numbers.generate`). A region's two letters are a name too. The plan of any other region is
read from its file (:func:`take_plan`). Its name is the digest of its contents, so it means the same plan everywhere.

>>> plan_named("nanp-2026").country_code, plan_named("DE").country_code
(1, 49)
>>> len(NANP.area_codes), NANP.suffixes, NANP.valid_suffixes
(469, 10000000, 8000000)
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.protocol.numbers.plan import NumberingPlan, first_of_length

_DATA = Path(__file__).parent / "data"
# The area codes of country code 1 that phonenumberslite 9.0 takes for valid: geographic, toll-free, personal and
# premium. With each, how often unwanted callers use it: the FTC's Do-Not-Call complaints of 2020-02-14 to 2020-03-31
# (368 946 with a valid number), counted by ``hushcall-lab data describe --json FILES``.
_CALLERS: dict[str, int] = json.loads((_DATA / "nanp-2026.json").read_bytes())["complaints"]
NANP = NumberingPlan(
    name="nanp-2026",
    country_code=1,
    region="US",
    area_codes=tuple(map(int, _CALLERS)),
    suffix_digits=7,
    first_suffix=2_000_000,
    complaints=tuple(_CALLERS.values()),
)
"""North America: 469 area codes. Exchanges start with 2 to 9, so suffixes run from 2 000 000 to 9 999 999."""
SHIPPED = {
    "NANP": NANP.name,
    "DE": "de-f9328cd872b6",
    "FR": "fr-cff646aa737b",
    "GB": "gb-3b82e4d7d19d",
    "IT": "it-42a6ffaf204e",
    "ES": "es-0cc365e5a5e4",
    "AT": "at-72e92037a27b",
    "CH": "ch-07f3b0b2c86a",
    "BR": "br-c9abec834b28",
    "IN": "in-0d6e0e063610",
}
"""Region → the name of its plan. A new plan of a region has a new name. Old plans stay for lists that name them."""
PLANS = tuple(SHIPPED.values())
FORMAT = "hushcall-plan/1"
MAX_BYTES = 1 << 20
SHIPPED_DIGITS = 12
NAME_DIGITS = 32
"""Digits of the digest in a plan's name. With fewer, somebody could make two plans of one name."""
MAX_AREA_DIGITS, MAX_SUFFIX_DIGITS = 4, 8
"""An area code travels in the clear, so it is short. Eight digits fit the decoder's 27 bits."""
_TAKEN: dict[str, tuple[bytes, NumberingPlan]] = {}


def plan_named(name: str) -> NumberingPlan:
    plan_name = SHIPPED.get(name.upper(), name)
    if plan_name in _TAKEN:
        return _TAKEN[plan_name][1]
    if plan_name not in PLANS:
        raise InvalidParameter("plan", f"be one of {', '.join(SHIPPED)} or {', '.join(PLANS)}", name)
    return _loaded(plan_name)


def take_plan(data: bytes) -> NumberingPlan:
    """The plan of a file that is not shipped. :func:`plan_named` knows it from here on."""
    plan = read_plan(data)
    if plan.name in PLANS:
        return plan_named(plan.name)
    if len(plan.name.rpartition("-")[2]) < NAME_DIGITS:
        raise InvalidData("plan", f"have a name with {NAME_DIGITS} digits (hushcall plan-of writes one)", plan.name)
    return _TAKEN.setdefault(plan.name, (data, plan))[1]


def plan_file(name: str) -> bytes | None:
    """The file of a plan that was taken or is shipped."""
    if name in PLANS:
        return (_DATA / f"{name}.json").read_bytes()
    return _TAKEN[name][0] if name in _TAKEN else None


@cache
def _loaded(name: str) -> NumberingPlan:
    return NANP if name == NANP.name else read_plan((_DATA / f"{name}.json").read_bytes())


def to_bytes(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"


def digest_of(document: dict[str, Any]) -> str:
    plain = {key: value for key, value in document.items() if key != "name"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_plan(data: bytes) -> NumberingPlan:
    """The plan of a file. A file whose contents do not match the digest in its name is refused."""
    try:
        if len(data) > MAX_BYTES:
            raise ValueError("too large")
        document = json.loads(data)
        region, (prefix, _, digest) = document["region"], document["name"].rpartition("-")
        if document["format"] != FORMAT or prefix != region.lower() or len(digest) < SHIPPED_DIGITS:
            raise ValueError("another format or name")
        if not digest_of(document).startswith(digest):
            raise ValueError("another digest")
        return _plan(_checked(document))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidData(
            "plan", f"be a {FORMAT} file, unchanged (hushcall plan-of writes one)", f"{len(data)} bytes"
        ) from None


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document, if it is within bounds. A plan comes from a server, so its digest alone says nothing."""
    areas, width = document["areas"], document["area_digits"]
    texts = (*areas, *areas.values(), document["national_prefix"])
    sound = (
        document["region"].isascii() and document["region"].isalpha() and len(document["region"]) == 2,
        type(document["country_code"]) is int and 1 <= document["country_code"] <= 999,
        type(document["whole_from"]) is int and 0 <= document["whole_from"] <= 20,
        type(width) is int and 1 <= width <= MAX_AREA_DIGITS,
        document["suffix_digits"] in range(MAX_SUFFIX_DIGITS + 1),
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

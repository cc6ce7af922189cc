"""What a vector's ``op`` does: its ``in`` comes in, its ``out`` leaves, or the error of its ``error`` is raised."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.mechanisms.rappor import Rappor

from hushcall.client.calls.candidates import choose as choose_among
from hushcall.client.screening.lookup import LoadedList, Policy, check
from hushcall.errors import HushcallError
from hushcall.mechanisms import randomisers
from hushcall.mechanisms.local_hashing.client import LocalHashing, MultiplyShift
from hushcall.mechanisms.mechanism import RandomisedResponse
from hushcall.mechanisms.randomisers import Accounting, ChannelRandomiser
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.mechanisms.subspace.client import Subspace, SubspaceHundreds, WholeNumber, linear_hash
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram, channel_hashes
from hushcall.mechanisms.succinct_histogram.codes import ExtendedHamming
from hushcall.protocol import round_commitment as charter
from hushcall.protocol.blocklist import apply_delta
from hushcall.protocol.items import HUNDRED, PLACED, SUFFIX
from hushcall.protocol.numbers import NANP, Number, plan_named
from hushcall.protocol.randomness import keyed, read, seeded, uniform
from hushcall.protocol.ranges import RangeList
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import about_hundred, derive
from hushcall.protocol.states import COLLECTING
from hushcall.protocol.wire import pad
from hushcall_lab.rivals.original_histogram.client import OriginalHistogram, row_sign
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

Vector = dict[str, Any]
Phone = LocalHashing | Subspace | OriginalHistogram | SuccinctHistogram | PrefixExtending | TreeHistogram | Rappor


def encode(order: int, message: str) -> Vector:
    return {"word": str(ExtendedHamming(order).encode(int(message)))}


def decode(order: int, word: str) -> Vector:
    message = ExtendedHamming(order).decode(int(word))
    return {"message": None if message is None else str(message)}


def multiply_shift(a: str, b: str, item: str, bits: int) -> Vector:
    return {"value": MultiplyShift(int(a), int(b)).bits(int(item), bits)}


def multiply_shift_below(a: str, b: str, item: str, size: int) -> Vector:
    return {"value": MultiplyShift(int(a), int(b)).below(int(item), size)}


def derive_seed(label: str, parts: list[str]) -> Vector:
    return {"seed": derive(label, *map(bytes.fromhex, parts)).hex()}


def channel(seed: str, t: int, bits: int, item: str) -> Vector:
    return {"channel": channel_hashes(bytes.fromhex(seed), t + 1)[t].bits(int(item), bits)}


def rows(public: str, bits: int, item_bits: int) -> Vector:
    return {"rows": [str(row) for row in Subspace(4.0, bits, item_bits).rows(bytes.fromhex(public))]}


def matrix_product(rows: list[str], item: str) -> Vector:
    return {"value": linear_hash(tuple(map(int, rows)), int(item))}


def projection_sign(seed: str, row: int, item: str) -> Vector:
    return {"sign": row_sign(bytes.fromhex(seed), row, int(item))}


def seeded_coins(seed: str, reads: list[int]) -> Vector:
    coins = seeded(bytes.fromhex(seed))
    return {"blocks": [coins(count).hex() for count in reads]}


def scale(word: str, size: int) -> Vector:
    return {"value": uniform(int(word), size)}


def read_coins(source: str, count: int) -> Vector:
    return {"block": read(lambda _: bytes.fromhex(source), count).hex()}


def channel_weights(kind: str, epsilon: str, keep: str | None = None) -> Vector:
    made = randomisers.tuned(float(epsilon), int(keep)) if keep else getattr(randomisers, kind)(float(epsilon))
    return {"keep": str(made.keep), "flip": str(made.flip), "noise": str(made.noise)}


def response_weights(epsilon: str, size: int) -> Vector:
    made = RandomisedResponse.of(float(epsilon), size)
    return {"keep": str(made.keep), "other": str(made.other)}


def channel_draw(keep: str, flip: str, noise: str, sign: int, word: str) -> Vector:
    return {"symbol": ChannelRandomiser("given", int(keep), int(flip), int(noise)).draw(sign, int(word))}


def response_draw(size: int, other: str, value: int, word: str) -> Vector:
    return {"value": RandomisedResponse(size, int(other)).draw(value, int(word))}


def parse_number(text: str | None) -> Vector:
    return _number(NANP.parse(text))  # type: ignore[arg-type]


def parse_in_plan(plan: str, text: str) -> Vector:
    """A number of another country: how it is split, and its items by suffix and whole."""
    chosen = plan_named(plan)
    number = chosen.parse(text)
    items = {"suffix_item": SUFFIX.item(number, chosen), "whole_item": PLACED.item(number, chosen)}
    bits = {"suffix_bits": SUFFIX.bits(chosen), "whole_bits": PLACED.bits(chosen)}
    return {**_number(number), **items, **bits}


def dummy_in_plan(plan: str, coins: str) -> Vector:
    return _number(plan_named(plan).dummy(lambda _: bytes.fromhex(coins)))


def make_number(area: int, suffix: int) -> Vector:
    return _number(NANP.number(area, suffix))


def dummy(coins: str) -> Vector:
    return _number(NANP.dummy(lambda _: bytes.fromhex(coins)))


def caller_like(coins: str, home: int | None) -> Vector:
    return _number(NANP.caller_like(lambda _: bytes.fromhex(coins), home))


def keyed_coins(key: str, parts: list[str], counts: list[int]) -> Vector:
    coins = keyed(bytes.fromhex(key), *(bytes.fromhex(part) for part in parts))
    return {"reads": [coins(count).hex() for count in counts]}


def padded(report: str, size: int | None) -> Vector:
    return {"upload": pad(bytes.fromhex(report), size).hex()}


def report(mechanism: Vector, item: str, public: str, coins: str) -> Vector:
    phone = phone_of(**mechanism)
    made = phone.privatise(int(item), bytes.fromhex(public), lambda _: bytes.fromhex(coins))
    return {"report": made.hex(), "contents": _contents(phone, made)}


def parse_report(mechanism: Vector, report: str) -> Vector:
    phone = phone_of(**mechanism)
    return {"contents": _contents(phone, bytes.fromhex(report))}


def bucket_and_item(number: str, kind: str) -> Vector:
    parsed, items = NANP.parse(number), MECHANISMS[kind].items
    return {"bucket": items.bucket(parsed), "item": str(items.item(parsed, NANP))}


def report_seed(seed: str, ticket: str) -> Vector:
    asked = RoundInfo(1, COLLECTING, 0, 1, 2, 1, bytes.fromhex(seed), NANP.name, 7, "subspace", 4.0)
    return {"public": asked.public_for(ticket).hex()}


def hundred_in_plan(region: str, number: str) -> Vector:
    plan = plan_named(region)
    parsed = plan.parse(number)
    item = HUNDRED.item(parsed, plan)
    first = HUNDRED.number(item, parsed.area, plan)
    return {"item": str(item), "bits": HUNDRED.bits(plan), "range": HUNDRED.text(first) if first else None}


def kind_of_report(public: str, hundreds: int) -> Vector:
    bucket = {"202": {"hundreds": hundreds}}
    asked = RoundInfo(1, COLLECTING, 0, 1, 2, 1, bytes(32), NANP.name, 7, "subspace", 4.0, bucket)
    return {"hundred": about_hundred(bytes.fromhex(public), asked.hundreds_of(202))}


def verdict_in_range(list: str, ranges: str, number: str, contacts: list[str]) -> Vector:  # noqa: A002
    loaded = replace(LoadedList.from_bytes(list.encode()), ranges=RangeList.from_bytes(ranges.encode()))
    return {"action": check(loaded, number, Policy(contacts=frozenset(contacts)), now=0).action.value}


def choose(candidates: list[str], coins: str) -> Vector:
    source = io.BytesIO(bytes.fromhex(coins))
    number, made_up = choose_among(candidates, NANP, source.read)
    return {"number": str(number), "dummy": made_up}


def verdict(list: str, number: str, contacts: list[str], block_days: int | None, block_phones: float | None) -> Vector:  # noqa: A002
    loaded = LoadedList.from_bytes(list.encode())
    found = check(loaded, number, Policy(block_days, block_phones, frozenset(contacts)), now=0)
    return {"action": found.action.value, "listed": loaded.find(number) is not None}


def delta_applied(list: str, delta: str) -> Vector:  # noqa: A002
    return {"list": apply_delta(list.encode(), delta.encode()).decode()}


def _number(number: Number) -> Vector:
    return {"e164": str(number), "area": number.area, "suffix": number.suffix}


def phone_of(name: str, **given: Any) -> Phone:
    """A mechanism from its parameters as they stand in a vector."""
    if "seed" in given:
        given["seed"] = bytes.fromhex(given["seed"])
    if name in _SIMPLE:
        return _SIMPLE[name](**given)
    if "keep" in given:
        given["keep"] = int(given["keep"])
    return SuccinctHistogram.with_budget(
        name.removeprefix("sh-"), accounting=Accounting(given.pop("accounting")), **given
    )


_SIMPLE: dict[str, Callable[..., Phone]] = {
    "olh": LocalHashing,
    "subspace": Subspace,
    "subspace-hundreds": SubspaceHundreds,
    "whole-number": WholeNumber,
    "sh-original": OriginalHistogram,
    "pem": PrefixExtending,
    "treehist": TreeHistogram,
    "rappor": Rappor,
}


def _contents(phone: Phone, report: bytes) -> Vector:
    if isinstance(phone, SuccinctHistogram):
        channels, value = phone.parse(report)
        return {"channels": [list(pair) for pair in channels], "value": value}
    if isinstance(phone, OriginalHistogram):
        channels, (row, sign) = phone.parse(report)
        return {"channels": [list(pair) for pair in channels], "row": row, "sign": sign}
    if isinstance(phone, TreeHistogram):
        return {"sign": phone.parse(report)}
    if isinstance(phone, Rappor):
        return {"filter": phone.parse(report).hex()}
    return {"value": phone.parse(report)}


def answer(op: str, given: Vector) -> tuple[Vector | None, str | None]:
    """(out, error) of one vector."""
    operation: Callable[..., Vector] = OPERATIONS[op]
    try:
        return operation(**given), None
    except HushcallError as error:
        return None, type(error).__name__


def round_parts(document: Vector) -> Vector:
    found = {name: charter.digest(part) for name, part in charter.parts(document).items()}
    return {"to_sign": charter.to_sign(document).hex(), "digests": found}


def rounds_named(file: str) -> Vector:
    return {"rounds": {str(one): found for one, found in charter.read_rounds_file(file.encode()).items()}}


OPERATIONS: dict[str, Callable[..., Vector]] = {
    "encode": encode,
    "decode": decode,
    "multiply_shift": multiply_shift,
    "multiply_shift_below": multiply_shift_below,
    "derive": derive_seed,
    "channel": channel,
    "rows": rows,
    "matrix_product": matrix_product,
    "projection_sign": projection_sign,
    "seeded": seeded_coins,
    "uniform": scale,
    "read": read_coins,
    "channel_weights": channel_weights,
    "response_weights": response_weights,
    "channel_draw": channel_draw,
    "response_draw": response_draw,
    "parse_number": parse_number,
    "parse_in_plan": parse_in_plan,
    "dummy_in_plan": dummy_in_plan,
    "number": make_number,
    "dummy": dummy,
    "caller_like": caller_like,
    "keyed": keyed_coins,
    "pad": padded,
    "report": report,
    "parse_report": parse_report,
    "bucket_and_item": bucket_and_item,
    "report_seed": report_seed,
    "hundred_in_plan": hundred_in_plan,
    "kind_of_report": kind_of_report,
    "verdict_in_range": verdict_in_range,
    "choose": choose,
    "verdict": verdict,
    "apply_delta": delta_applied,
    "round_parts": round_parts,
    "rounds_named": rounds_named,
}

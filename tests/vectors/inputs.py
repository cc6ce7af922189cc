"""The inputs of the vectors, a function a file: (name, operation, ``in``). Names of bad ones start with ``bad: ``."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.vectors.operations import Vector, phone_of

from hushcall.mechanisms.succinct_histogram.codes import ExtendedHamming
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, delta
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ONE, seeded
from hushcall.protocol.ranges import RangeEntry, RangeList
from hushcall.protocol.seeds import derive

SEED = bytes(range(32)).hex()
OTHER = bytes(range(255, 223, -1)).hex()


def flip(word: str, *places: int) -> str:
    return str(int(word) ^ sum(1 << place for place in places))


def codes() -> list[tuple[str, str, Vector]]:
    sent = str(ExtendedHamming(5).encode(5550143))
    long = str(ExtendedHamming(6).encode(2025550143))
    return [
        ("RM(3,5), zero", "encode", {"order": 5, "message": "0"}),
        ("RM(3,5), one", "encode", {"order": 5, "message": "1"}),
        ("RM(3,5), a suffix", "encode", {"order": 5, "message": "5550143"}),
        ("RM(3,5), all ones", "encode", {"order": 5, "message": str((1 << 26) - 1)}),
        ("RM(4,6), a whole number", "encode", {"order": 6, "message": "2025550143"}),
        ("RM(4,6), all ones", "encode", {"order": 6, "message": str((1 << 57) - 1)}),
        ("no error", "decode", {"order": 5, "word": sent}),
        ("one error at position 0", "decode", {"order": 5, "word": flip(sent, 0)}),
        ("one error at a check", "decode", {"order": 5, "word": flip(sent, 16)}),
        ("one error in the message", "decode", {"order": 5, "word": flip(sent, 31)}),
        ("two errors are detected", "decode", {"order": 5, "word": flip(sent, 3, 29)}),
        ("two errors, one at position 0", "decode", {"order": 5, "word": flip(sent, 0, 17)}),
        ("three errors deceive", "decode", {"order": 5, "word": flip(sent, 1, 2, 4)}),
        ("RM(4,6), one error", "decode", {"order": 6, "word": flip(long, 63)}),
        ("RM(4,6), two errors", "decode", {"order": 6, "word": flip(long, 62, 63)}),
        ("bad: message of 27 bits", "encode", {"order": 5, "message": str(1 << 26)}),
        ("bad: message of 58 bits", "encode", {"order": 6, "message": str(1 << 57)}),
        ("bad: negative message", "encode", {"order": 5, "message": "-1"}),
        ("bad: order 2", "encode", {"order": 2, "message": "0"}),
        ("bad: order 7", "encode", {"order": 7, "message": "0"}),
    ]


def hashes() -> list[tuple[str, str, Vector]]:
    golden = {"a": str(0x9E3779B97F4A7C15), "b": "1"}
    full = {"a": str(ONE - 1), "b": str(ONE - 1)}
    return [
        ("seven bits", "multiply_shift", {**golden, "item": "5550143", "bits": 7}),
        ("no bits", "multiply_shift", {**golden, "item": "5550143", "bits": 0}),
        ("31 bits of a 34-bit item", "multiply_shift", {**golden, "item": str((1 << 34) - 1), "bits": 31}),
        ("wraps around 2^64", "multiply_shift", {**full, "item": str((1 << 34) - 1), "bits": 16}),
        ("below 21", "multiply_shift_below", {**golden, "item": "2000000", "size": 21}),
        ("below 21, wrapping", "multiply_shift_below", {**full, "item": "9999999", "size": 21}),
        ("label alone", "derive", {"label": "channel", "parts": []}),
        ("one part", "derive", {"label": "channel", "parts": [SEED]}),
        ("two parts", "derive", {"label": "row", "parts": [SEED, "0000002a"]}),
        ("an empty part is a part", "derive", {"label": "channel", "parts": [""]}),
        ("a byte in the first part", "derive", {"label": "x", "parts": ["0102", "03"]}),
        ("the byte in the second part", "derive", {"label": "x", "parts": ["01", "0203"]}),
        ("channel of a suffix, round 0", "channel", {"seed": SEED, "t": 0, "bits": 3, "item": "5550143"}),
        ("channel of a suffix, round 1", "channel", {"seed": SEED, "t": 1, "bits": 6, "item": "5550143"}),
        ("rows of 24 bits", "rows", {"public": SEED, "bits": 8, "item_bits": 24}),
        ("rows of 33 bits, other seed", "rows", {"public": OTHER, "bits": 5, "item_bits": 33}),
        ("A times x", "matrix_product", {"rows": ["1", "3", "16777215", "0"], "item": "5550143"}),
        ("entry of the projection", "projection_sign", {"seed": SEED, "row": 42, "item": "2025550143"}),
        ("entry of another row", "projection_sign", {"seed": SEED, "row": 43, "item": "2025550143"}),
        ("bad: public seed of 31 bytes", "rows", {"public": SEED[2:], "bits": 8, "item_bits": 24}),
        ("bad: no rows", "rows", {"public": SEED, "bits": 0, "item_bits": 24}),
        ("bad: 25 rows", "rows", {"public": SEED, "bits": 25, "item_bits": 24}),
        ("bad: rows of 41 bits", "rows", {"public": SEED, "bits": 8, "item_bits": 41}),
    ]


def coins() -> list[tuple[str, str, Vector]]:
    return [
        ("three reads", "seeded", {"seed": b"example".hex(), "reads": [8, 40, 3]}),
        ("the size of a read changes nothing after it", "seeded", {"seed": b"example".hex(), "reads": [1, 40]}),
        ("empty seed", "seeded", {"seed": "", "reads": [32]}),
        ("longer than a block of the sponge", "seeded", {"seed": SEED, "reads": [200]}),
        ("keyed: two reads of one occasion", "keyed", {"key": SEED, "parts": ["00", "0102"], "counts": [8, 40]}),
        ("keyed: the same bytes cut otherwise", "keyed", {"key": SEED, "parts": ["0001", "02"], "counts": [8]}),
        ("keyed: nothing said", "keyed", {"key": SEED, "parts": [], "counts": [32]}),
        ("keyed: another key", "keyed", {"key": OTHER, "parts": ["00", "0102"], "counts": [8]}),
        ("a die from the smallest word", "uniform", {"word": "0", "size": 6}),
        ("a die from the largest word", "uniform", {"word": str(ONE - 1), "size": 6}),
        ("just before a threshold", "uniform", {"word": str(ONE // 3), "size": 3}),
        ("at the threshold", "uniform", {"word": str(ONE // 3 + 1), "size": 3}),
        ("as many bytes as asked for", "read", {"source": "0102030405060708", "count": 8}),
        ("bad: one byte short", "read", {"source": "01020304050607", "count": 8}),
        ("bad: one byte over", "read", {"source": "010203040506070809", "count": 8}),
        ("bad: dry", "read", {"source": "", "count": 8}),
    ]


def odds() -> list[tuple[str, str, Vector]]:
    basic = {"keep": "13485650502877570761", "flip": "4961093570831980855", "noise": str(ONE // 2)}
    third = {"keep": str(ONE // 2), "flip": str(ONE // 4), "noise": str(ONE // 8)}
    half = str(1 << 63)
    vectors: list[tuple[str, str, Vector]] = [
        (f"{kind} at {epsilon}", "channel_weights", {"kind": kind, "epsilon": epsilon})
        for kind in ("basic", "extended")
        for epsilon in ("0.001", "1.0", "2.2", "8.8", "40.0")
    ]
    vectors += [
        ("tuned at 2.0", "channel_weights", {"kind": "tuned", "epsilon": "2.0", "keep": half}),
        ("tuned at 4.4", "channel_weights", {"kind": "tuned", "epsilon": "4.4", "keep": str(ONE // 10 * 9)}),
        ("response at 3.0 over 21", "response_weights", {"epsilon": "3.0", "size": 21}),
        ("response at 4.0 over 256", "response_weights", {"epsilon": "4.0", "size": 256}),
        ("response at 0.1 over 2", "response_weights", {"epsilon": "0.1", "size": 2}),
        ("response at 40.0 over 2^24", "response_weights", {"epsilon": "40.0", "size": 1 << 24}),
        ("the last word that keeps", "channel_draw", {**basic, "sign": -1, "word": "13485650502877570760"}),
        ("the first word that flips", "channel_draw", {**basic, "sign": -1, "word": "13485650502877570761"}),
        ("the last word that flips", "channel_draw", {**third, "sign": 1, "word": str(ONE // 4 * 3 - 1)}),
        ("the first word of zero", "channel_draw", {**third, "sign": 1, "word": str(ONE // 4 * 3)}),
        ("empty channel, plus", "channel_draw", {**third, "sign": 0, "word": str(ONE // 8 - 1)}),
        ("empty channel, minus", "channel_draw", {**third, "sign": 0, "word": str(ONE // 8)}),
        ("empty channel, zero", "channel_draw", {**third, "sign": 0, "word": str(ONE // 4)}),
        ("the truth", "response_draw", {"size": 4, "other": str(ONE // 8), "value": 2, "word": "0"}),
        ("a lie below it", "response_draw", {"size": 4, "other": str(ONE // 8), "value": 2, "word": str(ONE // 8 * 6)}),
        ("a lie above it", "response_draw", {"size": 4, "other": str(ONE // 8), "value": 2, "word": str(ONE - 1)}),
    ]
    vectors += [
        (f"bad: epsilon {epsilon}", "channel_weights", {"kind": "extended", "epsilon": epsilon})
        for epsilon in ("0.0", "-1.0", "nan", "inf", "40.5")
    ]
    return [
        *vectors,
        ("bad: tuned without room", "channel_weights", {"kind": "tuned", "epsilon": "1.0", "keep": str(ONE - 9)}),
        ("bad: tuned above one", "channel_weights", {"kind": "tuned", "epsilon": "1.0", "keep": str(ONE + 1)}),
        ("bad: one value", "response_weights", {"epsilon": "3.0", "size": 1}),
        ("bad: lies likelier than truth", "response_draw", {"size": 2, "other": str(ONE - 1), "value": 0, "word": "0"}),
        ("bad: flip above keep", "channel_draw", {"keep": "4", "flip": "5", "noise": "1", "sign": 1, "word": "0"}),
    ]


def plans() -> list[tuple[str, str, Vector]]:
    good = {
        "DE": ("030 23125012", "0152 28817386", "03303 22", "+49 800 1234561"),
        "FR": ("01 99 00 12 12", "0033 6 39 98 18 18"),
        "GB": ("020 7946 0958", "01946 720 12"),
        "IT": ("06 698 12345", "347 123 4567", "+39 06 69812345"),
        "ES": ("912 345 678",),
        "AT": ("01 234567890", "0664 1234567"),
        "CH": ("044 668 18 00",),
        "BR": ("(11) 96123-4567", "+55 11 2345 6789"),
        "IN": ("098765 43210",),
        "NANP": ("(202) 555-0143",),
    }
    bad = {"DE": ("23125012", "+12025550143", "110"), "FR": ("01 99 00 12",), "IT": ("+39 1",), "GB": ("7946 0958",)}
    cases = [(f"{plan} {text}", "parse_in_plan", {"plan": plan, "text": text}) for plan in good for text in good[plan]]
    cases += [
        (f"bad: {plan} {text}", "parse_in_plan", {"plan": plan, "text": text}) for plan in bad for text in bad[plan]
    ]
    for plan in good:
        for coins in ("00" * 16, "ff" * 16, "80" * 8 + "7f" * 8):
            cases.append(
                (f"dummy of {plan}, {coins[:2]}…{coins[-2:]}", "dummy_in_plan", {"plan": plan, "coins": coins})
            )
    return cases


def numbers() -> list[tuple[str, str, Vector]]:
    good = (
        "(202) 555-0143",
        "+12025550143",
        "1-202-555-0143",
        "202.555.0143",
        "tel:+1-202-555-0143",
        "+1 800 356 9377",
    )
    bad = {
        "empty": "",
        "hidden": "anonymous",
        "null": None,
        "emergency": "911",
        "no area code": "555-0143",
        "a digit short": "+1 202 555 014",
        "a digit long": "+1 202 555 01434",
        "British": "+44 20 7946 0958",
        "no such area code": "+1 999 555 0143",
        "exchange with 0": "202-055-0143",
        "exchange with 1": "202-155-0143",
    }
    return [
        *((f"read {text}", "parse_number", {"text": text}) for text in good),
        ("from parts, lowest", "number", {"area": 201, "suffix": 2_000_000}),
        ("from parts, highest", "number", {"area": 989, "suffix": 9_999_999}),
        ("dummy of the smallest coins", "dummy", {"coins": "00" * 16}),
        ("dummy of the largest coins", "dummy", {"coins": "ff" * 16}),
        ("dummy", "dummy", {"coins": SEED[:32]}),
        ("made-up caller of the smallest coins, no home", "caller_like", {"coins": "00" * 24, "home": None}),
        ("made-up caller of the largest coins", "caller_like", {"coins": "ff" * 24, "home": 202}),
        ("made-up caller at home", "caller_like", {"coins": "66" * 8 + SEED[:32], "home": 202}),
        ("made-up caller by the complaints", "caller_like", {"coins": "67" * 8 + SEED[:32], "home": 202}),
        ("made-up caller, home unknown", "caller_like", {"coins": "66" * 8 + SEED[:32], "home": None}),
        *((f"bad: {what}", "parse_number", {"text": text}) for what, text in bad.items()),
        ("bad: made-up caller from a home that is no area code", "caller_like", {"coins": "00" * 24, "home": 911}),
        ("bad: made-up caller, coins run dry", "caller_like", {"coins": "00" * 16, "home": None}),
        ("bad: suffix too low", "number", {"area": 202, "suffix": 1_999_999}),
        ("bad: suffix too high", "number", {"area": 202, "suffix": 10_000_000}),
        ("bad: area code 911", "number", {"area": 911, "suffix": 5550143}),
    ]


HISTOGRAM = {"epsilon_hh": 8.8, "epsilon_olh": 3.0, "rounds": 2, "channels": 4, "seed": SEED, "accounting": "paper"}
PHONES: dict[str, Vector] = {
    "olh": {"name": "olh", "epsilon": 3.0},
    "subspace": {"name": "subspace", "epsilon": 4.0, "bits": 6},
    "subspace of 11 bits": {"name": "subspace", "epsilon": 8.0, "bits": 11},
    "whole-number": {"name": "whole-number", "epsilon": 8.0, "bits": 17},
    "sh-basic": {"name": "sh-basic", **HISTOGRAM},
    "sh-basic, exact accounting": {"name": "sh-basic", **HISTOGRAM, "accounting": "exact"},
    "sh-extended": {"name": "sh-extended", **HISTOGRAM},
    "sh-tuned": {"name": "sh-tuned", **HISTOGRAM, "accounting": "exact", "keep": str(3 << 62)},
    "sh-original": {"name": "sh-original", "epsilon": 10.0, "rounds": 2, "channels": 4, "seed": SEED, "rows": 65536},
    "pem": {"name": "pem", "epsilon": 4.0, "start": 16, "step": 8},
    "treehist": {
        "name": "treehist",
        "epsilon": 1.0,
        "start": 16,
        "step": 8,
        "rows": 64,
        "columns": 1024,
        "seed": SEED,
    },
    "rappor": {"name": "rappor", "epsilon": 4.0, "bits": 32, "functions": 2, "cohorts": 5, "seed": SEED},
}


def _block(what: str, phone: Vector) -> str:
    """Coins as one draws them: the first read of a stream seeded by the vector's name."""
    return seeded(what.encode())(phone_of(**phone).rand_size).hex()


def reports() -> list[tuple[str, str, Vector]]:
    vectors: list[tuple[str, str, Vector]] = []
    for title, phone in PHONES.items():
        whole = title in ("whole-number", "sh-original")
        for item in (str((7 << 24) + 5550143 if whole else 5550143), "0", str((1 << phone_of(**phone).item_bits) - 1)):
            name = f"{title}, item {item}"
            given = {"mechanism": phone, "item": item, "public": OTHER, "coins": _block(name, phone)}
            vectors.append((name, "report", given))
        coins = _block(title, phone)
        base = {"mechanism": phone, "item": "5550143", "public": OTHER, "coins": coins}
        large = str(1 << phone_of(**phone).item_bits)
        vectors += [
            (f"bad: {title}, item too large", "report", {**base, "item": large}),
            (f"bad: {title}, coins short", "report", {**base, "coins": coins[2:]}),
            (f"bad: {title}, public seed short", "report", {**base, "public": OTHER[2:]}),
        ]
    return vectors


def bad_reports() -> list[tuple[str, str, Vector]]:
    vectors: list[tuple[str, str, Vector]] = []
    for title in (title for title, phone in PHONES.items() if title == phone["name"]):
        phone = phone_of(**PHONES[title])
        good = phone.privatise(5550143, bytes(32), seeded(title.encode()))
        wrong = {
            "empty": b"",
            "one byte short": good[:-1],
            "one byte long": good + b"\0",
            "version 0": b"\0" + good[1:],
            "version 2": b"\2" + good[1:],
            "another mechanism": good[:1] + bytes([good[1] % 5 + 1]) + good[2:],
        }
        for what, raw in (wrong | _wrong_symbols(title, good)).items():
            vectors.append((f"bad: {title}, {what}", "parse_report", {"mechanism": PHONES[title], "report": raw.hex()}))
        vectors.append((f"{title}, sound", "parse_report", {"mechanism": PHONES[title], "report": good.hex()}))
    return vectors


def _wrong_symbols(title: str, good: bytes) -> dict[str, bytes]:
    """Bodies of the right length with contents that no honest phone sends."""
    if title == "rappor":
        return {}  # any filter is an honest one
    if title == "treehist":
        return {"sign 2": good[:-1] + b"\x02"}
    if title in ("olh", "subspace", "whole-number", "pem"):
        return {"value too large": good[:2] + b"\xff" * (len(good) - 2)}
    found = {"symbol 3": good[:2] + b"\xc1" + good[3:]}
    if title == "sh-original":
        return found | {"symbol zero": good[:2] + b"\x01" + good[3:], "sign 2": good[:-1] + b"\x02"}
    found |= {"position 32": good[:2] + b"\x60" + good[3:], "hash value too large": good[:-1] + b"\x15"}
    return found | ({"symbol zero": good[:2] + b"\x01" + good[3:]} if title == "sh-basic" else {})


def phone_steps() -> list[tuple[str, str, Vector]]:
    area, whole = {"number": "+12025550143"}, {"number": "(989) 999-9999"}
    words, pool = "80000000000000000000000000000000ffffffffffffffff", ["+12025550101", "+12025550102", "+12025550103"]
    return [
        ("a report padded to its round's size", "pad", {"report": "010455", "size": 6}),
        ("a report as long as its round's size", "pad", {"report": "010455", "size": 3}),
        ("a server that names no size", "pad", {"report": "010455", "size": None}),
        ("the area code in the clear, the suffix protected", "bucket_and_item", {**area, "kind": "subspace"}),
        ("in a histogram too", "bucket_and_item", {**area, "kind": "sh-tuned"}),
        (
            "whole: index of the area code, then the suffix",
            "bucket_and_item",
            {**area, "kind": "whole-number"},
        ),
        ("whole: the last number of all", "bucket_and_item", {**whole, "kind": "whole-number"}),
        ("whole: all ten digits", "bucket_and_item", {**area, "kind": "sh-original"}),
        ("public seed of a ticket", "report_seed", {"seed": SEED, "ticket": OTHER[:32]}),
        ("public seed of another ticket", "report_seed", {"seed": SEED, "ticket": "0" * 32}),
        ("one of three, from the middle of the first word", "choose", {"candidates": pool, "coins": words}),
        ("nobody called: a dummy from the other two words", "choose", {"candidates": [], "coins": words}),
        ("one candidate, whatever the coins", "choose", {"candidates": pool[1:2], "coins": "ff" * 24}),
        ("bad: an exchange that starts with 1", "bucket_and_item", {"number": "2021550143", "kind": "subspace"}),
        ("bad: round seed of 31 bytes", "report_seed", {"seed": SEED[2:], "ticket": "0" * 32}),
        ("bad: ticket of 15 bytes", "report_seed", {"seed": SEED, "ticket": "0" * 30}),
        ("bad: ticket in capitals", "report_seed", {"seed": SEED, "ticket": "A" * 32}),
        ("bad: candidate that is no number", "choose", {"candidates": ["911"], "coins": words}),
        ("bad: coins run dry before the dummy", "choose", {"candidates": pool, "coins": words[:32]}),
    ]


def rounds() -> list[tuple[str, str, Vector]]:
    profile = {"name": "balanced", "mechanism": "subspace", "epsilon": 4.0, "tau": 10}
    opened = {"round": 12, "plan": NANP.name, "window": 7, "seed": SEED, "profile": profile, "buckets": None}
    runs = {"runs": True, "report_bytes": 3, "parameters": {"mechanism": "subspace", "epsilon": 4.0, "bits": 5}}
    decided = {**opened, "buckets": {"202": runs, "303": {"runs": False}}, "upload_bytes": 3}
    moved = {**decided, "state": "collecting", "server_time": "2026-11-15T00:00:00Z", "later": [1, "é"]}
    keys = {"token_key": "00ff", "gateway": "01", "relay": "https://relay.example"}
    named = {"1": {"opened": SEED}, "2": {"opened": SEED, "decided": OTHER}}
    file = json.dumps({"format": "hushcall-rounds/1", "rounds": named})
    fraction = {**opened, "profile": {**profile, "epsilon": 6.5}}
    odds = {"kind": "tuned", "keep": str(3 << 62), "flip": str(1 << 60), "noise": str(1 << 61)}
    oracle = {"epsilon": 3.0, "size": 21, "item_bits": 24}
    nested = {"mechanism": "sh", "rounds": 2, "randomiser": odds, "round_epsilon": "22/5", "oracle": oracle}
    histogram = {**decided, "buckets": {"202": {**runs, "parameters": nested}}}
    abroad = {**opened, "anonymous": {**keys, "relay": "https://relä.example/\U0001f4de"}}
    return [
        ("opened: id, plan, window, seed, mechanism, epsilon", "round_parts", {"document": opened}),
        ("decided: buckets and the size of uploads too", "round_parts", {"document": decided}),
        ("decided by a server that names no size", "round_parts", {"document": {**decided, "upload_bytes": None}}),
        ("times, state and what is unknown are in no part", "round_parts", {"document": moved}),
        ("opened for phones without names: their keys too", "round_parts", {"document": {**opened, "anonymous": keys}}),
        ("an epsilon with a fraction", "round_parts", {"document": fraction}),
        ("every epsilon has a point, an integer has none", "round_parts", {"document": histogram}),
        ("what is not ASCII is escaped in UTF-16", "round_parts", {"document": abroad}),
        ("a file that names two rounds", "rounds_named", {"file": file}),
        ("another format names nothing", "rounds_named", {"file": file.replace("rounds/1", "rounds/2")}),
        ("what is no JSON names nothing", "rounds_named", {"file": file[:-1]}),
    ]


def lists() -> list[tuple[str, str, Vector]]:
    terms = ListHeader("subspace", 4.0, 10, 0.001, NANP.name, 7)
    seen = (1_794_700_800, 1_794_787_200)
    often = Entry("+12025550101", *seen, 2, 26.0, 8.0, 40.0, 1e-9)
    once = Entry("+12025550102", *seen, 1, 12.0, 4.0, 20.0, 1e-4)
    many = Entry("+12025550103", *seen, 1, 50.0, 10.0, 60.0, 1e-9)
    short = Entry("+1202555", *seen, 2, 50.0, 40.0, 60.0, 1e-9)  # in the order of text, before the longer ones
    old = Blocklist(4, 4, seen[0], terms, (short, often, once))
    new = Blocklist(5, 5, seen[1], terms, (often, replace(once, days=2, estimate=13.0), many))
    text, newer = old.to_bytes().decode(), new.to_bytes().decode()
    change = delta(old, new).decode()
    lines = text.splitlines(keepends=True)
    usual = {"list": newer, "contacts": [], "block_days": 2, "block_phones": None}
    held = {**usual, "list": text}
    tiers = replace(new, header=replace(terms, block_days=32), entries=(
        replace(often, days=9, window=7, block=False), replace(many, window=1, block=True, hinted=True),
    )).to_bytes().decode()  # fmt: skip
    said = {**usual, "list": tiers, "block_days": None}
    return [
        ("seen on two days: block", "verdict", {**held, "number": often.number}),
        ("seen once, by fewer than tau for sure: warn", "verdict", {**held, "number": once.number}),
        ("seen once, by tau for sure: block", "verdict", {**usual, "number": many.number}),
        ("a policy of its own: warn", "verdict", {**usual, "number": many.number, "block_phones": 10.5}),
        ("the entry says that it warns, however often it was found", "verdict", {**said, "number": often.number}),
        ("the entry says that it blocks", "verdict", {**said, "number": many.number}),
        ("the owner blocks at once", "verdict", {**said, "number": often.number, "block_days": 1}),
        ("the owner waits longer than the list", "verdict", {**said, "number": many.number, "block_days": 2}),
        ("a contact: allow, though listed", "verdict", {**held, "number": often.number, "contacts": [often.number]}),
        ("not listed: allow", "verdict", {**held, "number": many.number}),
        ("a shorter number is another number", "verdict", {**held, "number": short.number}),
        ("the beginning of a number is not it", "verdict", {**usual, "number": "+1202555010"}),
        ("one removed, one changed, one added", "apply_delta", {"list": text, "delta": change}),
        ("back again", "apply_delta", {"list": newer, "delta": delta(new, old).decode()}),
        (
            "no change but the header",
            "apply_delta",
            {"list": text, "delta": delta(old, replace(old, version=5)).decode()},
        ),
        ("bad: no header", "verdict", {**held, "list": "".join(lines[1:]), "number": often.number}),
        ("bad: out of order", "verdict", {**held, "list": lines[0] + lines[2] + lines[1] + lines[3], "number": "+1"}),
        ("bad: an entry is missing", "verdict", {**held, "list": "".join(lines[:-1]), "number": often.number}),
        ("bad: blocked on no day at all", "verdict", {**held, "number": often.number, "block_days": 0}),
        ("bad: delta from another version", "apply_delta", {"list": newer, "delta": change}),
        ("bad: delta cut short", "apply_delta", {"list": text, "delta": change[: change.rindex('{"number"')]}),
        ("bad: a list where a delta should be", "apply_delta", {"list": text, "delta": newer}),
    ]


def hundreds() -> list[tuple[str, str, Vector]]:
    phone: Vector = {"name": "subspace-hundreds", "epsilon": 4.0, "bits": 5, "item_bits": 17}
    mechanism, coins = phone_of(**phone), _block("hundreds", phone)
    good = mechanism.privatise(55501, bytes(32), seeded(b"hundreds"))
    base = {"mechanism": phone, "item": "55501", "public": OTHER, "coins": coins}
    publics = [derive("vectors", bytes([place])).hex() for place in range(6)]
    terms = ListHeader("subspace", 4.0, 10, 0.001, NANP.name, 7, 32)
    seen = (1_794_700_800, 1_794_787_200)
    blocked = Entry("+12025550101", *seen, 2, 50.0, 40.0, 60.0, 1e-9, 1, True)
    warns = RangeEntry("+120255501xx", *seen, 2, 150.0, 120.0, 180.0, 1e-9, 1, False, passing=("+12025550103",))
    text = Blocklist(5, 5, seen[1], terms, (blocked,)).to_bytes().decode()
    ranges = RangeList(5, seen[1], (warns, replace(warns, number="+120255503xx", block=True, passing=())))
    lines = ranges.to_bytes().decode().splitlines(keepends=True)
    usual = {"list": text, "ranges": "".join(lines), "contacts": []}
    return [
        *((f"seed {place}, half of the reports", "kind_of_report", {"public": public, "hundreds": 50})
          for place, public in enumerate(publics)),
        ("one in a hundred reports", "kind_of_report", {"public": publics[0], "hundreds": 1}),
        ("a document that does not say", "kind_of_report", {"public": publics[0], "hundreds": 0}),
        ("the area code in the clear, the hundred protected", "bucket_and_item",
         {"number": "+12025550143", "kind": "subspace-hundreds"}),
        ("without the last two digits", "hundred_in_plan", {"region": "NANP", "number": "+12025550143"}),
        ("of no fixed length, eleven digits", "hundred_in_plan", {"region": "DE", "number": "+4930231250123"}),
        ("another length, another hundred", "hundred_in_plan", {"region": "DE", "number": "+4930231250"}),
        *((f"hundreds, item {item}", "report", {**base, "item": item}) for item in ("55501", "0", str(2**17 - 1))),
        ("hundreds, sound", "parse_report", {"mechanism": phone, "report": good.hex()}),
        ("a number in a range: warn", "verdict_in_range", {**usual, "number": "+12025550144"}),
        ("a number that passes in it: allow", "verdict_in_range", {**usual, "number": "+12025550103"}),
        ("a contact in it: allow", "verdict_in_range",
         {**usual, "number": "+12025550144", "contacts": ["+12025550144"]}),
        ("a listed number in it: as the list says", "verdict_in_range", {**usual, "number": "+12025550101"}),
        ("a range that blocks", "verdict_in_range", {**usual, "number": "+12025550344"}),
        ("beside it: allow", "verdict_in_range", {**usual, "number": "+12025550201"}),
        ("bad: more than ninety-nine per cent", "kind_of_report", {"public": publics[0], "hundreds": 100}),
        ("bad: a negative share", "kind_of_report", {"public": publics[0], "hundreds": -1}),
        ("bad: hundreds, item too large", "report", {**base, "item": str(2**17)}),
        ("bad: hundreds, coins short", "report", {**base, "coins": coins[2:]}),
        ("bad: hundreds, one byte short", "parse_report", {"mechanism": phone, "report": good[:-1].hex()}),
        ("bad: hundreds, the kind of numbers", "parse_report",
         {"mechanism": phone, "report": (good[:1] + b"\4" + good[2:]).hex()}),
        ("bad: hundreds, value too large", "parse_report", {"mechanism": phone, "report": (good[:2] + b"\xff").hex()}),
        ("bad: ranges out of order", "verdict_in_range",
         {**usual, "ranges": lines[0] + lines[2] + lines[1], "number": "+12025550144"}),
        ("bad: a range is missing", "verdict_in_range", {**usual, "ranges": lines[0] + lines[1], "number": "+1"}),
        ("bad: a number where a range should be", "verdict_in_range",
         {**usual, "ranges": "".join(lines).replace("01xx", "0100"), "number": "+1"}),
    ]  # fmt: skip

"""The page's randomiser against the library: the project's vectors, and random cases that Python answers first."""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import hushcall
from hushcall.errors import HushcallError
from hushcall.mechanisms.mechanism import RandomisedResponse
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber, linear_hash
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader
from hushcall.protocol.exact import ceil_divide, exp_below
from hushcall.protocol.items import PLACED, SUFFIX
from hushcall.protocol.numbers import NANP
from hushcall.protocol.numbers.plans import plan_named
from hushcall.protocol.randomness import seeded

Vector = dict[str, Any]

HERE = Path(__file__).parent
VECTORS = HERE.parents[1] / "vectors"
STATIC = Path(hushcall.__file__).parent / "server" / "web" / "static"
NODE = shutil.which("node")
PHONES: dict[str, type[Subspace]] = {"subspace": Subspace, "whole-number": WholeNumber}
OPERATIONS = {
    *("derive", "rows", "matrix_product", "seeded", "read", "response_weights", "response_draw"),
    *("parse_number", "number", "report", "parse_report"),
}
LAYOUT = SUFFIX.layout(NANP)

pytestmark = pytest.mark.skipif(
    NODE is None, reason="the page's script in node: node must be on PATH (apt install nodejs)"
)


def answers(vectors: list[Vector]) -> list[Vector]:
    """What the page's modules make of vectors."""
    command = [str(NODE), str(HERE / "vectors.mjs"), STATIC.as_uri()]
    done = subprocess.run(command, input=json.dumps(vectors), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found: list[Vector] = json.loads(done.stdout)
    return found


def disagreements(vectors: list[Vector]) -> list[tuple[str, Vector]]:
    """The vectors that the page answers otherwise."""
    return [
        (vector.get("name", json.dumps(vector["in"])[:200]), answer)
        for vector, answer in zip(vectors, answers(vectors), strict=True)
        if answer != {"out": vector["out"], "error": vector["error"]}
    ]


def vector(op: str, given: Vector, out: Vector | None, error: str | None = None) -> Vector:
    return {"op": op, "in": given, "out": out, "error": error}


def concerns_the_page(vector: Vector) -> bool:
    mechanism = vector["in"].get("mechanism", {}).get("name", "subspace")
    return vector["op"] in OPERATIONS and mechanism in PHONES


def test_the_vectors() -> None:
    chosen = []
    for path in sorted(VECTORS.glob("*.json")):
        chosen += [vector for vector in json.loads(path.read_text()) if concerns_the_page(vector)]
    for one in chosen:
        if one["op"] in ("parse_number", "number"):
            one["in"]["layout"] = LAYOUT
    assert {one["op"] for one in chosen} == OPERATIONS
    assert sum(one["error"] is not None for one in chosen) > 30
    assert disagreements(chosen) == []


def test_a_wrong_answer_would_show() -> None:
    right = {"keep": "9243053421364094016", "other": "460184532617272880"}
    given = {"epsilon": "3.0", "size": 21}
    wrong = {**right, "keep": "9243053421364094017"}
    assert disagreements([vector("response_weights", given, right)]) == []
    assert len(disagreements([vector("response_weights", given, wrong)])) == 1
    assert len(disagreements([vector("response_weights", given, None, "InvalidParameter")])) == 1


def test_random_reports() -> None:
    dice = random.Random(5)
    cases = []
    for _ in range(60):
        name = dice.choice(["subspace", "whole-number"])
        mechanism: Vector = {"name": name, "epsilon": dice.uniform(0.1, 16), "bits": dice.randint(1, 24)}
        phone = PHONES[name](mechanism["epsilon"], mechanism["bits"])
        item, public, rand = dice.randrange(1 << phone.item_bits), dice.randbytes(32), dice.randbytes(8)
        report = phone.privatise(item, public, lambda _, rand=rand: rand)  # type: ignore[misc]
        given = {"mechanism": mechanism, "item": str(item), "public": public.hex(), "coins": rand.hex()}
        out = {"report": report.hex(), "contents": {"value": phone.parse(report)}}
        weights = {"keep": str(phone.response.keep), "other": str(phone.response.other)}
        cases += [vector("report", given, out), vector("parameters", mechanism, weights)]
    assert disagreements(cases) == []


def test_the_edges_of_every_threshold() -> None:
    phone, public = Subspace(4.0, 5), bytes(range(32))
    mechanism = {"name": "subspace", "epsilon": 4.0, "bits": 5}
    response = phone.response
    edges = [response.keep + place * response.other for place in range(phone.size)]
    cases = []
    for word in sorted({0, *(edge + step for edge in edges for step in (-1, 0)), (1 << 64) - 1} - {1 << 64}):
        rand = word.to_bytes(8, "big")
        report = phone.privatise(5_550_143, public, lambda _, rand=rand: rand)  # type: ignore[misc]
        given = {"mechanism": mechanism, "item": "5550143", "public": public.hex(), "coins": rand.hex()}
        cases.append(vector("report", given, {"report": report.hex(), "contents": {"value": phone.parse(report)}}))
    assert {case["out"]["contents"]["value"] for case in cases} == set(range(32))
    assert disagreements(cases) == []


def test_the_bound_on_e_to_epsilon_is_the_same_number() -> None:
    dice = random.Random(6)
    # ε is cut to 60 digits before e^ε is: at the second of these, that decides the last digit.
    epsilons = [5e-324, 0.0003861997155701883, 1e-300, 1e-59, 1e-9, 0.1, 1.0, 2.0, 8.8, math.log(2), 40.0]
    epsilons += [dice.uniform(0, 40) for _ in range(60)] + [10 ** dice.uniform(-65, 0) for _ in range(30)]
    found = answers([vector("exp_below", {"epsilon": str(epsilon)}, None) for epsilon in epsilons])
    for epsilon, answer in zip(epsilons, found, strict=True):
        assert Fraction(*map(int, answer["out"]["fraction"])) == exp_below(Fraction(epsilon)), epsilon


def test_divisions_round_up_and_exact_ones_stay() -> None:
    cases = [
        vector("ceil_divide", {"value": str(value), "fraction": [str(top), str(bottom)]}, {"value": str(quotient)})
        for value, top, bottom in ((12, 3, 1), (12, 3, 2), (13, 3, 1), (1 << 64, 7, 3), (1 << 64, 1 << 10, 1))
        for quotient in [ceil_divide(value, Fraction(top, bottom))]
    ]
    assert disagreements(cases) == []


def test_the_first_value_that_no_phone_sends() -> None:
    mechanism = {"name": "subspace", "epsilon": 4.0, "bits": 6}
    cases = [
        vector("parse_report", {"mechanism": mechanism, "report": "01043f"}, {"contents": {"value": 63}}),
        vector("parse_report", {"mechanism": mechanism, "report": "010440"}, None, "WrongSymbol"),
    ]
    assert disagreements(cases) == []


def test_wrong_parameters_are_refused() -> None:
    sound = {"name": "subspace", "epsilon": 4.0, "bits": 6}
    wrong: list[Vector] = [
        *({"epsilon": epsilon} for epsilon in (0, -1.0, 40.5, None, "4", [4])),
        *({"bits": bits} for bits in (0, 25, 1.5, "6", None)),
        *({"name": name} for name in ("olh", "", "toString")),
        {"epsilon": 1e-60},  # lies would weigh more than the truth: Python refuses it too
    ]
    with pytest.raises(HushcallError):
        RandomisedResponse.of(1e-60, 64)
    assert disagreements([vector("parameters", {**sound, **one}, None, "InvalidParameter") for one in wrong]) == []


def test_odds_are_exact_and_add_up_to_one() -> None:
    for bits, epsilon in ((1, 0.5), (5, 4.0), (11, 8.0)):
        response = RandomisedResponse.of(epsilon, 1 << bits)
        given = {"mechanism": {"name": "subspace", "epsilon": epsilon, "bits": bits}, "hashed": 1}
        weights = [int(weight) for weight in answers([vector("odds", given, None)])[0]["out"]["weights"]]
        assert weights == [response.keep if value == 1 else response.other for value in range(1 << bits)]
        assert sum(weights) == 1 << 64
        assert max(weights) <= exp_below(Fraction(epsilon)) * min(weights)


def test_supporters_are_counted_one_by_one() -> None:
    public = hashlib.sha256(b"ticket").digest()
    phone = Subspace(4.0, 10)
    rows = phone.rows(public)
    columns = [linear_hash(rows, 1 << place) for place in range(24)]
    spans = [0]  # the hash of every 24-bit item, by doubling
    for column in columns:
        spans += [column ^ value for value in spans]
    expected = spans[2_000_000:10_000_000].count(77)
    given = {"mechanism": {"name": "subspace", "epsilon": 4.0, "bits": 10}, "public": public.hex(), "layout": LAYOUT}
    [answer] = answers([vector("support", {**given, "value": 77, "fits": True}, None)])
    keep, other = phone.response.keep, phone.response.other
    everything = expected * keep + (8_000_000 - expected) * other
    assert answer["out"] == {"numbers": 8_000_000, "supporters": expected, "after": [str(keep), str(everything)]}


def test_supporters_of_whole_numbers_share_all_values_out() -> None:
    mechanism = {"name": "whole-number", "epsilon": 2.0, "bits": 3}
    layout = {**PLACED.layout(NANP), "area_codes": NANP.area_codes[:7]}
    given = {"mechanism": mechanism, "public": bytes(32).hex(), "layout": layout, "fits": False}
    found = [
        answer["out"]["supporters"]
        for answer in answers([vector("support", {**given, "value": value}, None) for value in range(8)])
    ]
    rows = WholeNumber(2.0, 3).rows(bytes(32))
    dice = random.Random(7)
    sample = [dice.randrange(7) << 24 | dice.randrange(2_000_000, 10_000_000) for _ in range(4000)]
    shares = [sum(linear_hash(rows, item) == value for item in sample) / len(sample) for value in range(8)]
    assert sum(found) == 7 * 8_000_000
    assert shares == pytest.approx([count / sum(found) for count in found], abs=0.03)


def test_hashes_at_every_border_of_a_block() -> None:
    dice = random.Random(8)
    cases = []
    for size in (0, 1, 55, 56, 63, 64, 119, 120, 135, 136, 137, 271, 272, 400):
        message = dice.randbytes(size)
        cases += [
            vector("sha256", {"message": message.hex()}, {"digest": hashlib.sha256(message).hexdigest()}),
            *(
                vector(
                    "shake256",
                    {"message": message.hex(), "count": count},
                    {"digest": hashlib.shake_256(message).hexdigest(count)},
                )
                for count in (0, 1, 136, 137, 300)
            ),
        ]
    assert disagreements(cases) == []


def test_items_of_both_mechanisms() -> None:
    given = {"text": "+1 202 555 0143"}
    assert (
        disagreements(
            [
                vector("item", {**given, "layout": LAYOUT}, {"item": 5_550_143}),
                vector("item", {**given, "layout": PLACED.layout(NANP)}, {"item": 22_327_359}),
            ]
        )
        == []
    )


@pytest.mark.parametrize("region", ["DE", "FR", "IT", "ES", "CH", "GB", "NANP"])
def test_numbers_of_every_kind_of_plan_are_read_as_the_library_reads_them(region: str) -> None:
    plan = plan_named(region)
    cases = []
    for seed in range(40):
        number = plan.dummy(seeded(seed.to_bytes(2)))
        out = {"e164": str(number), "area": number.area, "suffix": number.suffix}
        layout = SUFFIX.layout(plan)
        local = plan.national_prefix + number.digits
        for text in (str(number), f"00{str(number)[1:]}", f"{local[:4]}/{local[4:]}"):
            cases.append(vector("parse_number", {"text": text, "layout": layout}, out))
        wrong = f"+{plan.country_code}{'9' * 14}"
        cases.append(vector("parse_number", {"text": wrong, "layout": layout}, None, "InvalidNumber"))
    assert disagreements(cases) == []


def test_lists_are_read_and_broken_ones_refused() -> None:
    entry = Entry("+12025550143", 1_800_000_000, 1_800_086_400, 2, 118.2, 97.0, 140.1, 1e-9)
    other = Entry("+12025550199", 1_800_000_000, 1_800_000_000, 1, 20.0, 12.0, 29.5, 1e-4)
    terms = ListHeader("subspace", 4.0, 10, 1e-3, NANP.name, 7)
    text = Blocklist(42, 9, 1_800_100_000, terms, (entry, other)).to_bytes().decode()
    found = {"version": 42, "entry": json.loads(entry.line())}
    cases = [
        vector("list", {"text": text, "number": entry.number}, found),
        vector("list", {"text": text, "number": "+12025550144"}, {"version": 42, "entry": None}),
    ]
    newer = replace(entry, window=2)
    text_of_two = Blocklist(42, 9, 1_800_100_000, replace(terms, block_days=2), (newer,)).to_bytes().decode()
    found_in_two = {"version": 42, "entry": json.loads(newer.line())}
    cases.append(vector("list", {"text": text_of_two, "number": entry.number}, found_in_two))
    broken = [
        text.replace('"number"', '"numbers"'),
        "",
        "<!doctype html>",
        "null",
        "{}",
        text.replace("list/1", "list/3"),
        text[: text.rindex("{")],
    ]
    cases += [vector("list", {"text": bad, "number": entry.number}, None, "InvalidList") for bad in broken]
    assert disagreements(cases) == []

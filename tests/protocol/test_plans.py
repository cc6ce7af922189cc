"""Other countries' plans: numbers of any length, leading zeros, and agreement with phonenumberslite."""

import json
from collections.abc import Iterator

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidData, InvalidNumber, InvalidParameter
from hushcall.protocol.items import PLACED, SUFFIX
from hushcall.protocol.numbers import NANP, PLANS, SHIPPED, NumberingPlan, plan_named
from hushcall.protocol.numbers.generate import plan_document
from hushcall.protocol.numbers.plan import digits_of, first_of_length, numeral
from hushcall.protocol.numbers.plans import (
    NAME_DIGITS,
    SHIPPED_DIGITS,
    digest_of,
    plan_file,
    read_plan,
    take_plan,
    to_bytes,
)
from hushcall.protocol.randomness import seeded
from hushcall_lab.rivals.original_histogram.client import DIGITS

REGIONS = pytest.mark.parametrize("region", list(SHIPPED))
NATIONAL, INTERNATIONAL = phonenumbers.PhoneNumberFormat.NATIONAL, phonenumbers.PhoneNumberFormat.INTERNATIONAL


@given(st.text("0123456789", min_size=1, max_size=8))
def test_digits_and_numerals_are_one_to_one(digits: str) -> None:
    assert digits_of(numeral(digits)) == digits
    assert 0 <= numeral(digits) < first_of_length(9) < 1 << 27


@given(st.integers(0, first_of_length(9) - 1))
def test_numerals_and_digits_are_one_to_one(item: int) -> None:
    assert numeral(digits_of(item)) == item


def drawn(plan: NumberingPlan, count: int) -> Iterator[phonenumbers.PhoneNumber]:
    """So many of the plan's numbers that phonenumberslite takes for valid, too."""
    rand = seeded(plan.name.encode())
    while count:
        found = phonenumbers.parse(str(plan.dummy(rand)))
        if phonenumbers.is_valid_number(found):
            count -= 1
            yield found


def agree(plan: NumberingPlan, count: int) -> set[int]:
    """Every notation reads as the same number, which is the one that phonenumberslite means; the lengths that came."""
    lengths = set()
    for found in drawn(plan, count):
        text = phonenumbers.format_number(found, phonenumbers.PhoneNumberFormat.E164)
        number = plan.parse(text)
        assert str(number) == text
        assert plan.parse(phonenumbers.format_number(found, INTERNATIONAL)) == number
        assert plan.parse("00" + text[1:]) == number
        national = phonenumbers.format_number(found, NATIONAL)
        if national.startswith(plan.national_prefix) or len(number.digits) >= plan.whole_from:
            assert plan.parse(national) == number
        for codec in (SUFFIX, PLACED, DIGITS):
            item = codec.item(number, plan)
            assert 0 <= item < 1 << codec.bits(plan)
            assert codec.number(item, codec.bucket(number), plan) == number
        lengths.add(len(number.digits))
    return lengths


@REGIONS
def test_random_numbers_round_trip_and_agree_with_the_library(region: str) -> None:
    assert agree(plan_named(region), 100)


@pytest.mark.slow
@pytest.mark.night
@REGIONS
def test_a_hundred_thousand_random_numbers_round_trip(region: str) -> None:
    """See the short one above."""
    assert agree(plan_named(region), 100_000)


@REGIONS
def test_examples_of_the_library_are_in_the_plan(region: str) -> None:
    plan = plan_named(region)
    for kind in (phonenumbers.PhoneNumberType.FIXED_LINE, phonenumbers.PhoneNumberType.MOBILE):
        example = phonenumbers.example_number_for_type(plan.region, kind)
        assert example is not None
        text = phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.E164)
        assert str(plan.parse(text)) == text


@pytest.mark.parametrize(
    ("region", "written", "expected"),
    [
        ("DE", "030 123456", "+4930123456"),
        ("DE", "030/123 456-7", "+49301234567"),
        ("DE", "0152 28817386", "+4915228817386"),
        ("DE", "+49 (0) 30 123456", "+4930123456"),
        ("DE", "#31#0152 28817386", "+4915228817386"),
        ("IT", "06 698 12345", "+390669812345"),
        ("IT", "+39 06 69812345", "+390669812345"),
        ("IT", "347 123 4567", "+393471234567"),
        ("GB", "01946 720 12", "+44194672012"),  # nine digits
        ("GB", "020 7946 0958", "+442079460958"),
        ("FR", "06 12 34 56 78", "+33612345678"),
        ("BR", "(11) 96123-4567", "+5511961234567"),
        ("IN", "098765 43210", "+919876543210"),
    ],
)
def test_as_people_write_them(region: str, written: str, expected: str) -> None:
    assert str(plan_named(region).parse(written)) == expected


@pytest.mark.parametrize(
    ("region", "written"),
    [
        ("DE", "123456"),  # a neighbour's, dialled without its area code
        ("DE", "234567"),  # which could be Bochum's 567
        ("AT", "1234567"),
        ("BR", "96123-4567"),
        ("DE", "+12025550143"),
        ("DE", "+49 30 1234567890123"),
        ("NANP", "+4930123456"),
        ("FR", "+33 1 23 45 67"),
    ],
)
def test_what_is_no_number_of_the_plan(region: str, written: str) -> None:
    with pytest.raises(InvalidNumber):
        plan_named(region).parse(written)


@REGIONS
def test_dummies_take_sixteen_bytes_and_stay_in_their_area(region: str) -> None:
    plan, asked = plan_named(region), []

    def rand(count: int) -> bytes:
        asked.append(count)
        return b"\xff" * count

    assert plan.dummy(bytes) == plan.parse(str(plan.dummy(bytes)))
    for area in plan.area_codes[:: max(1, len(plan.area_codes) // 20)]:
        assert plan.dummy(rand, area).area == area
        assert len(str(plan.dummy(rand, area))) - 1 - len(str(plan.country_code)) - plan.area_digits in plan.lengths_of(
            area
        )
    assert set(asked) == {16}


def test_a_plan_is_drawn_anew_as_it_lies_here_and_knows_when_it_was_changed() -> None:
    document = plan_document("FR", SHIPPED_DIGITS)
    assert document["name"] == SHIPPED["FR"]
    assert read_plan(to_bytes(document)) == plan_named("FR") == plan_named(SHIPPED["FR"])
    changed = to_bytes({**document, "areas": {**document["areas"], "00": "7"}})
    for data in (changed, b"", b"{}", b"[]", json.dumps({**document, "format": "other"}).encode()):
        with pytest.raises(InvalidData, match="plan must be a hushcall-plan/1 file, unchanged"):
            read_plan(data)


def test_names() -> None:
    assert len(set(PLANS)) == len(PLANS) == 10
    assert plan_named("nanp") is NANP
    with pytest.raises(InvalidParameter, match="plan must be one of NANP, DE, FR"):
        plan_named("XX")
    with pytest.raises(InvalidParameter, match="region must be one that phonenumberslite knows"):
        plan_document("XX")


def test_widths() -> None:
    """NANP as ever; up to eight digits of any length fit 27 bits."""
    widths = {region: (SUFFIX.bits(plan_named(region)), PLACED.bits(plan_named(region))) for region in SHIPPED}
    assert widths["NANP"] == (24, 33)
    assert widths["FR"] == (24, 31)
    assert widths["DE"] == (27, 37)
    assert all(bits <= 27 for bits, _ in widths.values())


def polish(**changes: object) -> bytes:
    """Poland's plan with changes, under the name that its digest gives it."""
    document = {**plan_document("PL"), **changes}
    return to_bytes({**document, "name": f"pl-{digest_of(document)[:NAME_DIGITS]}"})


def test_a_plan_that_is_not_shipped_is_taken_from_its_file_and_known_by_its_name() -> None:
    data = polish()
    plan = take_plan(data)
    assert (plan.country_code, str(plan.parse("22 123 45 67"))) == (48, "+48221234567")
    assert plan_named(plan.name) is take_plan(data) is plan
    assert plan_file(plan.name) == data
    assert plan_file("pl-0") is plan_file("../plans") is None


def test_north_americas_file_says_all_that_its_plan_does() -> None:
    file = json.loads(plan_file(NANP.name) or b"")
    same = ("name", "region", "country_code", "national_prefix", "whole_from", "area_digits", "suffix_digits")
    assert {name: file[name] for name in same} == {name: getattr(NANP, name) for name in same}
    assert (file["format"], file["first_suffix"]) == ("hushcall-plan/1", NANP.first_suffix)
    assert list(file["areas"]) == list(file["complaints"]) == [str(area) for area in NANP.area_codes]
    assert set(file["areas"].values()) == {str(NANP.suffix_digits)}
    assert tuple(file["complaints"].values()) == NANP.complaints
    assert sum(NANP.complaints) == 368_946


def test_a_short_digest_would_do_for_two_plans_and_is_refused() -> None:
    with pytest.raises(InvalidData, match="name with 32 digits"):
        take_plan(to_bytes(plan_document("PL", SHIPPED_DIGITS)))


@pytest.mark.parametrize(
    "changes",
    [
        {"area_digits": 8, "areas": {"22123456": "1"}},  # would be announced in the clear
        {"areas": {"221": "9"}},
        {"areas": {}},
        {"areas": {"22": "7"}},
        {"areas": {"2²1": "7"}},
        {"areas": {"221": "7", "220": "7"}},
        {"country_code": 0},
        {"country_code": True},
        {"region": "POL"},
        {"suffix_digits": 9},
        {"whole_from": -1},
        {"national_prefix": "0000"},
    ],
)
def test_a_plan_may_say_only_so_much_whatever_its_digest(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidData, match="plan must be a"):
        take_plan(polish(**changes))

"""One suite over every mechanism's phone half: what a report is, whatever the mechanism.

A ``Case`` is a mechanism with its strict parser and a writer that turns what was parsed into bytes again. If
writing gives back the very bytes that were read, the parser looked at every bit of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanisms.rappor import Rappor

from hushcall.errors import InvalidParameter, InvalidReport, WrongLength, WrongMechanism, WrongSymbol, WrongVersion
from hushcall.mechanisms.local_hashing.client import LocalHashing, MultiplyShift
from hushcall.mechanisms.mechanism import Mechanism, report_bytes
from hushcall.mechanisms.randomisers import Accounting
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber, linear_hash
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.wire import pack_channel, pack_value
from hushcall_lab.rivals.original_histogram.client import OriginalHistogram, row_sign
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

SEED = bytes(range(32))


@dataclass(frozen=True)
class Case:
    mechanism: Mechanism
    parse: Callable[[bytes], Any]
    write: Callable[[Any], bytes]
    wrong_symbol: Callable[[bytearray], None] | None

    def __repr__(self) -> str:
        return f"{self.mechanism.name}-{self.mechanism.item_bits}"


def write_channels(channels: tuple[tuple[int, int], ...]) -> bytes:
    return bytes(pack_channel(position, symbol) for position, symbol in channels)


def spoil(place: int, value: int) -> Callable[[bytearray], None]:
    def change(report: bytearray) -> None:
        report[place] = value

    return change


def value_case(mechanism: LocalHashing | Subspace | PrefixExtending, change: Callable[[bytearray], None]) -> Case:
    return Case(mechanism, mechanism.parse, lambda value: pack_value(value, mechanism.size), change)


def histogram_case(kind: str, **options: Any) -> Case:
    mechanism = SuccinctHistogram.with_budget(kind, 8.8, 3.0, channels=4, seed=SEED, **options)

    def write(parsed: Any) -> bytes:
        return write_channels(parsed[0]) + pack_value(parsed[1], mechanism.oracle.size)

    return Case(mechanism, mechanism.parse, write, spoil(2, 0b11_000000))


def original_case(item_bits: int, rows: int) -> Case:
    mechanism = OriginalHistogram(10.0, channels=4, seed=SEED, item_bits=item_bits, rows=rows)

    def write(parsed: Any) -> bytes:
        channels, (row, sign) = parsed
        return write_channels(channels) + int(row).to_bytes(2, "big") + bytes([sign == 1])

    return Case(mechanism, mechanism.parse, write, spoil(-1, 2))


def tree_case() -> Case:
    mechanism = TreeHistogram(1.0, seed=SEED)
    return Case(mechanism, mechanism.parse, lambda sign: bytes([sign == 1]), spoil(-1, 2))


def rappor_case() -> Case:
    """Any byte is an honest filter: only the envelope of a report can be wrong."""
    mechanism = Rappor(4.0, bits=32, cohorts=5, seed=SEED)
    return Case(mechanism, mechanism.parse, bytes, None)


CASES = [
    value_case(LocalHashing(3.0), spoil(2, 21)),
    value_case(LocalHashing(6.0, item_bits=34), spoil(2, 255)),
    value_case(Subspace(4.0, 5), spoil(2, 32)),
    value_case(Subspace(8.0, 11), spoil(2, 8)),
    value_case(WholeNumber(8.0, 17), spoil(2, 2)),
    histogram_case("basic"),
    histogram_case("basic", accounting=Accounting.EXACT, rounds=3),
    histogram_case("extended"),
    histogram_case("tuned", keep=1 << 63),
    original_case(24, 1 << 10),
    original_case(34, 1 << 16),
    value_case(PrefixExtending(4.0), spoil(2, 255)),
    tree_case(),
    rappor_case(),
]
EVERY = pytest.mark.parametrize("case", CASES, ids=repr)
cases = st.sampled_from(CASES)


class Source:
    """Coins from a seed, that remember what was asked of them."""

    def __init__(self, seed: bytes) -> None:
        self.rand, self.asked = seeded(seed), list[int]()

    def __call__(self, count: int) -> bytes:
        self.asked.append(count)
        return self.rand(count)


def items(case: Case) -> st.SearchStrategy[int]:
    """Any item, real suffixes and the suffixes of dummies among them."""
    whole = st.integers(0, (1 << case.mechanism.item_bits) - 1)
    dummies = st.binary(max_size=8).map(lambda seed: NANP.dummy(seeded(seed)).suffix)
    return st.one_of(whole, dummies, st.sampled_from([0, (1 << case.mechanism.item_bits) - 1]))


@given(cases, st.data(), st.binary(min_size=32, max_size=32), st.binary(max_size=8))
def test_a_report_has_one_length_and_takes_one_block_of_coins_whatever_the_item(
    case: Case, data: st.DataObject, public: bytes, seed: bytes
) -> None:
    source = Source(seed)
    report = case.mechanism.privatise(data.draw(items(case)), public, source)
    assert len(report) == report_bytes(case.mechanism) == 2 + case.mechanism.body_bytes
    assert source.asked == [case.mechanism.rand_size]


@given(cases, st.data(), st.binary(min_size=32, max_size=32), st.binary(max_size=8))
def test_every_report_parses_and_is_the_only_way_to_write_its_contents(
    case: Case, data: st.DataObject, public: bytes, seed: bytes
) -> None:
    report = case.mechanism.privatise(data.draw(items(case)), public, seeded(seed))
    assert case.write(case.parse(report)) == report[2:]


@EVERY
def test_the_same_coins_give_the_same_bytes_and_others_give_others(case: Case) -> None:
    reports = [case.mechanism.privatise(5550143, SEED, seeded(seed)) for seed in (b"1", b"1", b"2", b"3", b"4")]
    assert reports[0] == reports[1]
    assert len(set(reports)) > 1


@EVERY
@pytest.mark.parametrize("missing", [1, 8, -1])
def test_a_source_that_runs_dry_or_over_is_an_error_and_not_another_report(case: Case, missing: int) -> None:
    with pytest.raises(InvalidParameter, match=r"^rand must return exactly"):
        case.mechanism.privatise(5550143, SEED, lambda count: bytes(count - missing))


@EVERY
@pytest.mark.parametrize("bad", ["too large", -1, 1.0, True, None, "5550143"])
def test_an_item_that_does_not_fit_is_refused_without_repeating_it(case: Case, bad: object) -> None:
    item = 1 << case.mechanism.item_bits if bad == "too large" else bad
    with pytest.raises(InvalidParameter, match=r"^item must be a whole number of at most") as caught:
        case.mechanism.privatise(item, SEED, seeded(b""))  # type: ignore[arg-type]
    assert caught.value.value == type(item).__name__


@EVERY
@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33), "x" * 32, None])
def test_a_public_seed_of_another_length_is_refused(case: Case, public: bytes) -> None:
    with pytest.raises(InvalidParameter, match=r"^public must be exactly 32 bytes"):
        case.mechanism.privatise(5550143, public, seeded(b""))


@EVERY
def test_each_fault_of_a_report_has_its_own_error(case: Case) -> None:
    report = case.mechanism.privatise(5550143, SEED, seeded(b"fault"))
    for size in (0, 1, 2, len(report) - 1, len(report) + 1):
        with pytest.raises(WrongLength):
            case.parse(report.ljust(size, b"\0")[:size])
    with pytest.raises(WrongVersion):
        case.parse(b"\x02" + report[1:])
    with pytest.raises(WrongMechanism):
        case.parse(report[:1] + b"\x09" + report[2:])
    if case.wrong_symbol:
        spoiled = bytearray(report)
        case.wrong_symbol(spoiled)
        with pytest.raises(WrongSymbol):
            case.parse(bytes(spoiled))


def attempt(case: Case, raw: bytes) -> tuple[Any, type[InvalidReport] | None]:
    """(contents, None) or (None, the fault). Any other exception is let through, and fails the test."""
    try:
        return case.parse(raw), None
    except InvalidReport as error:
        return None, type(error)


@EVERY
def test_every_corruption_of_a_single_byte_is_another_report_or_an_invalid_one(case: Case) -> None:
    """255 corruptions of each byte: what parses is written back bit for bit, the rest is refused by name."""
    report = case.mechanism.privatise(5550143, SEED, seeded(b"corrupt"))
    refused = [0] * len(report)
    for place, byte in enumerate(report):
        for value in set(range(256)) - {byte}:
            corrupt = report[:place] + bytes([value]) + report[place + 1 :]
            parsed, fault = attempt(case, corrupt)
            if fault is None:
                assert case.write(parsed) == corrupt[2:]
            else:
                refused[place] += 1
                assert fault is ([WrongVersion, WrongMechanism][place] if place < 2 else WrongSymbol)
    assert refused[:2] == [255, 255]


@given(cases, st.data())
def test_random_bytes_are_a_report_or_an_invalid_one_and_nothing_else(case: Case, data: st.DataObject) -> None:
    body = st.binary(min_size=case.mechanism.body_bytes, max_size=case.mechanism.body_bytes)
    header = case.mechanism.privatise(0, SEED, seeded(b""))[:2]
    raw = data.draw(st.one_of(st.binary(max_size=60), body.map(lambda drawn: header + drawn)))
    parsed, fault = attempt(case, raw)
    if fault is None:
        assert header + case.write(parsed) == raw
    else:
        assert fault in {WrongVersion, WrongMechanism, WrongLength, WrongSymbol}


@EVERY
def test_draws_account_for_every_byte_and_every_coin(case: Case) -> None:
    draws = case.mechanism.draws()
    covered = [place for draw in draws for place in range(draw.out.start, draw.out.stop)]
    assert covered == list(range(case.mechanism.body_bytes))
    rand = [place for draw in draws for place in range(draw.word_at, draw.word_at + 8)]
    rand += [place for draw in draws for place in range(draw.index_at, draw.index_at + draw.index_bytes)]
    assert sorted(rand) == list(range(case.mechanism.rand_size))


# With all coins 0 every randomiser tells the truth: what the reports then hold is known from the definitions.


@given(st.integers(0, (1 << 24) - 1), st.binary(min_size=32, max_size=32))
def test_a_truthful_olh_report_holds_the_hash(item: int, public: bytes) -> None:
    olh = LocalHashing(3.0)
    assert olh.parse(olh.privatise(item, public, bytes)) == MultiplyShift.from_seed(public).below(item, 21)


@given(st.integers(0, (1 << 33) - 1), st.integers(0, (1 << 33) - 1), st.binary(min_size=32, max_size=32))
def test_a_truthful_subspace_report_holds_a_linear_hash(x: int, y: int, public: bytes) -> None:
    whole = WholeNumber(4.0, 12)
    values = [whole.parse(whole.privatise(item, public, bytes)) for item in (x, y, x ^ y)]
    assert values[0] ^ values[1] == values[2]
    assert values[0] == linear_hash(whole.rows(public), x)


def test_the_rows_of_a_short_matrix_begin_those_of_a_long_one_and_fill_their_width() -> None:
    long, short = Subspace(4.0, 24).rows(SEED), Subspace(4.0, 9).rows(SEED)
    assert long[:9] == short
    assert max(long).bit_length() == 24
    assert max(WholeNumber(4.0, 24).rows(SEED)).bit_length() == 33


@given(st.integers(0, (1 << 24) - 1), st.integers(0, 31))
def test_a_truthful_histogram_report_holds_a_codeword_bit_on_its_own_channels(item: int, position: int) -> None:
    mechanism = SuccinctHistogram.with_budget("extended", 8.8, 3.0, channels=8, seed=SEED)
    total = mechanism.total_channels
    channels, value = mechanism.parse(
        mechanism.privatise(item, SEED, lambda count: bytes([position]) * total + bytes(count - total))
    )
    own = {t * 8 + h.bits(item, 3) for t, h in enumerate(mechanism.hashes)}
    sign = 1 - 2 * (mechanism.code.encode(item) >> position & 1)
    assert channels == tuple((position, sign if place in own else 1) for place in range(16))
    assert value == MultiplyShift.from_seed(SEED).below(item, 21)


@given(st.integers(0, (1 << 24) - 1), st.binary(max_size=8))
def test_every_channel_takes_its_own_position_and_its_own_word(item: int, seed: bytes) -> None:
    """The symbols of a report follow from its coins, channel by channel: position bytes first, then words."""
    mechanism = SuccinctHistogram.with_budget("extended", 4.4, 3.0, channels=8, seed=SEED)
    block = seeded(seed)(mechanism.rand_size)
    channels, _ = mechanism.parse(mechanism.privatise(item, SEED, lambda _: block))
    own = {t * 8 + h.bits(item, 3) for t, h in enumerate(mechanism.hashes)}
    for place, (position, symbol) in enumerate(channels):
        assert position == block[place] % 32
        bit = mechanism.code.encode(item) >> position & 1
        word = int.from_bytes(block[16 + 8 * place : 24 + 8 * place], "big")
        assert symbol == mechanism.randomiser.draw(1 - 2 * bit if place in own else 0, word)


@given(st.integers(0, (1 << 34) - 1), st.integers(0, 63), st.integers(0, (1 << 16) - 1))
def test_a_truthful_original_report_holds_codeword_bits_and_a_sign(item: int, position: int, row: int) -> None:
    mechanism = OriginalHistogram(10.0, channels=8, seed=SEED)
    block = bytes([position]) * 16 + bytes(16 * 8) + row.to_bytes(2, "big") + bytes(8)
    channels, oracle = mechanism.parse(mechanism.privatise(item, SEED, lambda _: block))
    own = {t * 8 + h.bits(item, 3) for t, h in enumerate(mechanism.hashes)}
    sign = 1 - 2 * (mechanism.code.encode(item) >> position & 1)
    assert channels == tuple((position, sign if place in own else 1) for place in range(16))
    assert oracle == (row, row_sign(SEED, row, item))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: LocalHashing(0.0), "epsilon"),
        (lambda: LocalHashing(3.0, size=1), "size"),
        (lambda: LocalHashing(3.0, size=(1 << 24) + 1), "size"),
        (lambda: LocalHashing(3.0, item_bits=35), "item_bits"),
        (lambda: Subspace(float("nan"), 8), "epsilon"),
        (lambda: Subspace(4.0, 0), "bits"),
        (lambda: Subspace(4.0, 25), "bits"),
        (lambda: Subspace(4.0, 8, item_bits=41), "item_bits"),
        (lambda: WholeNumber(41.0, 8), "epsilon"),
        (lambda: OriginalHistogram(-1.0), "epsilon"),
        (lambda: OriginalHistogram(1.0, rounds=0), "T"),
        (lambda: OriginalHistogram(1.0, rounds=65), "T"),
        (lambda: OriginalHistogram(1.0, channels=3), "K"),
        (lambda: OriginalHistogram(1.0, seed=b"short"), "seed"),
        (lambda: OriginalHistogram(1.0, rows=1000), "rows"),
        (lambda: OriginalHistogram(1.0, rows=1 << 17), "rows"),
        (lambda: OriginalHistogram(1.0, item_bits=0), "item_bits"),
        (lambda: SuccinctHistogram.with_budget("basic", 0.0, 3.0), "epsilon_hh"),
        (lambda: SuccinctHistogram.with_budget("magic", 8.8, 3.0), "randomiser"),
        (lambda: SuccinctHistogram.with_budget("tuned", 8.8, 3.0), "keep"),
        (lambda: SuccinctHistogram.with_budget("basic", 8.8, 3.0, rounds=0), "T"),
        (lambda: SuccinctHistogram.with_budget("basic", 8.8, 3.0, channels=12), "K"),
        (lambda: SuccinctHistogram.with_budget("basic", 8.8, 3.0, seed=bytes(31)), "seed"),
    ],
)
def test_a_mechanism_cannot_be_built_wrong(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make()
    assert caught.value.field == field


def test_costs_are_the_exact_sums_of_their_parts() -> None:
    costs = {
        "paper": SuccinctHistogram.with_budget("extended", 8.0, 3.0).cost,
        "basic charged twice": SuccinctHistogram.with_budget("basic", 8.0, 3.0).cost,
        "basic charged once": SuccinctHistogram.with_budget("basic", 8.0, 3.0, accounting=Accounting.EXACT).cost,
        "tuned": SuccinctHistogram.with_budget("tuned", 8.0, 3.0, keep=1 << 63).cost,
        "original": OriginalHistogram(10.0).cost,
        "olh": LocalHashing(3.0).cost,
        "subspace": Subspace(4.0, 8).cost,
    }
    assert list(costs.values()) == [11, 7, 11, 11, 6, 3, 4]

"""A listed number blocks by new evidence only: by rounds that all come after its first finding."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidList
from hushcall.protocol.blocklist import OLDER_CLIENTS_WARN, Blocklist, Entry, ListHeader, Sighting, blocking, listed

SPAM, START, DAY = "+12025550143", 1_800_000_000, 86_400
HEADER = ListHeader("subspace", 4.0, 10, 1e-3, "nanp-2026", 7, OLDER_CLIENTS_WARN)


def seen(round_: int, window: int = 1, strict: int = 0, hinted: int = 0) -> Sighting:
    at = START + round_ * DAY
    return Sighting(SPAM, round_, at, 100.0, 80.0, 120.0, 1e-9, window, strict, hinted)


def entry_of(*sightings: Sighting, newest: int = 0, block_rounds: int = 2, window: int = 7) -> Entry:
    newest = newest or max(sighting.round for sighting in sightings)
    (entry,) = listed(sightings, newest, window, block_rounds=block_rounds)
    return entry


def test_the_same_reports_found_again_the_next_evening_do_not_block() -> None:
    """A window of two rounds over the day of the first finding, found by the strict rule: no new report."""
    assert not entry_of(seen(1, 1, strict=1)).block
    assert not entry_of(seen(1, 1, strict=1), seen(2, 2, strict=2)).block
    assert not entry_of(seen(1), *(seen(day, 7, strict=day) for day in range(2, 8))).block


def test_rounds_after_the_first_finding_block() -> None:
    assert entry_of(seen(1), seen(2, 1, strict=1)).block
    assert not entry_of(seen(1), seen(2, 1)).block  # a warning again
    assert entry_of(seen(1), seen(3, 1, strict=2)).block
    assert entry_of(seen(1), seen(8, 7, strict=7)).block  # the whole week after it
    assert not entry_of(seen(1), seen(7, 7, strict=7)).block


def test_a_number_that_came_back_is_first_found_anew() -> None:
    """It may have another owner by now."""
    assert entry_of(seen(1), seen(2, 1, 1), newest=8).block
    assert not entry_of(seen(1), seen(2, 1, 1), seen(10, 1, 1)).block
    assert entry_of(seen(1), seen(2, 1, 1), seen(10, 1, 1), seen(11, 1, 1)).block


def test_blocking_ends_with_the_window_of_its_evidence() -> None:
    """Warnings may keep a number on the list. They do not keep it blocked."""
    warned = [seen(day) for day in (3, 5, 7, 9)]
    assert entry_of(seen(1), seen(2, 1, 1), *warned, newest=8).block
    assert not entry_of(seen(1), seen(2, 1, 1), *warned, newest=9).block


def test_an_operator_may_block_at_once_or_wait_longer() -> None:
    assert entry_of(seen(1, strict=1), block_rounds=1).block
    assert not entry_of(seen(1), block_rounds=1).block
    assert not entry_of(seen(1), seen(2, 1, 1), block_rounds=3).block
    assert entry_of(seen(1), seen(3, 1, 1), block_rounds=3).block


def test_an_entry_is_hinted_where_nothing_else_keeps_it_where_it_is() -> None:
    assert entry_of(seen(1, hinted=2)).hinted
    assert not entry_of(seen(1, hinted=2), seen(2)).hinted
    assert entry_of(seen(1), seen(8, hinted=2), newest=8).hinted  # the evidence of its own is past
    assert entry_of(seen(1), seen(2, strict=1, hinted=1)).hinted  # it blocks by a hint
    assert not entry_of(seen(1), seen(2, strict=1, hinted=1), seen(3, strict=1)).hinted
    assert not entry_of(seen(1), seen(1, strict=1, hinted=1)).hinted  # it only warns, without one


@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 7), st.integers(0, 7)), min_size=1, max_size=12,
        unique_by=lambda sighting: sighting[0],
    ),
    st.integers(2, 5),
)  # fmt: skip
def test_what_blocks_shares_no_round_with_the_first_finding(sightings: list[tuple[int, int, int]], least: int) -> None:
    found = [seen(day, max(window, strict), strict) for day, window, strict in sorted(sightings)]
    first = found[0].round
    for sighting in blocking(found, first, least):
        rounds = range(sighting.round - sighting.strict + 1, sighting.round + 1)
        assert min(rounds) > first
        assert sighting.round >= first + least - 1


def test_a_list_says_it_in_all_entries_or_in_none_and_reads_back() -> None:
    entry = entry_of(seen(1, hinted=2))
    tiers = Blocklist(1, 1, START, HEADER, (entry,))
    assert Blocklist.from_bytes(tiers.to_bytes()) == tiers
    assert tiers.to_bytes().splitlines()[1].endswith(b'"window":1,"block":false,"hinted":true}')
    assert tiers.to_block().entries == ()
    older = replace(entry, number="+12025550144", block=None)
    with pytest.raises(InvalidList, match="entries must all say whether they block, or none"):
        Blocklist(1, 1, START, HEADER, (entry, older))
    for bad in (b'"block":1', b'"block":null', b'"hinted":false', b'"block":"yes"'):
        data = tiers.to_bytes().replace(b'"block":false,"hinted":true', bad)
        with pytest.raises(InvalidList):
            Blocklist.from_bytes(data)

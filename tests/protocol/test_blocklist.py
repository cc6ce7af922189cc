"""The list: a function of what was seen, in any order; strict to read; deltas lead exactly where they say."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lists import DAY, START, TERMS, big_list, blocklists, entries, sample, sightings

from hushcall.errors import HushcallError, InvalidList, InvalidParameter
from hushcall.protocol.blocklist import (
    Blocklist,
    Entry,
    ListHeader,
    Sighting,
    apply_delta,
    delta,
    iso,
    listed,
    unix,
)


def seen(number: str, *rounds: int) -> list[Sighting]:
    return [Sighting(number, day, START + day * DAY, 100.0 + day, 80.0, 120.0, 1e-9) for day in rounds]


SPAMMER, OTHER = "+12025550143", "+12025550177"


@given(st.lists(sightings, max_size=30), st.randoms(use_true_random=False), st.integers(0, 45), st.integers(1, 9))
def test_order_and_repetition_do_not_matter(found: list[Sighting], random: object, newest: int, window: int) -> None:
    shuffled = found + found[: len(found) // 2]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert listed(shuffled, newest, window) == listed(found, newest, window)


@given(st.lists(sightings, max_size=30), st.integers(0, 45), st.integers(1, 9))
def test_listed_are_those_seen_in_the_window(found: list[Sighting], newest: int, window: int) -> None:
    recent = {s.number for s in found if newest - window < s.round <= newest}
    result = listed(found, newest, window)
    assert [entry.number for entry in result] == sorted(recent)
    for entry in result:
        days = {s.round for s in found if s.number == entry.number and s.round <= newest}
        assert 1 <= entry.days <= len(days)
        assert entry.low >= 0


@given(st.lists(sightings, max_size=30), st.integers(0, 45))
def test_what_is_never_listed_is_not(found: list[Sighting], newest: int) -> None:
    never = {s.number for s in found[::2]}
    result = listed(found, newest, 7, never)
    assert not never & {entry.number for entry in result}
    assert result == tuple(e for e in listed(found, newest, 7) if e.number not in never)


def test_a_number_leaves_after_a_window_and_starts_anew_when_it_comes_back() -> None:
    assert listed(seen(SPAMMER, 3), newest=9, window_rounds=7)
    assert not listed(seen(SPAMMER, 3), newest=10, window_rounds=7)
    (back,) = listed(seen(SPAMMER, 1, 3, 11), newest=11, window_rounds=7)
    assert (back.days, back.first, back.estimate) == (1, START + 11 * DAY, 111.0)
    (stayed,) = listed(seen(SPAMMER, 1, 3, 10), newest=10, window_rounds=7)
    assert (stayed.days, stayed.first) == (3, START + DAY)


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(1, 8))
def test_an_entry_starts_anew_exactly_when_it_was_off_the_list_for_a_version(rounds: set[int], window: int) -> None:
    found, start = seen(SPAMMER, *rounds), None
    for newest in range(45):
        result = listed(found, newest, window)
        start = None if not result else newest if start is None else start
        if result:
            assert result[0].first == START + (start or 0) * DAY
            assert result[0].days == len([day for day in rounds if (start or 0) <= day <= newest])


def test_two_sightings_of_one_round_are_one_day() -> None:
    twice = [*seen(SPAMMER, 3), replace(seen(SPAMMER, 3)[0], estimate=120.0)]
    assert listed(twice, 3, 7)[0].days == 1


def test_window_must_be_positive() -> None:
    with pytest.raises(InvalidParameter, match="window"):
        listed([], 1, 0)


@given(blocklists())
def test_bytes_read_back_as_the_same_bytes(made: Blocklist) -> None:
    data = made.to_bytes()
    assert Blocklist.from_bytes(data) == made
    assert Blocklist.from_bytes(data).to_bytes() == data
    assert json.loads(data.splitlines()[0])["entries"] == len(made.entries)


def test_whole_numbers_given_as_integers_are_written_as_they_are_read() -> None:
    made = Blocklist(1, 1, START, TERMS, (Entry(SPAMMER, START, START, 1, 118, 97, 140, 0),))
    assert Blocklist.from_bytes(made.to_bytes()).to_bytes() == made.to_bytes()


SPOILT = {
    b'"days":1': [b'"days":0', b'"days":1.0', b'"days":true', b'"days":"1"', b'"days":[[[]]]'],
    b'"p":1e-09': [b'"p":NaN', b'"p":1e-09,"x":1'],
    b'"high":200.0': [b'"high":Infinity', b'"high":"200.0"', b'"high":1' + b"0" * 400],
    b'"number":"+12025550140"': [
        b'"number":"=cmd()"',
        b'"number":"+12025550140\\n"',
        b'"number":"+1202555\\u0660140"',
        b'"number":12025550140',
        b'"number":"+12025550199"',
        b'"number":"+12025550141"',
    ],
    b'"last":"2026-11-15T00:00:00Z"': [
        b'"last":"2026-11-15T00:00:00"',
        b'"last":"2026-11-15T25:00:00Z"',
        b'"last":"2026-W46-7T00:00:00Z"',
        b'"last":20261115',
    ],
    b'"version":12': [b'"version":-1', b'"version":12.0', b'"version": 12'],
    b'"round":12': [b'"round":NaN', b'"round":' + b"[" * 900 + b"]" * 900],
    b'"epsilon":4.0': [b'"epsilon":NaN', b'"epsilon":1' + b"0" * 400, b'"epsilon":true'],
    b'"mechanism":"subspace"': [b'"mechanism":7'],
    b'"window":7': [b'"window":0'],
    b'"entries":11': [b'"entries":12'],
    b"hushcall-list/1": [b"hushcall-list/2"],
    b"\n": [b"\r\n"],
    b"}\n": [b"}\n\n"],
}
"""Pieces of a sound list, each with what may not stand in their place."""


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, spoilt in SPOILT.items() for new in spoilt])
def test_reading_is_strict(old: bytes, new: bytes) -> None:
    data = sample().to_bytes()
    changed = data.replace(old, new, 1)
    assert changed != data
    with pytest.raises(InvalidList):
        Blocklist.from_bytes(changed)


@given(st.data())
def test_a_damaged_list_is_refused_or_is_another_list(data: st.DataObject) -> None:
    whole = bytearray(sample().to_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    try:
        read = Blocklist.from_bytes(bytes(whole))
    except HushcallError:
        return
    assert read.to_bytes() == bytes(whole)


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(InvalidList):
        Blocklist.from_bytes(noise)
    with pytest.raises(InvalidList):
        apply_delta(sample().to_bytes(), noise)


@pytest.mark.parametrize("end", [0, 1, 40, -1, -60])
def test_a_list_cut_short_is_refused(end: int) -> None:
    with pytest.raises(InvalidList):
        Blocklist.from_bytes(sample().to_bytes()[:end])


def test_a_list_cannot_be_built_out_of_order_or_with_what_is_no_number() -> None:
    first, second = (Entry(number, START, START, 1, 9.0, 1.0, 20.0, 1e-9) for number in (SPAMMER, OTHER))
    for wrong in ((second, first), (first, first)):
        with pytest.raises(InvalidList, match="sorted"):
            Blocklist(1, 1, START, TERMS, wrong)
    for number in ("911", "12025550143", "+0123456789", "+1234567890123456", "+1202555014\n", "+120255501٤٣"):
        with pytest.raises(InvalidList, match="number must be a plus"):
            replace(first, number=number)
    with pytest.raises(InvalidList, match="high must be a finite number"):
        replace(first, high=float("inf"))
    with pytest.raises(InvalidParameter, match="window"):
        ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 0)


@given(blocklists(), entries())
def test_a_delta_leads_to_the_new_bytes(old: Blocklist, other: tuple[Entry, ...]) -> None:
    kept = {e.number: e for e in (*old.entries[::2], *other)}
    new = Blocklist(old.version + 1, old.round + 1, old.made + DAY, old.header, tuple(sorted(kept.values())))
    change = delta(old, new)
    assert apply_delta(old.to_bytes(), change) == new.to_bytes()
    again = delta(Blocklist.from_bytes(old.to_bytes()), Blocklist.from_bytes(new.to_bytes()))
    assert again == change


def test_a_delta_tells_only_what_changed() -> None:
    old = sample()
    assert delta(old, replace(old, version=13)).count(b"\n") == 1
    fewer = replace(old, version=13, entries=old.entries[1:])
    assert delta(old, fewer).splitlines()[1:] == [b'{"remove":"+12025550140"}']


def test_a_zero_has_no_sign() -> None:
    old = Blocklist(1, 1, START, TERMS, (Entry(SPAMMER, START, START, 1, 0.0, 0.0, 1.0, 1e-9),))
    new = replace(old, version=2, entries=(replace(old.entries[0], estimate=-0.0),))
    assert new.entries == old.entries
    assert apply_delta(old.to_bytes(), delta(old, new)) == new.to_bytes()
    assert b"-0.0" not in new.to_bytes()


def test_tampered_deltas_are_refused() -> None:
    old = sample()
    new = replace(
        old, version=13, entries=(*old.entries[2:], Entry("+12025550199", START, START, 1, 9.0, 1.0, 20.0, 0))
    )
    change = delta(old, new)
    assert apply_delta(old.to_bytes(), change) == new.to_bytes()
    for wrong in (
        change.replace(b"+12025550199", b"+12025550198"),
        change.replace(b'{"remove":"+12025550140"}\n', b""),
        change.replace(b'"estimate":9.0', b'"estimate":9.1'),
        change.replace(b'"version":13', b'"version":14'),
        change.replace(b"hushcall-delta/1", b"hushcall-delta/2"),
        change.replace(b'"header":', b'"heading":'),
        change.replace(b'"header":{', b'"header":[{').replace(b"}}", b"}]}"),
        change + b'{"remove":"+12025550150"}\n',
        change + b"{}\n",
        change + b"\n",
        change[:-1],
        b"",
        b"[]\n",
        b"[" * 100_000,
    ):
        assert wrong != change
        with pytest.raises(InvalidList):
            apply_delta(old.to_bytes(), wrong)
    for base in (new.to_bytes(), b"", old.to_bytes()[:-1], replace(old, version=11).to_bytes()):
        with pytest.raises(InvalidList):
            apply_delta(base, change)


@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_times_are_printed_and_read_alike(moment: int) -> None:
    assert len(iso(moment)) == 20
    assert unix(iso(moment)) == moment


@settings(max_examples=300)
@given(st.text(max_size=25))
def test_no_other_text_is_a_time(text: str) -> None:
    try:
        moment = unix(text)
    except ValueError:
        return
    assert iso(moment) == text


def test_a_phone_follows_a_delta_without_parsing_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a hundred thousand entries a fraction of a second's work."""
    old, new = big_list(5_000), big_list(5_000, version=2, step=2)
    data, change, expected = old.to_bytes(), delta(old, new), new.to_bytes()
    monkeypatch.setattr(Entry, "from_line", lambda _: pytest.fail("an entry was parsed"))
    assert apply_delta(data, change) == expected


def test_a_list_of_format_2_says_over_how_many_rounds_and_when_to_block() -> None:
    terms = ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7, block_days=2)
    once = Entry("+12025550143", 0, 0, 1, 20.0, 12.0, 30.0, 1e-9, window=1)
    twice, weekly = replace(once, number="+12025550144", days=2), replace(once, number="+12025550145", window=7)
    made = Blocklist(1, 3, 0, terms, (once, twice, weekly))
    assert made.format == "hushcall-list/2"
    assert Blocklist.from_bytes(made.to_bytes()) == made
    assert [terms.block(entry) for entry in made.entries] == [False, True, True]
    assert [entry.number for entry in made.to_block().entries] == ["+12025550144", "+12025550145"]
    older = Blocklist(1, 3, 0, replace(terms, block_days=None), (replace(once, window=0),))
    assert older.format == "hushcall-list/1"
    assert b"window" not in older.to_bytes().splitlines()[1]
    assert older.to_block() == older
    assert apply_delta(older.to_bytes(), delta(older, made)) == made.to_bytes()
    for mixed in ((replace(once, window=0),), (replace(once, window=0), twice)):
        with pytest.raises(InvalidList, match="have a window in hushcall-list/2"):
            Blocklist(1, 3, 0, terms, mixed)

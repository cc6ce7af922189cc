"""The round document: what its writer writes its reader reads, whatever the round; and the bytes are those of 0.1."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.parameters import from_plain, to_plain
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.protocol.round_document import MAX_ROUND, MAX_WINDOW_DAYS, RoundInfo, bucket_parameters
from hushcall.protocol.states import COLLECTING, RoundState

SECONDS = st.integers(0, 2_000_000_000)
TERMS = st.builds(
    bucket_parameters, st.integers(1, 99), st.builds(Subspace, st.just(4.0), st.integers(5, 24)).map(to_plain)
)


@st.composite
def rounds(draw: st.DrawFn) -> RoundInfo:
    opens, collects, closes = sorted(draw(SECONDS) for _ in range(3))
    return RoundInfo(
        round=draw(st.integers(0, MAX_ROUND)),
        state=draw(st.sampled_from(RoundState)),
        opens=opens,
        collects=collects,
        closes=closes,
        server_time=draw(SECONDS),
        seed=draw(st.binary(min_size=32, max_size=32)),
        plan=draw(st.text(max_size=20)),
        window=draw(st.integers(1, MAX_WINDOW_DAYS)),
        mechanism=draw(st.text(max_size=20)),
        epsilon=draw(st.floats(0.1, 20)),
        buckets=draw(st.none() | st.dictionaries(st.integers(0, 999).map(str), TERMS, max_size=3)),
        profile=draw(st.text(max_size=20)),
        tau=draw(st.integers(0, 1000)),
        level=draw(st.floats(1e-9, 0.5)),
    )


@given(rounds())
def test_what_is_written_is_read_back_through_json(info: RoundInfo) -> None:
    again = RoundInfo.from_plain(json.loads(json.dumps(info.to_plain())))
    assert again == info
    assert again.to_plain() == info.to_plain()


def test_the_keys_stand_in_the_order_in_which_they_were_always_sent() -> None:
    info = RoundInfo(
        12, COLLECTING, 0, 1, 2, 1, bytes(32), "nanp-2026", 7, "subspace", 4.0, None, "balanced", 10, 0.001
    )
    assert json.dumps(info.to_plain()) == (
        '{"server_time": "1970-01-01T00:00:01Z", "round": 12, "state": "collecting", "opens": "1970-01-01T00:00:00Z", '
        '"collects": "1970-01-01T00:00:01Z", "closes": "1970-01-01T00:00:02Z", "seed": "' + "00" * 32 + '", '
        '"plan": "nanp-2026", "window": 7, "profile": {"name": "balanced", "mechanism": "subspace", "epsilon": 4.0, '
        '"tau": 10, "level": 0.001}, "buckets": null}'
    )


@given(st.sampled_from(["round", "state", "opens", "seed", "window", "profile", "buckets"]), st.data())
def test_whatever_stands_in_a_field_is_read_or_refused(field: str, data: st.DataObject) -> None:
    anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
    document: dict[str, Any] = data.draw(rounds()).to_plain() | {field: data.draw(anything)}
    with suppress(InvalidParameter):  # and no other error
        RoundInfo.from_plain(document)


@pytest.mark.parametrize("terms", [None, 7, {}, {"runs": False}, {"runs": 1, "parameters": {}}])
def test_a_bucket_that_does_not_run_has_no_parameters(terms: Any) -> None:
    info = RoundInfo(1, COLLECTING, 0, 1, 2, 1, bytes(32), "p", 7, "subspace", 4.0, {"202": terms})
    assert info.parameters_for(202) is None
    assert info.parameters_for(203) is None


def test_the_parameters_of_a_bucket_become_the_mechanism_they_came_from() -> None:
    mechanism = Subspace(4.0, 8)
    terms = {"202": bucket_parameters(3, to_plain(mechanism))}
    plain = RoundInfo(1, COLLECTING, 0, 1, 2, 1, bytes(32), "p", 7, "subspace", 4.0, terms).parameters_for(202)
    assert plain is not None
    assert from_plain(plain) == mechanism

"""What crowds add, on the pages: the same figures as ``hushcall privacy``, for the sizes that rounds have."""

from dataclasses import replace

import pytest
import sqlalchemy as sa
from tests.server.web.seeded import Seeded

from hushcall.mechanisms.privacy.shuffle import shuffled_epsilon
from hushcall.mechanisms.profiles import DEFAULT
from hushcall.server.db import schema
from hushcall.server.web.budget import Budget, sets_of_any_size, sets_of_newest_round


def test_readers_meet_the_crowds_bound_and_a_server_only_where_it_cannot_tell_whose() -> None:
    open_ones = sets_of_any_size(Budget(DEFAULT, 7))
    assert [row.size for row in open_ones] == [1_000, 10_000, 100_000, 1_000_000]
    assert [row.readers for row in open_ones] == [shuffled_epsilon(DEFAULT.epsilon, row.size) for row in open_ones]
    assert {row.server for row in open_ones} == {DEFAULT.epsilon}
    anonymous = replace(DEFAULT, anonymous=True)
    assert {row.server for row in sets_of_any_size(Budget(anonymous, 7))} == {DEFAULT.epsilon}  # addresses are seen
    hidden = sets_of_any_size(Budget(anonymous, 7, relay=True))
    assert [row.server for row in hidden] == [row.readers for row in hidden]


def test_named_reports_hide_nobody_from_the_server(seeded: Seeded) -> None:
    """What the page said before: a set of 1,000 with nobody anonymous in it, and an ε as if all were."""
    store, rows = seeded.service.store, schema.buckets.c
    anonymous = Budget(replace(DEFAULT, anonymous=True), 7, relay=True)
    assert {row.server for row in sets_of_newest_round(store, anonymous)} == {DEFAULT.epsilon}
    with store.write("some") as connection:
        connection.execute(sa.update(schema.buckets).where(rows.runs.is_(True)).values(anonymous=rows.users // 2))
    for row in sets_of_newest_round(store, anonymous):
        assert row.anonymous == row.size // 2
        assert row.readers == pytest.approx(shuffled_epsilon(DEFAULT.epsilon, row.size))
        assert row.server == pytest.approx(shuffled_epsilon(DEFAULT.epsilon, row.anonymous))


def test_the_newest_rounds_crowds_are_those_of_buckets_that_run(seeded: Seeded) -> None:
    store, rows = seeded.service.store, schema.buckets.c
    newest = max(row.round for row in store.rows(sa.select(rows.round)))
    sizes = sorted(
        row.users for row in store.rows(sa.select(rows.users).where(rows.round == newest, rows.runs.is_(True)))
    )
    found = sets_of_newest_round(store, Budget(DEFAULT, 7))
    assert [row.size for row in found] == [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    assert [row.kind for row in found] == ["smallest", "median", "largest"]
    assert found[0].readers == pytest.approx(shuffled_epsilon(DEFAULT.epsilon, sizes[0]))

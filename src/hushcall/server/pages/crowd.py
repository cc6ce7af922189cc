"""What a crowd adds to a report's own ε, for the pages: how rounds are run comes in, who can learn how much leaves.

Everybody may see what crowds of round sizes would buy. How large the crowds of this service are is the operators' to
see: it says how many phones there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sqlalchemy as sa

from hushcall.privacy.statement import Deployment, Row, statement
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.pages.health import Budget

SIZES = (1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Crowd:
    """So many reports in one pile, and ε of one of them against those who look."""

    size: int
    what: str
    readers: float
    server: float


def of_any_size(budget: Budget) -> list[Crowd]:
    """What this budget comes to in crowds of round sizes."""
    return [_crowd(budget, size, "") for size in SIZES]


def of_newest_round(store: Store, budget: Budget) -> list[Crowd]:
    """The crowds of the newest round whose buckets are decided: the smallest that runs, the median, the largest."""
    rows = schema.buckets.c
    newest = sa.select(sa.func.max(rows.round)).scalar_subquery()
    query = sa.select(rows.users).where(rows.round == newest, rows.runs.is_(True)).order_by(rows.users)
    sizes = [row.users for row in store.rows(query)]
    if len(sizes) < 2:
        return [_crowd(budget, size, "all together") for size in sizes]
    places = (("smallest", 0), ("median", len(sizes) // 2), ("largest", -1))
    return [_crowd(budget, sizes[place], what) for what, place in places]


def _crowd(budget: Budget, size: int, what: str) -> Crowd:
    profile = budget.profile
    readers, server, _ = _rows(profile.epsilon, max(size, 1), profile.bucketed, profile.anonymous, budget.relay)
    return Crowd(size, what, readers.report, server.report)


@lru_cache(maxsize=256)
def _rows(epsilon: float, crowd: int, bucketed: bool, anonymous: bool, relay: bool) -> tuple[Row, Row, Row]:
    return statement(Deployment(epsilon, crowd, bucketed, anonymous, relay))

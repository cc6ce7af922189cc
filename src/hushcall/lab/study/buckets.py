"""A day's buckets: the calls of a day and how many phones take part come in, who holds what in each bucket leaves."""

from __future__ import annotations

import numpy as np

from hushcall.lab.data.datasets import Calls
from hushcall.lab.study import bucket_model
from hushcall.numbers import NANP
from hushcall.protocol.items import WHOLE, ItemCodec


def buckets_of(
    calls: Calls, day: int, users: int, generator: np.random.Generator, codec: ItemCodec
) -> dict[int, bucket_model.Bucket]:
    """The day's buckets by area code (or the one of a round with nothing in the clear), dummies included."""
    areas, suffixes, counts = calls.counts(day)
    missing = users - int(counts.sum())
    plan = np.array(NANP.area_codes)
    if not codec.bucketed:
        places = np.searchsorted(plan, areas).astype(np.int64)
        items = codec.compose(places, areas.astype(np.int64), suffixes.astype(np.int64), NANP)
        return {WHOLE: bucket_model.Bucket(items, counts.astype(np.int64), missing)}
    dummies = dict(
        zip(NANP.area_codes, generator.multinomial(missing, np.full(len(plan), 1 / len(plan))).tolist(), strict=True)
    )
    present = np.unique(areas)
    out = {}
    for area in sorted({*present.tolist(), *(a for a, d in dummies.items() if d)}):
        mine = areas == area
        out[area] = bucket_model.Bucket(
            suffixes[mine].astype(np.int64), counts[mine].astype(np.int64), dummies.get(area, 0)
        )
    return out

"""Decode tasks whose rounds were read already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hushcall.decoding.task import BucketSpec, DecodeTask, RoundTally
from hushcall.mechanisms.parameters import to_plain
from hushcall.mechanisms.profiles import Profile
from hushcall.protocol.numbers import NANP


@dataclass(frozen=True)
class _Spec(BucketSpec):
    """Has an aggregator of another domain than its plan's."""

    other: Any = None

    @property
    def aggregator(self) -> Any:
        return self.other


@dataclass(frozen=True)
class _Read:
    """A shard that is in memory."""

    mine: Any

    def tally(self, bucket: BucketSpec) -> Any:
        return self.mine

    def checked(self, bucket: BucketSpec, tally: Any) -> Any:
        return tally

    def split(self) -> Sequence[_Read]:
        return [self]


def task_of(key: tuple[int, int, int], rounds: Sequence[RoundTally], profile: Profile, parts: int = 1) -> DecodeTask:
    """The rounds of one bucket, newest first."""
    round_id, number, part = key
    specs = [
        _Spec(
            round_id - entry.age_rounds,
            number,
            entry.tally.count,
            1,
            profile,
            NANP,
            to_plain(entry.aggregator.mechanism),
            entry.aggregator,
        )
        for entry in rounds
    ]
    stored = zip(specs, (_Read(entry.tally) for entry in rounds), strict=True)
    return DecodeTask(specs[0], tuple(stored), part, parts)

"""What the decoders work on: buckets of rounds, their tallies, and one part of a bucket to be decoded.

Imports no numpy: a server that decodes nothing stays small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from hushcall.decoding.hints import NO_HINTS, Hints
from hushcall.errors import InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.mechanisms.bucket_setup import aggregator_of
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.registry import spec_named
from hushcall.protocol.items import ItemCodec
from hushcall.protocol.numbers import Number, NumberingPlan

if TYPE_CHECKING:
    from hushcall.mechanisms.aggregator import Aggregator, PoolingAggregator
    from hushcall.mechanisms.decision import HeavyHitter
    from hushcall.mechanisms.report_arrays import ReportArrays
    from hushcall.mechanisms.tallies import Tally

T = TypeVar("T", bound="Mergeable")
Key: TypeAlias = tuple[int, int, int]
"""(round, bucket, part)"""


@dataclass(frozen=True)
class BucketSpec:
    """One bucket of one round as it was opened. ``buckets`` is how many are decided together.

    ``parameters`` are the mechanism's. The plan is here itself, since a decoder knows only the shipped ones by name.
    The reports about hundreds are a bucket of their own, whose ``bucket`` is minus the area code.
    """

    round: int
    bucket: int
    users: int
    buckets: int
    profile: Profile
    plan: NumberingPlan = field(repr=False)
    parameters: Mapping[str, Any]

    @cached_property
    def aggregator(self) -> Aggregator[Any]:
        return aggregator_of(self.profile, self.plan, parameters.from_plain(self.parameters), self.buckets)

    @property
    def items(self) -> ItemCodec:
        spec = self.profile.spec
        return spec_named(spec.hundreds).items if self.bucket < 0 else spec.items

    @property
    def hundreds(self) -> BucketSpec:
        """The same bucket's reports about hundreds."""
        mechanism = parameters.about_hundreds(parameters.from_plain(self.parameters), self.plan)
        return replace(self, bucket=-self.bucket, parameters=parameters.to_plain(mechanism))

    def tally(self, round_seed: bytes, chunks: Iterable[ReportArrays]) -> Tally:
        aggregator, users = self.aggregator, self.users
        parts = (aggregator.compact(aggregator.tally_arrays(round_seed, chunk), users) for chunk in chunks)
        total: Tally = merged(parts, aggregator.tally([]), grows=aggregator.grows(users))
        return total


@dataclass(frozen=True)
class RoundTally:
    """One round of a bucket, read back for a decision. The newest round has age 0."""

    age_rounds: int
    aggregator: Aggregator[Any]
    tally: Any

    @property
    def pooling(self) -> PoolingAggregator[Any]:
        if self.aggregator.pooling is None:
            raise InvalidParameter("mechanism", "be one whose rounds add up", self.aggregator.mechanism.name)
        return self.aggregator.pooling


class Shard(Protocol):
    """Where some of a round's reports are. Any worker can tally them."""

    def tally(self, bucket: BucketSpec) -> Tally:
        """The sum of these reports, checked."""

    def checked(self, bucket: BucketSpec, tally: Tally) -> Tally:
        """The same tally. It is an error if it is not the sum of these reports."""

    def split(self) -> Sequence[Shard]:
        """One shard for each file."""


@dataclass(frozen=True)
class DecodeTask:
    """Everything that decoding one part of one bucket takes, for any process or machine.

    ``rounds`` are those of the window, the newest first, each with its sealed tally or with the shard to make it from.
    """

    bucket: BucketSpec
    rounds: tuple[tuple[BucketSpec, bytes | Shard], ...] = field(repr=False)
    part: int = 0
    parts: int = 1
    hints: Hints = field(default=NO_HINTS, repr=False)
    numbers: DecodeTask | None = field(default=None, repr=False)
    """Of reports about hundreds: the same bucket's reports about numbers."""

    @classmethod
    def of_sealed(
        cls,
        bucket: BucketSpec,
        sealed: Iterable[tuple[int, Mapping[str, Any], bytes]],
        part: int = 0,
        parts: int = 1,
        hints: Hints = NO_HINTS,
    ) -> DecodeTask:
        """From sealed tallies: (round, parameters, bytes) in any order, gaps allowed, those too old left out."""
        ordered = sorted(sealed, key=lambda entry: -entry[0])
        numbers = [number for number, *_ in ordered]
        if any(number > bucket.round for number in numbers) or len(set(numbers)) < len(numbers):
            raise InvalidParameter("rounds", f"be different ones up to {bucket.round}", numbers)
        rounds = tuple(
            (replace(bucket, round=number, parameters=plain), data)
            for number, plain, data in ordered
            if bucket.round - number < bucket.profile.reach
        )
        return cls(bucket, rounds, part, parts, hints)

    @property
    def key(self) -> Key:
        return self.bucket.round, self.bucket.bucket, self.part

    @property
    def profile(self) -> Profile:
        """The newest round's, which decides for the whole window."""
        return self.bucket.profile

    def tallies(self, sums: Sequence[Tally] | None = None) -> list[RoundTally]:
        tallies = []
        for place, (bucket, source) in enumerate(self.rounds):
            if isinstance(source, bytes):
                tally = bucket.aggregator.from_bytes(source)
            else:
                tally = source.tally(bucket) if sums is None else source.checked(bucket, sums[place])
            tallies.append(RoundTally(self.bucket.round - bucket.round, bucket.aggregator, tally))
        return tallies

    def shards(self) -> list[list[tuple[BucketSpec, Shard]]]:
        """By round, what several workers can tally; nothing where sums would travel for no gain."""
        rounds = []
        for bucket, source in self.rounds:
            if isinstance(source, bytes):
                return []
            # A round without a report has no file, and is then tallied as it is.
            shards = [] if bucket.aggregator.grows(bucket.users) else source.split()
            rounds.append([(bucket, shard) for shard in shards or [source]])
        return rounds if any(len(shards) > 1 for shards in rounds) else []


class Backend(Protocol):
    """One way to work through decode tasks. All give the same findings."""

    @property
    def width(self) -> int:
        """In how many parts to decode a bucket: more would repeat what the parts share."""

    @property
    def ahead(self) -> int:
        """How many tasks it takes from the iterable before it gives the first findings."""

    def decode(self, tasks: Iterable[DecodeTask]) -> Iterator[Findings]:
        """Decode every task. Findings come in any order."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Findings:
    """The heavy hitters of one part of a bucket. Every backend gives the same ones.

    Estimates lie within their intervals. ``reports`` are the newest round's.
    """

    key: Key
    reports: int
    hitters: tuple[HeavyHitter, ...]

    @classmethod
    def of(cls, task: DecodeTask, tallies: Iterable[RoundTally], hitters: Iterable[HeavyHitter]) -> Findings:
        reports = sum(entry.tally.count for entry in tallies if entry.age_rounds == 0)
        return cls(task.key, reports, tuple(replace(hitter, estimate=hitter.clamped) for hitter in hitters))

    def figures(self, bucket: BucketSpec) -> Iterator[tuple[Number, dict[str, Any]]]:
        """Each finding with its number. A hundred has its first one."""
        for hitter in self.hitters:
            if number := bucket.items.number(hitter.item, abs(bucket.bucket), bucket.plan):
                values = {name: float(getattr(hitter, name)) for name in ("estimate", "low", "high", "p_value")}
                whole = {name: int(getattr(hitter, name)) for name in ("length", "strict", "hinted")}
                yield number, {**values, **whole, "implausible": bool(hitter.implausible)}


class Mergeable(Protocol):
    def merge(self, other: Self, /) -> Self: ...


def merged(parts: Iterable[T], nothing: T, *, grows: bool = True) -> T:
    """The sum of many tallies.

    Those that grow are added to one of their own size: n·log n bytes moved, not n². The others are added as they come,
    so that two exist at a time.
    """
    if not grows:
        remaining = iter(parts)
        return reduce(lambda total, part: total.merge(part), remaining, next(remaining, nothing))
    waiting: list[tuple[int, T]] = []
    for part in parts:
        size, tally = 1, part
        while waiting and waiting[-1][0] <= size:
            before_size, before = waiting.pop()
            size, tally = size + before_size, before.merge(tally)
        waiting.append((size, tally))
    total = waiting.pop()[1] if waiting else nothing
    while waiting:
        total = waiting.pop()[1].merge(total)
    return total

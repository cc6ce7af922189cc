"""Archived rounds come in, the evidence of their buckets leaves: addresses and parameters, read by whoever decodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hushcall.archive.manifest import Address, ArchivedBucket, ArchivedRound
from hushcall.archive.reader import read_file
from hushcall.engines.evidence import merged
from hushcall.errors import InvalidArchive
from hushcall.learn.bucket_setup import learner_of
from hushcall.learn.learner import Learner
from hushcall.learn.window import Past
from hushcall.numbers import plan_named
from hushcall.profiles import Profile, window_of


@dataclass(frozen=True)
class BucketOfRound:
    """One archived bucket of one round: where its reports are, and what its phones were given."""

    url: str
    round: ArchivedRound = field(repr=False)  # without its buckets: it travels with every part
    bucket: ArchivedBucket = field(repr=False)

    def learner(self, profile: Profile, decided_together: int) -> Learner[Any]:
        """With the parameters that the phones were given, to be decided as that profile says."""
        return learner_of(profile, plan_named(self.round.plan), self.bucket.mechanism, decided_together)

    def tally(self, learner: Learner[Any]) -> Any:
        """Read the bucket's files and sum up; fewer or more reports than the manifest says are an error."""
        users = self.bucket.users
        parts = (learner.compact(part, users) for part in self._parts(learner))
        total = merged(parts, learner.tally([]))
        if total.count != self.bucket.reports:
            raise InvalidArchive(f"bucket {self.bucket.bucket}", f"hold {self.bucket.reports} reports", total.count)
        return total

    def _parts(self, learner: Learner[Any]) -> Iterator[Any]:
        address, seed = Address(self.url), bytes.fromhex(self.round.seed)
        for file in self.bucket.files:
            for reports in read_file(address, self.round, file):
                yield learner.tally_arrays(seed, reports)


@dataclass(frozen=True)
class ArchiveEvidence:
    """One part of one archived bucket, in every round of the window: the newest first, which is the one decided."""

    rounds: tuple[BucketOfRound, ...]
    decided_together: int
    part: int

    @property
    def newest(self) -> BucketOfRound:
        """The bucket in the round that is decided."""
        return self.rounds[0]

    @property
    def key(self) -> tuple[int, int, int]:
        """(round, bucket, part): what findings are sorted and told apart by."""
        return self.newest.round.round, self.newest.bucket.bucket, self.part

    @cached_property
    def profile(self) -> Profile:
        """What the newest round was run with: it decides for the whole window."""
        return self.newest.round.chosen_profile

    @cached_property
    def learner(self) -> Learner[Any]:
        """Of the newest round."""
        return self.newest.learner(self.profile, self.decided_together)

    def tally(self) -> Any:
        """The newest round's reports, summed up."""
        return self.newest.tally(self.learner)

    def past(self) -> list[Past]:
        """Every round's reports, summed up."""
        return [Past(0, self.learner, self.tally()), *map(self._earlier, self.rounds[1:])]

    def _earlier(self, one: BucketOfRound) -> Past:
        learner = one.learner(self.profile, self.decided_together)
        return Past(self.key[0] - one.round.round, learner, one.tally(learner))


def rounds_in_window(found: ArchivedRound, others: Sequence[ArchivedRound] = ()) -> list[ArchivedRound]:
    """Those of the given rounds that are decided together with one, newest first, itself before them.

    An archive holds no verdicts: a round that its server discarded is one like any other here. What is to be in no
    window must not be given.
    """
    older = sorted((one for one in others if one.round < found.round), key=lambda one: one.round)
    known = {one.round: one for one in [*older, found]}
    inside = window_of([(one.round, one.plan, one.chosen_profile) for one in known.values()])
    return [known[number] for number in reversed(inside)]


def evidence_of(
    address: Address, found: ArchivedRound, others: Sequence[ArchivedRound] = ()
) -> Iterator[ArchiveEvidence]:
    """Every part of every bucket that the round ran, the largest first, so that no worker is left alone with one."""
    window = rounds_in_window(found, others)
    slim = [replace(one, buckets=()) for one in window]
    ran = [{bucket.bucket: bucket for bucket in one.buckets} for one in window]
    for number in _largest_first(ran):
        given = zip(slim, ran, strict=True)
        rounds = tuple(BucketOfRound(address.url, one, its[number]) for one, its in given if number in its)
        for part in range(found.chosen_profile.scheme.parts):
            yield ArchiveEvidence(rounds, found.decided_together, part)


def _largest_first(ran: Sequence[dict[int, ArchivedBucket]]) -> list[int]:
    """The newest round's buckets, by their reports in all rounds."""
    sizes = {number: sum(its[number].reports for its in ran if number in its) for number in ran[0]}
    return sorted(sizes, key=lambda number: (-sizes[number], number))

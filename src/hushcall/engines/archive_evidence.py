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
    """One archived bucket of one round, or some of its files: where its reports are, and what decides about them."""

    url: str
    round: ArchivedRound = field(repr=False)  # without its buckets: it travels with every part
    bucket: ArchivedBucket = field(repr=False)
    profile: Profile  # the newest round's, which decides for the whole window
    decided_together: int

    @cached_property
    def learner(self) -> Learner[Any]:
        """With the parameters that the phones were given."""
        return learner_of(self.profile, plan_named(self.round.plan), self.bucket.mechanism, self.decided_together)

    def tally(self) -> Any:
        """Read the files and sum up; fewer or more reports than the manifest says are an error."""
        learner, users = self.learner, self.bucket.users
        parts = (learner.compact(part, users) for part in self._parts())
        return self.whole(merged(parts, learner.tally([]), grows=learner.grows(users)))

    def whole(self, total: Any) -> Any:
        """A sum of all files, checked to be that."""
        if total.count != self.bucket.reports:
            raise InvalidArchive(f"bucket {self.bucket.bucket}", f"hold {self.bucket.reports} reports", total.count)
        return total

    def by_file(self) -> list[BucketOfRound]:
        """One for each file, to be tallied apart."""
        alone = [replace(self.bucket, files=(file,), reports=file.reports) for file in self.bucket.files]
        return [replace(self, bucket=one) for one in alone]

    def _parts(self) -> Iterator[Any]:
        address, seed = Address(self.url), bytes.fromhex(self.round.seed)
        for file in self.bucket.files:
            for reports in read_file(address, self.round, file):
                yield self.learner.tally_arrays(seed, reports)


@dataclass(frozen=True)
class ArchiveEvidence:
    """One part of one archived bucket, in every round of the window: the newest first, which is the one decided."""

    rounds: tuple[BucketOfRound, ...]
    part: int
    parts: int

    @property
    def newest(self) -> BucketOfRound:
        """The bucket in the round that is decided."""
        return self.rounds[0]

    @property
    def key(self) -> tuple[int, int, int]:
        """(round, bucket, part): what findings are sorted and told apart by."""
        return self.newest.round.round, self.newest.bucket.bucket, self.part

    @property
    def profile(self) -> Profile:
        """What the newest round was run with: it decides for the whole window."""
        return self.newest.profile

    @property
    def learner(self) -> Learner[Any]:
        """Of the newest round."""
        return self.newest.learner

    def tally(self) -> Any:
        """The newest round's reports, summed up."""
        return self.newest.tally()

    def past(self, tallies: Sequence[Any] | None = None) -> list[Past]:
        """Every round's reports, summed up: here, unless others did it."""
        given = [one.tally() for one in self.rounds] if tallies is None else tallies
        summed = zip(self.rounds, given, strict=True)
        return [Past(self.key[0] - one.round.round, one.learner, one.whole(tally)) for one, tally in summed]

    def pieces(self) -> list[list[BucketOfRound]]:
        """By round, what several workers can tally; nothing where partial sums would travel for no gain."""
        small = all(len(one.bucket.files) < 2 or one.learner.grows(one.bucket.users) for one in self.rounds)
        # A round without a report has no file, and is then tallied as it is.
        return [] if small else [one.by_file() or [one] for one in self.rounds]


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
    address: Address, found: ArchivedRound, others: Sequence[ArchivedRound] = (), width: int = 1
) -> Iterator[ArchiveEvidence]:
    """Every part of every bucket that the round ran, the largest first, so that no worker is left alone with one.

    ``width`` is in how many parts a bucket is worked on at most; only whole numbers have any.
    """
    window = rounds_in_window(found, others)
    slim = [replace(one, buckets=()) for one in window]
    ran = [{bucket.bucket: bucket for bucket in one.buckets} for one in window]
    profile, together = found.chosen_profile, found.decided_together
    parts = min(profile.scheme.parts, width)
    for number in _largest_first(ran):
        given = [(one, its[number]) for one, its in zip(slim, ran, strict=True) if number in its]
        rounds = tuple(BucketOfRound(address.url, one, bucket, profile, together) for one, bucket in given)
        for part in range(parts):
            yield ArchiveEvidence(rounds, part, parts)


def _largest_first(ran: Sequence[dict[int, ArchivedBucket]]) -> list[int]:
    """The newest round's buckets, by their reports in all rounds."""
    sizes = {number: sum(its[number].reports for its in ran if number in its) for number in ran[0]}
    return sorted(sizes, key=lambda number: (-sizes[number], number))

"""An archived round comes in, the evidence of its buckets leaves: addresses and parameters, read by whoever decodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hushcall.archive.manifest import Address, ArchivedBucket, ArchivedRound
from hushcall.archive.reader import read_file
from hushcall.engines.evidence import merged
from hushcall.errors import InvalidArchive
from hushcall.learn.bucket_setup import learner_of
from hushcall.learn.learner import Learner
from hushcall.numbers import plan_named
from hushcall.profiles import Profile


@dataclass(frozen=True)
class ArchiveEvidence:
    """One part of one archived bucket."""

    url: str
    round: ArchivedRound = field(repr=False)  # without its buckets: it travels with every part
    decided_together: int
    bucket: ArchivedBucket = field(repr=False)
    part: int

    @property
    def key(self) -> tuple[int, int, int]:
        """(round, bucket, part): what findings are sorted and told apart by."""
        return self.round.round, self.bucket.bucket, self.part

    @cached_property
    def profile(self) -> Profile:
        """What the round was run with."""
        return self.round.chosen_profile

    @property
    def tau(self) -> float:
        """The profile's τ: what fewer phones report is not listed."""
        return self.profile.tau

    @property
    def parts(self) -> int:
        """In how many parts the scheme decodes a bucket."""
        return self.profile.scheme.parts

    @cached_property
    def learner(self) -> Learner[Any]:
        """With the parameters that the phones were given."""
        return learner_of(self.profile, plan_named(self.round.plan), self.bucket.mechanism, self.decided_together)

    def tally(self) -> Any:
        """Read the bucket's files and sum up; fewer or more reports than the manifest says are an error."""
        learner, users = self.learner, self.bucket.users
        total = merged((learner.compact(part, users) for part in self._parts()), learner.tally([]))
        if total.count != self.bucket.reports:
            raise InvalidArchive(f"bucket {self.bucket.bucket}", f"hold {self.bucket.reports} reports", total.count)
        return total

    def _parts(self) -> Iterator[Any]:
        address, seed = Address(self.url), bytes.fromhex(self.round.seed)
        for file in self.bucket.files:
            for reports in read_file(address, self.round, file):
                yield self.learner.tally_arrays(seed, reports)


def evidence_of(address: Address, found: ArchivedRound) -> Iterator[ArchiveEvidence]:
    """Every part of every bucket, the largest buckets first, so that no worker is left alone with one at the end."""
    slim = replace(found, buckets=())
    for bucket in sorted(found.buckets, key=lambda one: (-one.reports, one.bucket)):
        for part in range(found.chosen_profile.scheme.parts):
            yield ArchiveEvidence(address.url, slim, found.decided_together, bucket, part)

"""Decodes archived rounds without a server, as ``hushcall learn`` does.

A round is decided as a server decides it: together with the rounds before it that its windows reach.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hushcall.decoding.archive.files import read_file
from hushcall.decoding.archive.manifest import Address, ArchivedBucket, ArchivedFile, ArchivedRound
from hushcall.decoding.hints import NO_HINTS, RoundHints
from hushcall.decoding.task import Backend, BucketSpec, DecodeTask
from hushcall.errors import InvalidArchive
from hushcall.mechanisms.profiles import window_of
from hushcall.mechanisms.tallies import Tally
from hushcall.protocol.numbers import plan_named

FIGURES = ("estimate", "low", "high", "p_value", "length", "strict", "hinted")


@dataclass(frozen=True)
class Learnt:
    """The findings of a round, largest first. ``rounds`` are those of its window, oldest first."""

    round: int
    rounds: tuple[int, ...]
    reports: int
    listed: tuple[dict[str, Any], ...]

    def to_bytes(self) -> bytes:
        return "".join(json.dumps(row, sort_keys=True) + "\n" for row in self.listed).encode()


def learn(
    address: Address,
    archived: ArchivedRound,
    backend: Backend,
    progress: Callable[[int, int], None] = lambda *_: None,
    archive: Sequence[ArchivedRound] = (),
) -> Learnt:
    tasks = list(tasks_of(address, archived, archive, backend.width))
    buckets, rows, reports = {task.key: task.bucket for task in tasks}, list[dict[str, Any]](), 0
    for done, findings in enumerate(backend.decode(tasks), 1):
        for number, figures in findings.figures(buckets[findings.key]):
            rows.append(
                {"number": buckets[findings.key].items.text(number), **{name: figures[name] for name in FIGURES}}
            )
        reports += findings.reports if findings.key[2] == 0 else 0
        progress(done, len(tasks))
    rows.sort(key=lambda row: (-row["estimate"], row["number"]))
    window = tuple(earlier.round for earlier in reversed(rounds_in_window(archived, archive)))
    return Learnt(archived.round, window, reports, tuple(rows))


def rounds_in_window(archived: ArchivedRound, archive: Sequence[ArchivedRound] = ()) -> list[ArchivedRound]:
    """Those of the archive that are decided together with one round, itself first, then newest first.

    An archive does not say which rounds a server discarded. Leave out what is to be in no window.
    """
    older = sorted((other for other in archive if other.round < archived.round), key=lambda other: other.round)
    by_number = {each.round: each for each in [*older, archived]}
    inside = window_of([(each.round, each.plan, each.chosen_profile) for each in by_number.values()])
    return [by_number[number] for number in reversed(inside)]


def tasks_of(
    address: Address, archived: ArchivedRound, archive: Sequence[ArchivedRound] = (), width: int = 1
) -> Iterator[DecodeTask]:
    """Every part of every bucket that the round ran, the largest first, so that no worker is left alone with one."""
    window = [
        (each, {bucket.bucket: bucket for bucket in each.buckets}) for each in rounds_in_window(archived, archive)
    ]
    profile, plan = archived.chosen_profile, plan_named(archived.plan)
    parts = min(profile.spec.parts, width)
    hints = RoundHints.from_plain(archived.hints).by_bucket(profile.spec.items, plan)

    def rounds_of(number: int) -> tuple[tuple[BucketSpec, ArchiveShard], ...]:
        rounds = []
        for each, buckets in window:
            if bucket := buckets.get(number):
                decided = (archived.decided_together, profile, plan)
                spec = BucketSpec(each.round, number, bucket.users, *decided, bucket.parameters)
                rounds.append((spec, ArchiveShard(address.url, each.folder, each.seed, bucket.files, bucket.reports)))
        return tuple(rounds)

    for number in _largest_first([buckets for _, buckets in window]):
        rounds = rounds_of(number)
        about_numbers = rounds_of(-number) if number < 0 else ()
        numbers = DecodeTask(about_numbers[0][0], about_numbers) if about_numbers else None
        for part in range(parts):
            yield DecodeTask(rounds[0][0], rounds, part, parts, hints.get(number, NO_HINTS), numbers)


def _largest_first(buckets_by_round: Sequence[dict[int, ArchivedBucket]]) -> list[int]:
    sizes = {
        number: sum(buckets[number].reports for buckets in buckets_by_round if number in buckets)
        for number in buckets_by_round[0]
    }
    return sorted(sizes, key=lambda number: (-sizes[number], number))


@dataclass(frozen=True)
class ArchiveShard:
    url: str
    folder: str
    seed: str
    files: tuple[ArchivedFile, ...] = field(repr=False)
    reports: int

    def tally(self, bucket: BucketSpec) -> Tally:
        address = Address(self.url)
        chunks = (chunk for file in self.files for chunk in read_file(address, self.folder, file))
        return self.checked(bucket, bucket.tally(bytes.fromhex(self.seed), chunks))

    def checked(self, bucket: BucketSpec, tally: Tally) -> Tally:
        if tally.count != self.reports:
            raise InvalidArchive(f"bucket {bucket.bucket}", f"hold {self.reports} reports", tally.count)
        return tally

    def split(self) -> list[ArchiveShard]:
        return [replace(self, files=(file,), reports=file.reports) for file in self.files]

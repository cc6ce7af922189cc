"""The manifest of an archived round: how it was run, which files hold its reports, and their checksums.

Layout, at any address that fsspec knows::

    ADDRESS/round=12/manifest.json
    ADDRESS/round=12/bucket=212/part-00000.parquet      columns: ticket (16 bytes), body (as sent)

The manifest is written last, in one step. A round without one was never finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import fsspec

from hushcall.decoding.hints import RoundHints
from hushcall.errors import HushcallError, InvalidArchive, InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.profiles import Profile

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ArchivedFile:
    path: str
    reports: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ArchivedBucket:
    """One bucket that ran. Its reports about hundreds are another one, whose ``bucket`` is minus the area code.

    ``checksum`` is Σ SHA-256(ticket ‖ body) mod 2²⁵⁶, as a sealed tally's is.
    """

    bucket: int
    users: int
    parameters: dict[str, Any]
    reports: int
    checksum: str
    files: tuple[ArchivedFile, ...]

    @property
    def mechanism(self) -> Mechanism:
        return parameters.from_plain(self.parameters)


@dataclass(frozen=True)
class ArchivedRound:
    """One round. ``skipped`` has the users of each bucket that did not run: the error level covers those too.

    ``hints`` are those that a server recorded for the round, where it was decoded before it was archived.
    """

    round: int
    seed: str
    plan: str
    profile: dict[str, Any]
    buckets: tuple[ArchivedBucket, ...]
    skipped: dict[str, int]
    times: dict[str, int]
    format: int = FORMAT
    hints: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def decided_together(self) -> int:
        """How many buckets share the error level."""
        return sum(bucket.bucket >= 0 for bucket in self.buckets) + len(self.skipped)

    @property
    def reports(self) -> int:
        return sum(bucket.reports for bucket in self.buckets)

    @property
    def chosen_profile(self) -> Profile:
        return Profile.from_plain(self.profile)

    @property
    def folder(self) -> str:
        return f"round={self.round}"

    def to_bytes(self) -> bytes:
        plain = {name: value for name, value in asdict(self).items() if name != "hints" or value}
        return (json.dumps(plain, indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ArchivedRound:
        try:
            plain = json.loads(data)
            if plain["format"] != FORMAT:
                raise InvalidArchive("format", f"be {FORMAT}: another release wrote this archive", plain["format"])
            archived = cls(**{**plain, "buckets": tuple(_bucket(bucket) for bucket in plain["buckets"])})
            bytes.fromhex(archived.seed)
            Profile.from_plain(archived.profile)
            RoundHints.from_plain(archived.hints)
        except InvalidArchive:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, HushcallError) as error:
            raise InvalidArchive("manifest", f"be one of ours ({error})", data[:40]) from None
        return archived


def _bucket(plain: Mapping[str, Any]) -> ArchivedBucket:
    return ArchivedBucket(**{**plain, "files": tuple(ArchivedFile(**file) for file in plain["files"])})


@dataclass(frozen=True)
class Address:
    url: str

    @property
    def system(self) -> Any:
        return fsspec.core.url_to_fs(self.url)[0]

    @property
    def root(self) -> str:
        return str(fsspec.core.url_to_fs(self.url)[1]).rstrip("/")

    def path(self, *parts: str) -> str:
        return "/".join((self.root, *parts))

    def read(self, *parts: str) -> bytes:
        """A file's bytes. For manifests, never for reports."""
        try:
            return bytes(self.system.cat_file(self.path(*parts)))
        except OSError as error:
            raise InvalidArchive("archive", f"be one that can be read ({error})", self.url) from None

    def rounds(self) -> list[ArchivedRound]:
        system = self.system
        try:
            folders = [str(path).rsplit("/", 1)[-1] for path in system.ls(self.root, detail=False)]
        except OSError:
            folders = []
        finished = [name for name in folders if name.startswith("round=") and system.exists(self.path(name, MANIFEST))]
        if not finished:
            raise InvalidArchive("archive", "hold a finished round (round=N/manifest.json)", self.url)
        rounds = [ArchivedRound.from_bytes(self.read(name, MANIFEST)) for name in finished]
        return sorted(rounds, key=lambda archived: archived.round)

    def round(self, number: int | None) -> ArchivedRound:
        return newest_of(self.rounds(), number)


def newest_of(rounds: Sequence[ArchivedRound], number: int | None = None) -> ArchivedRound:
    chosen = [archived for archived in rounds if number in (None, archived.round)]
    if not chosen:
        raise InvalidArchive("round", f"be one of {', '.join(str(archived.round) for archived in rounds)}", number)
    return chosen[-1]


def some_of(rounds: Sequence[ArchivedRound], text: str) -> list[ArchivedRound]:
    """Those that a text like ``6-12`` or ``6,8-12`` names. A range may have gaps; a number by itself must be there."""
    chosen, numbers = set[int](), {archived.round for archived in rounds}
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InvalidParameter("rounds", "be numbers and ranges, 6-12 or 6,8-12 for instance", text)
        if not dash and int(first) not in numbers:
            raise InvalidArchive("rounds", f"be among {', '.join(map(str, sorted(numbers)))}", first)
        chosen |= {number for number in numbers if int(first) <= number <= int(last or first)}
    if not chosen:
        raise InvalidArchive("rounds", f"be among {', '.join(map(str, sorted(numbers)))}", text)
    return [archived for archived in rounds if archived.round in chosen]

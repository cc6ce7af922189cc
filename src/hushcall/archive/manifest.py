"""What an archive says about a round: how it was run, which files hold its reports, and their checksums.

Layout, at any address that fsspec knows::

    ADDRESS/round=12/manifest.json
    ADDRESS/round=12/bucket=212/part-00000.parquet      columns: ticket (16 bytes), body (as sent)

The manifest is written last and at once: a round without one was never finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import fsspec

from hushcall.errors import HushcallError, InvalidArchive, InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.profiles import Profile
from hushcall.report.mechanism import Mechanism

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ArchivedFile:
    """One Parquet file: its path below the round's folder, and what it must be."""

    path: str
    reports: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ArchivedBucket:
    """One bucket that ran. ``checksum`` is Σ SHA-256(ticket ‖ body) mod 2²⁵⁶, as a sealed tally's is."""

    bucket: int
    users: int
    parameters: dict[str, Any]
    reports: int
    checksum: str
    files: tuple[ArchivedFile, ...]

    @property
    def mechanism(self) -> Mechanism:
        """What its phones were given."""
        return parameters.from_plain(self.parameters)


@dataclass(frozen=True)
class ArchivedRound:
    """One round. ``skipped`` has the users of each bucket that did not run: the error level covers those too."""

    round: int
    seed: str
    plan: str
    profile: dict[str, Any]
    buckets: tuple[ArchivedBucket, ...]
    skipped: dict[str, int]
    times: dict[str, int]
    format: int = FORMAT

    @property
    def decided_together(self) -> int:
        """How many buckets share the error level."""
        return len(self.buckets) + len(self.skipped)

    @property
    def reports(self) -> int:
        """Reports over all files, as the manifest counts them: verifying compares."""
        return sum(bucket.reports for bucket in self.buckets)

    @property
    def chosen_profile(self) -> Profile:
        """What the round was run with."""
        return Profile.from_plain(self.profile)

    @property
    def folder(self) -> str:
        """Its folder below the archive's address."""
        return f"round={self.round}"

    def to_bytes(self) -> bytes:
        """The manifest as JSON with sorted keys: the same round gives the same bytes."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ArchivedRound:
        """Read a manifest; anything odd in it is an error that says so."""
        try:
            plain = json.loads(data)
            if plain["format"] != FORMAT:
                raise InvalidArchive("format", f"be {FORMAT}: another release wrote this archive", plain["format"])
            found = cls(**{**plain, "buckets": tuple(_bucket(one) for one in plain["buckets"])})
            bytes.fromhex(found.seed)
            Profile.from_plain(found.profile)
        except InvalidArchive:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, HushcallError) as error:
            raise InvalidArchive("manifest", f"be one of ours ({error})", data[:40]) from None
        return found


def _bucket(plain: Mapping[str, Any]) -> ArchivedBucket:
    return ArchivedBucket(**{**plain, "files": tuple(ArchivedFile(**one) for one in plain["files"])})


@dataclass(frozen=True)
class Address:
    """Where an archive is: a folder, or whatever fsspec makes of a URL."""

    url: str

    @property
    def system(self) -> Any:
        """The file system that fsspec finds for the address."""
        return fsspec.core.url_to_fs(self.url)[0]

    @property
    def root(self) -> str:
        """The archive's path in it."""
        return str(fsspec.core.url_to_fs(self.url)[1]).rstrip("/")

    def path(self, *parts: str) -> str:
        """A path below the root."""
        return "/".join((self.root, *parts))

    def read(self, *parts: str) -> bytes:
        """A whole file in memory: for manifests, never for reports."""
        try:
            return bytes(self.system.cat_file(self.path(*parts)))
        except OSError as error:
            raise InvalidArchive("archive", f"be one that can be read ({error})", self.url) from None

    def rounds(self) -> list[ArchivedRound]:
        """Every finished round, oldest first."""
        system = self.system
        try:
            folders = [str(path).rsplit("/", 1)[-1] for path in system.ls(self.root, detail=False)]
        except OSError:
            folders = []
        wanted = [name for name in folders if name.startswith("round=") and system.exists(self.path(name, MANIFEST))]
        if not wanted:
            raise InvalidArchive("archive", "hold a finished round (round=N/manifest.json)", self.url)
        found = [ArchivedRound.from_bytes(self.read(name, MANIFEST)) for name in wanted]
        return sorted(found, key=lambda one: one.round)

    def round(self, number: int | None) -> ArchivedRound:
        """One round; the newest where none is named."""
        return newest_of(self.rounds(), number)


def newest_of(rounds: Sequence[ArchivedRound], number: int | None = None) -> ArchivedRound:
    """The last of some rounds, or the one of that number."""
    chosen = [one for one in rounds if number in (None, one.round)]
    if not chosen:
        raise InvalidArchive("round", f"be one of {', '.join(str(one.round) for one in rounds)}", number)
    return chosen[-1]


def some_of(rounds: Sequence[ArchivedRound], text: str) -> list[ArchivedRound]:
    """Those that a text like ``6-12`` or ``6,8-12`` names. A range may have gaps; a number by itself must be there."""
    wanted, there = set[int](), {one.round for one in rounds}
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InvalidParameter("rounds", "be numbers and ranges, 6-12 or 6,8-12 for instance", text)
        if not dash and int(first) not in there:
            raise InvalidArchive("rounds", f"be among {', '.join(map(str, sorted(there)))}", first)
        wanted |= {one for one in there if int(first) <= one <= int(last or first)}
    if not wanted:
        raise InvalidArchive("rounds", f"be among {', '.join(map(str, sorted(there)))}", text)
    return [one for one in rounds if one.round in wanted]

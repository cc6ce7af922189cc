"""A round's hints: numbers from the operator's sources, and those on the list, as the first decoder recorded them.

Sources are read once, when the round is decoded. One that fails, or is stale, too large or without a number, gives no
hint. It fails no round: what is wrong is kept with the round, and shown.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import sqlalchemy as sa
import urllib3
from sqlalchemy.engine import Connection

from hushcall.decoding.hints import RoundHints
from hushcall.errors import HushcallError
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.numbers import NumberingPlan
from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow
from hushcall.server.db.store import Store
from hushcall.server.rounds.round_data import rounds_within
from hushcall.server.settings import DAY_SECONDS, HintSettings

PIN = "#sha256="
_CHUNK = 1 << 16
_FTC = ("company_phone_number", "created_date")
OURS, PHONEBLOCK, FTC, PLAIN = "hushcall", "phoneblock", "ftc", "list"
"""The formats of sources."""


class Unusable(HushcallError):
    """A source that gives no hint, and why."""


@dataclass(frozen=True)
class Source:
    """What one source gave to a round. ``problem`` is empty where it gave hints."""

    name: str
    numbers: int
    problem: str = ""


def of_round(store: Store, settings: HintSettings, row: RoundRow) -> RoundHints:
    """The hints of a round. The first process that asks records them, and all others use the same."""
    if not (row.profile.spec.pools and (settings.sources or row.profile.warn_level)):
        return RoundHints()
    with store.read() as connection:
        known = recorded(connection, row.id)
    if known is not None:
        return known
    hinted, sources = gather(settings, row.plan, row.opens, row.closes)
    lengths = row.profile.windows if row.profile.warn_level else ()
    with store.read() as connection:
        listed = {length: _listed(connection, row, row.id - length + 1) for length in lengths}
    with store.write("hints") as connection:
        record(store, connection, row.id, RoundHints(hinted, listed), sources)
        return recorded(connection, row.id) or RoundHints()


def record(store: Store, connection: Connection, round_id: int, hints: RoundHints, sources: list[Source]) -> None:
    plain = json.dumps([asdict(source) for source in sources])
    values = {"round": round_id, "sha256": hints.digest, "data": hints.to_bytes(), "sources": plain}
    store.insert_new(connection, schema.hints, [values], key=("round",))


def sources_of(connection: Connection) -> list[Source]:
    """What the sources gave to the newest round that has hints."""
    table = schema.hints.c
    text = connection.execute(sa.select(table.sources).order_by(table.round.desc()).limit(1)).scalar()
    return [Source(**plain) for plain in json.loads(text)] if text else []


def recorded(connection: Connection, round_id: int) -> RoundHints | None:
    table = schema.hints.c
    data = connection.execute(sa.select(table.data).where(table.round == round_id)).scalar()
    return RoundHints.from_bytes(bytes(data)) if data else None


def _listed(connection: Connection, row: RoundRow, first: int) -> frozenset[str]:
    """What the rounds before ``first`` list on evidence of their own: a hint must not make itself last."""
    table = schema.hitters.c
    before = table.round.between(first - rounds_within(connection, row, row.window_days), first - 1)
    return frozenset(connection.scalars(sa.select(table.number).where(before, table.hinted < 2)))


def gather(settings: HintSettings, plan: NumberingPlan, opens: int, closes: int) -> tuple[frozenset[str], list[Source]]:
    """The numbers that the sources name, and what each gave. Their age is counted from the close of the round."""
    hinted, sources = set[str](), list[Source]()
    for source in settings.sources:
        try:
            complaints = read_source(source, settings, plan, opens)
            if complaints.made is not None and closes - complaints.made > settings.max_age_days * DAY_SECONDS:
                age_days = (closes - complaints.made) / DAY_SECONDS
                raise Unusable(f"it is {age_days:.1f} days old, more than max_age_days ({settings.max_age_days:g})")
        except Unusable as error:
            sources.append(Source(source.partition(PIN)[0], 0, str(error)))
        else:
            hinted |= complaints.numbers.keys()
            sources.append(Source(source.partition(PIN)[0], len(complaints.numbers)))
    return frozenset(hinted), sources


@dataclass(frozen=True)
class Complaints:
    """The content of a source: how often it names each number. ``made`` (unix seconds): by itself, its file or server.

    ``skipped`` texts are no numbers of the plan.
    """

    form: str
    numbers: Counter[str]
    skipped: int
    made: int | None
    sha256: str


def read_source(source: str, settings: HintSettings, plan: NumberingPlan, now: int) -> Complaints:
    """Reads a file or an address. ``{date}`` in it is the day before ``now``, and a pinned digest is compared."""
    address, _, pin = source.partition(PIN)
    yesterday = (datetime.fromtimestamp(now, UTC) - timedelta(days=1)).date().isoformat()
    data, changed = _fetched(address.replace("{date}", yesterday), settings)
    digest = hashlib.sha256(data).hexdigest()
    if pin and digest != pin.strip().lower():
        raise Unusable("it has another SHA-256 than the one in the settings")
    form, numbers, skipped, made = _read(data, plan)
    if len(numbers) > settings.max_numbers:
        raise Unusable(f"it holds {len(numbers)} numbers, more than max_numbers ({settings.max_numbers})")
    if not numbers:
        raise Unusable(f"it holds no number of the plan {plan.name}")
    return Complaints(form, numbers, skipped, changed if made is None else made, digest)


def _fetched(address: str, settings: HintSettings) -> tuple[bytes, int | None]:
    """The content of a file or an address, and when it changed (unix seconds), where that is known."""
    try:
        if address.startswith(("http://", "https://")):
            return _downloaded(address, settings)
        with Path(address).open("rb") as file:
            data = file.read(settings.max_bytes + 1)
        changed = int(Path(address).stat().st_mtime)
    except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
        raise Unusable(f"it cannot be read ({type(error).__name__})") from None
    return _bounded(data, settings), changed


def _downloaded(address: str, settings: HintSettings) -> tuple[bytes, int | None]:
    """No redirect is followed, and no more is read than allowed, in no more time."""
    ends, data = time.monotonic() + settings.timeout, b""
    with (
        urllib3.PoolManager(retries=False, timeout=settings.timeout) as pool,
        pool.request("GET", address, redirect=False, preload_content=False) as answer,
    ):
        if answer.status != 200:
            raise Unusable(f"its server answers with status {answer.status}")
        for chunk in answer.stream(_CHUNK):
            data += chunk
            if time.monotonic() > ends:
                raise Unusable(f"it takes longer than timeout ({settings.timeout:g} seconds)")
            _bounded(data, settings)
    try:
        changed = int(parsedate_to_datetime(answer.headers.get("Last-Modified", "")).timestamp())
    except ValueError:
        return data, None
    return data, changed


def _bounded(data: bytes, settings: HintSettings) -> bytes:
    if len(data) > settings.max_bytes:
        raise Unusable(f"it is larger than max_bytes ({settings.max_bytes})")
    return data


def read_numbers(data: bytes, plan: NumberingPlan) -> tuple[frozenset[str], int | None]:
    """The numbers in a source, and when it was made (unix seconds), where it says so. What is no number is skipped."""
    _, numbers, _, made = _read(data, plan)
    return frozenset(numbers), made


def _read(data: bytes, plan: NumberingPlan) -> tuple[str, Counter[str], int, int | None]:
    """A list of ours, PhoneBlock's JSON, the FTC's CSV, or a number a line."""
    try:
        form, texts, made = _texts(data.decode("utf-8-sig"))
        counts = Counter[str]()
        for text, count in texts:
            counts[text] += count
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, csv.Error):
        raise Unusable("it is no list of numbers that this release reads") from None
    numbers, skipped = Counter[str](), 0
    for text, count in counts.items():
        try:
            numbers[str(plan.parse(text))] += count
        except HushcallError:
            skipped += 1
    return form, numbers, skipped, made


def _texts(text: str) -> tuple[str, Iterable[tuple[str, int]], int | None]:
    """Format, texts that may be numbers, each with how often it is named, and when the source was made."""
    if text.startswith('{"format":"hushcall-list/'):
        blocklist = Blocklist.from_bytes(text.encode())
        counted = [(entry.number, max(1, round(entry.estimate))) for entry in blocklist.entries]
        return OURS, counted, blocklist.made
    if text.lstrip().startswith("{"):
        votes = [(str(row["phone"]), int(row.get("votes", 1))) for row in json.loads(text)["numbers"]]
        return PHONEBLOCK, [(number, count) for number, count in votes if count > 0], None
    first = text.partition("\n")[0].lower()
    if all(name in first for name in _FTC):
        numbers, made = _ftc(text)
        return FTC, ((number, 1) for number in numbers), made
    return PLAIN, ((number, 1) for number in _lines(text)), None


def _ftc(text: str) -> tuple[list[str], int | None]:
    rows = csv.reader(io.StringIO(text))
    number, created = map([name.strip().lower() for name in next(rows)].index, _FTC)
    complaints = [row for row in rows if len(row) > max(number, created)]
    newest = max((row[created] for row in complaints), default="")
    try:
        made = int(datetime.fromisoformat(newest).replace(tzinfo=UTC).timestamp())
    except ValueError:
        made = None
    return [row[number] for row in complaints], made


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        number = line.partition("#")[0].strip()
        if number and not number.startswith("!"):  # the header of lists that apps subscribe to
            yield number

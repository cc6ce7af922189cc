"""Which column of a table is what: the owner says so, or agrees to a guess that is shown; then it is remembered.

A wrong guess would be costly: whom the owner called would pass for a caller. So a table is never read by a guess that
nobody has seen.

>>> parse_columns("date=Call Date,number=Other party,direction=Type")
{'date': 'Call Date', 'number': 'Other party', 'kind': 'Type'}
"""

from __future__ import annotations

import csv
import hashlib
import json
from datetime import datetime, tzinfo

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.calls.named_columns import NAMED_COLUMNS, WORDS, Columns, columns_of, table
from hushcall.formats.calls.reader import Reader
from hushcall.formats.calls.reading import detect
from hushcall.phone.home.store import Store

GUESS = "guess"
_NEEDED = {"date", "number", "kind"}
_WHAT = {word: what for what, word in WORDS.items()} | {"kind": "kind", "type": "kind"}


class NotAgreed(InvalidParameter):
    """A table that nobody has looked at yet; ``guess`` says in words how it would be read."""

    def __init__(self, filename: str, guess: str) -> None:
        self.filename, self.guess = filename, guess
        rule = (
            f"be given for a table ({guess}): --columns {GUESS} takes that, "
            "--columns date=TITLE,number=TITLE,direction=TITLE another"
        )
        super().__init__("--columns", rule, None)
        self.args = (f"{filename}: --columns must {rule}",)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the way back from a worker process."""
        return type(self), (self.filename, self.guess)


def parse_columns(text: str) -> dict[str, str]:
    """``date=…,number=…,direction=…`` (and ``time``, ``name``): what → title. A title with a comma is put in quotes."""
    found: dict[str, str] = {}
    for part in next(csv.reader([text], skipinitialspace=True), []):
        word, _, title = part.partition("=")
        what = _WHAT.get(word.strip().lower())
        if what is None or not title.strip() or what in found:
            rule = f"be {GUESS}, or name columns once each by their titles ({', '.join(_WHAT)}): date=…,number=…"
            raise InvalidParameter("--columns", rule, part)
        found[what] = title.strip()
    if missing := _NEEDED - found.keys():
        words = ", ".join(sorted(WORDS[what] for what in missing))
        raise InvalidParameter("--columns", "name the columns of date, number and direction", f"none of {words}")
    return found


def table_for(
    store: Store, head: bytes, zone: tzinfo, form: str | None = None, filename: str = "", columns: str | None = None
) -> Reader | None:
    """The reader for a table that begins with ``head``, as the owner wants it; None for a log of another format.

    ``columns`` is what the owner says about it this time; without it, what was said about a table with this header. A
    table of which nothing was said is :class:`NotAgreed`.
    """
    if form not in (None, NAMED_COLUMNS.name) or not _is_table(head, form, filename, said=columns is not None):
        return None
    given = None if columns in (None, GUESS) else parse_columns(columns or "")
    understood = columns_of(head, given)
    if understood is None or not understood.complete:
        words = "nothing" if understood is None or not understood.places else str(understood)
        rule = f"have a number, a date and a direction (understood: {words}); --columns says which titles are theirs"
        raise InvalidData("table", rule, filename or "another")
    name = _setting(understood)
    if columns is not None:
        store.put(name, json.dumps({what: understood.titles[place] for what, place in understood.places.items()}))
    elif not store.get(name):
        raise NotAgreed(filename, _in_words(understood, head, zone))
    return table(json.loads(store.get(name)))


def _is_table(head: bytes, form: str | None, filename: str, *, said: bool) -> bool:
    """Whether it is one by its head; what nobody knows is one if the owner has said which column is what."""
    if form == NAMED_COLUMNS.name or not head.strip():
        return bool(head.strip())
    try:
        return detect(head, filename) is NAMED_COLUMNS
    except InvalidData:
        if said:
            return True
        raise


def _setting(columns: Columns) -> str:
    """Where it is kept what was said about tables with these titles."""
    digest = hashlib.sha256("\n".join(columns.titles).encode()).hexdigest()
    return f"columns {digest[:16]}"


def _in_words(columns: Columns, head: bytes, zone: tzinfo) -> str:
    """The guess, and what it makes of the first call, less its number."""
    try:
        whole = head[: head.rfind(b"\n") + 1] or head
        first = next(iter(NAMED_COLUMNS.read(whole, zone).calls), None)
    except InvalidData:
        first = None
    if first is None:
        return f"its guess: {columns}"
    when = datetime.fromtimestamp(first.at, zone).strftime("%Y-%m-%d %H:%M:%S")
    return f"its guess: {columns}; its first call: {first.kind}, {when}, {zone}"

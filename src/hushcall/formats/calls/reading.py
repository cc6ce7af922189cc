r"""The table of call-log formats, and reading a log of any of them.

>>> line = b"CID: *DATE*03152024*TIME*1011*LINE*-*NMBR*2025550143*MESG*NONE*NAME*NO NAME*\n"
>>> result = read_calls(line)
>>> result.format, result.calls[0].number, result.calls[0].kind.value
('ncid', '2025550143', 'incoming')
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from hushcall import checks
from hushcall.errors import InvalidData
from hushcall.formats.calls import android, exchanges, fritzbox
from hushcall.formats.calls.call import ReadResult
from hushcall.formats.calls.ios import IOS
from hushcall.formats.calls.named_columns import NAMED_COLUMNS
from hushcall.formats.calls.reader import Reader
from hushcall.formats.calls.text import HEAD_BYTES

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        *(android.TERMUX, android.SMS_BACKUP, android.ADB, IOS, exchanges.ASTERISK, exchanges.FREESWITCH),
        *(fritzbox.FRITZBOX_CSV, fritzbox.FRITZBOX_XML, exchanges.NCID, exchanges.NCID_DAY_FIRST, NAMED_COLUMNS),
    )
}


def reader_named(name: str) -> Reader:
    checks.one_of("format", name, READERS)
    return READERS[name]


def detect(head: bytes, filename: str = "") -> Reader:
    """The reader for a file that begins with ``head``. ``filename`` is for messages."""
    candidates = [reader for reader in READERS.values() if reader.sniff(head[:HEAD_BYTES])]
    if len(candidates) == 1:
        return candidates[0]
    rule = (
        f"be in a known format; --format says which if it is one of {', '.join(READERS)}; of a table with a header, "
        "--columns date=…,number=…,direction=… says which column is what"
    )
    if candidates:
        rule = f"be surely one of {', '.join(reader.name for reader in candidates)}; --format says which"
    raise InvalidData("call log", rule, filename.replace("\\", "/").rpartition("/")[2] or "an unknown one")


def read_calls(
    data: bytes,
    format: str | None = None,  # noqa: A002 (the user's word)
    zone: tzinfo = UTC,
    filename: str = "",
    *,
    chunk: bool = False,
) -> ReadResult:
    """The calls of a call log. Without ``format`` it is detected. Dates without a time zone are local to ``zone``.

    To follow a growing log, give ``format`` and ``chunk=True`` with the bytes from the last ``consumed`` on.
    """
    if format is not None:
        return reader_named(format).read(data, zone, chunk=chunk)
    if not data or data.isspace():
        return ReadResult(consumed=len(data))
    return detect(data[:HEAD_BYTES], filename).read(data, zone, chunk=chunk)

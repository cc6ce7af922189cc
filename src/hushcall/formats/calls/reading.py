r"""The phone's way in: a call log of any known format comes in, calls leave. The table of formats is here.

>>> line = b"CID: *DATE*03152024*TIME*1011*LINE*-*NMBR*2025550143*MESG*NONE*NAME*NO NAME*\n"
>>> result = read_calls(line)
>>> result.format, result.calls[0].number, result.calls[0].kind.value
('ncid', '2025550143', 'incoming')
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.calls.adb import ADB
from hushcall.formats.calls.asterisk import ASTERISK
from hushcall.formats.calls.call import ReadResult
from hushcall.formats.calls.freeswitch import FREESWITCH
from hushcall.formats.calls.fritzbox_csv import FRITZBOX_CSV
from hushcall.formats.calls.fritzbox_xml import FRITZBOX_XML
from hushcall.formats.calls.ios import IOS
from hushcall.formats.calls.named_columns import NAMED_COLUMNS
from hushcall.formats.calls.ncid import NCID, NCID_DAY_FIRST
from hushcall.formats.calls.reader import Reader
from hushcall.formats.calls.sms_backup import SMS_BACKUP
from hushcall.formats.calls.termux import TERMUX
from hushcall.formats.calls.texts import HEAD_BYTES

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        *(TERMUX, SMS_BACKUP, ADB, IOS, ASTERISK, FREESWITCH, FRITZBOX_CSV, FRITZBOX_XML, NCID, NCID_DAY_FIRST),
        NAMED_COLUMNS,
    )
}


def reader_named(name: str) -> Reader:
    """The reader of a format, or an error that lists the names."""
    if name not in READERS:
        raise InvalidParameter("format", f"be one of {', '.join(READERS)}", name)
    return READERS[name]


def detect(head: bytes, filename: str = "") -> Reader:
    """The reader for a file that begins with ``head``. Its name decides where its content does not."""
    named = [reader for reader in READERS.values() if reader.usual(filename)]
    claims = [reader for reader in READERS.values() if reader.sniff(head[:HEAD_BYTES])] or named
    if len(claims) > 1:
        claims = [reader for reader in claims if reader in named] or claims
    if len(claims) == 1:
        return claims[0]
    rule = (
        f"be in a known format; --format says which if it is one of {', '.join(READERS)}; of a table with a header, "
        "--columns date=…,number=…,direction=… says which column is what"
    )
    if claims:
        rule = f"be surely one of {', '.join(reader.name for reader in claims)}; --format says which"
    raise InvalidData("call log", rule, filename.replace("\\", "/").rpartition("/")[2] or "an unknown one")


def read_calls(
    data: bytes,
    format: str | None = None,  # noqa: A002 (what the user calls it)
    zone: tzinfo = UTC,
    filename: str = "",
    *,
    chunk: bool = False,
) -> ReadResult:
    """The calls of a call log. Without ``format`` it is guessed; dates without a time zone are local to ``zone``.

    To follow a log that grows, give ``format`` and ``chunk=True`` with the bytes from the last ``consumed`` on.
    """
    if format is not None:
        return reader_named(format).read(data, zone, chunk=chunk)
    if not data or data.isspace():
        return ReadResult(consumed=len(data))
    return detect(data[:HEAD_BYTES], filename).read(data, zone, chunk=chunk)

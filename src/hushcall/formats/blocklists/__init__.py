"""Blocklists out: one file per app. A list comes in, the bytes that the app imports leave.

``writer`` says what they share. ``WRITERS`` is the table; ``writer_named`` finds one.

>>> writer_named("ios").filename
'ios.txt'
"""

from __future__ import annotations

from hushcall.errors import InvalidParameter
from hushcall.formats.blocklists.asterisk import ASTERISK
from hushcall.formats.blocklists.fossify import FOSSIFY
from hushcall.formats.blocklists.freepbx import FREEPBX
from hushcall.formats.blocklists.fritzbox import FRITZBOX
from hushcall.formats.blocklists.ios import IOS, ios_changes
from hushcall.formats.blocklists.kamailio import KAMAILIO, KAMAILIO_CSV
from hushcall.formats.blocklists.ncid import NCID
from hushcall.formats.blocklists.nophonespam import NOPHONESPAM
from hushcall.formats.blocklists.phoneblock import PHONEBLOCK
from hushcall.formats.blocklists.plain import PLAIN
from hushcall.formats.blocklists.ranges import ASTERISK_RANGES, KAMAILIO_RANGES
from hushcall.formats.blocklists.spamblocker import SPAMBLOCKER
from hushcall.formats.blocklists.vcard import VCARD, cards
from hushcall.formats.blocklists.writer import Writer, shortened
from hushcall.formats.blocklists.yacb import YACB

__all__ = ["WRITERS", "Writer", "cards", "ios_changes", "shortened", "writer_named"]

WRITERS: dict[str, Writer] = {
    writer.name: writer
    for writer in (
        SPAMBLOCKER,
        YACB,
        NOPHONESPAM,
        FOSSIFY,
        IOS,
        ASTERISK,
        ASTERISK_RANGES,
        FREEPBX,
        KAMAILIO,
        KAMAILIO_CSV,
        KAMAILIO_RANGES,
        NCID,
        FRITZBOX,
        VCARD,
        PLAIN,
        PHONEBLOCK,
    )
}


def writer_named(name: str) -> Writer:
    """The export of this name, or an error that lists the names there are."""
    if name not in WRITERS:
        raise InvalidParameter("export", f"be one of {', '.join(WRITERS)}", name)
    return WRITERS[name]

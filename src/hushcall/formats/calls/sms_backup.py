"""The Android app SMS Backup & Restore writes this: ``<calls>`` with one ``<call …/>`` each, from Android's own log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import tzinfo

from hushcall.formats.calls.android import CODES, android_call, presentation
from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.reader import FileReader
from hushcall.formats.calls.safe_xml import records
from hushcall.formats.calls.texts import head_text

_TITLE = "SMS Backup & Restore"
_ROOT = re.compile(r"<calls[\s/>]")


def _split(data: bytes) -> Iterable[dict[str, str]]:
    return records(_TITLE, data, "calls", "call")


def _parse(record: dict[str, str], _zone: tzinfo) -> Call:
    return android_call(record, record.get("contact_name", ""))


def _sniff(head: bytes) -> bool:
    text = head_text(head)
    return text.startswith("<") and _ROOT.search(text) is not None


def _render(calls: Sequence[Call], _zone: tzinfo) -> bytes:
    from html import escape

    rows = "".join(
        f'  <call number="{escape(call.number)}" duration="0" date="{1000 * call.at}" type="{CODES[call.kind]}" '
        f'presentation="{presentation(call)}" contact_name="{escape(call.name or "(Unknown)")}" />\n'
        for call in calls
    )
    document = (
        f"<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n<calls count=\"{len(calls)}\">\n{rows}</calls>\n"
    )
    return document.encode()


SMS_BACKUP = FileReader(
    name="sms-backup",
    title=_TITLE,
    kinds=frozenset(CallKind),
    files=("calls-*.xml", "calls.xml"),
    sniff=_sniff,
    split=_split,
    parse=_parse,
    render=_render,
)

r"""Contacts, whose numbers are never reported: vCard, Termux JSON, a FRITZ!Box phonebook, or one number a line.

>>> sorted(read_contacts(b"# family\n202-555-0143  # home\n+1 202 555 0199\n").numbers)
['+1 202 555 0199', '202-555-0143']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hushcall.errors import InvalidData
from hushcall.formats import MARK
from hushcall.formats.calls.call import MAX_NUMBER_LENGTH, tidy
from hushcall.formats.calls.text import HEAD_BYTES, check_size, decode, head_text, json_list, json_text, lines

_DIALLED = re.compile(r"[+(*#]*\d")  # any other beginning would never match a call
# A group before the name, parameters after it, and a value after the first colon that is not in quotes.
_TEL = re.compile(r"(?:[\w-]+\.)?TEL((?:;(?:\"[^\"]*\"|[^\":;])*)*):(.*)", re.IGNORECASE | re.DOTALL)
_BEGIN = re.compile(r"BEGIN:VCARD", re.IGNORECASE)
_OURS = re.compile(rf"(?:[\w-]+\.)?FN(?:;[^:]*)?:{MARK}", re.IGNORECASE)
_ESCAPED = re.compile(r"\\([,;:\\])")


@dataclass(frozen=True, slots=True)
class Contacts:
    numbers: frozenset[str] = frozenset()
    malformed: int = 0
    first_problem: str = ""  # the entry and the broken rule, never a phone number


def _plain(data: bytes) -> Iterable[str]:
    """One number a line. A # begins a comment."""
    return filter(str.strip, (line.partition("#")[0] for line in lines(decode(data))))


def _termux(data: bytes) -> Iterator[Any]:
    """The JSON that ``termux-contact-list`` prints, without the entries of an exported list."""
    for record in json_list("Termux contact list", data):
        if not (isinstance(record, dict) and str(record.get("name", "")).startswith(MARK)):
            yield record


def _fritzbox(data: bytes) -> Iterator[str]:
    """The numbers of a saved phonebook, without the entries of an exported list."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root = fromstring(data, forbid_dtd=True)
    except (DefusedXmlException, ParseError, ValueError, LookupError):
        rule = "be one complete XML document without a DTD"
        raise InvalidData("FRITZ!Box phonebook", rule, f"{len(data)} bytes") from None
    for contact in root.iter("contact"):
        if not (contact.findtext("person/realName") or "").startswith(MARK):
            yield from (number.text or "" for number in contact.iter("number"))


def _vcard(data: bytes) -> Iterator[str]:
    """The TEL values of vCards 2.1 to 4.0, but of an exported list: its callers are no acquaintances."""
    ours = False
    for line in _unfold(lines(decode(data))):
        if _BEGIN.match(line):
            ours = False
        elif _OURS.match(line):
            ours = True
        elif not ours and (match := _TEL.fullmatch(line)) and (value := _tel_value(match[1].upper(), match[2]).strip()):
            yield value


def _unfold(text: list[str]) -> Iterator[str]:
    """Complete properties. A line that begins with a blank continues the last. In 2.1, so does one after ``=``."""
    parts: list[str] = []
    quoted = False
    for line in text:
        if parts and line[:1] in (" ", "\t") and line.strip():
            parts.append(line[1:])
        elif quoted and parts[-1].endswith("="):
            parts[-1] = parts[-1][:-1]
            parts.append(line)
        else:
            yield "".join(parts)
            parts, quoted = [line], "QUOTED-PRINTABLE" in line.upper()
    yield "".join(parts)


def _tel_value(parameters: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in parameters:
        import quopri

        value = quopri.decodestring(value.encode()).decode("utf-8", "replace")
    value = _ESCAPED.sub(r"\1", value.strip())
    if value[:4].lower() == "tel:":
        return value[4:].partition(";")[0]  # an extension or a context follows
    return value


def read_contacts(data: bytes) -> Contacts:
    check_size("contacts", data)
    head = head_text(data[:HEAD_BYTES])
    readers = {"[": _termux, "<": _fritzbox}
    entries: Iterable[Any] = (_vcard if _BEGIN.match(head) else readers.get(head[:1], _plain))(data)
    numbers: set[str] = set()
    malformed, first_problem = 0, ""
    for place, entry in enumerate(entries, 1):
        try:
            numbers.add(_number(json_text(entry, "number")))
        except InvalidData as problem:
            malformed += 1
            first_problem = first_problem or f"entry {place}: {problem.field} must {problem.rule}"
    if malformed and not numbers:
        rule = f"be vCard, termux-contact-list JSON, a FRITZ!Box phonebook or one number a line ({first_problem})"
        raise InvalidData("contacts", rule, f"{malformed} malformed entries")
    return Contacts(frozenset(numbers), malformed, first_problem)


def _number(text: str) -> str:
    number = tidy(text)
    if not _DIALLED.match(number) or not number.isprintable() or len(number) > MAX_NUMBER_LENGTH:
        rule = f"begin like a number, be printable and at most {MAX_NUMBER_LENGTH} characters long"
        raise InvalidData("number", rule, f"{len(number)} characters")
    return number

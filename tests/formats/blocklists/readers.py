"""Reads every export back, strictly: a line that our writer would not write is an error.

What is read is a set of numbers, or of blocks such as ``+4930123456x`` where an export holds those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.exchanges import block_forms, forms
from hushcall.formats.phoneblock import STEPS, WARNED, Change, document
from hushcall.formats.ranges import ranges_of
from hushcall.protocol.blocklist import E164, Blocklist
from hushcall.protocol.items import OPEN

WHY = r"hushcall: seen [0-9]+ days? - about [0-9]+ phones? on [0-9]{4}-[0-9]{2}-[0-9]{2}"
"""What ``why`` says: no comma, quote or line break, so that it needs no escaping."""
Numbers = frozenset[str]


def numbers_of(blocklist: Blocklist) -> Numbers:
    return frozenset(entry.number for entry in blocklist.entries)


def blocks_of(blocklist: Blocklist) -> Numbers:
    return frozenset(block.pattern for block in ranges_of(blocklist).widest)


def text_lines(data: bytes, end: str = "\n") -> list[str]:
    """The lines of an ASCII file, each of them ended by ``end``."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise InvalidList("export", "be plain ASCII", data) from None
    if text and not text.endswith(end):
        raise InvalidList("export", "end with a line break", text[-20:])
    return text.split(end)[:-1]


def captured(lines: Iterable[str], pattern: str) -> list[str]:
    """The first group of a pattern that has to match each of these lines whole."""
    groups = []
    for line in lines:
        match = re.fullmatch(pattern, line)
        if match is None:
            raise InvalidList("line", f"look like {pattern}", line)
        groups.append(match[1])
    return groups


def checked(numbers: Iterable[str], pattern: re.Pattern[str] = E164) -> Numbers:
    """These numbers, each valid, none twice."""
    unique: set[str] = set()
    for number in numbers:
        if not pattern.fullmatch(number):
            raise InvalidList("number", f"match {pattern.pattern}", number)
        if number in unique:
            raise InvalidList("number", "stand in the file once", number)
        unique.add(number)
    return frozenset(unique)


def with_plus(texts: Iterable[str]) -> Numbers:
    return checked(f"+{text}" for text in texts)


def after_header(lines: list[str], header: str) -> list[str]:
    if lines[:1] != [header]:
        raise InvalidList("first line", f"be {header}", lines[0] if lines else "")
    return lines[1:]


def behind_forms(texts: list[str], forms_of: Callable[[str], tuple[str, ...]], pattern: re.Pattern[str]) -> Numbers:
    """The numbers in a file of forms: no form may be missing, and none be there without its number."""
    numbers = checked((text for text in texts if text.startswith("+")), pattern)
    if set(texts) != {form for number in numbers for form in forms_of(number)}:
        raise InvalidList("export", "hold every form of every number, and nothing else", f"{len(texts)} texts")
    return numbers


BLOCK = re.compile(rf"\+[1-9][0-9]{{4,13}}{OPEN}{{1,2}}")
BLOCK_WHY = "hushcall: (?:[0-9]+ of (?:10|100) numbers listed|found as a range - about [0-9]+ phones)"


def spamblocker(data: bytes) -> Numbers:
    return with_plus(captured(after_header(text_lines(data), "pattern"), "([0-9]+)"))


def yacb(data: bytes) -> Numbers:
    header = "ID,name,pattern,creationTimestamp,numberOfCalls,lastCallTimestamp"
    rows = after_header(text_lines(data, "\r\n"), header)
    return checked(captured(rows, rf"[0-9]+,{WHY},(\+[0-9]+),-?[0-9]+,0,"))


def nophonespam(data: bytes) -> Numbers:
    return checked(captured(text_lines(data), rf"(\+[0-9]+): {WHY}"))


def fossify(data: bytes) -> Numbers:
    try:
        return checked(data.decode("ascii").split(",") if data else ())
    except UnicodeDecodeError:
        raise InvalidList("export", "be plain ASCII", data) from None


def ios(data: bytes) -> Numbers:
    """Out of order is an error, as it is in CallKit."""
    lines = text_lines(data)
    numbers = with_plus(captured(lines, "([1-9][0-9]{6,14})"))
    if any(int(before) >= int(after) for before, after in pairwise(lines)):
        raise InvalidList("numbers", "ascend strictly", f"{len(lines)} lines")
    return numbers


def asterisk(data: bytes) -> Numbers:
    texts = captured(text_lines(data), rf'database put blacklist (\+?[0-9]+) "{WHY}"')
    return behind_forms(texts, forms, E164)


def asterisk_ranges(data: bytes) -> Numbers:
    pattern = rf'database put blacklist-ranges (\+?[0-9]+{OPEN}{{1,2}}) "{BLOCK_WHY}"'
    texts = captured(text_lines(data), pattern)
    if len(texts) != len(set(texts)):
        raise InvalidList("export", "hold every form once", f"{len(texts)} texts")
    return behind_forms(texts, block_forms, BLOCK)


def freepbx(data: bytes) -> Numbers:
    texts = captured(after_header(text_lines(data), "number,description"), rf"(\+?[0-9]+),{WHY}")
    return behind_forms(texts, forms, E164)


BEFORE = ["BEGIN;", "DELETE FROM globalblocklist WHERE description LIKE 'hushcall:%';"]
INSERT = "INSERT INTO globalblocklist (prefix, allowlist, description) VALUES"


def statements(data: bytes, before: list[str]) -> list[str]:
    lines = text_lines(data)
    if lines[:2] != before or lines[2:][-1:] != ["COMMIT;"]:
        raise InvalidList("statements", f"start with {before[0]} and a DELETE, and end with COMMIT;", lines[:2])
    return lines[2:-1]


def kamailio(data: bytes) -> Numbers:
    inner = statements(data, BEFORE)
    for place, line in enumerate(inner):
        starts = place == 0 or inner[place - 1].endswith(";")
        if (line == INSERT) != starts:
            raise InvalidList("line", "be an INSERT exactly where the one before has ended", line)
    if inner and not inner[-1].endswith(";"):
        raise InvalidList("statements", "end with a semicolon", inner[-1])
    rows = [line for line in inner if line != INSERT]
    return declined(rows, rf"\('([0-9]+)', '[01]', '{WHY}'\)[,;]", "', '1', '")


def kamailio_csv(data: bytes) -> Numbers:
    rows = after_header(text_lines(data), "id,prefix,allowlist,description")
    return declined(rows, rf"[0-9]+,([0-9]+),[01],{WHY}", ",1,")


def declined(lines: list[str], pattern: str, allowed_mark: str) -> Numbers:
    """The numbers of such rows; what is allowed has to be what continues them, and nothing else."""
    prefixes = captured(lines, pattern)
    allowed = {prefix for prefix, line in zip(prefixes, lines, strict=True) if allowed_mark in line}
    numbers = with_plus(prefix for prefix in prefixes if prefix not in allowed)
    bare = {number[1:] for number in numbers}
    if allowed != {f"{prefix}{digit}" for prefix in bare if prefix[0] != "1" for digit in range(10)} - bare:
        raise InvalidList("rows", "allow what goes on after a listed number, and nothing else", f"{len(allowed)} rows")
    return numbers


def kamailio_ranges(data: bytes) -> Numbers:
    inner = statements(data, ["BEGIN;", "DELETE FROM htable WHERE key_value LIKE 'hushcall:%';"])
    insert = re.escape("INSERT INTO htable (key_name, key_type, value_type, key_value, expires) VALUES ")
    texts = captured(inner, rf"{insert}\('([0-9]+{OPEN}{{1,2}})', 0, 0, '{BLOCK_WHY}', 0\);")
    return checked((f"+{text}" for text in texts), BLOCK)


def ncid(data: bytes) -> Numbers:
    remark = "hushcall: [0-9]+ days? - about [0-9]+ phones?"
    texts = captured(text_lines(data), rf"\^(1\?[0-9]+|[0-9]+) #= {remark}")
    return with_plus(text.replace("?", "") for text in texts)


def fritzbox(data: bytes) -> Numbers:
    try:
        root = fromstring(data, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        raise InvalidList("phonebook", "be XML without a document type", data) from None
    if root.tag != "phonebooks" or [child.tag for child in root] != ["phonebook"]:
        raise InvalidList("phonebook", "be one phonebook in phonebooks", root.tag)
    return checked(number.text or "" for number in root.findall("phonebook/contact/telephony/number"))


CARD = re.compile(
    r"BEGIN:VCARD\r\nVERSION:3\.0\r\nUID:hushcall-[0-9]+\r\nFN:(hushcall [0-9]+)\r\nN:\1;;;;\r\nCATEGORIES:hushcall\r\n"
    r"REV:[0-9T:Z-]{20}\r\n((?:TEL;TYPE=VOICE:\+[0-9]+\r\n){1,9})END:VCARD\r\n"
)


def vcard(data: bytes) -> Numbers:
    text, end = "\r\n".join([*text_lines(data, "\r\n"), ""]), 0
    phones: list[str] = []
    while card := CARD.match(text, end):
        phones += card[2].split("\r\n")[:-1]
        end = card.end()
    if end != len(text):
        raise InvalidList("card", "be a vCard 3.0 as this release writes it", text[end : end + 40])
    return checked(captured(phones, r"TEL;TYPE=VOICE:(\+[0-9]+)"))


def plain(data: bytes) -> Numbers:
    """The count of the numbers has to be the header's."""
    keys = ("Title", "Version", "Last modified", "Expires", "Licence", "Terms", "Entries")
    lines = text_lines(data)
    header, numbers = lines[: len(keys)], lines[len(keys) :]
    if [line.partition(": ")[0] for line in header] != [f"! {key}" for key in keys]:
        raise InvalidList("header", f"have the keys {', '.join(keys)}", header[:1])
    if header[-1] != f"! {keys[-1]}: {len(numbers)}":
        raise InvalidList("file", f"be whole, with {header[-1][2:]}", f"{len(numbers)} numbers")
    return checked(captured(numbers, r"(\+[0-9]+)"))


def parse(data: bytes) -> tuple[list[Change], int]:
    """The changes and the version of PhoneBlock's JSON: only what ``document`` writes is one."""
    try:
        value = json.loads(data)
        version = value["version"]
        changes = [Change(row["phone"], row["votes"], row["lastActivity"]) for row in value["numbers"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidList("document", "be PhoneBlock's JSON", data) from None
    for change in changes:
        if not isinstance(change.phone, str) or not E164.fullmatch(change.phone):
            raise InvalidList("phone", "be a plus and 7 to 15 digits", change.phone)
        if type(change.votes) is not int or change.votes not in (0, WARNED, *STEPS):
            raise InvalidList("votes", f"be 0, {WARNED} or one of {STEPS}", change.votes)
        if type(change.last_activity_ms) is not int:
            raise InvalidList("lastActivity", "be milliseconds", change.last_activity_ms)
    if type(version) is not int or document(changes, version, "json")[0] != data:
        raise InvalidList("document", "be written as this release writes it", f"{len(data)} bytes")
    return changes, version


def phoneblock(data: bytes) -> Numbers:
    """A whole list removes nothing."""
    changes, _ = parse(data)
    if any(change.votes == 0 for change in changes):
        raise InvalidList("document", "be a whole list, without removals", f"{len(changes)} changes")
    return checked(change.phone for change in changes)


READERS: dict[str, Callable[[bytes], Numbers]] = {
    "spamblocker": spamblocker,
    "yacb": yacb,
    "nophonespam": nophonespam,
    "fossify": fossify,
    "ios": ios,
    "asterisk": asterisk,
    "asterisk-ranges": asterisk_ranges,
    "freepbx": freepbx,
    "kamailio": kamailio,
    "kamailio-csv": kamailio_csv,
    "kamailio-ranges": kamailio_ranges,
    "ncid": ncid,
    "fritzbox": fritzbox,
    "vcard": vcard,
    "plain": plain,
    "phoneblock": phoneblock,
}


def read(name: str, data: bytes) -> Numbers:
    """The numbers, or blocks, in an export of this name."""
    return READERS[name](data)


def held_by(name: str, blocklist: Blocklist) -> Numbers:
    """What an export of this name holds of a list: its blocks or its numbers."""
    return blocks_of(blocklist) if name.endswith("-ranges") else numbers_of(blocklist)

"""Apps that block calls, on Android and iOS, and lists that apps fetch from a URL again and again."""

from __future__ import annotations

import re

from hushcall.formats.blocklists.writer import MARK, Writer, why
from hushcall.formats.phoneblock import changes_between, document
from hushcall.protocol.blocklist import Blocklist, iso


def _spamblocker(blocklist: Blocklist) -> bytes:
    """Digits only: the app strips the plus of a caller, and a pattern is a regular expression to it."""
    return "".join(f"{line}\n" for line in ("pattern", *(entry.number[1:] for entry in blocklist.entries))).encode()


def _yacb(blocklist: Blocklist) -> bytes:
    """The app's blacklist backup. ``creationTimestamp`` is in milliseconds. Columns about calls begin at zero."""
    header = "ID,name,pattern,creationTimestamp,numberOfCalls,lastCallTimestamp"
    rows = [
        f"{place},{why(entry)},{entry.number},{entry.first * 1000},0,"
        for place, entry in enumerate(blocklist.entries, 1)
    ]
    return "".join(f"{line}\r\n" for line in (header, *rows)).encode()


def _nophonespam(blocklist: Blocklist) -> bytes:
    """``number: why`` a line. The app stops at the first line of another kind."""
    return "".join(f"{entry.number}: {why(entry)}\n" for entry in blocklist.entries).encode()


def _fossify(blocklist: Blocklist) -> bytes:
    """One line without a break at its end: older versions take it for a part of the last number, and drop that."""
    return ",".join(entry.number for entry in blocklist.entries).encode()


def integers(blocklist: Blocklist | None) -> tuple[int, ...]:
    """The numbers as iOS wants them (``CXCallDirectoryPhoneNumber``): strictly ascending integers."""
    return () if blocklist is None else tuple(sorted(int(entry.number[1:]) for entry in blocklist.entries))


def ios_changes(old: Blocklist | None, new: Blocklist) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The integers to add and to remove, both ascending, for an extension that holds ``old``."""
    before, after = set(integers(old)), set(integers(new))
    return tuple(sorted(after - before)), tuple(sorted(before - after))


def _ios(blocklist: Blocklist) -> bytes:
    return "".join(f"{number}\n" for number in integers(blocklist)).encode()


def _plain(blocklist: Blocklist) -> bytes:
    """The header of ad-blocking lists (``! Key: value``, with when to fetch the next version), and a number a line."""
    run = blocklist.header
    run_with = f"{run.mechanism} epsilon {run.epsilon:g} more than {run.tau} reports window {run.window_days}"
    header = {
        "Title": MARK,
        "Version": str(blocklist.version),
        "Last modified": iso(blocklist.made),
        "Expires": "1 days",
        "Licence": "ask whoever publishes this list",
        "Terms": re.sub(r"[^ -~]", "?", run_with),
        "Entries": str(len(blocklist.entries)),
    }
    lines = [f"! {key}: {value}" for key, value in header.items()]
    return "".join(f"{line}\n" for line in (*lines, *(entry.number for entry in blocklist.entries))).encode()


def _phoneblock(blocklist: Blocklist) -> bytes:
    return document(changes_between(None, blocklist), blocklist.version, "json")[0]


WRITERS = (
    Writer("spamblocker", "SpamBlocker (Android)", "spamblocker.csv", "text/csv", _spamblocker),
    Writer("yacb", "Yet Another Call Blocker, Tranquille (Android)", "yacb.csv", "text/csv", _yacb),
    Writer("nophonespam", "NoPhoneSpam (Android)", "NoPhoneSpam_blacklist.txt", "text/plain", _nophonespam),
    Writer("fossify", "Fossify Phone (Android)", "fossify.txt", "text/plain", _fossify),
    Writer("ios", "iOS Call Directory extensions", "ios.txt", "text/plain", _ios),
)
SUBSCRIPTIONS = (
    Writer("plain", "scripts, and apps that subscribe to a URL", "hushcall.txt", "text/plain", _plain),
    Writer("phoneblock", "clients of PhoneBlock's API", "phoneblock.json", "application/json", _phoneblock),
)

"""What reads files of strangers, each with an honest one: call logs, contacts, lists and archived reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta, timezone
from functools import partial
from pathlib import Path

import numpy as np
from tests.fuzz.readers import Reader

from hushcall.decoding.archive.files import read_file, start_round, write_bucket
from hushcall.decoding.archive.manifest import Address, ArchivedRound
from hushcall.formats.calls.contacts import read_contacts
from hushcall.formats.calls.reading import READERS, read_calls
from hushcall.mechanisms.profiles import DEFAULT
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, apply_delta, delta

SAMPLES = Path(__file__).parents[1] / "formats" / "calls" / "samples"
LOGS = {
    "termux": "termux-call-log.json",
    "sms-backup": "calls-20240301101112.xml",
    "adb": "call_log.txt",
    "ios": "CallHistory.storedata",
    "asterisk": "asterisk-Master.csv",
    "freeswitch": "freeswitch-Master.csv",
    "fritzbox-csv": "FRITZ!Box_Anrufliste.csv",
    "fritzbox-xml": "calllist.xml",
    "ncid": "cidcall.log",
    "ncid-day-first": "cidcall-day-first.log",
    "csv": "carrier.csv",
}
CONTACTS = {
    "vcard": "contacts.vcf",
    "termux": "termux-contact-list.json",
    "plain": "contacts.txt",
    "fritzbox": "phonebook.xml",
}
"""A sample of each; who adds a format without one hears of it."""
ZONE = timezone(timedelta(hours=-5))

ENTRIES = tuple(
    Entry(f"+120255501{last}", 1_794_700_800, 1_794_787_200, 2, 9.5 * i, 0.0, 200.0, 1e-9)
    for i, last in enumerate(range(40, 51))
)
OLD = Blocklist(12, 12, 1_794_787_200, ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7), ENTRIES)
NEW = replace(OLD, version=13, entries=ENTRIES[2:])
OLD_BYTES = OLD.to_bytes()


def call_logs() -> Iterator[Reader]:
    """A log of each format, read as a whole, as the next piece of one that grows, and by who must guess what it is."""
    for name, kind in READERS.items():
        if name not in LOGS:  # ``tests/test_recipes.py`` says so, in words
            continue
        whole, sample = f"call log: {name}", (SAMPLES / LOGS[name]).read_bytes()
        yield Reader(whole, partial(kind.read, zone=ZONE), sample, binary=name == "ios")
        if kind.grows:
            piece = partial(kind.read, zone=ZONE, chunk=True)
            yield Reader(f"piece of a call log: {name}", piece, sample, binary=False, parser=whole)
    logs = [(SAMPLES / sample).read_bytes() for sample in LOGS.values()]
    yield Reader("call log of some kind", partial(read_calls, zone=ZONE), logs[0], binary=False, others=tuple(logs[1:]))


def contacts() -> Iterator[Reader]:
    """Contacts of each format, and for who has to guess which it is."""
    files = {name: (SAMPLES / sample).read_bytes() for name, sample in CONTACTS.items()}
    for name, data in files.items():
        yield Reader(f"contacts: {name}", read_contacts, data, binary=False)
    first, *others = files.values()
    yield Reader("contacts of some kind", read_contacts, first, binary=False, others=tuple(others))


def lists() -> Iterator[Reader]:
    """The list that phones hold, and its changes."""
    yield Reader("blocklist", read_list, OLD_BYTES)
    yield Reader("change of a blocklist", read_delta, delta(OLD, NEW))


def read_list(data: bytes) -> None:
    """A list that is read has these very bytes."""
    assert Blocklist.from_bytes(data).to_bytes() == data


def read_delta(data: bytes) -> None:
    """A delta that is applied leads to bytes; whether they are the signed ones is the caller's to check."""
    assert isinstance(apply_delta(OLD_BYTES, data), bytes)


def archives() -> Iterator[Reader]:
    """A bucket's reports in Parquet, in a folder of this process's memory."""
    address = Address("memory://fuzz")
    rows = np.arange(9 * 16, dtype=np.uint8).reshape(9, 16)
    parameters = {"mechanism": "subspace", "epsilon": 4.0, "bits": 5}
    bucket = write_bucket(address, start_round(address, 3), 202, 9, parameters, iter([ReportArrays(rows, rows[:, :5])]))
    found = ArchivedRound(3, "00" * 32, "nanp-2026", DEFAULT.to_plain(), (bucket,), {}, {})
    path = address.path(found.folder, bucket.files[0].path)

    def read(data: bytes) -> None:
        address.system.pipe_file(path, data)
        for part in read_file(address, found.folder, bucket.files[0]):
            assert len(part.tickets) == len(part.bodies)

    yield Reader("archived reports (Parquet)", read, address.system.cat_file(path))

"""Fifty phones, each a process with the real commands, and a real server: three rounds, from call logs to verdicts.

Commands draw the system's entropy, as they do in earnest: the server misses one of the three callers with chance 10⁻⁷.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import sqlalchemy as sa
from tests.formats.calls.writers import write

from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.reader import Reader
from hushcall.formats.calls.reading import READERS
from hushcall.server.db import schema
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings
from hushcall_lab.servers import running

PHONES = 50
SPAMMER, PHARMACY, CHARITY = "+12025550101", "+12025550102", "+12025550103"
"""All call nearly everybody: the second is on the operator's allowlist, the third in the contacts of some phones."""
FRIENDS = range(5)
SPARED = PHONES - 1
"""The phone that nobody ever calls: it sends dummies, and still profits from the list."""
LOOKING = (0, 2, 4, 5, 11, 20, 30, SPARED)
"""The phones that sync and check, friends and strangers: verifying signatures takes half a second to import."""
MINUTE = int(time.time()) // 60 * 60 - 3600

# Forks a process for each phone; imports and the tree of commands are made once, which saves most of the time. Each
# line that a phone gets is the words of one command; its exit status and what it printed go back.
ZYGOTE = """
import contextlib, io, json, os, sys
import typer.main, urllib3
from hushcall.cli import app
from hushcall.errors import HushcallError
from hushcall.formats.calls import reading
from hushcall.client.screening import list_sync
hushcall = typer.main.get_command(app)

def obey(commands, answers):
    for line in commands:
        out, code = io.StringIO(), 0
        with contextlib.redirect_stdout(out):
            try:
                hushcall(["phone", *json.loads(line)])
            except SystemExit as end:
                code = end.code or 0
            except HushcallError as error:
                out, code = io.StringIO(str(error)), 2
        print(json.dumps([code, out.getvalue()]), file=answers, flush=True)

for reading_end, writing_end in json.loads(sys.argv[1]):
    if not os.fork():
        obey(os.fdopen(reading_end), os.fdopen(writing_end, "w"))
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


@dataclass
class PhoneProcess:
    """One phone: a folder, a call log in its format, and a process that runs its commands."""

    folder: Path
    reader: Reader
    commands: TextIO
    answers: TextIO
    calls: list[Call] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / f"log-{self.reader.name}"

    def rings(self, number: str) -> None:
        self.calls.append(Call(number, MINUTE + 60 * len(self.calls), CallKind.INCOMING))
        self.log.write_bytes(write(self.reader.name, self.calls))

    def ask(self, *words: str) -> None:
        print(json.dumps([*words, "--home", str(self.folder / "home"), "--json"]), file=self.commands, flush=True)

    def answer(self, status: int = 0) -> Any:
        code, text = json.loads(self.answers.readline())
        assert code == status, (self.reader.name, code, text)
        return json.loads(text)


def everybody(phones: Sequence[PhoneProcess], *words: str) -> list[Any]:
    """The same command on all phones at once; a word {log} is each one's own call log."""
    for phone in phones:
        phone.ask(*(word.format(log=phone.log) for word in words))
    return [phone.answer() for phone in phones]


@contextmanager
def crowd(folder: Path) -> Iterator[list[PhoneProcess]]:
    """Fifty processes; each ends when its pipe does."""
    readers, phones, theirs = list(READERS.values()), [], []
    with ExitStack() as stack:
        for place in range(PHONES):
            home = folder / f"phone-{place}"
            home.mkdir()
            (reads, commands), (answers, writes) = os.pipe(), os.pipe()
            theirs.append((reads, writes))
            ours = stack.enter_context(os.fdopen(commands, "w")), stack.enter_context(os.fdopen(answers))
            phones.append(PhoneProcess(home, readers[place % len(readers)], *ours))
        ends = [end for pair in theirs for end in pair]
        words = [sys.executable, "-c", textwrap.dedent(ZYGOTE), json.dumps(theirs)]
        with subprocess.Popen(words, pass_fds=ends, start_new_session=True) as zygote:
            for end in ends:
                os.close(end)
            try:
                yield phones
            finally:
                os.killpg(zygote.pid, signal.SIGKILL)  # its own group: the zygote and the phones


def one_round(service: Service, phones: Sequence[PhoneProcess]) -> list[str]:
    """Announce, report, decode, publish, sync; what the phones say that they did."""
    service.rounds.advance(service.now, force=True)
    everybody(phones, "ingest", "{log}", "--columns", "guess")
    assert {found["action"] for found in everybody(phones, "report", "--skip-delays")} == {"announced"}
    service.rounds.advance(service.now, force=True)
    done = [found["action"] for found in everybody(phones, "report", "--skip-delays")]
    for _ in range(2):  # running it again changes nothing
        assert {found["action"] for found in everybody(phones[:3], "report", "--skip-delays")} == {"done"}
    service.rounds.advance(service.now, force=True)
    everybody([phones[place] for place in LOOKING], "sync")
    return done


def verdicts(phone: PhoneProcess) -> list[str]:
    found = []
    for number in (SPAMMER, PHARMACY, CHARITY):
        phone.ask("check", number)
        found.append(phone.answer()["action"])
    return found


def found_by_the_server(service: Service) -> dict[int, set[str]]:
    rows = service.store.rows(sa.select(schema.hitters.c.round, schema.hitters.c.number))
    return {number: {row.number for row in rows if row.round == number} for number in (1, 2, 3)}


def test_a_spammer_is_flagged_on_a_phone_it_never_called(tmp_path: Path) -> None:
    began = time.monotonic()
    allowed = tmp_path / "never.txt"
    allowed.write_text(f"{PHARMACY}  # calls everybody, and may\n")
    settings = Settings(
        data=tmp_path / "server",
        round={"decoders": 0, "scheduler": False, "tolerance": 5},  # type: ignore[arg-type]
        enrol={"mode": "open", "work": 0},  # type: ignore[arg-type]
        list={"allow_file": allowed},  # type: ignore[arg-type]
    )
    service = open_service(settings)
    with running(service) as url, crowd(tmp_path) as phones:
        everybody(phones, "init", "--server", url, "--rounds-per-day", "9", "--cap-window", "36")
        for phone in (phones[place] for place in FRIENDS):
            contacts = phone.folder / "contacts.txt"
            contacts.write_text(CHARITY)
            phone.ask("ingest", "--contacts", str(contacts))
            assert phone.answer()["contacts"][0]["numbers"] == 1
        phones[SPARED].log.write_bytes(write(phones[SPARED].reader.name, []) or b"\n")
        sent = []
        for caller in (SPAMMER, PHARMACY, CHARITY):
            for phone in phones[:SPARED]:
                phone.rings(caller)
            sent.append(one_round(service, phones))
        # Phones that had somebody to report did so; friends of the charity had nobody in the third round.
        assert [done[:SPARED].count("sent") >= SPARED - len(FRIENDS) for done in sent] == [True] * 3
        found = found_by_the_server(service)
        assert all(caller in found[number] for number, caller in enumerate((SPAMMER, PHARMACY, CHARITY), 1))
        assert verdicts(phones[SPARED])[0] in ("warn", "block")
        for place in LOOKING:
            spammer, pharmacy, charity = verdicts(phones[place])
            assert spammer in ("warn", "block")
            assert pharmacy == "allow"
            assert (charity == "allow") is (place in FRIENDS)
        ledger_rows = everybody(phones, "ledger")
        assert all(0 < book["spent"]["life"] <= 12 for book in ledger_rows[:SPARED])
        kept = counted(service)
        assert kept == {number: done.count("sent") for number, done in enumerate(sent, 1)}
    service.close()
    print(f"{PHONES} phones, 3 rounds: {time.monotonic() - began:.0f} s")


def counted(service: Service) -> dict[int, int]:
    """How many reports the server has tallied in each round."""
    table = schema.tallies.c
    rows = service.store.rows(sa.select(table.round, sa.func.sum(table.count)).group_by(table.round))
    return {int(row[0]): int(row[1]) for row in rows}

"""Days of a household that touches nothing: its box rings ten times a day, changes its password, loses call barring."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.environments import empty_environment, run
from tests.home.household import (
    CALLED,
    CONTACTS,
    DAY,
    HOUR,
    LIMIT,
    LISTED,
    OWN,
    InProcess,
    Installed,
    World,
    world,
)

from hushcall.client.reporting import ledger
from hushcall.client.storage.device_key import KEY_BYTES
from hushcall.client.storage.store import Store
from hushcall.formats.calls.call import CallKind
from hushcall.protocol.blocklist import Blocklist
from hushcall_home import history

ROOT = Path(__file__).parents[2]


def set_up(there: World, days: int, python: Path | None) -> None:
    """One command, and a plan of what happens in the days to come."""
    box = there.box
    there.plan(days)
    there.wait(1)
    words = ("home", "init", "--server", there.url, "--fritzbox", box.address, "--fritzbox-user", box.user)
    done = there.command(*words, "--limit", LIMIT, "--page", "", password=box.password, python=python)
    assert done.returncode == 0, done.stderr
    assert box.password not in done.stdout
    assert (there.folder / "home.json").stat().st_mode & 0o777 == 0o600
    with closing(Store.open(there.folder)) as store:
        store.put("device_key", "5e" * KEY_BYTES)  # all that the phone draws follows from it


def live(there: World, days: int, changed: int, firmware: int, python: Path | None = None) -> None:
    """Let days pass. On two of them something breaks, to be mended a day later."""
    box, start = there.box, there.clock.now
    set_up(there, days, python)
    program = Installed(there, python) if python else InProcess(there)

    program.until(start + changed * DAY + 5 * HOUR)
    assert all(row["ok"] for row in there.status(python).values()), there.status(python)
    box.password = "another"  # noqa: S105
    program.until(start + changed * DAY + 20 * HOUR)
    said = there.status(python)["fritzbox"]
    assert not said["ok"]
    assert "refuses the user hushcall, or its password" in said["words"]
    assert "hushcall home init --fritzbox-user" in said["todo"]
    assert box.refused <= 16, "once an hour: a box punishes more"
    program.until(start + (changed + 1) * DAY)
    mended = there.command("home", "init", "--fritzbox-user", box.user, password=box.password, python=python)
    assert mended.returncode == 0, mended.stderr

    program.until(start + firmware * DAY + 5 * HOUR)
    assert all(row["ok"] for row in there.status(python).values()), there.status(python)
    box.barring = False
    box.reboot()
    program.until(start + (firmware + 1) * DAY + 6 * HOUR)
    said = there.status(python)["fritzbox-barring"]
    assert not said["ok"]
    assert "no call barring for programs" in said["words"]
    assert "block the phonebook hushcall once" in said["todo"]
    assert there.status(python)["fritzbox-phonebook"]["ok"]
    box.barring = True
    program.until(start + days * DAY)
    program.close()
    assert all(row["ok"] for row in there.status(python).values()), there.status(python)


def check(there: World, days: int) -> None:
    """What must be true in the end, whatever broke meanwhile."""
    box = there.box
    assert Counter(box.served) == Counter(there.rung), "each call was fetched once"
    assert len(there.rung) == 10 * days
    with closing(Store.open(there.folder)) as store:
        seen = history.calls(store, 0)
        spends = ledger.spends(store)
        rounds = store.rows("SELECT round, state FROM rounds ORDER BY round")
        acquaintances = {number for (number,) in store.rows("SELECT number FROM callers WHERE known")}
        reported = {number for (number,) in store.rows("SELECT number FROM reported")}
    assert len(seen) == 9 * days, "all but those that the household made"
    assert [number for number, _ in rounds] == list(range(1, days + 1)), "one round a day, and one upload in each:"
    assert {state for _, state in rounds} <= {"sent", "skipped"}, "a report, or cover where the bucket is too small"
    assert len({spend.round for spend in spends}) == len(spends) == [state for _, state in rounds].count("sent")
    assert len(spends) >= days / 3
    kin = {"+1" + "".join(filter(str.isdecimal, text))[-10:] for text in CONTACTS} | {f"+1{CALLED}"}
    assert kin <= acquaintances
    assert not acquaintances & set(LISTED), "our phonebook makes nobody an acquaintance"
    assert reported
    assert not reported & kin
    entries = Blocklist.from_bytes((there.folder / "lists" / "list.jsonl").read_bytes()).entries
    largest = sorted(entries, key=lambda entry: -entry.estimate)[:LIMIT]
    assert {entry.number for entry in entries} == set(LISTED)
    assert sorted(box.numbers_of(box.barred)) == sorted(entry.number for entry in largest)
    assert sorted(box.numbers_of(box.books[1])) == sorted(entry.number for entry in largest)
    assert [(book.name, book.extra) for book in box.books.values()] == [("Telefonbuch", ""), ("hushcall", "hushcall")]
    assert [entry.numbers for entry in box.barred.entries.values() if entry.name == "Telefonterror"] == [(OWN,)]
    assert [entry.name for entry in box.books[0].entries.values()] == ["Ada", "Bob"]
    rejected = [call for call in seen if call.kind is CallKind.REJECTED]
    assert rejected
    assert all(call.blocked for call in rejected), "the box refused whom the list blocks, and nobody else"
    assert {call.number for call in rejected} == {LISTED[0]}


def test_a_day(tmp_path: Path) -> None:
    """The short version: nothing breaks, and nothing is listed yet."""
    with world(tmp_path) as there:
        set_up(there, 1, None)
        program = InProcess(there)
        program.until(there.clock.now + DAY)
        program.close()
        assert Counter(there.box.served) == Counter(there.rung)
        assert program.said == []
        with closing(Store.open(there.folder)) as store:
            assert len(history.calls(store, 0)) == 9
            assert len(store.rows("SELECT round FROM rounds")) == 1


@pytest.mark.slow
def test_days_in_which_everything_breaks_once(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        live(there, 5, 1, 2)
        check(there, 5)


@pytest.mark.slow
def test_a_fortnight_of_the_installed_package(tmp_path: Path) -> None:
    programs = empty_environment(tmp_path / "empty")
    run([programs / "pip", "install", "-q", ROOT, ROOT / "home"], tmp_path)
    with world(tmp_path) as there:
        live(there, 14, 4, 9, programs / "python")
        check(there, 14)

"""Backup and restore: a restored phone never says less than it spent, whatever became of the newer ledger."""

import io
import os
import sqlite3
import stat
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from tests.client.conftest import Run
from tests.client.fake_server import DAY, START, FakeServer, FakeService
from tests.client.lists_on_disk import put_list

from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.reporting import ledger
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.ledger import ASSUMED, Spend
from hushcall.client.saving import back_up, restore
from hushcall.client.screening.lookup import ROOT_FILE
from hushcall.client.storage import device_key
from hushcall.client.storage.folder import DAMAGED, erase_all
from hushcall.client.storage.store import LISTS, Store
from hushcall.client.storage.trouble import FILE
from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.randomness import seeded

SPAMMER, FRIEND = "+12025550177", "+12025550199"


class Life:
    """One phone in a folder in front of a server in memory, and its days."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, float(START)
        self.service = FakeService(lambda: self.now)
        store = Store.open(folder)
        store.put("server", FakeServer(self.service).url)
        Limits().save(store)
        candidates.add_contacts(store, [FRIEND], self.phone(store).plan)
        store.close()

    def phone(self, store: Store) -> Client:
        return Client(store, FakeServer(self.service), rand=seeded(b"life"), clock=lambda: self.now)

    def day(self, day: int, *callers: str) -> list[str]:
        """One whole day; what the two looks came to."""
        found = []
        with closing(Store.open(self.folder)) as store:
            put_list(self.folder, START, START + 400 * DAY)  # without one it would stop after three days
            phone = self.phone(store)
            for moment in (0, DAY // 2):
                self.now = START + day * DAY + moment
                phone.ingest([Call(number, int(self.now), CallKind.MISSED) for number in callers])
                found.append(phone.report(skip_delays=True).action)
        return found

    def days(self, first: int, last: int) -> None:
        for day in range(first, last + 1):
            self.day(day, f"+1202555{100 + day:04}")

    def spends(self) -> list[Spend]:
        with closing(Store.open(self.folder)) as store:
            return ledger.spends(store)

    def spent(self) -> Fraction:
        return sum((one.epsilon for one in self.spends()), Fraction(0))


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path / "home")


def test_a_backup_is_one_file_for_its_owner_only_and_was_read_back(life: Life, tmp_path: Path) -> None:
    life.days(0, 2)
    saved = back_up(life.folder, tmp_path / "b", int(life.now))
    assert (saved.reports, saved.epsilon) == (3, life.spent())
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert saved.bytes == (tmp_path / "b").stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "home"]
    back_up(life.folder, tmp_path / "b", int(life.now))  # an older backup is replaced
    (tmp_path / "letter").write_text("to my aunt")
    with pytest.raises(InvalidData, match="nothing but an older backup"):
        back_up(life.folder, tmp_path / "letter", int(life.now))
    assert (tmp_path / "letter").read_text() == "to my aunt"


def test_an_old_backup_over_a_newer_ledger_takes_nothing_away(life: Life, tmp_path: Path) -> None:
    life.days(0, 1)
    back_up(life.folder, tmp_path / "b", int(life.now))
    life.days(2, 5)
    with closing(Store.open(life.folder)) as store:
        Limits(report=Fraction(3)).save(store)
        assert store.get("limit.report") == "3"
    before = life.spends()
    done = restore(life.folder, tmp_path / "b", int(life.now))
    assert (done.merged, done.assumed, done.reports) == (True, 0, 6)
    assert life.spends() == before
    with closing(Store.open(life.folder)) as store:
        assert Limits.load(store).report == 4  # settings are the backup's
        assert device_key.made_up_until(store, int(life.now), 30) == 0  # nothing is unknown
    assert life.day(6, "+12025550188")[-1] == "sent"


def spoil(folder: Path, how: str) -> None:
    if how == "emptied":
        os.truncate(folder / FILE, 0)
    elif how == "deleted":
        (folder / FILE).unlink()
    else:
        erase_all(folder)  # another machine: nothing is there


@pytest.mark.parametrize("how", ["emptied", "deleted", "another machine"])
def test_where_the_newer_ledger_is_gone_all_it_can_have_held_is_charged(life: Life, tmp_path: Path, how: str) -> None:
    life.days(0, 1)
    life.day(2, SPAMMER)
    back_up(life.folder, tmp_path / "b", int(life.now))
    life.days(3, 6)
    truth, sent = life.spent(), dict(life.service.reports)
    spoil(life.folder, how)
    done = restore(life.folder, tmp_path / "b", int(life.now))
    assert (done.merged, done.reports, done.assumed) == (False, 3, 4)  # days 3 to 6; day 2 is in the backup
    assert done.epsilon == life.spent() >= truth
    assumed = [one for one in life.spends() if one.what == ASSUMED]
    assert [one.at // DAY for one in assumed] == [START // DAY + day for day in (3, 4, 5, 6)]
    assert max(one.at for one in assumed) == int(life.now)
    assert (done.kept is not None) == (how == "emptied")
    assert life.day(6, "+12025550166")[-1] == "skipped"  # today's report is charged already
    assert life.spent() == done.epsilon
    assert life.service.reports == sent
    with closing(Store.open(life.folder)) as store:
        assert candidates.reported_since(store, SPAMMER, START)
        words = ledger.guarantee(store, Limits.load(store), int(life.now))
    assert "3 reports, and up to 4 more that may have been made between a backup and its restore" in words


def test_a_restored_phone_reports_no_real_caller_for_one_horizon(life: Life, tmp_path: Path) -> None:
    life.days(0, 1)
    back_up(life.folder, tmp_path / "b", int(life.now))
    life.day(2, SPAMMER)  # the backup does not know that it was reported
    spoil(life.folder, "deleted")
    restore(life.folder, tmp_path / "b", int(life.now))
    for day in range(3, 12):
        life.day(day, SPAMMER)
    with closing(Store.open(life.folder)) as store:
        assert store.rows("SELECT number FROM reported WHERE number = ?", SPAMMER) == []
    assert len(life.spends()) > 4  # it takes part, with made-up callers
    assert len({(one.server, one.round) for one in life.spends() if one.what != ASSUMED}) == len(
        [one for one in life.spends() if one.what != ASSUMED]
    )


def test_the_counter_beside_a_lost_store_is_believed_where_it_says_more(life: Life, tmp_path: Path) -> None:
    life.days(0, 1)
    back_up(life.folder, tmp_path / "b", int(life.now))
    (life.folder / "reports").write_text("40\n")
    spoil(life.folder, "emptied")
    done = restore(life.folder, tmp_path / "b", int(life.now))
    assert (done.reports, done.assumed) == (2, 38)


def test_a_day_on_which_the_phone_stopped_bounds_the_charge_and_so_does_the_cap_for_life(
    life: Life, tmp_path: Path
) -> None:
    life.days(0, 1)
    back_up(life.folder, tmp_path / "b", int(life.now))
    spoil(life.folder, "another machine")
    year = START + 3650 * DAY
    done = restore(life.folder, tmp_path / "b", year, START + 4 * DAY)
    assert done.assumed == 3  # days 2, 3 and 4
    spoil(life.folder, "another machine")
    done = restore(life.folder, tmp_path / "b", year)
    assert done.epsilon == Limits().life


def test_restoring_twice_and_an_older_one_after_a_newer_one_never_says_less(life: Life, tmp_path: Path) -> None:
    life.days(0, 1)
    back_up(life.folder, tmp_path / "old", int(life.now))
    life.days(2, 3)
    back_up(life.folder, tmp_path / "new", int(life.now))
    spoil(life.folder, "another machine")
    first = restore(life.folder, tmp_path / "old", int(life.now))
    second = restore(life.folder, tmp_path / "new", int(life.now))
    assert second.epsilon >= first.epsilon
    assert second.reports >= 4  # the two that only the newer backup knew are in the books, too
    third = restore(life.folder, tmp_path / "old", int(life.now))
    assert third.epsilon >= second.epsilon


def test_about_one_caller_lost_reports_count_once_a_horizon(life: Life) -> None:
    with closing(Store.open(life.folder)) as store:
        with store.transaction():
            ledger.record(store, ledger.next_seq(store), Spend(1, START, Fraction(4), "subspace", "report", "s"))
        assert ledger.per_caller(store) == 4
        with store.transaction():
            assert ledger.assume(store, Limits(), START + DAY, START + 40 * DAY) == 40
        assert ledger.per_caller(store) == 4 + 2 * 4  # forty days are two horizons


def test_places_in_the_books_are_given_once(life: Life) -> None:
    with closing(Store.open(life.folder)) as store:
        first, second = ledger.next_seq(store), ledger.next_seq(store)
        assert second > first
        assert store.row("SELECT count(*) FROM rounds") == (0,)
    life.day(0, SPAMMER)
    with closing(Store.open(life.folder)) as store:
        assert store.count("SELECT seq FROM rounds") > second


def test_trust_goes_with_the_phone(life: Life, tmp_path: Path) -> None:
    lists = life.folder / LISTS
    lists.mkdir()
    (lists / ROOT_FILE).write_text('{"the": "root"}')
    back_up(life.folder, tmp_path / "b", int(life.now))
    spoil(life.folder, "another machine")
    restore(life.folder, tmp_path / "b", int(life.now))
    with closing(Store.open(life.folder)) as store:
        assert store.get("root") == '{"the": "root"}'


def test_the_list_of_another_server_does_not_stay(life: Life, tmp_path: Path) -> None:
    (life.folder / LISTS).mkdir()
    (life.folder / LISTS / ROOT_FILE).write_text("one")
    back_up(life.folder, tmp_path / "b", int(life.now))
    (life.folder / LISTS / ROOT_FILE).write_text("another")
    spoil(life.folder, "emptied")
    restore(life.folder, tmp_path / "b", int(life.now))
    assert not (life.folder / LISTS).exists()


@pytest.mark.parametrize("content", [b"", b"x", b"no backup at all" * 100])
def test_what_is_no_backup_is_refused_and_changes_nothing(life: Life, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b").write_bytes(content)
    before = (life.folder / FILE).read_bytes()
    with pytest.raises(InvalidData, match="hushcall phone backup wrote"):
        restore(life.folder, tmp_path / "b", START)
    with pytest.raises(InvalidData, match="hushcall phone backup wrote"):
        restore(tmp_path / "new", tmp_path / "b", START)
    assert (life.folder / FILE).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "home"]


def test_a_stores_own_file_is_no_backup_because_nobody_knows_when_it_was_copied(life: Life, tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="hushcall phone backup wrote"):
        restore(tmp_path / "new", life.folder / FILE, START)


def test_a_restore_that_fails_leaves_the_damaged_store_as_it_was(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.days(0, 1)
    back_up(life.folder, tmp_path / "b", int(life.now))
    spoil(life.folder, "emptied")

    def fail(*_: object) -> int:
        raise sqlite3.OperationalError

    monkeypatch.setattr(ledger, "assume", fail)
    with pytest.raises(sqlite3.OperationalError):
        restore(life.folder, tmp_path / "b", int(life.now))
    assert (life.folder / FILE).stat().st_size == 0
    assert not [path for path in life.folder.iterdir() if path.name.startswith(".")]


def test_the_commands(run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = run("backup", tmp_path / "b")
    assert said.code == 0
    assert "0 reports, ε = 0 in the ledger" in said.text
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert run("restore", tmp_path / "b").code == 1  # there is a phone already, and nobody said yes
    merged = run("restore", tmp_path / "b", "--yes")
    assert merged.code == 0
    assert merged.text.startswith("Merged with the backup of")
    os.truncate(home / FILE, 0)
    assert "hushcall phone restore" in run("status").text
    done = run("restore", tmp_path / "b", "--yes")
    assert done.code == 0
    assert "1 more report is charged" in done.text
    assert f"The damaged store is kept: {home / DAMAGED}" in done.text.replace(" /", " /")
    assert "assumed" in run("ledger").text
    assert run("restore", tmp_path / "b", "--stopped", "soon", "--yes").code == 2
    put_list(home, 1, 2)
    assert run("forget", "--all", "--yes").code == 0
    assert not home.exists()  # the damaged one is gone, too


def test_forget_asks_and_says_what_is_lost(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(question: str = "", *_: object, **__: object) -> bool:
        asked.append(question)
        raise SystemExit(1)

    monkeypatch.setattr("typer.confirm", answer)
    assert run("forget").code == 1
    assert run("forget", "--all").code == 1
    assert "0 callers, 1 contact, and which 0 numbers were reported; the ledger stays." in asked[0]
    assert "the ledger of 0 reports" in asked[1]
    assert "the caps start from zero" in asked[1]
    assert run("ledger").code == 0
    os.truncate(home / FILE, 0)
    assert run("forget", "--all").code == 1
    assert "it cannot be said what is lost" in asked[2]
    assert (home / FILE).exists()

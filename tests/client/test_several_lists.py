"""A phone with the lists of several servers: their order, conflicts, a server that is gone, and one that is late."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from tests.published import ListServer, Operator, ago, now, serving
from tuf.api.metadata import TargetFile

from hushcall.client import health
from hushcall.client.client import Client
from hushcall.client.reporting import anonymity
from hushcall.client.screening import subscriptions
from hushcall.client.screening.agi import AgiServer
from hushcall.client.screening.screen import Screen
from hushcall.client.storage.folder import erase_all
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import SUBSCRIBED, Store
from hushcall.errors import InvalidParameter, NotFound, Unreachable, UntrustedList
from hushcall.protocol import imported
from hushcall.protocol.anonymity import hpke
from hushcall.protocol.anonymity.ohttp import KeyConfig
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader
from hushcall.protocol.imported import Imported
from hushcall.protocol.randomness import seeded
from hushcall.server.signing import ceremony, signer

DAY = 86_400
HUSHCALL = str(Path(sys.executable).with_name("hushcall"))
GATEWAY = KeyConfig(1, hpke.public_key(hpke.generate_key(seeded(b"a gateway"))))
HEADER = ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7, 2)
EVERYWHERE, ONLY_B, ONLY_C, ONLY_A, CLEAN = (f"+1202555014{digit}" for digit in range(5))


def publish(operator: Operator, version: int, days_ago: float = 0, **numbers: bool) -> None:
    """A list of these numbers (without their +), each blocking or warning."""
    rows = sorted((f"+{name[1:]}", block) for name, block in numbers.items())
    entries = tuple(Entry(n, 1_800_000_000, 1_800_000_000, 3, 40.0, 30.0, 50.0, 1e-9, 7, block) for n, block in rows)
    targets = {signer.LIST: Blocklist(version, version, 1_800_000_000, HEADER, entries).to_bytes()}
    targets[imported.TARGET] = imported.to_bytes([Imported(EVERYWHERE, {f"ftc{version % 10}": (7, 2_000_000_000)})])
    operator.apply(signer.publish(operator.files, operator.ring, targets, ago(days_ago)))


def named(*numbers: str, block: bool) -> dict[str, bool]:
    return {f"n{number[1:]}": block for number in numbers}


@dataclass
class Street:
    """Servers A (the phone's own), B and C, and the phone on a clock that a test moves."""

    operators: dict[str, Operator]
    servers: dict[str, ListServer]
    client: Client
    late: float = 0

    def host(self, name: str) -> str:
        return self.servers[name].url.removeprefix("http://")

    def digest(self, name: str) -> str:
        return ceremony.root_sha256(self.operators[name].files)

    def subscribe(self, *names: str) -> None:
        for name in names:
            subscriptions.add(self.client.store, self.servers[name].url, self.digest(name), "", direct=False)

    def sync(self) -> dict[str, object]:
        self.client.sync()
        return {row.name: result for row, result in self.client.sync_others(force=True)}

    def verdict(self, number: str) -> tuple[str, str, str]:
        verdict = self.client.check(number)
        name = next((name for name in self.servers if self.host(name) == verdict.list), "")
        assert not verdict.list or verdict.why.startswith(f"{verdict.list}: ")
        return verdict.action.value, name, verdict.source

    def finding(self, name: str) -> health.Finding:
        findings = health.examine(self.client, offline=True)
        return next(row for row in findings if row.topic == f"list of {self.host(name)}")


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    operators = {name: Operator().start(ago(0.1)) for name in "ABC"}
    publish(operators["A"], 1, **named(ONLY_A, block=True))
    publish(operators["B"], 2, **named(EVERYWHERE, block=True), **named(ONLY_B, block=True))
    publish(operators["C"], 3, **named(EVERYWHERE, block=False), **named(ONLY_C, ONLY_B, block=False))
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serving(operator.files)) for name, operator in operators.items()}
        with closing(Store.open(tmp_path / "phone")) as store:
            store.put("server", servers["A"].url)
            store.put("token", "hcd_1")
            store.put("root_sha256", ceremony.root_sha256(operators["A"].files))
        client = stack.enter_context(closing(Client.open(tmp_path / "phone")))
        street = Street(operators, servers, client)
        client.clock = lambda: now().timestamp() + street.late
        client.rand = seeded(b"a street")
        yield street


def test_the_first_list_that_names_a_number_decides(street: Street) -> None:
    street.subscribe("B", "C")
    street.sync()
    # A imported this one: its word comes first, though B's phones would block it
    assert street.verdict(EVERYWHERE) == ("warn", "A", "ftc1")
    assert street.verdict(ONLY_A) == ("block", "A", "phones")
    assert street.verdict(ONLY_B) == ("block", "B", "phones")
    assert street.verdict(ONLY_C) == ("warn", "C", "phones")
    assert street.verdict(CLEAN) == ("allow", "", "")
    subscriptions.reorder(street.client.store, [street.host("C"), street.servers["B"].url])
    assert street.verdict(EVERYWHERE) == ("warn", "C", "phones")  # what phones found, before what C imported
    assert street.verdict(ONLY_B) == ("warn", "C", "phones")
    subscriptions.reorder(street.client.store, [street.host("B"), "own"])
    assert street.verdict(EVERYWHERE) == ("block", "B", "phones")
    assert [row.name for row in subscriptions.in_order(street.client.store)] == [street.host("B"), "", street.host("C")]


def test_the_own_list_and_contacts_come_before_all_of_them(street: Street) -> None:
    street.subscribe("B", "C")
    street.sync()
    street.client.mark([ONLY_A], Action.ALLOW)
    street.client.mark([ONLY_C], Action.BLOCK)
    street.client.add_contacts([ONLY_B])
    found = [street.client.check(number) for number in (ONLY_A, ONLY_C, ONLY_B)]
    assert [(verdict.action.value, verdict.list) for verdict in found] == [("allow", ""), ("block", ""), ("allow", "")]


def test_a_server_that_is_gone_for_sixty_days_names_nobody(street: Street) -> None:
    street.subscribe("B", "C")
    street.sync()
    street.servers["B"].status = 503
    street.late = 60 * DAY
    publish(street.operators["A"], 11, -60, **named(ONLY_A, block=True))
    publish(street.operators["C"], 13, -60, **named(EVERYWHERE, ONLY_C, block=False))
    results = street.sync()
    assert isinstance(results[street.host("B")], Unreachable)
    assert street.verdict(ONLY_B) == ("allow", "", "")
    assert street.verdict(EVERYWHERE) == ("warn", "A", "ftc1")
    assert street.verdict(ONLY_C) == ("warn", "C", "phones")
    finding = street.finding("B")
    assert not finding.ok
    assert "and names nobody. The last sync failed: " in finding.words
    assert f"phone lists remove {street.host('B')}" in finding.todo
    assert street.finding("C").ok


def test_an_expired_signature_is_refused_and_the_list_here_counts_until_it_expires_too(street: Street) -> None:
    street.subscribe("B", "C")
    street.sync()
    publish(street.operators["B"], 12, 40, **named(CLEAN, block=True))  # a newer version, signed to expire long ago
    assert isinstance(street.sync()[street.host("B")], UntrustedList)
    assert street.verdict(ONLY_B) == ("block", "B", "phones")
    assert street.verdict(CLEAN) == ("allow", "", "")
    assert "The last sync failed: the list cannot be trusted" in street.finding("B").words or not street.finding("B").ok
    street.late = 4 * DAY
    assert street.verdict(ONLY_B) == ("allow", "", "")
    assert street.verdict(ONLY_A) == ("block", "A", "phones")  # the own server's goes on, with a warning
    assert "expired" in street.client.check(ONLY_A).warning


def test_a_list_by_another_root_is_refused_and_nothing_is_kept(street: Street) -> None:
    with pytest.raises(UntrustedList):
        subscriptions.add(street.client.store, street.servers["B"].url, street.digest("C"), "", direct=False)
    assert [row.url for row in subscriptions.in_order(street.client.store)] == [""]
    assert not (street.client.store.lists.parent / SUBSCRIBED).exists()
    with pytest.raises(InvalidParameter, match="of another server than the phone's own"):
        street.subscribe("A")
    with pytest.raises(NotFound, match="This phone has no list of nowhere"):
        subscriptions.remove(street.client.store, "nowhere")


def test_nothing_but_the_signed_files_is_asked_of_another_server(street: Street) -> None:
    street.subscribe("B")
    street.sync()
    asked = {path for path, _ in street.servers["B"].asked}
    assert asked
    assert all(path.startswith("/v1/lists/") for path in asked)


def test_with_a_relay_no_run_fetches_two_lists_and_each_has_its_own_moment(street: Street) -> None:
    store = street.client.store
    relay = "https://relay.example.net"
    anonymity.save_route(store, relay, GATEWAY)
    with pytest.raises(InvalidParameter, match="--relay URL of that server's, or --direct"):
        street.subscribe("B")
    with pytest.raises(InvalidParameter, match="on another host"):
        subscriptions.add(store, "https://b.example.org", "", "https://b.example.org/relay", direct=False)
    for name in "BC":
        subscriptions.add(store, street.servers[name].url, street.digest(name), "", direct=True)

    def fetched() -> list[str]:
        return [row.name for row, _ in subscriptions.sync(store, street.client.rand, street.client.clock)]

    assert [fetched(), fetched(), fetched()] == [[street.host("B")], [street.host("C")], []]
    moments = [row.sync_at for row in subscriptions.in_order(store) if row.url]
    assert len(set(moments)) == 2
    assert all(12 * 3600 <= at - now().timestamp() + 60 <= 24 * 3600 + 60 for at in moments)


def test_exports_and_the_exchange_name_the_list_and_the_source(street: Street, tmp_path: Path) -> None:
    street.subscribe("B", "C")
    street.sync()
    screen = Screen(street.client.store)
    moment = int(street.client.clock())
    assert set(screen.blocked(moment)) == {ONLY_A, ONLY_B}
    command = [HUSHCALL, "export", "--to", "nophonespam", "--warned"]
    done = subprocess.run([*command, "--home", str(tmp_path / "phone")], capture_output=True, text=True, check=True)
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert lines[EVERYWHERE] == "hushcall: 7 complaints to ftc1"
    assert lines[ONLY_B] == f"hushcall: about 40 phones on 2027-01-15 - {street.host('B')}"
    assert lines[ONLY_A] == "hushcall: seen 3 days - about 40 phones on 2027-01-15"
    blocking = subprocess.run(
        [*command[:-1], "--home", str(tmp_path / "phone")], capture_output=True, text=True, check=True
    ).stdout
    assert EVERYWHERE not in blocking
    assert {ONLY_A, ONLY_B} <= {line.partition(":")[0] for line in blocking.splitlines()}

    async def ask() -> str:
        server = await (agi := AgiServer(screen, street.client.clock)).start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(f"agi_request: x\nagi_callerid: {EVERYWHERE}\n\n".encode())
        answers = b""
        for _ in range(2):
            answers += await reader.readline()
            writer.write(b"200 result=1\n")
        writer.close()
        server.close()
        agi.flush()
        return answers.decode()

    assert f'HUSHCALL_WHY "{street.host("A")}: 7 complaints to ftc1"' in asyncio.run(ask())


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [HUSHCALL, "phone", *arguments, "--home", str(home), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_on_the_command_line(street: Street, tmp_path: Path) -> None:
    home = tmp_path / "phone"
    added = run(home, "lists", "add", street.servers["B"].url, "--root-sha256", street.digest("B"))
    assert json.loads(added.stdout)["others"][0]["entries"] == 2, added.stderr
    assert [row["own"] for row in json.loads(run(home, "lists", "order", street.host("B")).stdout)["lists"]] == [0, 1]
    verdict = json.loads(run(home, "check", EVERYWHERE).stdout)
    assert (verdict["action"], verdict["list"], verdict["source"]) == ("block", street.host("B"), "phones")
    assert json.loads(run(home, "sync").stdout)["others"][0]["how"] == "unchanged"
    assert json.loads(run(home, "lists", "remove", street.host("B")).stdout) == {"removed": street.servers["B"].url}
    assert json.loads(run(home, "lists").stdout)["lists"][0]["own"]
    assert "This phone has no list of nowhere" in run(home, "lists", "remove", "nowhere").stderr
    assert not list((home / SUBSCRIBED).iterdir())


def test_a_bad_imported_file_is_refused_and_the_one_here_stays(street: Street) -> None:
    street.sync()
    good = (street.client.store.lists / imported.TARGET).read_bytes()
    for bad in (good.replace(b'"entries":1', b'"entries":2'), good + good.splitlines(keepends=True)[1]):
        operator = street.operators["A"]
        targets: dict[str, bytes | TargetFile] = {**signer.target_infos(operator.files), imported.TARGET: bad}
        operator.apply(signer.publish(operator.files, operator.ring, targets, now()))
        with pytest.raises(Exception, match=r"imported numbers|list"):
            street.client.sync()
        assert (street.client.store.lists / imported.TARGET).read_bytes() == good
    del targets[imported.TARGET]
    operator.apply(signer.publish(operator.files, operator.ring, targets, now() + timedelta(seconds=1)))
    street.client.sync()
    assert street.verdict(EVERYWHERE) == ("allow", "", "")


def test_an_imported_file_of_a_later_release_is_none_and_the_list_is_synced(street: Street) -> None:
    street.sync()
    path, operator = street.client.store.lists / imported.TARGET, street.operators["A"]
    later = path.read_bytes().replace(b"hushcall-imported/1", b"hushcall-imported/2")
    targets: dict[str, bytes | TargetFile] = {**signer.target_infos(operator.files), imported.TARGET: later}
    operator.apply(signer.publish(operator.files, operator.ring, targets, now()))
    street.client.sync()
    assert not path.exists()


@pytest.mark.parametrize("change", [lambda line: line[:-5], lambda line: b"[]", lambda line: line.replace(b"+", b"")])
def test_lines_that_are_no_imported_number(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Exception, match="imported number"):
        Imported.from_line(change(Imported(CLEAN, {"ftc": (3, 2_000_000_000)}).line()))


def test_forgetting_everything_forgets_other_lists(street: Street, tmp_path: Path) -> None:
    street.subscribe("B")
    street.sync()
    street.client.close()
    erase_all(tmp_path / "phone")
    assert not (tmp_path / "phone").exists()

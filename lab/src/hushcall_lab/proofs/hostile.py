"""The real client before a lying server. What it sent and its database are checked at every step."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from hushcall.client.client import Client
from hushcall.client.reporting import ledger, split_view
from hushcall.client.reporting.consent import WHOLE_NUMBERS, Limits
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.client.storage.store import Store
from hushcall.errors import HushcallError
from hushcall.formats.calls.call import Call, CallKind
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.mechanisms.mechanism import least_bits
from hushcall.mechanisms.parameters import from_plain
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING
from hushcall.protocol.wire import COVER
from hushcall_lab.proofs.adversary import CALLERS, OTHER, WHOLE, Adversary, document, plain
from hushcall_lab.proofs.client_bugs import BUGS, LINKING_BUGS
from hushcall_lab.proofs.linking import Linked, link_all
from hushcall_lab.proofs.promises import Broken, planted, require

START = 20_000 * DAY
URLS = ("http://one.example", "http://two.example")
POOL = tuple(str(NANP.number(area, 5_550_100 + place)) for area in CALLERS for place in range(3))
LIMITS = Limits(window=Fraction(40), life=Fraction(400), rounds_per_day=2)
STEPS_PER_VICTIM = 2000
LINKED_PHONES = 20


@dataclass
class Victim:
    """A client, its owner's calls, and everything that was seen of it."""

    seed: int
    limits: Limits = LIMITS
    now: int = START
    step: int = 0
    reported: dict[int, tuple[str, int]] = field(default_factory=dict)  # row → number in its report, and when
    bodies: dict[tuple[str, str], set[bytes]] = field(default_factory=dict)
    talked_to: set[str] = field(default_factory=set)
    marks: dict[str, Action] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.servers = {url: Adversary(random.Random(f"{self.seed} {url}")) for url in URLS}
        self.store = Store.in_memory()
        self.limits.save(self.store)
        self.rand = seeded(f"hostile {self.seed}".encode())
        self.url = URLS[0]

    @property
    def client(self) -> Client:
        transport = HttpTransport(self.url, "hcd_secret", sleep=lambda _: None, pool=self.servers[self.url])
        return Client(self.store, transport, rand=self.rand, clock=lambda: self.now)

    def call(self, number: str, at: int | None = None, kind: CallKind = CallKind.MISSED, seconds: int = 0) -> None:
        self.client.ingest([Call(number, self.now if at is None else at, kind, "", seconds)])
        if kind is CallKind.INCOMING and seconds >= self.limits.talked_seconds:
            self.talked_to.add(number)

    def mark(self, number: str, action: Action) -> None:
        self.client.mark([number], action)
        self.marks[number] = action

    def act(self) -> None:
        rng = self.rng
        self.step += 1
        self.now += rng.choice((0, 0, 60, 3600, DAY // 3, DAY, 2 * DAY) if rng.random() < 0.6 else (0,))
        if rng.random() < 0.15:
            kind, seconds = rng.choice(((CallKind.MISSED, 0), (CallKind.BLOCKED, 0), (CallKind.INCOMING, 19)))
            self.call(rng.choice(POOL), self.now - rng.randrange(9 * DAY), kind, seconds)
        if rng.random() < 0.01:
            self.call(rng.choice(POOL), self.now, CallKind.INCOMING, rng.choice((20, 300)))
        if rng.random() < 0.02:
            self.mark(rng.choice(POOL), rng.choice((Action.BLOCK, Action.ALLOW)))
        if rng.random() < 0.005:  # the store forgets, and so does everybody
            self.store.run("DELETE FROM callers WHERE known")
            self.talked_to.clear()
        if rng.random() < 0.02:
            self.client.add_contacts([rng.choice(POOL)])
        if rng.random() < 0.02:
            self.store.run("DELETE FROM contacts")
        if rng.random() < 0.5:
            split_view.trust_again(self.store)  # promises must hold even if the owner forgives everything
        if rng.random() < 0.5:
            self.store.put(WHOLE_NUMBERS, "")
        self.url = rng.choice((self.url, self.url, self.url, *URLS))
        self.look(skip_delays=rng.random() < 0.8)

    def look(self, *, skip_delays: bool = True) -> None:
        """The client acts on what its server shows. It may raise errors of ours only."""
        self.servers[self.url].now = self.now
        try:
            self.client.report(skip_delays=skip_delays)
        except HushcallError:
            pass
        except Exception as error:
            raise Broken(f"the client broke down: {type(error).__name__}") from error
        _check_rounds(self)
        _check_requests(self)
        _check_ledger(self)

    def show(self, round_: int, state: str, **changes: Any) -> None:
        """The server shows a round of an honest server, with changes, and the client looks."""
        self.servers[self.url].script = document(round_, state, self.now, **changes)
        self.look()

    def row(self, query: str, *values: Any) -> Any:
        return self.store.row(query, *values)


def _check_rounds(victim: Victim) -> None:
    limits, rows = victim.limits, victim.store.rows
    unfinished = victim.row("SELECT count(*) FROM rounds WHERE state NOT IN ('sent', 'skipped', 'closed')")[0]
    require(unfinished <= 1, f"{unfinished} rounds are unfinished at once")
    for url in URLS:
        ids = [row[0] for row in rows("SELECT round FROM rounds WHERE server = ? ORDER BY seq", url)]
        require(ids == sorted(set(ids)), "rounds of one server were joined out of order")
    columns = "seq, number, dummy, bucket, mechanism, parameters, joined"
    newest = rows(f"SELECT {columns} FROM rounds ORDER BY seq DESC LIMIT 3")  # noqa: S608
    for seq, number, dummy, bucket, mechanism, parameters, joined in newest:
        if number and not dummy:
            row = victim.row("SELECT last FROM callers WHERE number = ?", number)
            recent = row is None or row[0] > joined - limits.days * DAY
            require(recent, "a call from before the owner's window was chosen")
        allowed = not bucket or (mechanism != WHOLE and limits.area_in_clear)
        require(allowed, "an area code was announced that the owner does not allow")
        agreed = mechanism in limits.mechanisms.split()
        require(agreed, f"a round of {mechanism} was joined, which the owner did not agree to")
        if parameters and seq not in victim.reported:
            victim.reported[seq] = number, victim.now
            _check_report(victim, seq, number, from_plain(json.loads(parameters)))


def _check_report(victim: Victim, seq: int, number: str, mechanism: Any) -> None:
    limits, now = victim.limits, victim.now
    agreed = mechanism.name in limits.mechanisms.split()
    require(agreed, f"a report of {mechanism.name} was made, which the owner did not agree to")
    require(mechanism.cost <= limits.report, f"a report of ε = {float(mechanism.cost):g} was made")
    bits = getattr(mechanism, "bits", 99)
    require(bits >= least_bits(mechanism.cost), f"a report of {bits} bits was made")
    require(not victim.row("SELECT 1 FROM contacts WHERE number = ?", number), "a contact is in a report")
    require(number not in victim.talked_to, "a caller whom the owner talked to is in a report")
    require(victim.marks.get(number) is not Action.ALLOW, "a caller whom the owner lets through is in a report")
    for other, (reported, at) in victim.reported.items():
        repeated = other != seq and reported == number and now - at < limits.horizon * DAY
        require(not repeated, f"one caller is in two reports within {(now - at) / DAY:.1f} days")
    today = sum(at // DAY == now // DAY for _, at in victim.reported.values())
    require(today <= limits.rounds_per_day, f"{today} reports were made in one day")


def _check_requests(victim: Victim) -> None:
    for url, server in victim.servers.items():
        for request in server.requests[victim.read.get(url, 0) :]:
            require(request.method != "GET" or not request.named, "a public request carries the token")
            content = request.body + request.path.encode()
            require(not any(number[2:].encode() in content for number in POOL), "a number left the client")
            if request.method == "PUT":
                _check_upload(victim, url, request.path, request.body)
        victim.read[url] = len(server.requests)


def _check_upload(victim: Victim, url: str, path: str, body: bytes) -> None:
    bodies = victim.bodies.setdefault((url, path.rpartition("/")[0]), set())
    bodies.add(body)
    require(len(bodies) == 1, "two different uploads were made for one round")
    round_ = int(path.split("/")[2])
    recorded = victim.row("SELECT epsilon FROM ledger WHERE server = ? AND round = ?", url, round_)
    require(recorded or body.startswith(COVER), "a report was sent that is not in the ledger")
    round_document = victim.servers[url].shown
    size = round_document.get("upload_bytes")
    if type(size) is int and size >= 4 and len(body) != size and round_document.get("round") == round_ and victim.step:
        row = victim.row("SELECT state, report FROM rounds WHERE server = ? AND round = ?", url, round_)
        retry = row and (row[0] == "recorded" or row[1] == body)  # it repeats what was recorded
        require(retry, f"an upload has {len(body)} bytes, and those of its round {size}")


def _check_ledger(victim: Victim) -> None:
    if victim.step % 50 == 0:
        week = ledger.spent(victim.store, victim.now - victim.limits.days * DAY)
        require(week <= victim.limits.window, "more was spent in a week than the owner allows")
        require(ledger.spent(victim.store) <= victim.limits.life, "more was spent than the owner allows for life")


# Named attacks, each on a new client.


def with_a_call(seed: int = 7) -> Victim:
    victim = Victim(seed)
    victim.call(POOL[0], START)
    return victim


def _announced(**changes: Any) -> Victim:
    victim = with_a_call()
    victim.show(1, ANNOUNCING, **changes)
    return victim


def descending_ids() -> None:
    victim = with_a_call()
    for day in range(10):
        victim.now = START + day * DAY // 2
        victim.show(10_000 - day, ANNOUNCING, window=366)
    for day in range(10):
        victim.show(9_991 + day, COLLECTING, window=366)


def reopened_round() -> None:
    victim = with_a_call()
    for state in (ANNOUNCING, COLLECTING, CLOSED, ANNOUNCING, COLLECTING) * 20:
        victim.show(1, state)


def day_full_of_rounds() -> None:
    """A round joined on one day is collected on the next, when as many more are joined as the owner allows."""
    victim = _announced()
    victim.now = START + DAY
    for round_ in (1, 2, 3):
        victim.call(POOL[round_])
        victim.show(round_, ANNOUNCING)
        victim.show(round_, COLLECTING)


def skipped_week(callers: int = 0) -> list[int]:
    """All buckets are skipped, and each of so many callers calls daily. Another one, or a made-up one, is announced."""
    victim = Victim(8)
    _daily_rounds(victim, 6, *POOL[:callers], collecting={"skip": True})
    rows = victim.store.rows("SELECT bucket, number FROM rounds ORDER BY seq")
    buckets = [row[0] for row in rows]
    require(len({row[1] for row in rows}) == 6, f"announced {buckets} while every bucket was skipped")
    require(len(victim.bodies) == 6, f"sent {len(victim.bodies)} uploads in 6 rounds that it announced")
    return buckets


def sixteen_copies() -> None:
    image = _announced().store._connection.serialize()
    bodies = set()
    for copy in range(16):
        victim = Victim(7)
        victim.store._connection.deserialize(image)
        victim.rand.seed = f"another entropy {copy}".encode()
        victim.show(1, COLLECTING)
        bodies |= {request.body for request in victim.servers[victim.url].requests if request.method == "PUT"}
    require(len(bodies) == 1, f"16 copies of one client gave {len(bodies)} different reports for one ticket")


def contact_meanwhile() -> None:
    victim = _announced()
    victim.client.add_contacts([POOL[0]])
    victim.show(1, COLLECTING)


def talked_to_before(meanwhile: bool = False) -> None:
    """The owner talks to the caller before the announcement, or between it and the report."""
    victim = _announced() if meanwhile else with_a_call()
    victim.call(POOL[0], START, CallKind.INCOMING, 60)
    victim.show(1, ANNOUNCING)
    victim.show(1, COLLECTING)


def let_through() -> None:
    victim = _announced()
    victim.mark(POOL[0], Action.ALLOW)
    victim.show(1, COLLECTING)


def one_bit() -> None:
    """Parameters whose ε is within the limit, and under which a report is nearly always true."""
    bucket = {"runs": True, "report_bytes": 3, "parameters": plain(4.0, 1)}
    _announced().show(1, COLLECTING, buckets={str(area): bucket for area in NANP.area_codes})


def whole_numbers_then_area_codes() -> None:
    victim = _announced(profile={"mechanism": WHOLE, "epsilon": 4.0})
    victim.now += DAY
    victim.show(2, ANNOUNCING)
    joined = victim.row("SELECT count(*) FROM rounds")[0]
    require(joined == 1, "an area code was announced to a server that took whole numbers when the owner agreed")


def old_call() -> None:
    victim = with_a_call()
    victim.now = START + 20 * DAY
    victim.show(1, ANNOUNCING, window=366)
    victim.show(1, COLLECTING, window=366)


def _daily_rounds(
    victim: Victim,
    days: int,
    *callers: str,
    counts: bool = False,
    collecting: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    for day in range(days):
        victim.now = START + day * DAY
        for caller in callers:
            victim.call(caller)
        victim.show(day + 1, ANNOUNCING, **changes)
        victim.show(day + 1, COLLECTING, **changes, **(collecting or {}))
        if counts:
            victim.step = 50 * (day + 1)  # so that the ledger is checked
            victim.look()


ATTACKS: dict[str, Callable[[], object]] = {
    "descending ids": descending_ids,
    "a round reopened": reopened_round,
    "a day full of rounds": day_full_of_rounds,
    "a skipped week without calls": skipped_week,
    "a skipped week with a daily caller": lambda: skipped_week(1),
    "a skipped week with five daily callers": lambda: skipped_week(5),
    "sixteen copies": sixteen_copies,
    "a contact meanwhile": contact_meanwhile,
    "a talk before": talked_to_before,
    "a talk meanwhile": lambda: talked_to_before(meanwhile=True),
    "let through meanwhile": let_through,
    "one bit": one_bit,
    "another mechanism": lambda: _announced(profile={"mechanism": OTHER, "epsilon": 4.0}),
    "whole numbers, then area codes": whole_numbers_then_area_codes,
    "an old call": old_call,
    "a daily caller in a window of a day": lambda: _daily_rounds(Victim(10), 40, POOL[0], window=1),
    "two months of rounds": lambda: _daily_rounds(Victim(9, replace(LIMITS, life=Fraction(100))), 60, counts=True),
}


@dataclass(frozen=True)
class HostileResult:
    steps: int
    reports: int
    uploads: int
    broken: str = ""
    linking: tuple[Linked, ...] = ()

    def lines(self) -> list[str]:
        verdict = f"BROKEN: {self.broken}" if self.broken else "every promise was kept."
        counts = f"{self.steps:,} steps of a lying server, {self.uploads:,} uploads, {self.reports:,} reports"
        if self.linking:
            announced = sum(each.announced for each in self.linking)
            counts += f"; {len(self.linking)} ways to link {announced:,} anonymous announcements"
        costs = [self.linking[0].cost()] if self.linking else []
        return [f"{counts}: {verdict}", *costs]


def prove(
    steps: int, seed: int = 1, bug: str = "", progress: Progress = quiet, *, linking: bool = False
) -> HostileResult:
    """Runs the named attacks, then random ones. With ``linking`` a street of anonymous clients is watched first."""
    done = reports = uploads = 0
    linked: list[Linked] = []
    try:
        with planted(LINKING_BUGS | BUGS, bug):
            if linking and bug not in BUGS:
                linked = link_all(LINKED_PHONES, seed=seed)
            if bug in LINKING_BUGS:
                return HostileResult(0, 0, 0)
            for name, attack in ATTACKS.items():
                try:
                    attack()
                except Broken as error:
                    raise Broken(f"{name}: {error}") from None
            while done < steps:
                victim = Victim(seed)
                seed += 1
                for _ in range(min(STEPS_PER_VICTIM, steps - done)):
                    victim.act()
                    done += 1
                reports += len(victim.reported)
                uploads += len(victim.bodies)
                victim.store.close()
                progress(done, steps)
    except Broken as error:
        return HostileResult(done, reports, uploads, str(error))
    return HostileResult(done, reports, uploads, linking=tuple(linked))

"""``hushcall prove hostile``: the real phone in front of a server that lies; what it promised is checked at every step.

The phone's library, store and wire code are the real ones; only the network is replaced by :class:`~liar.Liar`. What is
checked is worked out from the requests that left and from the diary, not from what the phone says about itself. Planted
bugs (:mod:`~hushcall.lab.prove.planted`) show that the checks would notice.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hushcall.errors import HushcallError
from hushcall.formats.calls.call import Call, CallKind
from hushcall.lab.prove.liar import CALLERS, DAY, WHOLE, Liar
from hushcall.mechanisms.parameters import from_plain
from hushcall.numbers import NANP
from hushcall.phone.home.store import Store
from hushcall.phone.phone import Phone
from hushcall.phone.reporting import ledger, witness
from hushcall.phone.reporting.ledger import Limits
from hushcall.phone.reporting.transport import HttpTransport
from hushcall.privacy.coins import seeded
from hushcall.protocol.wire import COVER
from hushcall.report.one_response import least_bits

START = 20_000 * DAY
URLS = ("http://one.example", "http://two.example")
POOL = tuple(str(NANP.number(area, 5_550_100 + place)) for area in CALLERS for place in range(3))
LIMITS = Limits(window=Fraction(40), life=Fraction(400), rounds_per_day=2)


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass
class Prey:
    """A phone, its owner's life, and everything that was seen of it."""

    seed: int
    limits: Limits = LIMITS
    now: int = START
    step: int = 0
    said: dict[int, tuple[str, int]] = field(default_factory=dict)  # row → number in its report, and when
    joined: dict[str, list[int]] = field(default_factory=dict)
    bodies: dict[tuple[str, str], set[bytes]] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.liars = {url: Liar(random.Random(f"{self.seed} {url}")) for url in URLS}
        self.store = Store.in_memory()
        self.limits.save(self.store)
        self.coins = seeded(f"hostile {self.seed}".encode())
        self.url = URLS[0]

    @property
    def phone(self) -> Phone:
        """Made anew each time: what a phone knows is in its store."""
        transport = HttpTransport(self.url, "hcd_secret", sleep=lambda _: None, pool=self.liars[self.url])
        return Phone(self.store, transport, coins=self.coins, clock=lambda: self.now)

    def act(self) -> None:
        """One step: time passes, somebody calls, the owner does something, the phone looks at its server."""
        dice = self.dice
        self.step += 1
        self.now += dice.choice((0, 0, 60, 3600, DAY // 3, DAY, 2 * DAY) if dice.random() < 0.6 else (0,))
        if dice.random() < 0.15:
            self.phone.ingest([Call(dice.choice(POOL), self.now - dice.randrange(9 * DAY), CallKind.MISSED)])
        if dice.random() < 0.02:
            self.phone.add_contacts([dice.choice(POOL)])
        if dice.random() < 0.02:
            self.store.run("DELETE FROM contacts")  # as if the owner had other friends
        if dice.random() < 0.5:
            witness.forgive(self.store)  # an owner who forgives everything: what holds then is not held by distrust
        self.url = dice.choice((self.url, self.url, self.url, *URLS))
        self.look(hurry=dice.random() < 0.8)

    def look(self, *, hurry: bool = True) -> str:
        """The phone does what it thinks it has to; every error of ours is an answer, any other is a bug."""
        liar = self.liars[self.url]
        liar.now = self.now
        try:
            action = self.phone.report(hurry=hurry).action
        except HushcallError as error:
            action = type(error).__name__
        except Exception as error:
            raise Broken(f"the phone broke down: {type(error).__name__}") from error
        check(self)
        return action

    def row(self, query: str, *values: Any) -> Any:
        """The first row of a query."""
        return self.store.row(query, *values)


def check(prey: Prey) -> None:
    """Every promise, from what left and what the diary holds."""
    _diary(prey)
    _wire(prey)
    _books(prey)


def _diary(prey: Prey) -> None:
    unfinished = prey.row("SELECT count(*) FROM rounds WHERE state NOT IN ('sent', 'skipped', 'closed')")[0]
    if unfinished > 1:
        raise Broken(f"{unfinished} rounds are unfinished at once")
    for url in URLS:
        ids = [row[0] for row in prey.store.rows("SELECT round FROM rounds WHERE server = ? ORDER BY seq", url)]
        if ids != sorted(set(ids)):
            raise Broken("rounds of one server were joined out of order")
    newest = prey.store.rows(
        "SELECT seq, number, dummy, bucket, mechanism, parameters, joined FROM rounds ORDER BY seq DESC LIMIT 3"
    )
    for seq, number, dummy, bucket, mechanism, parameters, joined in newest:
        if number and not dummy:
            _choice(prey, number, joined)
        if bucket and (mechanism == WHOLE or not prey.limits.area_in_clear):
            raise Broken("an area code was announced that the owner does not allow")
        if mechanism not in prey.limits.mechanisms.split():
            raise Broken(f"a round of {mechanism} was joined, which the owner did not agree to")
        if parameters and seq not in prey.said:
            prey.said[seq] = number, prey.now
            _report(prey, seq, number, from_plain(json.loads(parameters)))


def _choice(prey: Prey, number: str, joined: int) -> None:
    last = prey.row("SELECT last FROM callers WHERE number = ?", number)
    if last is not None and last[0] <= joined - prey.limits.days * DAY:
        raise Broken("a call from before the owner's window was chosen")


def _report(prey: Prey, seq: int, number: str, mechanism: Any) -> None:
    if mechanism.name not in prey.limits.mechanisms.split():
        raise Broken(f"a report of {mechanism.name} was made, which the owner did not agree to")
    if mechanism.cost > prey.limits.report:
        raise Broken(f"a report of ε = {float(mechanism.cost):g} was made")
    if getattr(mechanism, "bits", 99) < least_bits(mechanism.cost):
        raise Broken(f"a report of {mechanism.bits} bits was made")
    if prey.row("SELECT 1 FROM contacts WHERE number = ?", number):
        raise Broken("a contact is in a report")
    for other, (known, at) in prey.said.items():
        if other != seq and known == number and prey.now - at < prey.limits.horizon * DAY:
            raise Broken(f"one caller is in two reports within {(prey.now - at) / DAY:.1f} days")
    today = [at for _, at in prey.said.values() if at // DAY == prey.now // DAY]
    if len(today) > prey.limits.rounds_per_day:
        raise Broken(f"{len(today)} reports were made in one day")


def _wire(prey: Prey) -> None:
    for url, liar in prey.liars.items():
        for request in liar.requests[prey.read.get(url, 0) :]:
            if request.method == "GET" and request.named:
                raise Broken("a public request carries the token")
            if any(number[2:].encode() in request.body + request.path.encode() for number in POOL):
                raise Broken("a number left the phone")
            if request.method == "PUT":
                _upload(prey, url, request.path, request.body)
        prey.read[url] = len(liar.requests)


def _upload(prey: Prey, url: str, path: str, body: bytes) -> None:
    said = prey.bodies.setdefault((url, path.rpartition("/")[0]), set())
    said.add(body)
    if len(said) > 1:
        raise Broken("two different uploads were made for one round")
    round_ = int(path.split("/")[2])
    cost = prey.row("SELECT epsilon FROM ledger WHERE server = ? AND round = ?", url, round_)
    if cost is None and not body.startswith(COVER):
        raise Broken("a report was sent that is not in the ledger")
    size = prey.liars[url].shown.get("upload_bytes")
    if type(size) is int and size >= 4 and len(body) != size and prey.liars[url].shown.get("round") == round_:
        row = prey.row("SELECT joined FROM rounds WHERE server = ? AND round = ? AND state = 'recorded'", url, round_)
        if row is None and prey.step and not _kept(prey, url, round_, body):
            raise Broken(f"an upload has {len(body)} bytes, and those of its round {size}")


def _kept(prey: Prey, url: str, round_: int, body: bytes) -> bool:
    """A retry sends what was recorded when the server named another size."""
    row = prey.row("SELECT report FROM rounds WHERE server = ? AND round = ?", url, round_)
    return row is not None and row[0] == body and len(prey.bodies) > 0


def _books(prey: Prey) -> None:
    if prey.step % 50:
        return
    if ledger.spent(prey.store, prey.now - prey.limits.days * DAY) > prey.limits.window:
        raise Broken("more was spent in a week than the owner allows")
    if ledger.spent(prey.store) > prey.limits.life:
        raise Broken("more was spent than the owner allows for life")


@dataclass(frozen=True)
class Survived:
    """What a run came to: how many steps, reports and uploads, and the first promise that was broken, if any."""

    steps: int
    reports: int
    uploads: int
    broken: str = ""


def attack(steps: int, seed: int = 1, each: int = 2000) -> Survived:
    """Many lives of ``each`` steps, then the named attacks; stops at the first broken promise."""
    from hushcall.lab.prove.named_attacks import ATTACKS

    done = reports = uploads = 0
    try:
        for name, named in ATTACKS.items():
            try:
                named()
            except Broken as error:
                raise Broken(f"{name}: {error}") from None
        while done < steps:
            prey = Prey(seed)
            seed += 1
            for _ in range(min(each, steps - done)):
                prey.act()
                done += 1
            reports += len(prey.said)
            uploads += len(prey.bodies)
            prey.store.close()
    except Broken as error:
        return Survived(done, reports, uploads, str(error))
    return Survived(done, reports, uploads)

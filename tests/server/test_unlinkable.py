"""Who has what the issuer and the intake have cannot say whose a report is; and nobody gets keys of their own unseen.

An adversary has both databases, every request that both saw, when, and on which connection. It matches devices with
tokens by order, by time, by connection and by what tokens look like. Guessing gets one pair right on average, whatever
the number of phones; the chance to get ten or more is 1.1·10⁻⁷ (Poisson with mean 1). Coins and moments are seeded; the
server's keys, and with them what tokens look like, are the system's.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.anonymous import GENEROUS, Neighbourhood, neighbourhood
from tests.server.conftest import MakeService
from tests.server.serving import CLOSES, COLLECTS, SPAM, START, Clock

from hushcall.client import round_session
from hushcall.client.client import Client
from hushcall.client.reporting import anonymity, split_view
from hushcall.client.reporting.anonymity import AnonymousTransport, Route
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.participation import Moments
from hushcall.client.reporting.transport import HttpTransport, Transport
from hushcall.client.storage.store import Store
from hushcall.errors import Refused
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.anonymity.tokens import PendingToken, TokenKey
from hushcall.protocol.randomness import ByteSource, read, seeded
from hushcall.protocol.round_document import AnonymityInfo, RoundInfo
from hushcall.server.anonymity import Issuer, Redeemer, TokenSecret
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import schema
from hushcall.server.http.middleware import RequestMiddleware
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service

PHONES = 24
BY_CHANCE = 9


@pytest.fixture
def street(make_service: MakeService, clock: Clock) -> Iterator[Neighbourhood]:
    place = bound("127.0.0.1", 0)
    relay = f"http://127.0.0.1:{port_of(place)}"
    service = make_service("", round={"anonymous": True, "relay": relay}, intake=GENEROUS)
    service.rounds.open(service.now)
    with neighbourhood(service, clock, place) as made:
        yield made


@dataclass
class Adversary:
    """Sees what issuer and intake see; ``truth`` is what it must guess, known to the test only."""

    clock: Clock
    asked: list[tuple[float, bytes]] = field(default_factory=list)  # when, who
    redeemed: list[tuple[float, bytes]] = field(default_factory=list)  # when, which token
    joined: list[bytes] = field(default_factory=list)  # in which order devices came to the server at first
    lines: dict[object, bytes] = field(default_factory=dict)  # connection → which device spoke on it
    overheard: dict[bytes, bytes] = field(default_factory=dict)  # token → whose connection it came by

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        issue, check, request = Issuer.issue, Redeemer.check, RequestMiddleware.__call__

        async def hearing(border: RequestMiddleware, scope: Any, receive: Any, send: Any) -> None:
            who = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
            if who.startswith("Bearer "):
                self.lines[scope["client"]] = token_hash(who.removeprefix("Bearer "))
            elif who and scope["client"] in self.lines:
                token = base64.urlsafe_b64decode(who.partition('"')[2].rstrip('"'))
                self.overheard[token] = self.lines[scope["client"]]
            await request(border, scope, receive, send)

        def issuing(issuer: Issuer, device: bytes, round_id: int, request: bytes) -> bytes:
            self.asked.append((self.clock.now, device))
            return issue(issuer, device, round_id, request)

        def checking(redeemer: Redeemer, connection: Any, row: Any, token: bytes) -> None:
            self.redeemed.append((self.clock.now, token))
            check(redeemer, connection, row, token)

        patch.setattr(RequestMiddleware, "__call__", hearing)
        patch.setattr(Issuer, "issue", issuing)
        patch.setattr(Redeemer, "check", checking)

    def guesses(self) -> Iterator[dict[bytes, bytes]]:
        """Matchings of tokens with devices: by order and its reverse, by the look of nonces, by time, by connection."""
        who, what = [who for _, who in self.asked], [token for _, token in self.redeemed]
        yield dict(zip(what, who, strict=True))
        yield dict(zip(what, reversed(who), strict=True))
        yield dict(zip(sorted(what), who, strict=True))
        yield dict(zip(sorted(what), self.joined, strict=True))
        yield self._by_delay()
        yield self.overheard

    def _by_delay(self) -> dict[bytes, bytes]:
        """Whoever asked nearest to a fixed time before: the best of a few delays is taken by its spread."""
        best: tuple[float, dict[bytes, bytes]] = (float("inf"), {})
        for delay in range(0, 500, 10):
            left, found, miss = list(self.asked), {}, 0.0
            for at, token in self.redeemed:
                nearest = min(left, key=lambda one: abs(at - delay - one[0]))
                left.remove(nearest)
                miss += abs(at - delay - nearest[0])
                found[token] = nearest[1]
            best = min(best, (miss, found), key=lambda one: one[0])
        return best[1]


def one_day(street: Neighbourhood, phones: Sequence[Client]) -> None:
    """Every phone acts when it wants to, and at no other time, until all have announced."""
    waiting = [(START, place) for place in range(len(phones))]
    while waiting:
        moment, place = heapq.heappop(waiting)
        if moment >= COLLECTS:
            continue
        street.clock.now = moment
        outcome = phones[place].report()
        if outcome.action == "waiting" and outcome.next_at is not None:
            heapq.heappush(waiting, (max(outcome.next_at, moment + 1), place))


def right_guesses(street: Neighbourhood, clock: Clock, patch: pytest.MonkeyPatch) -> int:
    """The most pairs that any way of guessing gets right."""
    adversary = Adversary(clock)
    adversary.watch(patch)
    phones = [street.phone(f"phone {i}", (SPAM,)) for i in range(PHONES)]
    one_day(street, phones)
    adversary.joined = [token_hash(phone.transport._token) for phone in phones]  # type: ignore[attr-defined]
    truth = {}
    for phone in phones:
        held = anonymity.find(phone.store, phone.transport.url, 1)
        assert held is not None
        truth[held.token] = token_hash(phone.transport._token)  # type: ignore[attr-defined]
    assert len(adversary.asked) == len(adversary.redeemed) == PHONES
    assert {row.device for row in street.service.store.rows(sa.select(schema.announcements.c.device))}.isdisjoint(
        {row.device for row in street.service.store.rows(sa.select(schema.issued.c.device))}
    )
    return max(sum(truth[token] == who for token, who in guess.items()) for guess in adversary.guesses())


def test_the_best_guess_is_no_better_than_chance(
    street: Neighbourhood, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert right_guesses(street, clock, monkeypatch) <= BY_CHANCE


def numbered(key: TokenKey, seed: bytes, rand: ByteSource) -> PendingToken:
    """A broken phone: nonces count upwards."""
    numbered.count += 1  # type: ignore[attr-defined]

    def counting(size: int) -> bytes:
        return numbered.count.to_bytes(32, "big") if size == 32 else read(rand, size)  # type: ignore[attr-defined]

    return tokens.__dict__["_prepare"](key, seed, counting)  # type: ignore[no-any-return]


def soon(info: RoundInfo, middle: int, rand: ByteSource) -> Moments:
    """A broken phone: it redeems as long after the middle as it asked after the opening."""
    moments: Moments = round_session.__dict__["_draw_anonymous"](info, middle, rand)
    return replace(moments, announce_at=middle + moments.issue_at - info.opens)


def hasty(transport: HttpTransport, route: Route, token: bytes = b"") -> Transport:
    """A broken phone: no relay, and its own connection once more."""
    made = AnonymousTransport(transport.url, replace(route, relay=""), token)
    made.fetch = transport.fetch  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [(tokens, "prepare", numbered), (round_session, "draw_anonymous", soon), (HttpTransport, "anonymous", hasty)],
    ids=["nonces", "moments", "connection"],
)
def test_broken_phones_are_caught(
    street: Neighbourhood,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    broken: Callable[..., Any],
) -> None:
    monkeypatch.setattr(module, f"_{name}", getattr(module, name), raising=False)
    monkeypatch.setattr(numbered, "count", 0, raising=False)
    monkeypatch.setattr(module, name, broken)
    assert right_guesses(street, clock, monkeypatch) > PHONES // 2


class Tagging(HttpTransport):
    """What one phone sees of a server that has special keys for it."""

    special: AnonymityInfo | None
    service: Service

    def current_round(self) -> RoundInfo:
        honest = super().current_round()
        if self.special is None or (document := honest.document) is None:
            return honest
        lie = {**document, "anonymous": self.special.to_plain()}
        return RoundInfo.from_plain(self.service.round_signer.signed(lie))

    def anonymous(self, route: Route, token: bytes = b"") -> Any:
        return self


def tagged_phone(street: Neighbourhood, folder: Path, special: AnonymityInfo | None) -> Client:
    ((_, token),) = street.service.devices.enrol_many(1, street.service.now)
    transport = Tagging(street.url, token)
    transport.special, transport.service = special, street.service
    phone = Client(Store.open(folder), transport, rand=seeded(b"tagged"), clock=street.clock)
    Limits(report=Fraction(16), window=Fraction(1000), life=Fraction(10_000)).save(phone.store)
    with pytest.raises(Refused, match="no list yet"):
        phone.sync()  # it knows the keys by then, and takes part
    return phone


def published(service: Service, clock: Clock) -> None:
    for moment in (COLLECTS, CLOSES):
        clock.now = moment
        service.rounds.advance(service.now)


@pytest.mark.parametrize("what", ["token key", "relay", "nothing"])
def test_keys_for_one_phone_are_noticed_at_its_next_sync(
    street: Neighbourhood, clock: Clock, tmp_path: Path, what: str
) -> None:
    honest = street.terms()
    special = {
        "token key": replace(honest, token_key=TokenSecret.generate().key),
        "relay": replace(honest, relay="http://127.0.0.1:9/special"),
        "nothing": None,
    }[what]
    phone = tagged_phone(street, tmp_path / "phone", special)
    phone.report()
    published(street.service, clock)
    phone.sync()
    assert bool(split_view.rejection(phone.store, street.url)) == (what != "nothing")
    clock.now = START + 100_000  # the next day: one round a day
    street.service.rounds.open(street.service.now)
    outcome = phone.report()
    assert (outcome.action == "stopped") == (what != "nothing"), outcome
    phone.close()


def test_an_owner_can_want_a_crowd_and_no_names(street: Neighbourhood, clock: Clock) -> None:
    lonely, content = street.phone("lonely", (SPAM,)), street.phone("content", (SPAM,))
    lonely.limits.changed({"least_crowd": 100}).save(lonely.store)
    for moment in (START, START + 120, (START + COLLECTS) // 2 - 1, COLLECTS - 1, COLLECTS, CLOSES - 1):
        clock.now = moment
        street.service.rounds.advance(street.service.now)
        outcomes = [phone.report() for phone in (lonely, content)]
    assert outcomes[0].words.endswith("2 phones take part anonymously, and the owner wants 100.")
    assert lonely.store.rows("SELECT * FROM ledger") == []
    assert len(content.store.rows("SELECT * FROM ledger")) == 1


def test_a_set_is_counted_in_the_callers_own_area_code(street: Neighbourhood, clock: Clock) -> None:
    """Seven phones of another area code hide nobody in this one."""
    lonely, *others = (street.phone(f"phone {place}", (SPAM if place < 4 else "+12125550143",)) for place in range(11))
    lonely.limits.changed({"least_crowd": 5}).save(lonely.store)
    one_day(street, (lonely, *others))
    for moment in (COLLECTS, CLOSES - 1):
        clock.now = moment
        street.service.rounds.advance(street.service.now)
        outcomes = [phone.report() for phone in (lonely, *others)]
    assert outcomes[0].words.endswith("4 phones take part anonymously, and the owner wants 5.")
    assert {outcome.action for outcome in outcomes[1:]} == {"sent"}


def test_a_phone_that_reports_without_a_name_only_joins_no_round_by_name(
    make_service: MakeService, clock: Clock
) -> None:
    service = make_service()
    service.rounds.open(service.now)
    with neighbourhood(service, clock, bound("127.0.0.1", 0)) as street:
        phone = street.phone("shy", (SPAM,))
        phone.limits.changed({"by_name": False}).save(phone.store)
        outcome = phone.report()
    assert (outcome.action, outcome.words) == (
        "stopped",
        "Nothing is sent: the server wants reports by name, and the owner does not.",
    )

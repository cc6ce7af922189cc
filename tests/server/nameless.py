"""Phones without names for the server's tests: a service, a relay before it, and phones that speak through it."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import httpx
from tests.server.serving import START, Clock, bearer

from hushcall.anonymity import tokens
from hushcall.phone.calls import candidates
from hushcall.phone.home.store import Store
from hushcall.phone.phone import Phone
from hushcall.phone.reporting.ledger import Limits
from hushcall.phone.reporting.transport import Answer, HttpTransport
from hushcall.privacy.coins import seeded
from hushcall.protocol.anonymity import AnonymityTerms
from hushcall.relay.app import RelaySettings
from hushcall.relay.run import running as relay_running
from hushcall.server.anonymity.round_keys import terms_of
from hushcall.server.http.routes.gateway import ADDRESS
from hushcall.server.serve import running as service_running
from hushcall.server.service import Service

GENEROUS = {"per_device": 100_000, "sealed": 1_000_000}


class AtAnyPort(HttpTransport):
    """A server that its phone knows by a name without a port: a phone's draws follow from that name."""

    def __init__(self, address: str, token: str, **connection: Any) -> None:
        super().__init__("http://a-server", token, **connection)
        self.address = address

    def fetch(self, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        return super().fetch(method, url.replace(self.url, self.address, 1), body, headers)


@dataclass
class Neighbourhood:
    """A server, its relay, and phones."""

    service: Service
    clock: Clock
    url: str
    relay: str

    def phone(self, seed: str, callers: tuple[str, ...] = ()) -> Phone:
        """A phone that was enrolled, and called."""
        ((_, token),) = self.service.devices.enrol_many(1, self.service.now)
        transport = AtAnyPort(self.url, token, sleep=lambda _: None)
        phone = Phone(Store.in_memory(), transport, coins=seeded(seed.encode()), clock=self.clock)
        Limits(report=Fraction(16), window=Fraction(1000), life=Fraction(10_000)).save(phone.store)
        candidates.note(phone.store, [(phone.plan.parse(caller), START) for caller in callers])
        return phone

    def terms(self) -> AnonymityTerms:
        """What phones are told."""
        found = HttpTransport(self.url).current_round().anonymity
        assert found is not None
        return found


@contextmanager
def neighbourhood(service: Service, clock: Clock, place: socket.socket) -> Iterator[Neighbourhood]:
    """Both processes' work, in threads, on loopback. The service was told before where the relay will be."""
    with service_running(service, scheduler=False) as url:
        settings = RelaySettings(url + ADDRESS, per_address=1_000_000, in_all=10_000_000)
        with relay_running(settings, place) as relay:
            yield Neighbourhood(service, clock, url, relay)


def private(token: bytes) -> dict[str, str]:
    """The header of a phone without a name."""
    return {"authorization": f'PrivateToken token="{base64.urlsafe_b64encode(token).decode()}"'}


@dataclass
class Stranger:
    """Somebody who does by hand what a phone does, and what it never would."""

    client: httpx.Client
    device: str

    def wish(self, terms: AnonymityTerms, seed: bytes, coins: str = "stranger") -> tokens.Wish:
        return tokens.wish(terms.token_key, seed, seeded(coins.encode()))

    def ask(self, terms: AnonymityTerms, wished: tokens.Wish, number: int = 1) -> httpx.Response:
        request = tokens.write_request(terms.token_key, wished)
        return self.client.post(f"/v1/rounds/{number}/tokens", content=request, headers=bearer(self.device))

    def token(self, terms: AnonymityTerms, seed: bytes, number: int = 1, coins: str = "stranger") -> bytes:
        wished = self.wish(terms, seed, coins)
        return tokens.token_of(terms.token_key, wished, self.ask(terms, wished, number).content)

    def announce(self, token: bytes, bucket: int = 202, number: int = 1) -> httpx.Response:
        return self.client.post(f"/v1/rounds/{number}/announcements", json={"bucket": bucket}, headers=private(token))

    def report(self, token: bytes, body: bytes, number: int = 1) -> httpx.Response:
        place = f"/v1/rounds/{number}/reports/{tokens.ticket_of(token)}"
        return self.client.put(place, content=body, headers=private(token))


def told(service: Service) -> tuple[AnonymityTerms, bytes]:
    """What phones are told about the newest round: its terms and its seed."""
    row = service.rounds.newest()
    assert row is not None
    with service.store.read() as connection:
        terms = terms_of(connection, row.id)
    assert terms is not None
    return terms, row.seed

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

from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.reporting import anonymity
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.transport import Answer, HttpTransport
from hushcall.client.storage.store import Store
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import AnonymityInfo
from hushcall.server.anonymity import parameters_of
from hushcall.server.http.routes.gateway import ADDRESS
from hushcall.server.relay import RelaySettings
from hushcall.server.service import Service
from hushcall_lab.servers import running, running_relay

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

    def phone(self, seed: str, callers: tuple[str, ...] = ()) -> Client:
        """A phone that was enrolled, and called."""
        ((_, token),) = self.service.devices.enrol_many(1, self.service.now)
        transport = AtAnyPort(self.url, token, sleep=lambda _: None)
        phone = Client(Store.in_memory(), transport, rand=seeded(seed.encode()), clock=self.clock)
        limits = Limits(report=Fraction(16), window=Fraction(1000), life=Fraction(10_000), least_phase=0)
        limits.save(phone.store)
        anonymity.save_route(phone.store, self.relay, anonymity.gateway_by(self.relay))
        candidates.note(phone.store, [(phone.plan.parse(caller), START) for caller in callers])
        return phone

    def terms(self) -> AnonymityInfo:
        """What phones are told."""
        found = HttpTransport(self.url).current_round().anonymity
        assert found is not None
        return found


@contextmanager
def neighbourhood(service: Service, clock: Clock, place: socket.socket) -> Iterator[Neighbourhood]:
    """Both processes' work, in threads, on loopback. The service was told before where the relay will be."""
    with running(service, scheduler=False) as url:
        settings = RelaySettings(url + ADDRESS, per_address=1_000_000, in_all=10_000_000)
        with running_relay(settings, place) as relay:
            yield Neighbourhood(service, clock, url, relay)


def private(token: bytes) -> dict[str, str]:
    """The header of a phone without a name."""
    return {"authorization": f'PrivateToken token="{base64.urlsafe_b64encode(token).decode()}"'}


@dataclass
class Stranger:
    """Somebody who does by hand what a phone does, and what it never would."""

    client: httpx.Client
    device: str

    def wish(self, terms: AnonymityInfo, seed: bytes, rand: str = "stranger") -> tokens.PendingToken:
        return tokens.prepare(terms.token_key, seed, seeded(rand.encode()))

    def ask(self, terms: AnonymityInfo, pending: tokens.PendingToken, number: int = 1) -> httpx.Response:
        request = tokens.write_request(terms.token_key, pending)
        return self.client.post(f"/v1/rounds/{number}/tokens", content=request, headers=bearer(self.device))

    def token(self, terms: AnonymityInfo, seed: bytes, number: int = 1, rand: str = "stranger") -> bytes:
        pending = self.wish(terms, seed, rand)
        return tokens.token_of(terms.token_key, pending, self.ask(terms, pending, number).content)

    def announce(self, token: bytes, bucket: int = 202, number: int = 1) -> httpx.Response:
        return self.client.post(f"/v1/rounds/{number}/announcements", json={"bucket": bucket}, headers=private(token))

    def report(self, token: bytes, body: bytes, number: int = 1) -> httpx.Response:
        place = f"/v1/rounds/{number}/reports/{tokens.ticket_of_token(token)}"
        return self.client.put(place, content=body, headers=private(token))


def told(service: Service) -> tuple[AnonymityInfo, bytes]:
    """What phones are told about the newest round: its terms and its seed."""
    row = service.rounds.newest()
    assert row is not None
    with service.store.read() as connection:
        terms = parameters_of(connection, row.id)
    assert terms is not None
    return terms, row.seed

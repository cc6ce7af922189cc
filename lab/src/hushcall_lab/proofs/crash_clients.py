"""Clients and an operator before a server that is killed.

A client that gets no answer repeats the same bytes: its token request follows from seed, round and place.
"""

import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
import urllib3

from hushcall.client.reporting.anonymity import AnonymousTransport, Route
from hushcall.client.reporting.transport import HttpTransport
from hushcall.errors import InvalidParameter, Unreachable
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import ANNOUNCING, HELD, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall_lab.proofs.processes import POLL_SECONDS, Restarter, retry
from hushcall_lab.simulation.fleet import Operator

STATE_SECONDS = 300.0
"""The longest wait for a state on a busy machine."""


def _pause(_: float) -> None:
    time.sleep(0.05)


@dataclass
class NamedClient:
    url: str
    token: str
    pool: Any

    def __post_init__(self) -> None:
        self.transport: HttpTransport = HttpTransport(self.url, self.token, _pause, self.pool)
        self.sending = self.transport

    def announce(self, info: RoundInfo, bucket: int) -> str:
        return self.transport.announce(info.round, bucket)

    def put(self, round_: int, ticket: str, report: bytes) -> int:
        path = f"/v1/rounds/{round_}/reports/{ticket}"
        return self.sending._request("PUT", path, report, "application/octet-stream").status


@dataclass
class AnonymousClient(NamedClient):
    seed: str = ""
    _round: int = 0

    def announce(self, info: RoundInfo, bucket: int) -> str:
        if self._round != info.round:
            terms = info.anonymity
            if terms is None:
                raise InvalidParameter("round", "accept anonymous reports", info.round)
            rand = seeded(f"{self.seed} {info.round}".encode())
            pending = tokens.prepare(terms.token_key, info.seed, rand)
            signed = self.transport.issue(info.round, tokens.write_request(terms.token_key, pending))
            token = tokens.token_of(terms.token_key, pending, signed)
            route = Route(terms.gateway, terms.relay)
            self.sending = AnonymousTransport(self.url, route, token, rand=rand, sleep=_pause, pool=self.pool)
            self._round = info.round
        return self.sending.announce(info.round, bucket)


@dataclass
class Admin:
    store: Store
    server: Restarter
    operator: Operator

    def newest(self) -> tuple[int, str]:
        table = schema.rounds.c
        rows = self.store.rows(sa.select(table.id, table.state).order_by(table.id.desc()).limit(1))
        return (int(rows[0].id), str(rows[0].state)) if rows else (0, PUBLISHED)

    def move(self, target: str) -> None:
        """Forces the newest round on until it is in a state. Schedulers open rounds, too, maybe a later one."""
        number, state = self.newest()
        number += target == ANNOUNCING and state == PUBLISHED

        def reached() -> bool:
            if target == PUBLISHED:
                return self.has_ended(number)
            newest, current = self.newest()
            return current == target and (newest == number or (target == ANNOUNCING and newest > number))

        def step() -> None:
            if not reached():
                self.advance(number, self.operator)

        deadline = time.monotonic() + STATE_SECONDS
        while not reached():
            if time.monotonic() > deadline:
                raise InvalidParameter("round", f"come to be {target}", self.newest())
            retry([self.server], step)

    def advance(self, last: int, operator: Operator) -> None:
        """Forces one step, or waits where it is a scheduler's: the first round, and one behind a newer round."""
        number, state = self.newest()
        if number > last or number == 0:
            time.sleep(POLL_SECONDS)
            return
        if state == HELD:
            raise InvalidParameter("round", "not be held: no report was refused", number)
        try:
            operator.ask("POST", f"/v1/admin/rounds/advance?force=true&round={number}&state={state}")
        except (urllib3.exceptions.HTTPError, InvalidParameter) as error:
            raise Unreachable(str(error)) from None  # killed meanwhile, or in trouble

    def has_ended(self, number: int) -> bool:
        table = schema.rounds.c
        return bool(self.store.rows(sa.select(table.id).where(table.id == number, table.state == PUBLISHED)))

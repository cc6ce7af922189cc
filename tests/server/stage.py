"""A server with a round, and phones in front of it: where tests act out what the API answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.server.serving import COLLECTS, Clock, Handset, bearer, honest_report, operator_token

from hushcall.server.service import Service

NOBODY = "hcd_" + "5e" * 32
"""A device's token that no device has."""


@dataclass
class Stage:
    """A server with a round, and phones in front of it."""

    service: Service
    client: httpx.Client
    clock: Clock
    patch: pytest.MonkeyPatch

    def phone(self) -> Handset:
        return Handset.enrolled(self.client)

    def operator(self, *scopes: str) -> dict[str, str]:
        return bearer(operator_token(self.service, *scopes))

    def at(self, moment: int) -> None:
        """Let time pass, and rounds do what is due."""
        self.clock.now = moment
        self.service.rounds.advance(self.service.now)

    def current(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/v1/rounds/current").json()
        return found

    def collecting(self, bucket: int = 202, phones: int = 2) -> list[tuple[Handset, str]]:
        """Phones with their tickets, in a round that takes reports."""
        made = [(phone, phone.ticket(bucket)) for phone in (self.phone() for _ in range(phones))]
        self.at(COLLECTS)
        return made

    def reported(self) -> tuple[Handset, str, bytes]:
        """A phone that has sent its report."""
        (phone, ticket), _ = self.collecting()
        body = honest_report(self.current(), ticket)
        assert phone.report(ticket, body).status_code == 201
        return phone, ticket, body

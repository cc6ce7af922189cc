"""Signatures that run out: operators are warned before, everybody is told after."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.server.web.seeded import NOW, Seeded


def test_a_signature_that_runs_out_soon_is_a_worry_for_operators(
    operator: TestClient, visitor: TestClient, seeded: Seeded
) -> None:
    seeded.clock.now = NOW + 29 * 3600 * 2  # of the 72 hours of a timestamp
    fresh = operator.post("/login", data={"token": seeded.token})
    assert fresh.status_code == 303
    assert "the signature of timestamp runs out soon" in operator.get("/").text
    assert "runs out soon" not in visitor.get("/").text


def test_expired_signatures_are_a_worry_for_everybody(visitor: TestClient, seeded: Seeded) -> None:
    seeded.clock.now = NOW + 4 * 86_400
    assert "the signature of timestamp has expired" in visitor.get("/").text

"""What the steps of one round share: the client's parts, the server's round, the time, and outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.client.reporting import participation
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.participation import Participation
from hushcall.client.reporting.transport import SupportsAnonymity, Transport
from hushcall.client.storage import device_key
from hushcall.client.storage.store import DAY_SECONDS, Store
from hushcall.errors import Refused
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.problems import is_final
from hushcall.protocol.randomness import ByteSource, keyed
from hushcall.protocol.round_document import RoundInfo

POLL_SECONDS = 900
"""Time to the next look where no moment is known."""
MAX_AHEAD_SECONDS = 366 * DAY_SECONDS
"""The farthest moment, whatever a server says: any clock can represent it."""
LOOKS_PER_PHASE = 4
"""At least so many looks fall into each phase of a round, however short its rounds are."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a look at the round. ``next_at``: when to look again, by the client's clock."""

    action: str  # waiting, announced, sent, skipped, closed, done, stopped, idle
    words: str
    round: int | None = None
    next_at: int | None = None


@dataclass(frozen=True)
class RoundContext:
    store: Store
    transport: Transport
    plan: NumberingPlan
    rand: ByteSource
    info: RoundInfo
    now: int
    skip_delays: bool = False

    @property
    def limits(self) -> Limits:
        return Limits.load(self.store)

    @property
    def today(self) -> int:
        """The start of the day, by UTC."""
        return self.now - self.now % DAY_SECONDS

    @property
    def anonymous(self) -> bool:
        return self.info.anonymity is not None and isinstance(self.transport, SupportsAnonymity)

    def row(self) -> Participation | None:
        return participation.find(self.store, self.transport.url, self.info.round)

    def keyed(self, purpose: str, *parts: bytes) -> ByteSource:
        """The random bytes for one purpose in this round. A copy of this client draws the same."""
        key = device_key.device_key(self.store, self.rand)
        return keyed(key, purpose.encode(), self.transport.url.encode(), str(self.info.round).encode(), *parts)

    def keyed_by_day(self, place: int) -> ByteSource:
        """The random bytes for today's moment of that place, whatever rounds the day has."""
        key, day = device_key.device_key(self.store, self.rand), self.today // DAY_SECONDS
        return keyed(key, b"day", self.transport.url.encode(), f"{day} {place}".encode())

    def waiting_until(self, moment: int, action: str) -> Outcome | None:
        """The outcome of waiting for a random moment (server's clock), or None where it has passed."""
        if self.skip_delays or self.info.server_time >= moment:
            return None
        return self.outcome("waiting", f"Round {self.info.round}: it will {action} at a random moment.", moment)

    def skipped(self, row: Participation, why: str) -> Outcome:
        participation.finish(self.store, row, participation.SKIPPED, why)
        return self.outcome("skipped", f"Round {row.round}: no report, {why}.", self.info.closes)

    def refused(self, row: Participation, refusal: Refused, state: str) -> Outcome:
        """End the round in ``state`` after a final refusal. Any other refusal is raised."""
        if not is_final(refusal.problem):
            raise refusal
        participation.finish(self.store, row, state, str(refusal))
        return self.outcome(state, f"Round {row.round}: {refusal}", self.info.closes)

    def outcome(self, action: str, words: str, server_moment: int | None = None) -> Outcome:
        """``server_moment`` is converted to the client's clock. Where it is None or past, the client polls."""
        ahead = 0 if server_moment is None else min(server_moment - self.info.server_time, MAX_AHEAD_SECONDS)
        return Outcome(action, words, self.info.round, self.now + (ahead if ahead > 0 else self._poll_seconds()))

    def _poll_seconds(self) -> int:
        """A quarter of an hour, or less where rounds are short: the next round has phases as long as this one's."""
        info = self.info
        shortest_seconds = min(info.collects - info.opens, info.closes - info.collects)
        return max(1, min(POLL_SECONDS, shortest_seconds // LOOKS_PER_PHASE))

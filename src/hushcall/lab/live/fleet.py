"""Many phones on one machine: an operator's token comes in, phones of the library speak real HTTP to a real server.

Every phone has its own store, ledger, coins and token. What they share is what a cache on the way would share: the
connections, and the document of the current round, which is fetched once a visit.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import urllib3

from hushcall.errors import InvalidParameter
from hushcall.numbers import NANP, Number, NumberingPlan
from hushcall.phone.calls import candidates
from hushcall.phone.home.store import Store
from hushcall.phone.phone import Phone
from hushcall.phone.reporting.transport import Answer, HttpTransport
from hushcall.privacy.coins import seeded
from hushcall.protocol.round_document import RoundInfo

THREADS = 24
"""Enough that a commit of the server has company: with six it had three uploads, and cost three times as much."""
ENROL_AT_ONCE = 1000
NAME = "http://the-fleets-server"


class Operator:
    """An operator's token at work over HTTP."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self._token = url, token
        # Learning takes as long as it takes: minutes where numbers have 27 bits and the machine is busy.
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=60, read=None), retries=False)

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """One request; its JSON answer. A refusal is an error that carries the problem's words."""
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = self._pool.request(method, self.url + path, json=document, headers=headers)
        if answer.status >= 300:
            raise InvalidParameter(f"{method} {path}", f"be accepted ({answer.json().get('detail')})", answer.status)
        return answer.json() if answer.data else None


class _Line(HttpTransport):
    """One phone's way to the server, which it knows by a name without a port: a phone's draws follow from that name."""

    def __init__(self, fleet: Fleet, token: str) -> None:
        super().__init__(NAME, token, pool=fleet.pool)
        self._fleet = fleet

    def current_round(self) -> RoundInfo:
        """What the fleet has fetched."""
        return self._fleet.round

    def fetch(self, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """From where the server listens this time."""
        return super().fetch(method, url.replace(NAME, self._fleet.url, 1), body, headers)


class Fleet:
    """``count`` phones, enrolled by the operator; ``seed`` makes their coins, and with them everything they send."""

    def __init__(
        self,
        operator: Operator,
        count: int,
        clock: Callable[[], float],
        seed: bytes = b"fleet",
        plan: NumberingPlan = NANP,
    ) -> None:
        self.url, self.clock = operator.url, clock
        self.pool = urllib3.PoolManager(maxsize=THREADS, timeout=60, retries=False)
        self._round: RoundInfo | None = None
        self._lock = threading.Lock()
        self.phones: list[Phone] = []
        while len(self.phones) < count:
            wanted = min(ENROL_AT_ONCE, count - len(self.phones))
            for row in operator.ask("POST", "/v1/admin/devices", {"count": wanted})["devices"]:
                coins = seeded(seed + len(self.phones).to_bytes(4, "big"))
                self.phones.append(Phone(Store.in_memory(), _Line(self, row["token"]), plan, coins, clock))

    @property
    def round(self) -> RoundInfo:
        """The document of the current round."""
        with self._lock:
            if self._round is None:
                self._round = HttpTransport(self.url, pool=self.pool).current_round()
            return self._round

    def forget_round(self) -> None:
        """Fetch the round anew when it is asked for next."""
        with self._lock:
            self._round = None

    def hear(self, calls: Sequence[Sequence[Number]]) -> None:
        """The phones ring: a list of callers for each."""
        now = int(self.clock())
        for phone, callers in zip(self.phones, calls, strict=True):
            candidates.note(phone.store, [(number, now) for number in callers])

    def visit(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> Counter[str]:
        """Every phone does what the round needs now; how many did what."""
        done = Counter[str]()
        self.forget_round()
        with ThreadPoolExecutor(THREADS) as threads:
            for outcome in threads.map(lambda phone: phone.report(), self.phones):
                done[outcome.action] += 1
                if done.total() % 100 == 0:
                    progress(done.total(), len(self.phones))
        return done

    def close(self) -> None:
        """Let the stores and the connections go."""
        for phone in self.phones:
            phone.store.close()
        self.pool.clear()

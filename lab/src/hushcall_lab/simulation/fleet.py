"""Many clients in one process, which share connections and the round document, as an HTTP cache would."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import urllib3

from hushcall.client.client import Client
from hushcall.client.reporting import anonymity, ledger
from hushcall.client.reporting.transport import Answer, HttpTransport, parsed
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import NANP, Number, NumberingPlan
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo

THREADS = 6
"""More only compete for the interpreter lock. With fewer, a commit of the server holds fewer uploads."""
MAX_ENROLMENTS = 1000
NAME = "http://the-fleets-server"

VisitProgress = Callable[[int, int], None]


class Operator:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        # Decoding takes minutes where numbers have 27 bits and the machine is busy.
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=60, read=None), retries=False)

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = self._pool.request(method, self.url + path, json=document, headers=headers)
        if answer.status >= 300:
            detail = (parsed(answer.data) or {}).get("detail", "no reason given")
            raise InvalidParameter(f"{method} {path}", f"be accepted ({detail})", answer.status)
        return answer.json() if answer.data else None

    def enrol(self, count: int) -> list[str]:
        tokens: list[str] = []
        while len(tokens) < count:
            batch = {"count": min(MAX_ENROLMENTS, count - len(tokens))}
            tokens += [row["token"] for row in self.ask("POST", "/v1/admin/devices", batch)["devices"]]
        return tokens


class _Transport(HttpTransport):
    """One client's transport. A client's draws follow from the server's name, so the name has no port."""

    def __init__(self, fleet: Fleet, token: str) -> None:
        super().__init__(NAME, token, pool=fleet.pool)
        self._fleet = fleet

    def current_round(self) -> RoundInfo:
        return self._fleet.round

    def fetch(self, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        return super().fetch(method, url.replace(NAME, self._fleet.url, 1), body, headers)


class Fleet:
    """One client per token. ``seed`` and its place, from ``first`` on, make its random bytes."""

    def __init__(
        self,
        url: str,
        tokens: Sequence[str],
        clock: Callable[[], float],
        seed: bytes = b"fleet",
        plan: NumberingPlan = NANP,
        first: int = 0,
        relay: str = "",
    ) -> None:
        self.url, self.clock = url, clock
        self.pool = urllib3.PoolManager(maxsize=THREADS, timeout=60, retries=False)
        self._round: RoundInfo | None = None
        self._lock = threading.Lock()
        self.messages: Counter[str] = Counter()  # the words of the last visit's outcomes
        self.phones: list[Client] = []
        gateway = anonymity.gateway_by(relay) if relay else None
        for place, token in enumerate(tokens, first):
            rand = seeded(seed + place.to_bytes(4, "big"))
            self.phones.append(Client(Store.in_memory(), _Transport(self, token), plan, rand, clock))
            anonymity.save_route(self.phones[-1].store, relay, gateway)

    @property
    def round(self) -> RoundInfo:
        with self._lock:
            if self._round is None:
                self._round = HttpTransport(self.url, pool=self.pool).current_round()
            return self._round

    def forget_round(self) -> None:
        with self._lock:
            self._round = None

    def hear(self, calls: Sequence[Sequence[Number | Call]]) -> None:
        now = int(self.clock())
        for phone, heard in zip(self.phones, calls, strict=True):
            phone.ingest(call if isinstance(call, Call) else Call(str(call), now, CallKind.MISSED) for call in heard)

    def visit(self, progress: VisitProgress = lambda _done, _total: None, *, skip_delays: bool = False) -> Counter[str]:
        actions = Counter[str]()
        self.messages.clear()
        self.forget_round()
        with ThreadPoolExecutor(THREADS) as threads:
            for outcome in threads.map(lambda phone: phone.report(skip_delays=skip_delays), self.phones):
                actions[outcome.action] += 1
                self.messages[outcome.words] += 1
                if actions.total() % 100 == 0:
                    progress(actions.total(), len(self.phones))
        return actions

    def max_spent(self) -> float:
        return max((float(ledger.spent(phone.store)) for phone in self.phones), default=0.0)

    def close(self) -> None:
        for phone in self.phones:
            phone.store.close()
        self.pool.clear()

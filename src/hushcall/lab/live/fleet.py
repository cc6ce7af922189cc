"""Many phones on one machine: tokens of devices come in, phones of the library speak real HTTP to a real server.

Every phone has its own store, ledger, coins and token. What they share is what a cache on the way would share: the
connections, and the document of the current round, which is fetched once a visit.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import urllib3

from hushcall.errors import InvalidParameter
from hushcall.numbers import NANP, Number, NumberingPlan
from hushcall.phone.calls import candidates
from hushcall.phone.home.store import Store
from hushcall.phone.phone import Phone
from hushcall.phone.reporting.transport import Answer, HttpTransport, parsed
from hushcall.privacy.coins import seeded
from hushcall.protocol.round_document import RoundInfo

THREADS = 24
"""Enough that a commit of the server has company: with six it had three uploads, and cost three times as much."""
ENROL_AT_ONCE = 1000
NAME = "http://the-fleets-server"


class Enrols(Protocol):
    """Whoever gets devices enrolled at a server."""

    url: str

    def tokens(self, count: int) -> list[str]:
        """So many new devices' tokens."""


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
            words = (parsed(answer.data) or {}).get("detail", "no reason given")
            raise InvalidParameter(f"{method} {path}", f"be accepted ({words})", answer.status)
        return answer.json() if answer.data else None

    def tokens(self, count: int) -> list[str]:
        """New devices, many at once."""
        found: list[str] = []
        while len(found) < count:
            wanted = {"count": min(ENROL_AT_ONCE, count - len(found))}
            found += [row["token"] for row in self.ask("POST", "/v1/admin/devices", wanted)["devices"]]
        return found


class Newcomers:
    """Devices that enrol themselves, as phones do: with an invite code or work, where the server asks for them."""

    def __init__(self, url: str, invite: str = "", progress: Callable[[int, int], None] = lambda _d, _t: None) -> None:
        self.url, self._invite, self._progress = url, invite, progress

    def tokens(self, count: int) -> list[str]:
        """New devices, one after the other: a server limits how many come at once."""
        pool = urllib3.PoolManager(timeout=60, retries=False)
        found: list[str] = []
        for done in range(1, count + 1):
            found.append(HttpTransport(self.url, pool=pool).enrol(self._invite).token)
            self._progress(done, count)
        pool.clear()
        return found


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
    """``count`` phones, newly enrolled; ``seed`` makes their coins, and with them everything they send."""

    def __init__(
        self,
        enrols: Enrols,
        count: int,
        clock: Callable[[], float],
        seed: bytes = b"fleet",
        plan: NumberingPlan = NANP,
    ) -> None:
        self.url, self.clock = enrols.url, clock
        self.pool = urllib3.PoolManager(maxsize=THREADS, timeout=60, retries=False)
        self._round: RoundInfo | None = None
        self._lock = threading.Lock()
        self.said: Counter[str] = Counter()  # what the phones came to in the last visit, in words
        self.phones: list[Phone] = []
        for place, token in enumerate(enrols.tokens(count)):
            coins = seeded(seed + place.to_bytes(4, "big"))
            self.phones.append(Phone(Store.in_memory(), _Line(self, token), plan, coins, clock))

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

    def visit(
        self, progress: Callable[[int, int], None] = lambda _done, _total: None, *, hurry: bool = False
    ) -> Counter[str]:
        """Every phone does what the round needs now; how many did what. ``hurry`` skips the random delays."""
        done = Counter[str]()
        self.said.clear()
        self.forget_round()
        with ThreadPoolExecutor(THREADS) as threads:
            for outcome in threads.map(lambda phone: phone.report(hurry=hurry), self.phones):
                done[outcome.action] += 1
                self.said[outcome.words] += 1
                if done.total() % 100 == 0:
                    progress(done.total(), len(self.phones))
        return done

    def close(self) -> None:
        """Let the stores and the connections go."""
        for phone in self.phones:
            phone.store.close()
        self.pool.clear()

"""The demo's processes: a real server with a clock that the demo moves, and a fleet that is split over several."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from typing import TYPE_CHECKING, Any, Protocol

from hushcall.client.reporting.transport import HttpTransport
from hushcall.errors import HushcallError, InvalidData, InvalidParameter
from hushcall.formats.calls.call import Call
from hushcall.protocol.numbers import Number, NumberingPlan, plan_named
from hushcall.protocol.randomness import seeded
from hushcall_lab.simulation.fleet import Fleet, Operator, VisitProgress

if TYPE_CHECKING:
    from hushcall.server.settings import Settings

Progress = Callable[[str, int, int], None]

DAY_SECONDS = 86_400
FLEET_PROCESSES = 3
"""With two cores this is fastest: the server needs one of them while clients visit."""


class SharedClock:
    """A clock that several processes share. It stands still until it is set, or runs from :meth:`run` on."""

    def __init__(self, now: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._now: Synchronized[float] = context.Value("d", now)
        self._since: Synchronized[float] = context.Value("d", 0.0)

    def __call__(self) -> float:
        since = self._since.value
        return self._now.value + (time.time() - since if since else 0.0)

    @property
    def now(self) -> float:
        return self()

    @now.setter
    def now(self, value: float) -> None:
        self._now.value = value

    def run(self) -> None:
        self._since.value = time.time()


@contextmanager
def server(settings: Settings, port: int, clock: SharedClock, seed: int) -> Iterator[Operator]:
    """Yields the operator of a server process. ``seed`` makes rounds' seeds and device numbers."""
    from hushcall.server.auth.devices import SCOPES
    from hushcall.server.service import open_service

    with closing(open_service(settings, clock=clock)) as service:
        token = service.devices.new_admin(frozenset(SCOPES), "the demo's operator", service.now)
    with _listener(settings.server.host, port) as listener:
        listener.listen()  # requests wait until the process serves
        url = "http://{}:{}".format(*listener.getsockname()[:2])
        process = _start(_serve, settings.model_dump_json(), listener, clock, seed)
    try:
        yield Operator(url, token)
    finally:
        process.terminate()
        process.join(15)
        if process.is_alive():
            process.kill()
            process.join()


def _start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    with _ignoring_ctrl_c():
        process.start()
    return process


def _listener(host: str, port: int) -> socket.socket:
    from hushcall.server.serve import bound

    try:
        return bound(host, port)
    except InvalidParameter:
        return bound(host, 0)


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """A process that is started in this block ignores Ctrl-C from its first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(settings_json: str, listener: socket.socket, clock: SharedClock, seed: int) -> None:
    from hushcall.server.logs import set_up
    from hushcall.server.service import open_service
    from hushcall.server.settings import Settings
    from hushcall_lab.servers import running

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    set_up("WARNING")
    service = open_service(Settings.model_validate_json(settings_json), clock=clock)
    service.rounds.rand = seeded(b"demo %d" % seed)
    # A report follows from its ticket, and a ticket from its device's number: a run is repeatable only if the numbers
    # are. Tokens and keys come from the system's entropy.
    service.devices.numbers = seeded(b"demo devices %d" % seed)
    with running(service, listener):
        stop.wait()


class SplitFleet:
    def __init__(self, url: str, tokens: Sequence[str], clock: SharedClock, seed: bytes, plan: NumberingPlan) -> None:
        ends = [len(tokens) * share // FLEET_PROCESSES for share in range(FLEET_PROCESSES + 1)]
        self._shares = [slice(*pair) for pair in pairwise(ends)]
        self._size = len(tokens)
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        for share in self._shares:
            ours, theirs = multiprocessing.get_context("spawn").Pipe()
            self._processes.append(_start(_fleet, theirs, url, tokens[share], clock, seed, plan.name, share.start))
            theirs.close()
            self._pipes.append(ours)

    def hear(self, calls: Sequence[Sequence[Number | Call]]) -> None:
        self._each("hear", [(calls[share],) for share in self._shares])

    def visit(self, progress: VisitProgress) -> Counter[str]:
        return sum(self._each("visit", progress=progress), Counter[str]())

    def max_spent(self) -> float:
        return float(max(self._each("max_spent")))

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def _each(
        self,
        method: str,
        arguments: Sequence[tuple[Any, ...]] = ((),) * FLEET_PROCESSES,
        progress: VisitProgress = lambda _done, _total: None,
    ) -> list[Any]:
        for pipe, values in zip(self._pipes, arguments, strict=True):
            pipe.send((method, values))
        visited, results = dict.fromkeys(self._pipes, 0), dict[Any, Any]()
        while len(results) < len(self._pipes):
            for pipe in [pipe for pipe in self._pipes if pipe not in results and pipe.poll(0.02)]:
                try:
                    ended, value = pipe.recv()
                except EOFError:
                    raise InvalidData("clients", "run until the demo ends", "a process that ended") from None
                if isinstance(value, HushcallError):
                    raise value
                if ended:
                    results[pipe] = value
                else:
                    visited[pipe] = value
                    progress(sum(visited.values()), self._size)
        return [results[pipe] for pipe in self._pipes]


def _fleet(
    pipe: Connection, url: str, tokens: Sequence[str], clock: SharedClock, seed: bytes, plan: str, first: int
) -> None:
    fleet = Fleet(url, tokens, clock, seed, plan_named(plan), first)
    with suppress(EOFError):
        while True:
            method, values = pipe.recv()
            if method == "visit":
                values = (lambda done, _: pipe.send((False, done)),)
            try:
                result = getattr(fleet, method)(*values)
            except HushcallError as error:
                result = error
            pipe.send((True, result))


class HandClock(Protocol):
    now: float

    def __call__(self) -> float: ...


def play_day(
    operator: Operator,
    fleet: Fleet | SplitFleet,
    clock: HandClock,
    calls: Sequence[Sequence[Number | Call]],
    progress: Progress = lambda _what, _done, _total: None,
) -> dict[str, Any]:
    """Play one round from its opening to its list, and return its status. The clock ends when the next round opens."""

    def visit(moment: int, label: str) -> None:
        clock.now = moment
        fleet.visit(lambda done, total: progress(label, done, total))

    fleet.hear(calls)
    operator.ask("POST", "/v1/admin/rounds/advance")
    info = HttpTransport(operator.url).current_round()
    visit(info.collects - 1, "phones announce")  # the last moment: every moment that a client drew has passed
    clock.now = info.collects
    progress("buckets are decided", 0, 1)
    operator.ask("POST", "/v1/admin/rounds/advance")
    visit(info.closes - 1, "phones report")
    clock.now = info.closes
    progress("numbers are learned", 0, 1)
    operator.ask("POST", "/v1/admin/rounds/advance")
    status: dict[str, Any] = operator.ask("GET", f"/v1/admin/rounds/{info.round}")
    clock.now = max(info.opens + DAY_SECONDS, clock.now)
    return status

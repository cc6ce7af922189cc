"""The client: everything that its owner, the command line or an embedding program does with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushcall.client.calls import candidates, ingest
from hushcall.client.calls.ingest import IngestedLog
from hushcall.client.reporting.consent import Limits
from hushcall.client.screening import subscriptions
from hushcall.client.screening.lookup import Verdict
from hushcall.client.screening.screen import Screen
from hushcall.client.screening.subscriptions import Subscription
from hushcall.client.storage import personal
from hushcall.client.storage.folder import TIMEOUT_SECONDS, Busy, locked
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import LEFT, NO_LIST_YET, SYNC_TROUBLE, Store
from hushcall.deprecation import renamed
from hushcall.errors import HushcallError, Refused, Unreachable, UntrustedList, WrongServer
from hushcall.formats.calls.call import Call
from hushcall.protocol.numbers import NANP, Number, NumberingPlan
from hushcall.protocol.randomness import ByteSource, os_entropy

if TYPE_CHECKING:
    from hushcall.client.reporting.round_context import Outcome
    from hushcall.client.reporting.transport import Transport
    from hushcall.client.screening.list_sync import SyncResult
    from hushcall.protocol.round_document import RoundInfo


class Client:
    """One client of one owner: :meth:`set_up` once, then :meth:`open`. Only one process may write: see :meth:`alone`.

    ``rand`` and ``clock`` are arguments so that simulations are reproducible.
    """

    @renamed(coins="rand")
    def __init__(
        self,
        store: Store,
        transport: Transport,
        plan: NumberingPlan = NANP,
        rand: ByteSource = os_entropy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.transport, self.plan, self.rand, self.clock = store, transport, plan, rand, clock

    @classmethod
    @renamed(patience="timeout_seconds")
    def set_up(
        cls, folder: str | Path, server: str, *, timeout_seconds: float = TIMEOUT_SECONDS, **options: Any
    ) -> Client:
        """Enrol with a server and open the client. ``options`` are those of :class:`hushcall.client.setup.Options`."""
        from hushcall.client import setup

        setup.set_up(Path(folder), server, setup.Options(**options), timeout_seconds)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> Client:
        """The client that was set up in a folder. Raises :class:`InvalidParameter` where there is none."""
        from hushcall.client import setup

        store = setup.opened(Path(folder))
        try:
            return cls(store, setup.transport_of(store), setup.plan_of(store))
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        self.store.close()

    @renamed(patience="timeout_seconds")
    def alone(self, timeout_seconds: float = TIMEOUT_SECONDS) -> AbstractContextManager[None]:
        """Hold the folder's lock, or raise :class:`Busy` after the timeout. A client in memory has no lock."""
        return nullcontext() if self.store.folder is None else locked(self.store.folder, timeout_seconds)

    @property
    def limits(self) -> Limits:
        return Limits.load(self.store)

    def ingest(self, calls: Iterable[Call]) -> candidates.Ingested:
        """Record calls. The same calls again change nothing."""
        return candidates.ingest(self.store, calls, self.plan, int(self.clock()))

    def note(self, number: Number, at: int | None = None) -> None:
        """Record one call as it happens."""
        candidates.note(self.store, [(number, int(self.clock()) if at is None else at)])

    def read_log(self, path: Path, name: str | None = None, zone: str | None = None) -> IngestedLog:
        """Record the new calls of a log in the format ``name`` (default: recognised). ``zone`` is remembered."""
        log_zone = ingest.zone_of_logs(self.store, zone)
        return ingest.ingest_log(self.store, path, self.plan, int(self.clock()), name, log_zone)

    def add_contacts(self, numbers: Iterable[str]) -> int:
        """Add numbers that are never reported and always let through. Returns how many the plan knows."""
        return candidates.add_contacts(self.store, numbers, self.plan)

    def mark(self, entries: Iterable[str], action: Action | None) -> None:
        """Put numbers or prefixes (``+1900*``) on the owner's own list, or take them off (None).

        BLOCK, this was spam: always blocked, and reported before others. ALLOW, let it through: never reported.
        """
        personal.mark(self.store, self.plan, entries, action)

    def sync(self) -> SyncResult:
        """Fetch the newest list and verify its signatures. On any error the old one stays. Distrust is recorded."""
        from hushcall.client.reporting import anonymity, split_view
        from hushcall.client.screening.list_sync import NO_LIST, ListClient  # tuf takes a while to import
        from hushcall.client.setup import drop_stale_list

        drop_stale_list(self.store)
        self.store.lists.mkdir(mode=0o700, exist_ok=True)
        root, digest = self.store.get("root"), self.store.get("root_sha256")
        now = int(self.clock())
        files = anonymity.files(self.store, self.transport)
        list_client = ListClient(
            self.store.lists, self.transport.url, root.encode() if root else None, digest or None, files
        )
        try:
            result = list_client.sync()
        except UntrustedList as error:
            self.store.put(SYNC_TROUBLE, str(error))
            raise
        except Refused as refusal:
            if refusal.problem == NO_LIST:
                self.store.put(NO_LIST_YET, "yes")
                anonymity.synced(self.store, self.rand, now)
            raise
        self.store.put(SYNC_TROUBLE, "")
        self.store.put(NO_LIST_YET, "")
        anonymity.synced(self.store, self.rand, now)
        split_view.compare(self.store, self.transport.url, list_client.named_rounds(), now)
        split_view.log_rejection(self.store, self.transport)
        return result

    def sync_others(
        self, *, force: bool = False, only: str | None = None
    ) -> list[tuple[Subscription, SyncResult | HushcallError]]:
        """Fetch the lists of other servers that are due. An error of one is its result."""
        return subscriptions.sync(self.store, self.rand, self.clock, force=force, only=only)

    @property
    def relayed(self) -> bool:
        """Whether the owner chose a relay."""
        from hushcall.client.reporting import anonymity

        return anonymity.route_of(self.store) is not None

    def sync_at(self) -> int:
        """When a client with a relay fetches its list again: 12 to 24 hours after the last time. 0: now."""
        from hushcall.client.reporting import anonymity

        return anonymity.sync_at(self.store, int(self.clock()))

    def seconds_to_wait(self) -> int:
        """For how long a run of a client with a relay waits before it speaks. 0 where it has nothing to say."""
        from hushcall.client.reporting import anonymity

        return anonymity.seconds_to_wait(self.store, self.rand, int(self.clock()))

    def leave(self) -> None:
        """Have the device deleted on its server, and take no part any more. The list can still be synced.

        The ledger stays, and so do sealed tallies.
        """
        from hushcall.client import setup

        setup.leave(self.store)

    def look(self) -> RoundInfo:
        from hushcall.client.reporting import anonymity

        return anonymity.look(self.store, self.transport)

    def check(self, number: str) -> Verdict:
        return Screen(self.store, self.plan).verdict(number, int(self.clock()))

    @renamed(hurry="skip_delays")
    def report(self, now: int | None = None, *, skip_delays: bool = False) -> Outcome:
        """Take the steps that the current round needs now. Without its random delays, privacy is weaker."""
        from hushcall.client.reporting import anonymity, split_view  # mechanisms and tokens: needed once a day
        from hushcall.client.reporting.round_context import POLL_SECONDS, Outcome
        from hushcall.client.round_session import RoundSession

        now = int(self.clock()) if now is None else now
        if self.store.get(LEFT):
            words = "This phone has left: hushcall phone init --server URL takes part again."
            return Outcome("stopped", words, next_at=now + 24 * POLL_SECONDS)
        route = anonymity.route_of(self.store)
        if route and not skip_delays and (outcome := anonymity.without_looking(self.store, self.transport, now)):
            return outcome
        try:
            info = anonymity.look(self.store, self.transport)
        except Refused as refusal:
            if refusal.problem != "no-round":
                raise
            return Outcome("idle", "The server has not started a round yet.", next_at=now + POLL_SECONDS)
        if route is None and split_view.signed_by_strangers(self.store, info.document):
            with suppress(HushcallError):  # without the newer root the session says why it stops
                self.sync()
        if route and (rejection := anonymity.clock_rejection(info, now)):
            return Outcome("stopped", f"Nothing is sent: {rejection}.", info.round, now + POLL_SECONDS)
        info = anonymity.as_signed(info, now) if route else info
        session = RoundSession(self.store, self.transport, self.plan, self.rand, info, now, skip_delays)
        outcome = session.proceed()
        if route:
            anonymity.keep_look(session, outcome)
        return outcome

    @renamed(hurry="skip_delays", patience="timeout_seconds")
    def report_patiently(self, *, skip_delays: bool = False, timeout_seconds: float = TIMEOUT_SECONDS) -> Outcome:
        """As :meth:`report`, with the folder's lock. An error that a later try may not meet is an outcome."""
        from hushcall.client.reporting.round_context import POLL_SECONDS, Outcome

        try:
            with self.alone(timeout_seconds):
                return self.report(skip_delays=skip_delays)
        except (Unreachable, Refused, Busy) as error:
            temporary = isinstance(error, WrongServer)  # a network's login page, mostly
            if isinstance(error, Refused) and not temporary and error.status != 429 and error.status < 500:
                raise
            words = f"{error}" if f"{error}".endswith((".", "?")) else f"{error}."
            retry_at = int(self.clock()) + POLL_SECONDS
            return Outcome("waiting", f"{words} This will be tried again.", next_at=retry_at)

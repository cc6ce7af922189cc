"""The phone: calls come in; on :meth:`Phone.report` whatever the round needs now leaves, at most one report a round.

Everything that a phone's owner, command line or embedding program does with it is here; how a round is taken part in,
step by step, is in :mod:`hushcall.phone.visit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushcall.errors import HushcallError, Refused, Unreachable, UntrustedList, WrongServer
from hushcall.formats.calls.call import Call
from hushcall.numbers import NANP, Number, NumberingPlan
from hushcall.phone.calls import candidates, ingest
from hushcall.phone.calls.ingest import LogTaken
from hushcall.phone.home.change_server import drop_stale_list
from hushcall.phone.home.lock import PATIENCE, Busy, locked
from hushcall.phone.home.store import NO_LIST_YET, SYNC_TROUBLE, Store
from hushcall.phone.reporting.ledger import Limits
from hushcall.phone.screening.lookup import Verdict
from hushcall.phone.screening.screen import Screen
from hushcall.privacy.coins import ByteSource, os_entropy

if TYPE_CHECKING:
    from hushcall.phone.reporting.transport import Transport
    from hushcall.phone.screening.list_sync import SyncResult
    from hushcall.phone.visit import Outcome


@dataclass
class Phone:
    """One phone of one owner: :meth:`set_up` once, :meth:`open` from then on, :meth:`close` when done.

    One process at a time: whoever may meet another one takes :meth:`alone` around what writes. ``coins`` and ``clock``
    are arguments so that simulations are reproducible.
    """

    store: Store
    transport: Transport
    plan: NumberingPlan = NANP
    coins: ByteSource = os_entropy
    clock: Callable[[], float] = time.time

    @classmethod
    def set_up(cls, folder: str | Path, server: str, **given: Any) -> Phone:
        """Enrol with a server, keep what the owner allows in ``folder``, and open the phone.

        ``given`` is what :func:`hushcall.phone.setup.set_up` takes: ``invite``, ``token``, ``root``, ``limits`` …
        """
        from hushcall.phone import setup

        setup.set_up(Path(folder), server, **given)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> Phone:
        """The phone that was set up in a folder; an :class:`InvalidParameter` that says how to where none was."""
        from hushcall.phone import setup

        store = setup.opened(Path(folder))
        try:
            return cls(store, setup.transport_of(store), setup.plan_of(store))
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Let the store's file go."""
        self.store.close()

    def alone(self, patience: float = PATIENCE) -> AbstractContextManager[None]:
        """Hold the folder's lock, or raise :class:`Busy` after ``patience`` seconds. A phone in memory needs none."""
        return nullcontext() if self.store.folder is None else locked(self.store.folder, patience)

    @property
    def limits(self) -> Limits:
        """What the owner allows, read anew each time: another process may have changed it."""
        return Limits.load(self.store)

    def ingest(self, calls: Iterable[Call]) -> candidates.Ingested:
        """Take in a call log; reading the same calls again changes nothing."""
        return candidates.ingest(self.store, calls, self.plan, int(self.clock()))

    def note(self, number: Number, at: int | None = None) -> None:
        """Take in one call, as it happens."""
        candidates.note(self.store, [(number, int(self.clock()) if at is None else at)])

    def read_log(self, path: Path, name: str | None = None, zone: str | None = None) -> LogTaken:
        """Take in what is new in a call log, of the format ``name`` or a recognised one; ``zone`` is remembered."""
        where = ingest.zone_of_logs(self.store, zone)
        return ingest.take_log(self.store, path, self.plan, int(self.clock()), name, where)

    def add_contacts(self, numbers: Iterable[str]) -> int:
        """Numbers that are never reported and always let through, in any notation; how many the plan knows."""
        return candidates.add_contacts(self.store, numbers, self.plan)

    def sync(self) -> SyncResult:
        """Fetch the newest list and verify its signatures; on any error the old one stays.

        That a list could not be trusted is remembered until one can be: the owner should know, even where nobody saw
        the error.
        """
        from hushcall.phone.reporting import witness
        from hushcall.phone.screening.list_sync import NO_LIST, ListClient  # tuf takes a while to import

        drop_stale_list(self.store)
        self.store.lists.mkdir(mode=0o700, exist_ok=True)
        root, digest = self.store.get("root"), self.store.get("root_sha256")
        client = ListClient(self.store.lists, self.transport.url, root.encode() if root else None, digest or None)
        try:
            result = client.sync()
        except UntrustedList as error:
            self.store.put(SYNC_TROUBLE, str(error))
            raise
        except Refused as refusal:
            if refusal.problem == NO_LIST:
                self.store.put(NO_LIST_YET, "yes")
            raise
        self.store.put(SYNC_TROUBLE, "")
        self.store.put(NO_LIST_YET, "")
        witness.compare(self.store, self.transport.url, client.named_rounds(), int(self.clock()))
        return result

    def check(self, number: str) -> Verdict:
        """Judge a caller offline: contacts are let through, then the list decides."""
        return Screen(self.store, self.plan).verdict(number, int(self.clock()))

    def report(self, now: int | None = None, *, hurry: bool = False) -> Outcome:
        """Do whatever the current round needs now. ``hurry`` skips the random delays, which weakens privacy."""
        from hushcall.phone.reporting import blind_pass, witness  # and mechanisms, tokens, the wire: once a day
        from hushcall.phone.visit import POLL_SECONDS, Outcome, Visit

        now = int(self.clock()) if now is None else now
        source = blind_pass.round_source(self.store, self.transport)
        try:
            info = source.current_round()
        except Refused as refusal:
            if refusal.problem == "sealed-otherwise":  # the gateway has another key: the next run asks directly
                blind_pass.forget_terms(self.store)
            if refusal.problem != "no-round":
                raise
            return Outcome("idle", "The server has not started a round yet.", next_at=now + POLL_SECONDS)
        if witness.signed_by_strangers(self.store, info.document):
            with suppress(HushcallError):  # without the newer root the visit says why it stops
                self.sync()
        blind_pass.remember(self.store, info)
        blind_pass.drop_before(self.store, self.transport.url, info.round)
        direct = source is self.transport
        return Visit(self.store, self.transport, self.plan, self.coins, info, now, hurry, direct).proceed()

    def report_patiently(self, *, hurry: bool = False, patience: float = PATIENCE) -> Outcome:
        """As :meth:`report`, alone in the folder; a network, a server or a folder in passing trouble is waited for.

        What no waiting helps against (a revoked token, say) is raised.
        """
        from hushcall.phone.visit import POLL_SECONDS, Outcome

        try:
            with self.alone(patience):
                return self.report(hurry=hurry)
        except (Unreachable, Refused, Busy) as error:
            passing = isinstance(error, WrongServer)  # a network's login page, mostly
            if isinstance(error, Refused) and not passing and error.status != 429 and error.status < 500:
                raise
            words = f"{error}" if f"{error}".endswith((".", "?")) else f"{error}."
            later = int(self.clock()) + POLL_SECONDS
            return Outcome("waiting", f"{words} This will be tried again.", next_at=later)

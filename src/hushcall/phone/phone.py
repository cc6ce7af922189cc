"""The phone: calls come in; on :meth:`Phone.report` whatever the round needs now leaves, at most one report a round.

The order of the steps is what survives a crash at any point:

1. choose a number (or a dummy) and two random moments, and keep them;
2. announce the bucket, and keep the ticket;
3. once the bucket is decided: build the mechanism, check that it would take any number of the plan and that its exact
   cost is within the owner's limits, randomise, and in ONE transaction write the spend into the ledger and the bytes
   into the diary;
4. only then send; a retry sends the same bytes;
5. mark them as sent.

Whatever is repeated, nothing is spent unrecorded and no second report is made. A day with nothing to say takes the same
steps with a dummy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushcall.anonymity.tokens import ticket_of
from hushcall.errors import InvalidParameter, InvalidToken, Refused, Unreachable, UntrustedList
from hushcall.formats.calls.call import Call
from hushcall.mechanisms.parameters import from_plain, to_plain
from hushcall.mechanisms.schemes import SCHEMES
from hushcall.numbers import NANP, Number, NumberingPlan
from hushcall.phone.calls import candidates, ingest
from hushcall.phone.calls.ingest import LogTaken
from hushcall.phone.home.change_server import drop_stale_list
from hushcall.phone.home.lock import PATIENCE, Busy, locked
from hushcall.phone.home.store import SYNC_TROUBLE, Store
from hushcall.phone.reporting import blind_pass, ledger, parameter_check, participation, schedule
from hushcall.phone.reporting.ledger import DAY, Limits, Spend
from hushcall.phone.reporting.participation import Row
from hushcall.phone.reporting.transport import Transport
from hushcall.phone.screening import same_keys
from hushcall.phone.screening.lookup import Verdict
from hushcall.phone.screening.screen import Screen
from hushcall.privacy.coins import ByteSource, os_entropy
from hushcall.protocol.items import WHOLE
from hushcall.protocol.problems import is_final
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD
from hushcall.report.mechanism import Mechanism

if TYPE_CHECKING:
    from hushcall.phone.screening.list_sync import SyncResult

POLL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Outcome:
    """What :meth:`Phone.report` did. ``next_at``: when it is worth running again, by the phone's clock."""

    action: str  # waiting, announced, sent, skipped, closed, done, stopped, idle
    words: str
    round: int | None = None
    next_at: int | None = None


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
    def set_up(cls, folder: Path, server: str, **given: Any) -> Phone:
        """Enrol with a server, keep what the owner allows in ``folder``, and open the phone.

        ``given`` is what :func:`hushcall.phone.setup.set_up` takes: ``invite``, ``token``, ``root``, ``limits`` …
        """
        from hushcall.phone import setup

        setup.set_up(folder, server, **given)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Phone:
        """The phone that was set up in a folder; an :class:`InvalidParameter` that says how to where none was."""
        from hushcall.phone import setup

        store = setup.opened(folder)
        try:
            return cls(store, setup.transport_of(store))
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
        from hushcall.phone.screening.list_sync import ListClient  # tuf takes a while to import

        drop_stale_list(self.store)
        self.store.lists.mkdir(mode=0o700, exist_ok=True)
        root, digest = self.store.get("root"), self.store.get("root_sha256")
        client = ListClient(self.store.lists, self.transport.url, root.encode() if root else None, digest or None)
        try:
            result = client.sync()
        except UntrustedList as error:
            self.store.put(SYNC_TROUBLE, str(error))
            raise
        self.store.put(SYNC_TROUBLE, "")
        if result.digests is not None:
            same_keys.compare(self.store, self.transport.url, result.digests, result.round)
        return result

    def check(self, number: str) -> Verdict:
        """Judge a caller offline: contacts are let through, then the list decides."""
        return Screen(self.store, self.plan).verdict(number, int(self.clock()))

    def report(self, now: int | None = None, *, hurry: bool = False) -> Outcome:
        """Do whatever the current round needs now. ``hurry`` skips the random delays, which weakens privacy."""
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
        blind_pass.remember(self.store, self.transport.url, info)
        visit = _Visit(self, info, now, hurry, direct=source is self.transport)
        blind_pass.drop_before(self.store, self.transport.url, info.round)
        participation.close_passed(self.store, self.transport.url, info)
        return visit.proceed()

    def report_patiently(self, *, hurry: bool = False, patience: float = PATIENCE) -> Outcome:
        """As :meth:`report`, alone in the folder; a network, a server or a folder in passing trouble is waited for.

        What no waiting helps against (a revoked token, say) is raised.
        """
        try:
            with self.alone(patience):
                return self.report(hurry=hurry)
        except (Unreachable, Refused, Busy) as error:
            if isinstance(error, Refused) and error.status != 429 and error.status < 500:
                raise
            words = f"{error}" if f"{error}".endswith((".", "?")) else f"{error}."
            later = int(self.clock()) + POLL_SECONDS
            return Outcome("waiting", f"{words} This will be tried again.", next_at=later)


@dataclass(frozen=True)
class _Visit:
    """One look at one round: takes its row as far forward as it goes."""

    phone: Phone
    info: RoundInfo
    now: int
    hurry: bool
    direct: bool = True  # whether the server could see who asked for the round

    def proceed(self) -> Outcome:
        if self._row() is None and (stop := self._join()):
            return stop
        for state, step in (
            (participation.PLANNED, self._get_token),
            (participation.PLANNED, self._apart),
            (participation.PLANNED, self._announce),
            (participation.ANNOUNCED, self._apart),
            (participation.ANNOUNCED, self._record),
            (participation.RECORDED, self._apart),
            (participation.RECORDED, self._send),
        ):
            row = self._row()
            if row is not None and row.state == state and (stop := step(row)):
                return stop
        return self._end()

    def _join(self) -> Outcome | None:
        """Step 1."""
        phone, info, now = self.phone, self.info, self.now
        if info.state != ANNOUNCING:
            late = "" if info.state == HELD else ": too late to join"
            return self._outcome("idle", f"Round {info.round} is {info.state}{late}.", info.closes)
        limits = phone.limits
        if why := self._foreign() or self._unwanted(limits):
            return self._outcome("stopped", why)
        items = SCHEMES[info.mechanism].items
        today = now - now % DAY
        if participation.joined_between(phone.store, today, today + DAY) >= limits.rounds_per_day:
            rounds = "one round" if limits.rounds_per_day == 1 else f"{limits.rounds_per_day} rounds"
            words = f"This phone takes part in {rounds} a day, and has done so today."
            return Outcome("idle", words, info.round, today + DAY)
        nameless = info.anonymity is not None and isinstance(phone.transport, blind_pass.Hiding)
        middle = blind_pass.middle(info)
        if nameless and info.server_time >= middle and not self.hurry:
            words = f"Round {info.round}: too late to join without a name; the next one will do."
            return self._outcome("idle", words, info.closes)
        window = max(info.window, limits.days)
        seq = participation.next_seq(phone.store)
        issue_at, moments = (
            schedule.draw_nameless(info, middle, phone.coins) if nameless else (0, schedule.draw(info, phone.coins))
        )
        daily = limits.rounds_per_day == 1
        waiting = candidates.buffered(phone.store, now, window, seq, daily=daily)
        number, dummy = candidates.choose(waiting, phone.plan, phone.coins)
        bucket = items.bucket(number)
        with phone.store.transaction():
            if nameless:
                blind_pass.prepare(phone.store, phone.transport.url, info, issue_at, phone.coins)
            participation.join(phone.store, phone.transport.url, info, now, str(number), bucket, moments, dummy=dummy)
            candidates.prune(phone.store, now, window)
            participation.blank_before(phone.store, now - window * DAY)
        return None

    def _unwanted(self, limits: Limits) -> str:
        """Why the owner would not want this phone to take part in this round; empty where it may."""
        store, info = self.phone.store, self.info
        if SCHEMES[info.mechanism].bucketed and not limits.area_in_clear:
            return "The server wants area codes in the clear, and the owner does not."
        if info.anonymity is None and not limits.by_name:
            return "The server wants reports by name, and the owner does not."
        why = store.get(blind_pass.TROUBLE) or ledger.objection(store, limits, Fraction(info.epsilon), self.now)
        return f"Nothing is sent: {why}." if why else ""

    def _get_token(self, row: Row) -> Outcome | None:
        """Step 2, for a phone that takes part without a name: have a token signed, on a connection of its own."""
        phone = self.phone
        held = blind_pass.find(phone.store, row.server, row.round)
        if held is None or held.token or not isinstance(phone.transport, blind_pass.Hiding):
            return None
        if wait := self._not_yet(held.issue_at, "ask for a token"):
            return wait
        try:
            blind_pass.get_token(phone.store, row.server, held, phone.transport)
        except Refused as refusal:
            return self._refused(row, refusal, participation.SKIPPED)
        except InvalidToken:
            return self._skip(row, "the server signed with another key than it told")
        return None if self.hurry else self._outcome("waiting", f"Round {row.round}: has a token.", row.announce_at)

    def _apart(self, row: Row) -> Outcome | None:
        """A phone that has just asked by its own address says nothing without a name: one would give away the other."""
        held = blind_pass.find(self.phone.store, row.server, row.round) if self.direct and not self.hurry else None
        if held is None or not held.terms.relay:
            return None
        return self._outcome("waiting", f"Round {row.round}: asked directly; speaks through the relay later.")

    def _lonely(self, row: Row) -> str:
        """Why the crowd that the server speaks of is not what the owner wants to hide in; empty where it is."""
        least, crowd = self.phone.limits.least_crowd, self.info.crowd or 0
        nameless = blind_pass.find(self.phone.store, row.server, row.round) is not None
        return (
            f"{crowd} phones are here without a name, and the owner wants {least}" if nameless and crowd < least else ""
        )

    def _speaker(self, row: Row) -> Transport:
        """Whoever speaks in this round: the device by its name, or a token without one."""
        phone = self.phone
        held = blind_pass.find(phone.store, row.server, row.round)
        if held is None or not isinstance(phone.transport, blind_pass.Hiding):
            return phone.transport
        return phone.transport.without_name(held.terms, held.token)

    def _foreign(self) -> str:
        """Why this phone and this round do not speak the same language; empty where they do."""
        phone, info = self.phone, self.info
        if info.mechanism not in SCHEMES:
            return "The server asks for a kind of report that this phone does not know."
        if info.plan != phone.plan.name:
            return f"The server uses numbering plan {info.plan}, this phone {phone.plan.name}."
        return ""

    def _announce(self, row: Row) -> Outcome | None:
        """Step 2."""
        if wait := self._not_yet(row.announce_at, "announce"):
            return wait
        try:
            ticket = self._speaker(row).announce(row.round, row.bucket)
        except Refused as refusal:
            return self._refused(row, refusal, participation.SKIPPED)
        held = blind_pass.find(self.phone.store, row.server, row.round)
        if held and ticket != ticket_of(held.token):  # the seed of a report must follow from its token
            return self._skip(row, "the server gave another ticket than the token's")
        participation.announced(self.phone.store, row, ticket)
        return self._outcome("announced", f"Round {row.round}: announced.", row.report_at)

    def _record(self, row: Row) -> Outcome | None:
        """Step 3."""
        if self.info.state != COLLECTING:
            return self._outcome("waiting", f"Round {row.round}: announced, not collecting yet.", row.report_at)
        phone, info = self.phone, self.info
        try:
            plain = info.parameters_for(row.bucket)
            if plain is None:
                return self._skip(row, "its bucket is too small to be worth a budget; nothing was spent")
            mechanism = from_plain(plain)
            if why := self._lonely(row) or ledger.objection(phone.store, phone.limits, mechanism.cost, self.now):
                return self._skip(row, why)
            if wait := self._not_yet(row.report_at, "report"):
                return wait
            public = info.public_for(row.ticket)
            parameter_check.require(mechanism, row.mechanism, phone.plan, public)
        except InvalidParameter as error:
            return self._skip(row, f"the server's parameters do not hold ({error.field} must {error.rule})")
        # From here on the number is used: nothing that the server chose can fail any more.
        row = self._not_of_a_friend(row)
        item = SCHEMES[row.mechanism].items.item(phone.plan.parse(row.number), phone.plan)
        self._keep(row, mechanism, public, mechanism.privatise(item, public, phone.coins))
        return None

    def _not_of_a_friend(self, row: Row) -> Row:
        """The row, or one with a dummy of the announced bucket where its number has become known since.

        The dummy is drawn either way: what is drawn does not depend on whom the owner knows.
        """
        phone = self.phone
        drawn = phone.plan.dummy(phone.coins)
        if not candidates.is_known(phone.store, row.number):
            return row
        area = drawn.area if row.bucket == WHOLE else row.bucket
        return replace(row, number=str(phone.plan.number(area, drawn.suffix)), dummy=True)

    def _keep(self, row: Row, mechanism: Mechanism, public: bytes, report: bytes) -> None:
        """Spend, bytes and number in one transaction, before anything is sent.

        The number counts as reported from here on: if the answer is lost, the server may still have the report.
        """
        store = self.phone.store
        spend = Spend(row.round, self.now, mechanism.cost, mechanism.name, ledger.REPORT, row.server)
        with store.transaction():
            participation.recorded(store, row, public, to_plain(mechanism), report)
            ledger.record(store, row.seq, spend)
            if not row.dummy:
                candidates.mark_reported(store, row.number, row.seq, self.now)

    def _send(self, row: Row) -> Outcome | None:
        """Steps 4 and 5."""
        if row.report is None:
            raise InvalidParameter("report", "be kept once it is recorded", None)
        try:
            self._speaker(row).send(row.round, row.ticket, row.report)
        except Refused as refusal:
            return self._refused(row, refusal, participation.CLOSED)
        participation.finished(self.phone.store, row, participation.SENT)
        size = len(row.report)
        return self._outcome("sent", f"Round {row.round}: a report of {size} bytes was sent.", self.info.closes)

    def _skip(self, row: Row, why: str) -> Outcome:
        """The number goes back among the others: nothing marks it."""
        participation.finished(self.phone.store, row, participation.SKIPPED, why)
        return self._outcome("skipped", f"Round {row.round}: no report, {why}.", self.info.closes)

    def _refused(self, row: Row, refusal: Refused, state: str) -> Outcome:
        if not is_final(refusal.problem):
            raise refusal
        participation.finished(self.phone.store, row, state, str(refusal))
        return self._outcome(state, f"Round {row.round}: {refusal}", self.info.closes)

    def _end(self) -> Outcome:
        row = self._row()
        state, why = (row.state, row.why) if row else ("done", "")
        words = f"Round {self.info.round}: nothing left to do ({state}{': ' + why if why else ''})."
        return self._outcome("done", words, self.info.closes)

    def _not_yet(self, moment: int, what: str) -> Outcome | None:
        if self.hurry or self.info.server_time >= moment:
            return None
        return self._outcome("waiting", f"Round {self.info.round}: it will {what} at a random moment.", moment)

    def _outcome(self, action: str, words: str, server_moment: int | None = None) -> Outcome:
        """``server_moment`` is told by the phone's own clock: the two may differ by hours."""
        ahead = POLL_SECONDS if server_moment is None else max(1, server_moment - self.info.server_time)
        return Outcome(action, words, self.info.round, self.now + ahead)

    def _row(self) -> Row | None:
        return participation.find(self.phone.store, self.phone.transport.url, self.info.round)

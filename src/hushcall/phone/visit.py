"""One look at one round: what the server says and what the phone remembers come in; the next step of it is taken.

The order of the steps is what survives a crash at any point, and a server that says anything in any order:

1. choose a caller (where there is none, one is made up) and two random moments, and keep them;
2. announce the bucket, and keep the ticket;
3. once the bucket is decided: build the mechanism, check that it would take any number of the plan and that it is
   within the owner's terms; then, in ONE transaction, check again that the caller is in no report of this horizon and
   that the books allow one more today, randomise, and write spend, bytes and caller down;
4. only then send; a retry sends the same bytes;
5. mark them as sent.

Where no report is made (the bucket is skipped, the books are full) bytes of the same size are sent in its place, at the
same moment: whoever watches the line sees every announced phone send once. Every draw is a keyed function of what it is
for (:func:`~hushcall.privacy.coins.keyed`), so a copy of this phone would take the same steps and say the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction

from hushcall.anonymity.tokens import ticket_of
from hushcall.errors import InvalidParameter, InvalidToken, Refused
from hushcall.mechanisms.parameters import from_plain, to_plain
from hushcall.mechanisms.schemes import SCHEMES
from hushcall.numbers import NumberingPlan
from hushcall.phone.calls import candidates
from hushcall.phone.home import device_key
from hushcall.phone.home.store import Store
from hushcall.phone.reporting import blind_pass, ledger, parameter_check, participation, schedule, terms, witness
from hushcall.phone.reporting.ledger import DAY, Limits, Spend
from hushcall.phone.reporting.participation import Row
from hushcall.phone.reporting.transport import Transport
from hushcall.privacy.coins import ByteSource, keyed
from hushcall.protocol.items import WHOLE
from hushcall.protocol.problems import is_final
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD
from hushcall.protocol.wire import COVER, pad
from hushcall.report.mechanism import Mechanism

POLL_SECONDS = 900
"""How often to look where nobody says when something happens: a document does not name the next round's opening."""
FARTHEST = 366 * DAY
"""No moment is farther away, whatever a server says: any clock can tell it."""
LOOKS = 4
"""So often at least is each phase of a round looked at, however short its rounds are."""
HOME_AREA = "home_area"
"""The setting with the owner's own area code: made-up callers share it as often as real ones do. It is never sent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a look at the round came to. ``next_at``: when it is worth looking again, by the phone's clock."""

    action: str  # waiting, announced, sent, skipped, closed, done, stopped, idle
    words: str
    round: int | None = None
    next_at: int | None = None


@dataclass(frozen=True)
class Visit:
    """Takes the row of one round as far forward as it goes. ``coins`` only makes the device's key, the first time."""

    store: Store
    transport: Transport
    plan: NumberingPlan
    coins: ByteSource
    info: RoundInfo
    now: int
    hurry: bool = False
    direct: bool = True  # whether the server could see who asked for the round

    def proceed(self) -> Outcome:
        """All steps that can be taken now."""
        participation.close_passed(self.store, self.transport.url, self.info)
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
            (participation.COVERING, self._apart),
            (participation.COVERING, self._send),
        ):
            row = self._row()
            if row is not None and row.state == state and (stop := step(row)):
                return stop
        return self._end()

    def _join(self) -> Outcome | None:
        """Step 1."""
        if stop := self._may_not_join():
            return stop
        info, now, limits = self.info, self.now, Limits.load(self.store)
        coins = self._keyed("join")
        issue_at, moments = self._moments(coins)
        days = min(info.window, limits.days)  # a server may ask for fresher calls, never for older ones
        copied = device_key.look_for_copies(self.store, now)
        quiet = copied is not None and now < copied + limits.horizon * DAY
        with self.store.transaction():
            if self._nameless():
                blind_pass.prepare(self.store, self.transport.url, info, issue_at, self._keyed("token"))
            candidates.prune(self.store, now, limits.days, limits.horizon)
            participation.blank_before(self.store, now - limits.days * DAY)
            heard = candidates.buffered(self.store, now, days, limits.horizon, virtual_only=quiet)
            waiting = candidates.of_plan(heard, self.plan)
            if not waiting:
                made_up = self.plan.caller_like(self._keyed("caller"), self._home())
                candidates.make_up(self.store, made_up, now, self._keyed("called"))
                waiting = [str(made_up)]
            number, _ = candidates.choose(waiting, self.plan, coins)
            dummy = candidates.is_virtual(self.store, str(number))
            bucket = SCHEMES[info.mechanism].items.bucket(number)
            participation.join(self.store, self.transport.url, info, now, str(number), bucket, moments, dummy=dummy)
        return None

    def _may_not_join(self) -> Outcome | None:
        info, now, limits = self.info, self.now, Limits.load(self.store)
        if info.state != ANNOUNCING:
            late = "" if info.state == HELD else ": too late to join"
            return self._outcome("idle", f"Round {info.round} is {info.state}{late}.", info.closes)
        if info.round <= participation.highest(self.store, self.transport.url):
            return self._outcome("idle", f"Round {info.round} is older than one that this phone has joined.")
        if why := terms.objection(limits, self.plan, info) or self._unwanted(limits):
            return self._outcome("stopped", why)
        if why := ledger.objection(self.store, limits, Fraction(info.epsilon), now):
            return self._outcome("stopped", f"Nothing is sent: {why}.")
        if wait := self._another_time(limits):
            return wait
        why = self._distrust()  # last: what a phone does not act on is nothing to keep
        return self._outcome("stopped", why) if why else None

    def _another_time(self, limits: Limits) -> Outcome | None:
        """Enough for today, or too late in this round."""
        info, today = self.info, self.now - self.now % DAY
        if participation.joined_between(self.store, today, today + DAY) >= limits.rounds_per_day:
            rounds = "one round" if limits.rounds_per_day == 1 else f"{limits.rounds_per_day} rounds"
            words = f"This phone takes part in {rounds} a day, and has done so today."
            return Outcome("idle", words, info.round, today + DAY)
        if self._nameless() and info.server_time >= blind_pass.middle(info) and not self.hurry:
            words = f"Round {info.round}: too late to join without a name; the next one will do."
            return self._outcome("idle", words, info.closes)
        return None

    def _nameless(self) -> bool:
        """Whether this phone takes part in this round without a name."""
        return self.info.anonymity is not None and isinstance(self.transport, blind_pass.Hiding)

    def _moments(self, coins: ByteSource) -> tuple[int, schedule.Moments]:
        """When to ask for a token (0: never), to announce and to report."""
        if self._nameless():
            return schedule.draw_nameless(self.info, blind_pass.middle(self.info), coins)
        return 0, schedule.draw(self.info, coins)

    def _unwanted(self, limits: Limits) -> str:
        """Why the owner would not want to be known as this round knows its phones; empty where it may."""
        if self.info.anonymity is None and not limits.by_name:
            return "The server wants reports by name, and the owner does not."
        return ""

    def _get_token(self, row: Row) -> Outcome | None:
        """Before step 2, for a phone without a name: have a token signed, on a connection of its own."""
        held = blind_pass.find(self.store, row.server, row.round)
        if held is None or held.token or not isinstance(self.transport, blind_pass.Hiding):
            return None
        if wait := self._not_yet(held.issue_at, "ask for a token"):
            return wait
        try:
            blind_pass.get_token(self.store, row.server, held, self.transport)
        except Refused as refusal:
            return self._refused(row, refusal, participation.SKIPPED)
        except InvalidToken:
            return self._given_up(row, "the server signed with another key than it told")
        return None if self.hurry else self._outcome("waiting", f"Round {row.round}: has a token.", row.announce_at)

    def _apart(self, row: Row) -> Outcome | None:
        """A phone that has just asked by its own address says nothing without a name: one would give away the other."""
        held = blind_pass.find(self.store, row.server, row.round) if self.direct and not self.hurry else None
        if held is None or not held.terms.relay:
            return None
        return self._outcome("waiting", f"Round {row.round}: asked directly; speaks through the relay later.")

    def _lonely(self, row: Row) -> str:
        """Why the crowd that the server speaks of is not what the owner wants to hide in; empty where it is."""
        least, crowd = Limits.load(self.store).least_crowd, self.info.crowd or 0
        enough = crowd >= least or blind_pass.find(self.store, row.server, row.round) is None
        return "" if enough else f"{crowd} phones are here without a name, and the owner wants {least}"

    def _speaker(self, row: Row) -> Transport:
        """Whoever speaks in this round: the device by its name, or a token without one."""
        held = blind_pass.find(self.store, row.server, row.round)
        if held is None or not isinstance(self.transport, blind_pass.Hiding):
            return self.transport
        return self.transport.without_name(held.terms, held.token)

    def _given_up(self, row: Row, why: str) -> Outcome:
        participation.finished(self.store, row, participation.SKIPPED, why)
        return self._outcome("skipped", f"Round {row.round}: no report, {why}.", self.info.closes)

    def _distrust(self) -> str:
        """Why this document is not acted on; where it is, it is kept, to be compared with what others were shown."""
        url, document = self.transport.url, self.info.document
        if document is None:  # made in this process, by a simulation
            return ""
        why = witness.trouble(self.store, url) or witness.verify(self.store, url, document)
        if not why:
            witness.see(self.store, url, document, self.now)
            why = witness.trouble(self.store, url)
        return f"This phone takes no part with its server: {why}." if why else ""

    def _announce(self, row: Row) -> Outcome | None:
        """Step 2."""
        if wait := self._not_yet(row.announce_at, "announce"):
            return wait
        try:
            ticket = self._speaker(row).announce(row.round, row.bucket)
        except Refused as refusal:
            return self._refused(row, refusal, participation.SKIPPED)
        held = blind_pass.find(self.store, row.server, row.round)
        if held and ticket != ticket_of(held.token):  # the seed of a report must follow from its token
            return self._given_up(row, "the server gave another ticket than the token's")
        participation.announced(self.store, row, ticket)
        return self._outcome("announced", f"Round {row.round}: announced.", row.report_at)

    def _record(self, row: Row) -> Outcome | None:
        """Step 3. What is sent, report or cover, is settled at the moment that was drawn, and sent at once."""
        if self.info.state != COLLECTING:
            return self._outcome("waiting", f"Round {row.round}: announced, not collecting yet.", row.report_at)
        if wait := self._not_yet(row.report_at, "report"):
            return wait
        if why := self._settle(row):
            # Bytes as long as a report; the caller goes back among the others: nothing marks it.
            body = COVER + self._keyed("cover")(self.info.cover_bytes - len(COVER))
            participation.covering(self.store, row, body, why)
        return None

    def _settle(self, row: Row) -> str:
        """Make the report and write it down; or why there is none."""
        if why := self._distrust().rstrip(".") or self._lonely(row):
            return why
        try:
            plain = self.info.parameters_for(row.bucket)
            if plain is None:
                return "its bucket is too small to be worth a budget; nothing was spent"
            mechanism = from_plain(plain)
            public = self.info.public_for(row.ticket)
            parameter_check.require(mechanism, row.mechanism, self.plan, public)
        except InvalidParameter as error:
            return f"the server's parameters do not hold ({error.field} must {error.rule})"
        # From here on the number is used: nothing that the server chose can fail any more.
        return terms.weaker(mechanism) or self._spend(row, mechanism, public)

    def _spend(self, row: Row, mechanism: Mechanism, public: bytes) -> str:
        """Spend, bytes and caller in one transaction, before anything is sent; or why not.

        The books and the callers are looked at inside it: whatever happened since the phone joined, here is where one
        report more is weighed. The caller counts as reported from here on: if the answer is lost, the server may still
        have the report.
        """
        limits, today = Limits.load(self.store), self.now - self.now % DAY
        with self.store.transaction():
            if why := ledger.objection(self.store, limits, mechanism.cost, self.now):
                return why
            if ledger.recorded_between(self.store, today, today + DAY) >= limits.rounds_per_day:
                return "the owner's number of reports a day is reached"
            said = self._sayable(row, limits)
            item = SCHEMES[row.mechanism].items.item(self.plan.parse(said.number), self.plan)
            plain = to_plain(mechanism)
            coins = self._keyed(
                "report", row.ticket.encode(), public, json.dumps(plain, sort_keys=True).encode(), str(item).encode()
            )
            report = mechanism.privatise(item, public, coins)
            participation.recorded(self.store, said, public, plain, pad(report, self.info.upload_bytes))
            spend = (row.round, self.now, mechanism.cost, mechanism.name, ledger.REPORT, row.server)
            ledger.record(self.store, row.seq, Spend(*spend, self._name(said.number)))
            if said is row:
                candidates.mark_reported(self.store, row.number, row.seq, self.now)
        device_key.count(self.store)
        return ""

    def _sayable(self, row: Row, limits: Limits) -> Row:
        """The row, or one with a stand-in from the announced bucket where its number may not be said (any more).

        The stand-in is drawn either way: what is drawn does not depend on whom the owner knows.
        """
        drawn = self.plan.dummy(self._keyed("stand-in"), None if row.bucket == WHOLE else row.bucket)
        horizon = self.now - limits.horizon * DAY
        known = candidates.is_known(self.store, row.number)
        if not known and not candidates.reported_since(self.store, row.number, horizon):
            return row
        return replace(row, number=str(drawn), dummy=True)

    def _send(self, row: Row) -> Outcome | None:
        """Steps 4 and 5."""
        if row.report is None:
            raise InvalidParameter("report", "be kept once it is recorded", None)
        cover = row.state == participation.COVERING
        try:
            self._speaker(row).send(row.round, row.ticket, row.report)
        except Refused as refusal:
            if cover and is_final(refusal.problem):  # an older server says that it wants none: that is no trouble
                return self._skipped(row)
            return self._refused(row, refusal, participation.CLOSED)
        if cover:
            return self._skipped(row)
        participation.finished(self.store, row, participation.SENT)
        size = len(row.report)
        return self._outcome("sent", f"Round {row.round}: a report of {size} bytes was sent.", self.info.closes)

    def _skipped(self, row: Row) -> Outcome:
        participation.finished(self.store, row, participation.SKIPPED, row.why)
        return self._outcome("skipped", f"Round {row.round}: no report, {row.why}.", self.info.closes)

    def _refused(self, row: Row, refusal: Refused, state: str) -> Outcome:
        if not is_final(refusal.problem):
            raise refusal
        participation.finished(self.store, row, state, str(refusal))
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
        """``server_moment`` is told by the phone's own clock: the two may differ by hours.

        Where there is none, or it has passed (the round is closed, the next one not open), :meth:`_poll` says when.
        """
        ahead = 0 if server_moment is None else min(server_moment - self.info.server_time, FARTHEST)
        return Outcome(action, words, self.info.round, self.now + (ahead if ahead > 0 else self._poll()))

    def _poll(self) -> int:
        """Seconds until the next look where no moment is known: a quarter of an hour, or less where rounds are short.

        A round's document does not say when the next one opens; its phases, which the next one shares, say how long a
        phone may be away and still be there for each.
        """
        info = self.info
        shortest = min(info.collects - info.opens, info.closes - info.collects)
        return max(1, min(POLL_SECONDS, shortest // LOOKS))

    def _row(self) -> Row | None:
        return participation.find(self.store, self.transport.url, self.info.round)

    def _keyed(self, purpose: str, *parts: bytes) -> ByteSource:
        """The dice for one purpose in this round."""
        key = device_key.device_key(self.store, self.coins)
        where = (self.transport.url.encode(), str(self.info.round).encode())
        return keyed(key, purpose.encode(), *where, *parts)

    def _home(self) -> int | None:
        text = self.store.get(HOME_AREA)
        return int(text) if text and int(text) in self.plan.area_index else None

    def _name(self, number: str) -> str:
        """What the books call a caller: of no use to whoever lacks the device's key."""
        return keyed(device_key.device_key(self.store, self.coins), b"caller", number.encode())(16).hex()

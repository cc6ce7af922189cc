"""The steps of a client in one round. Their order survives a crash at any point, and a server that says anything.

1. Join: choose a caller (made up where there is none) and random moments, and record them.
2. Announce the bucket, and record the ticket.
3. Once buckets are decided: build the mechanism, check that it takes every number of the plan and that the owner agreed
   to it. Then, in ONE transaction, check caller and ledger again, randomise, and record spend, report and caller.
4. Only then send, and record that. A retry sends the same bytes.

Where no report is made, random bytes of the same size are sent at the same moment: an observer sees every client that
announced send once. All randomness is keyed by its purpose, so a copy of this client sends the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import partial

from hushcall.client.calls import candidates
from hushcall.client.reporting import anonymity, consent, ledger, participation, split_view
from hushcall.client.reporting.consent import HOME_AREA, WHOLE_NUMBERS, Rejection
from hushcall.client.reporting.ledger import Spend
from hushcall.client.reporting.participation import Moments, Participation
from hushcall.client.reporting.round_context import LOOKS_PER_PHASE, POLL_SECONDS, Outcome, RoundContext
from hushcall.client.storage import device_key
from hushcall.client.storage.store import DAY_SECONDS
from hushcall.errors import InvalidParameter, Refused
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.parameters import about_hundreds, from_plain, to_plain
from hushcall.mechanisms.registry import MECHANISMS, sends_area_code, spec_of
from hushcall.protocol.anonymity.tokens import ticket_of_token
from hushcall.protocol.items import WHOLE
from hushcall.protocol.numbers import Number
from hushcall.protocol.problems import is_final
from hushcall.protocol.randomness import WORD_BYTES, ByteSource, read, uniform, words
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import about_hundred
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD
from hushcall.protocol.wire import COVER, pad
from hushcall.wording import counted

# The last tenth of a window stays free, at most an hour, and at least a quarter of an hour (or half the window, if that
# is shorter): a client that runs every quarter of an hour is never too late.
SLACK_SHARE, MAX_SLACK_SECONDS = 10, 3600
MAX_AHEAD_ROUNDS = 1_000_000
MIN_ROUND_SECONDS = 3600
"""Shorter rounds are for trials, and joined at once."""


class RoundSession(RoundContext):
    def proceed(self) -> Outcome:
        """Take all steps that can be taken now. A step returns an outcome to stop at, or None to go on."""
        participation.close_passed(self.store, self.transport.url, self.info)
        if self.row() is None and (outcome := _join(self)):
            return outcome
        for state, step in (
            (participation.PLANNED, self._examine),
            (participation.PLANNED, partial(anonymity.confirm, self)),
            (participation.PLANNED, partial(anonymity.get_token, self)),
            (participation.PLANNED, self._announce),
            (participation.ANNOUNCED, self._record),
            (participation.RECORDED, self._send),
            (participation.COVERING, self._send),
        ):
            row = self.row()
            if row is not None and row.state == state and (outcome := step(row)):
                return outcome
        return self._finished()

    def _examine(self, _: Participation) -> Outcome | None:
        """Nothing is sent in a round that changed, or that others see otherwise."""
        if rejection := split_view.look_rejection(self):
            return self.outcome("stopped", f"Nothing is sent: {rejection}.")
        return None

    def _announce(self, row: Participation) -> Outcome | None:
        if outcome := self.waiting_until(row.announce_at, "announce"):
            return outcome
        try:
            ticket = anonymity.transport_for(self, row).announce(row.round, row.bucket)
        except Refused as refusal:
            return self.refused(row, refusal, participation.SKIPPED)
        round_token = anonymity.find(self.store, row.server, row.round)
        # The seed of a report must follow from its token.
        if round_token and ticket != ticket_of_token(round_token.token):
            return self.skipped(row, "the server gave another ticket than the token's")
        participation.move(self.store, row, participation.ANNOUNCED, ticket=ticket)
        return self.outcome("announced", f"Round {row.round}: announced.", row.report_at)

    def _record(self, row: Participation) -> Outcome | None:
        """Step 3. Report or cover is recorded at the moment that was drawn, and sent at once."""
        if self.info.state != COLLECTING:
            return self.outcome("waiting", f"Round {row.round}: announced, not collecting yet.", row.report_at)
        if outcome := self.waiting_until(row.report_at, "report"):
            return outcome
        if rejection := self._make_report(row):
            # As long as a report. The caller stays reportable: nothing marks it.
            cover = COVER + self.keyed("cover")(self.info.cover_bytes - len(COVER))
            participation.move(self.store, row, participation.COVERING, report=cover, why=str(rejection))
        return None

    def _send(self, row: Participation) -> Outcome | None:
        if row.report is None:
            raise InvalidParameter("report", "be kept once it is recorded", None)
        is_cover = row.state == participation.COVERING
        try:
            anonymity.transport_for(self, row).send(row.round, row.ticket, row.report)
        except Refused as refusal:
            if not (is_cover and is_final(refusal.problem)):  # an older server may not want cover
                return self.refused(row, refusal, participation.CLOSED)
        if is_cover:
            return self.skipped(row, row.why)
        participation.finish(self.store, row, participation.SENT)
        text = f"Round {row.round}: a report of {len(row.report)} bytes was sent."
        return self.outcome("sent", text, self.info.closes)

    def _finished(self) -> Outcome:
        row = self.row()
        state, why = (row.state, row.why) if row else ("done", "")
        words = f"Round {self.info.round}: nothing left to do ({state}{': ' + why if why else ''})."
        return self.outcome("done", words, self.info.closes)

    def _make_report(self, row: Participation) -> Rejection | None:
        if rejection := split_view.look_rejection(self) or anonymity.set_rejection(self, row):
            return rejection
        try:
            parameters = self.info.parameters_for(row.bucket)
            if parameters is None:
                return Rejection("its bucket is too small to be worth a budget; nothing was spent")
            mechanism = from_plain(parameters)
            public = self.info.public_for(row.ticket)
            consent.require_for_all_numbers(mechanism, row.mechanism, self.plan, public)
            if about_hundred(public, self.info.hundreds_of(row.bucket)):
                mechanism = about_hundreds(mechanism, self.plan)
                consent.require_for_all_numbers(mechanism, mechanism.name, self.plan, public)
        except InvalidParameter as error:
            return Rejection(f"the server's parameters do not hold ({error.field} must {error.rule})")
        # _spend uses the number: from there on nothing that the server chose can fail any more.
        return consent.bits_rejection(mechanism) or self._spend(row, mechanism, public)

    def _spend(self, row: Participation, mechanism: Mechanism, public: bytes) -> Rejection | None:
        """Record spend, report and caller in one transaction, before anything is sent. Returns a rejection or None."""
        limits = self.limits
        with self.store.transaction():
            if rejection := ledger.rejection(self.store, limits, mechanism.cost, self.now):
                return rejection
            if ledger.recorded_between(self.store, self.today, self.today + DAY_SECONDS) >= limits.rounds_per_day:
                return Rejection("the owner's number of reports a day is reached")
            reported = self._with_reportable_number(row)
            item = spec_of(mechanism).items.item(self.plan.parse(reported.number), self.plan)
            parameters = to_plain(mechanism)
            serialised = json.dumps(parameters, sort_keys=True).encode()
            rand = self.keyed("report", row.ticket.encode(), public, serialised, str(item).encode())
            report = pad(mechanism.privatise(item, public, rand), self.info.upload_bytes)
            columns = {"number": reported.number, "dummy": reported.dummy, "public": public, "report": report}
            participation.move(self.store, row, participation.RECORDED, parameters=json.dumps(parameters), **columns)
            spend = Spend(row.round, self.now, mechanism.cost, row.mechanism, ledger.REPORT, row.server)
            ledger.record(self.store, row.seq, spend)
            if reported is row:
                candidates.mark_reported(self.store, row.number, row.seq, self.now)
        self.store.write_counter()
        return None

    def _with_reportable_number(self, row: Participation) -> Participation:
        """The row, with a stand-in for a number that may not be reported any more, which is drawn in any case."""
        stand_in = self.plan.dummy(self.keyed("stand-in"), None if row.bucket == WHOLE else row.bucket)
        horizon_start = self.now - self.limits.horizon_days * DAY_SECONDS
        reported = candidates.reported_since(self.store, row.number, horizon_start)
        if reported or candidates.is_known(self.store, row.number):
            return replace(row, number=str(stand_in), dummy=True)
        return row


def _join(context: RoundContext) -> Outcome | None:
    """Choose a caller (or make one up) and random moments, and record them. Or return why not."""
    if outcome := _why_not_join(context):
        return outcome
    store, info, now, limits = context.store, context.info, context.now, context.limits
    rand = context.keyed("join")
    if context.anonymous:
        ready = replace(info, server_time=info.server_time + anonymity.seconds_to_look(context))
        moments = draw_anonymous(ready, anonymity.middle(info), rand)
    else:
        moments = draw(info, rand)
    with store.transaction():
        if context.anonymous:
            anonymity.prepare(store, context.transport.url, info, moments.issue_at, context.keyed("token"))
        candidates.prune(store, now, limits.window_days, limits.horizon_days)
        participation.blank_before(store, now - limits.window_days * DAY_SECONDS)
        number, dummy = _caller(context, rand)
        bucket = MECHANISMS[info.mechanism].items.bucket(number)
        if bucket == WHOLE:
            store.put(WHOLE_NUMBERS, "yes")
        participation.join(store, context.transport.url, info, now, str(number), bucket, moments, dummy=dummy)
    return anonymity.look_again(context)


def _caller(context: RoundContext, rand: ByteSource) -> tuple[Number, bool]:
    """The caller to announce, and whether it is made up.

    A caller is announced in one round, and then counts as reported: a client with calls announces as one without.
    """
    store, plan, now, limits = context.store, context.plan, context.now, context.limits
    before = participation.latest(store)
    if before is not None and before.number and before.parameters is None:
        candidates.mark_reported(store, before.number, before.seq, now)
    made_up_only = device_key.made_up_until(store, now, limits.horizon_days) > 0
    days = min(context.info.window_days, limits.window_days)  # a server may ask for fresher calls, never for older ones
    waiting = candidates.reportable(store, now, days, limits.horizon_days, virtual_only=made_up_only)
    numbers = candidates.of_plan(waiting, plan)
    if not numbers:
        home = int(store.get(HOME_AREA) or -1)
        made_up = plan.caller_like(context.keyed("caller"), home if home in plan.area_index else None)
        candidates.make_up(store, made_up, now, context.keyed("called"))
        numbers = [str(made_up)]
    number, _ = candidates.choose(candidates.spam_first(store, numbers), plan, rand)
    return number, candidates.is_virtual(store, str(number))


def _why_not_join(context: RoundContext) -> Outcome | None:
    info = context.info
    if info.state != ANNOUNCING:
        late = "" if info.state == HELD else ": too late to join"
        return context.outcome("idle", f"Round {info.round} is {info.state}{late}.", info.next or info.closes)
    newest = participation.highest(context.store, context.transport.url)
    if not newest < info.round <= newest + MAX_AHEAD_ROUNDS:
        far = info.round > newest  # joining it would leave this phone idle until the server is there
        words = "far ahead of" if far else "older than"
        return context.outcome("idle", f"Round {info.round} is {words} round {newest}, which this phone has joined.")
    if rejection := _owner_rejection(context):
        return context.outcome("stopped", f"Nothing is sent: {rejection}.")
    if outcome := _why_not_now(context):
        return outcome
    # Last, because it records the document: one that is not acted on is not kept.
    if rejection := split_view.look_rejection(context):
        return context.outcome("stopped", f"Nothing is sent: {rejection}.")
    return None


def _why_not_now(context: RoundContext) -> Outcome | None:
    info, limits, tomorrow = context.info, context.limits, context.today + DAY_SECONDS
    if participation.joined_between(context.store, context.today, tomorrow) >= limits.rounds_per_day:
        rounds = "one round" if limits.rounds_per_day == 1 else counted(limits.rounds_per_day, "round")
        text = f"This phone takes part in {rounds} a day, and has done so today."
        return Outcome("idle", text, info.round, tomorrow)
    if (moment := _not_yet(context)) is not None:
        return Outcome("idle", f"Round {info.round}: this phone takes part later today.", info.round, moment)
    if context.anonymous and anonymity.too_late(context) and not context.skip_delays:
        text = f"Round {info.round}: too late to join anonymously. The next round will do."
        return context.outcome("idle", text, info.closes)
    return None


def _not_yet(context: RoundContext) -> int | None:
    """When to look again, where a later round of today is the one that was drawn. None: this one will do.

    The day's moments follow from the key and the date, so neither calls nor the server's schedule move them. The round
    that holds a moment is joined, else the next one that this client sees, and in any case the day's last whole one.
    """
    info, now, rounds = context.info, context.now, context.limits.rounds_per_day
    length = info.length_seconds
    if context.skip_delays or not MIN_ROUND_SECONDS <= length <= DAY_SECONDS // 2:
        return None  # of daily rounds the day's only one is drawn; shorter ones are for trials
    joined = participation.joined_between(context.store, context.today, context.today + DAY_SECONDS)
    (word,) = words(read(context.keyed_by_day(joined), WORD_BYTES))
    part = max(DAY_SECONDS // rounds, 1)
    moment = context.today + joined * part + uniform(word, part)
    next_opens = now + (info.closes if info.next is None else info.next) - info.server_time
    if moment < next_opens or next_opens + length > context.today + DAY_SECONDS:
        return None
    opens = next_opens + (moment - next_opens) // length * length
    return opens + (moment - opens) // LOOKS_PER_PHASE


def _owner_rejection(context: RoundContext) -> Rejection | None:
    info, limits = context.info, context.limits
    if rejection := consent.round_rejection(limits, context.plan, info):
        return rejection
    if sends_area_code(info.mechanism) and context.store.get(WHOLE_NUMBERS):
        return Rejection(
            "the server took whole numbers until now and wants area codes in the clear"
            " (hushcall phone init --area-in-clear agrees)"
        )
    anonymous = context.anonymous or not limits.by_name or anonymity.route_of(context.store) is not None
    if anonymous and (rejection := anonymity.rejection(context)):
        return rejection
    return ledger.rejection(context.store, limits, Fraction(info.epsilon), context.now)


def draw(info: RoundInfo, rand: ByteSource) -> Moments:
    """Independent moments to announce and to report, from 16 bytes."""
    first, second = words(read(rand, 2 * WORD_BYTES))
    return Moments(
        _between(first, max(info.opens, info.server_time), _end(info.opens, info.collects)),
        _between(second, info.collects, _end(info.collects, info.closes)),
    )


def draw_anonymous(info: RoundInfo, middle: int, rand: ByteSource) -> Moments:
    """Independent moments to ask for a token (before ``middle``), to announce and to report, from 24 bytes."""
    first, second, third = words(read(rand, 3 * WORD_BYTES))
    return Moments(
        _between(second, middle, _end(info.opens, info.collects)),
        _between(third, info.collects, _end(info.collects, info.closes)),
        _between(first, max(info.opens, info.server_time), _end(info.opens, middle)),
    )


def _end(start: int, end: int) -> int:
    window = end - start
    return end - max(min(window // SLACK_SHARE, MAX_SLACK_SECONDS), min(POLL_SECONDS, window // 2))


def _between(word: int, start: int, end: int) -> int:
    return start + uniform(word, max(1, end - start))

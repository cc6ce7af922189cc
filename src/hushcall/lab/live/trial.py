"""Test phones against a server: how many, and which spammers call them, come in; one round later what was found leaves.

The phones are those of the library, each with its own ledger and coins, over real HTTP. What is lent by the trial is a
world in which it is known who spams, and haste: nobody waits for a random moment.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from urllib.parse import quote

import urllib3

from hushcall import checks
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.lab.live.fleet import Enrols, Fleet, Newcomers, Operator
from hushcall.lab.live.stream import Campaign, Stream
from hushcall.numbers import Number, NumberingPlan, plan_named
from hushcall.phone.reporting import ledger
from hushcall.phone.reporting.transport import HttpTransport
from hushcall.privacy.coins import seeded
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD, PUBLISHED
from hushcall.wording import counted

PAUSE = 1.0
"""Seconds between two looks at a round that others move on."""
MOST_STEPS = 6
_ENDED = frozenset({PUBLISHED, HELD, ANNOUNCING})  # announcing: the next round has opened meanwhile
LEARNS = "the server decodes; the first time it has to compile for that, about a minute"
TAKES_LITTLE = frozenset({ANNOUNCING, PUBLISHED, HELD})
"""What a server leaves without having to learn anything from reports."""
FICTIONAL = "+1202555"
"""Where made-up spammers of the North American plan live: 555-01xx is nobody's."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Trial:
    """How large it is: each of ``spammers`` calls a share ``reach`` of the phones; ``seed`` says which."""

    count: int = 120
    spammers: int = 1
    reach: float = 0.6
    seed: int = 1
    patience: float = 900.0  # seconds to wait for a round that nobody here can move on

    def __post_init__(self) -> None:
        checks.whole("count", self.count, 1, 100_000)
        checks.whole("spammers", self.spammers, 0, 90)

    def planted(self, plan: NumberingPlan) -> list[Number]:
        """The spammers' numbers: all of one area code, such as nobody has where the plan keeps some."""
        if plan.country_code == 1:
            return [plan.parse(f"{FICTIONAL}{110 + place:04}") for place in range(self.spammers)]
        coins = seeded(b"spammers of a trial %d" % self.seed)
        area = plan.dummy(coins).area
        return [plan.dummy(coins, area) for _ in range(self.spammers)]


@dataclass(frozen=True)
class Planted:
    """A spammer of the trial: how many phones it called, whether the list has it, and what an operator sees of it.

    ``found``: by this round, whatever the list says; None where no operator's token says. ``kept_off``: why the list
    does not take it ("appealed", "allowed"), empty where nothing keeps it off.
    """

    number: str
    phones: int
    listed: bool | None  # None: the list did not come in time
    found: bool | None = None
    kept_off: str = ""


@dataclass(frozen=True)
class Tried:
    """What a trial came to. ``wrong``: on the list, and no spammer of this trial."""

    round: int
    phones: int
    announced: int
    reports: int
    covers: int
    epsilon: float
    state: str
    planted: tuple[Planted, ...]
    wrong: tuple[str, ...]
    seconds: float


def run(
    trial: Trial,
    url: str,
    *,
    invite: str = "",
    operator_token: str = "",
    progress: Progress = lambda _what, _done, _total: None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Tried:
    """One round of test phones, from enrolling to the list.

    With an operator's token the round is moved on as soon as the phones are done. Without one the phones wait for it,
    as long as ``patience`` says.
    """
    started = time.monotonic()
    operator = Operator(url, operator_token) if operator_token else None
    course = _Course(trial, url, operator, progress, sleep)
    info = course.joinable()
    plan = plan_named(info.plan)
    enrols: Enrols = operator or Newcomers(url, invite, lambda done, total: progress("phones enrol", done, total))
    fleet = Fleet(enrols, trial.count, clock, b"trial %d" % trial.seed, plan)
    agreed = _agreed(info)
    try:
        for phone in fleet.phones:
            agreed.save(phone.store)
        numbers = trial.planted(plan)
        campaigns = [Campaign(str(number), number, trial.reach) for number in numbers]
        calls = Stream(trial.count, campaigns, trial.seed, chatter=0.0, plan=plan).day(1)
        fleet.hear(calls)
        announced = fleet.visit(lambda done, total: progress("phones announce", done, total), hurry=True)
        if announced["announced"] < trial.count:
            why, many = fleet.said.most_common(1)[0]
            raise InvalidData("test phones", f"be able to join ({many} of {trial.count} were not)", why)
        course.until(info.round, frozenset({COLLECTING}), info.collects)
        sent = fleet.visit(lambda done, total: progress("phones report", done, total), hurry=True)
        state = course.until(info.round, _ENDED, info.closes, optional=True)
        spent = max(float(ledger.spent(phone.store)) for phone in fleet.phones)
    finally:
        fleet.close()
    listed = _listed(url) if state in _ENDED else None
    heard = Counter(number for callers in calls for number in callers)
    fates = (_fate(str(n), heard[n], listed, operator, info.round) for n in numbers)
    wrong = sorted((listed or set()) - {str(number) for number in numbers})
    took = time.monotonic() - started
    return Tried(
        info.round,
        trial.count,
        announced["announced"],
        sent["sent"],
        sent["skipped"],
        spent,
        state,
        tuple(fates),
        tuple(wrong),
        took,
    )


@dataclass(frozen=True)
class _Course:
    """Where the round is, and how it gets on."""

    trial: Trial
    url: str
    operator: Operator | None
    progress: Progress
    sleep: Callable[[float], None]

    def look(self) -> RoundInfo:
        return HttpTransport(self.url).current_round()

    def joinable(self) -> RoundInfo:
        """A round that phones can join."""
        info = self.look()
        for _ in range(MOST_STEPS):
            if info.state == ANNOUNCING or self.operator is None:
                break
            self._force(info, self.operator)
            info = self.look()
        if info.state != ANNOUNCING:
            rule = (
                "be announcing, so that phones can join: wait for the next one, or give --operator TOKEN to move it on"
            )
            raise InvalidParameter(f"round {info.round}", rule, info.state)
        self._bearable(info, info.collects)
        return info

    def until(self, round_: int, states: frozenset[str], due: int, *, optional: bool = False) -> str:
        """Wait until a round is in one of the states, or move it there; the state it is in."""
        info = self.look()
        if optional and self.operator is None and due - info.server_time > self.trial.patience:
            return info.state
        waited = 0.0
        while info.round == round_ and info.state not in states:
            if self.operator is not None:
                self._force(info, self.operator)
            elif waited > self.trial.patience + max(0, due - info.server_time):
                raise InvalidData(f"round {round_}", "go on when its time has come", info.state)
            else:
                self.progress(f"waiting for round {round_}, which is {info.state}", 0, 1)
                self.sleep(PAUSE)
                waited += PAUSE
            info = self.look()
        return info.state

    def _force(self, info: RoundInfo, operator: Operator) -> None:
        learns = "" if info.state in TAKES_LITTLE else f" ({LEARNS})"
        self.progress(f"round {info.round} is moved on from {info.state}{learns}", 0, 1)
        operator.ask("POST", f"/v1/admin/rounds/advance?force=true&round={info.round}&state={info.state}")

    def _bearable(self, info: RoundInfo, due: int) -> None:
        wait = due - info.server_time
        if self.operator is None and wait > self.trial.patience:
            soon = counted(round(self.trial.patience), "second")
            rule = (
                f"begin to collect within {soon}: give --operator TOKEN to move it on, --patience SECONDS, "
                "or serve with --period 600"
            )
            raise InvalidParameter(f"round {info.round}", rule, f"in {counted(wait, 'second')}")


def _fate(number: str, phones: int, listed: set[str] | None, operator: Operator | None, round_: int) -> Planted:
    """What became of a spammer. One that is off the list is asked after: an earlier trial may have left an appeal."""
    on_it = None if listed is None else number in listed
    if on_it is not False or operator is None:
        return Planted(number, phones, on_it)
    try:
        told = operator.ask("GET", f"/v1/admin/numbers/{quote(number)}")
    except InvalidParameter:  # a token that may not read
        return Planted(number, phones, on_it)
    found = any(row["round"] == round_ for row in told["seen"])
    appealed = any(row["closed"] is None for row in told["appeals"])
    return Planted(number, phones, on_it, found, "allowed" if told["allowed"] else "appealed" if appealed else "")


def _agreed(info: RoundInfo) -> ledger.Limits:
    """What nobody's phone agrees to: whatever the round costs."""
    cost = max(ledger.Limits().report, Fraction(info.epsilon))
    return ledger.Limits(report=cost, window=8 * cost, life=365 * cost, mechanisms=info.mechanism)


def _listed(url: str) -> set[str]:
    """The numbers on the newest list, as anybody can fetch them; unverified, since nobody relies on it here."""
    answer = urllib3.request("GET", f"{url}/v1/lists/current/blocklist.jsonl", timeout=60, retries=False)
    if answer.status != 200:
        return set()
    return {entry.number for entry in Blocklist.from_bytes(answer.data).entries}

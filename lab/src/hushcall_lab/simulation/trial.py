"""Test phones against a server for one round over real HTTP, with planted spammers and without random delays."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction

import urllib3

from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.transport import HttpTransport
from hushcall.errors import InvalidData
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.numbers import Number, NumberingPlan, plan_named
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD, PUBLISHED
from hushcall_lab.simulation.fleet import Fleet, Operator
from hushcall_lab.simulation.processes import Progress
from hushcall_lab.simulation.stream import Campaign, Stream

MAX_STEPS = 6
_ENDED = frozenset({PUBLISHED, HELD, ANNOUNCING})  # announcing: the next round has opened meanwhile
LEARNS = "the server decodes; the first time it has to compile for that, about a minute"
FICTIONAL = "+1202555"
"""Made-up spammers of the North American plan: 555-01xx is assigned to nobody."""


@dataclass(frozen=True)
class Trial:
    count: int = 120
    spammers: int = 1
    reach: float = 0.6
    seed: int = 1

    def planted(self, plan: NumberingPlan) -> list[Number]:
        """The spammers' numbers, all of one area code: unassigned ones where the plan has some."""
        if plan.country_code == 1:
            return [plan.parse(f"{FICTIONAL}{110 + place:04}") for place in range(self.spammers)]
        rand = seeded(b"spammers of a trial %d" % self.seed)
        area = plan.dummy(rand).area
        return [plan.dummy(rand, area) for _ in range(self.spammers)]


@dataclass(frozen=True)
class Planted:
    number: str
    phones: int
    listed: bool


@dataclass(frozen=True)
class Tried:
    """The result of a trial. ``wrong``: numbers on the list that are no spammers of this trial."""

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
    token: str,
    progress: Progress = lambda _what, _done, _total: None,
    clock: Callable[[], float] = time.time,
) -> Tried:
    """Plays one round with test phones, from enrolment to the list. The operator moves it on when they are done."""
    started, operator = time.monotonic(), Operator(url, token)
    info = _moved_on(operator, frozenset({ANNOUNCING}), progress)
    plan = plan_named(info.plan)
    numbers, tokens = trial.planted(plan), operator.enrol(trial.count)
    campaigns = [Campaign(str(number), number, trial.reach) for number in numbers]
    calls = Stream(trial.count, campaigns, trial.seed, chatter=0.0, plan=plan).day(1)
    with closing(Fleet(url, tokens, clock, b"trial %d" % trial.seed, plan)) as fleet:
        for phone in fleet.phones:
            _consent(info).save(phone.store)
        fleet.hear(calls)
        announced = fleet.visit(lambda done, total: progress("phones announce", done, total), skip_delays=True)
        if announced["announced"] < trial.count:
            why, count = fleet.messages.most_common(1)[0]
            raise InvalidData("test phones", f"be able to join ({count} of {trial.count} were not)", why)
        _moved_on(operator, frozenset({COLLECTING}), progress, info.round)
        sent = fleet.visit(lambda done, total: progress("phones report", done, total), skip_delays=True)
        state = _moved_on(operator, _ENDED, progress, info.round).state
        spent = fleet.max_spent()
    listed, reach = _listed(url), Counter(number for callers in calls for number in callers)
    return Tried(
        info.round,
        trial.count,
        announced["announced"],
        sent["sent"],
        sent["skipped"],
        spent,
        state,
        tuple(Planted(str(number), reach[number], str(number) in listed) for number in numbers),
        tuple(sorted(listed - {str(number) for number in numbers})),
        time.monotonic() - started,
    )


def _moved_on(operator: Operator, states: frozenset[str], progress: Progress, round_: int = 0) -> RoundInfo:
    """Forces the newest round on until it is in one of the states, or until another than ``round_`` is the newest."""
    for _ in range(MAX_STEPS):
        info = HttpTransport(operator.url).current_round()
        if info.state in states or (round_ and info.round != round_):
            return info
        learns = "" if info.state in (ANNOUNCING, PUBLISHED, HELD) else f" ({LEARNS})"
        progress(f"round {info.round} is moved on from {info.state}{learns}", 0, 1)
        operator.ask("POST", f"/v1/admin/rounds/advance?force=true&round={info.round}&state={info.state}")
    raise InvalidData(f"round {info.round}", f"go on to be {' or '.join(sorted(states))}", info.state)


def _consent(info: RoundInfo) -> Limits:
    """Limits that allow this round, whatever it costs. No real owner would agree to them."""
    cost = max(Limits().report, Fraction(info.epsilon))
    return Limits(report=cost, window=8 * cost, life=365 * cost, mechanisms=info.mechanism)


def _listed(url: str) -> set[str]:
    """The numbers on the newest list. It is not verified, since nobody relies on it here."""
    answer = urllib3.request("GET", f"{url}/v1/lists/current/blocklist.jsonl", timeout=60, retries=False)
    if answer.status != 200:
        return set()
    return {entry.number for entry in Blocklist.from_bytes(answer.data).entries}

"""The tour: one whole round in memory, from the calls that phones got to the numbers that a blocklist would hold.

Phone code and server code are the real ones; only the network, the clock and the disk are missing. A round is

    announce → gate → privatise → tally → decode and decide

and each step below is one line of that. Randomness comes in as ``coins``: the same coins give the same round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hushcall.numbers import NANP, Number, NumberingPlan
from hushcall.privacy.coins import ByteSource
from hushcall.profiles import DEFAULT, Profile
from hushcall.protocol.seeds import SEED_BYTES, bucket_seed, report_seed
from hushcall.protocol.tickets import TICKET_BYTES
from hushcall.report.mechanism import report_bytes

if TYPE_CHECKING:
    from hushcall.learn.decision import HeavyHitter
    from hushcall.learn.learner import Learner, Reported


@dataclass(frozen=True)
class Listed:
    """A number that the round found, with what is known about it."""

    number: Number
    hitter: HeavyHitter


@dataclass(frozen=True)
class Round:
    """What a round leaves behind. ``sizes`` and ``skipped`` are by bucket, ``spent`` is ε by phone."""

    listed: tuple[Listed, ...]
    sizes: dict[int, int]
    skipped: frozenset[int]
    spent: tuple[float, ...]
    report_bytes: dict[int, int]


def run_round(
    calls: Sequence[Number | None],
    coins: ByteSource,
    profile: Profile = DEFAULT,
    plan: NumberingPlan = NANP,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Round:
    """Run a round in which phone i had ``calls[i]`` from an unknown number, or None and sends a dummy.

    It is decided by itself: a server looks back over the profile's windows too (``learn.window``).
    """
    # The server's half needs numpy, which a program that only asks for this function's name may not have.
    from hushcall.learn.bucket_setup import open_bucket

    # Announce: every phone says its caller's area code, or nothing at all, and gets a ticket.
    # A dummy is drawn whether it is needed or not, so that the coins taken do not tell.
    numbers = [dummy if call is None else call for call, dummy in ((call, plan.dummy(coins)) for call in calls)]
    profile = profile.daily
    items = profile.scheme.items
    buckets = [items.bucket(number) for number in numbers]
    sizes = dict(sorted(Counter(buckets).items()))

    # Gate: which buckets are worth a budget, and with which parameters.
    round_seed = coins(SEED_BYTES)
    learners: dict[int, Learner[Any] | None] = {}
    for area, size in sizes.items():
        learners[area] = open_bucket(profile, plan, size, bucket_seed(round_seed, area), buckets=len(sizes))

    # Collect: each phone whose bucket runs privatises its number and spends its ε; the others spend nothing.
    reports: dict[int, list[Reported]] = {area: [] for area in sizes}
    spent = [0.0] * len(numbers)
    for phone, (number, area) in enumerate(zip(numbers, buckets, strict=True)):
        if learner := learners[area]:
            public = report_seed(round_seed, coins(TICKET_BYTES))
            report = learner.mechanism.privatise(items.item(number, plan), public, coins)
            reports[area].append((public, report))
            spent[phone] = float(learner.mechanism.cost)
        progress("collect", phone + 1, len(numbers))

    # Learn: tally, decode, decide, one bucket after the other.
    listed: list[Listed] = []
    running = {area: learner for area, learner in learners.items() if learner}
    for done, (area, learner) in enumerate(running.items(), 1):
        found = learner.find(learner.tally(reports[area]), profile.tau, partial(progress, "decode"))
        listed += [Listed(n, hitter) for hitter in found if (n := items.number(hitter.item, area, plan))]
        progress("decode", done, len(running))

    listed.sort(key=lambda entry: (-entry.hitter.estimate, entry.number))
    weights = {area: report_bytes(learner.mechanism) for area, learner in running.items()}
    return Round(tuple(listed), sizes, frozenset(sizes) - frozenset(running), tuple(spent), weights)

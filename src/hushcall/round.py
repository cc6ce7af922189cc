"""The tour: one whole round in memory, from the calls that clients got to the numbers that a blocklist would hold.

Client code and server code are the real ones. Only the network, the clock and the disk are missing. A round is

    announce → gate → privatise → tally → decode and decide

and each step below is one line of that. The same ``rand`` gives the same round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hushcall.deprecation import renamed
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.mechanisms.profiles import DEFAULT, Profile
from hushcall.protocol.numbers import NANP, Number, NumberingPlan
from hushcall.protocol.randomness import ByteSource
from hushcall.protocol.seeds import SEED_BYTES, TICKET_BYTES, bucket_seed, report_seed

if TYPE_CHECKING:
    from hushcall.mechanisms.aggregator import Aggregator, Reported
    from hushcall.mechanisms.decision import HeavyHitter


@dataclass(frozen=True)
class Listed:
    """A number that the round found."""

    number: Number
    hitter: HeavyHitter


@dataclass(frozen=True)
class Round:
    """The result of a round. ``sizes`` and ``skipped`` are by bucket, ``spent`` is ε by client."""

    listed: tuple[Listed, ...]
    sizes: dict[int, int]
    skipped: frozenset[int]
    spent: tuple[float, ...]
    report_bytes: dict[int, int]


@renamed(coins="rand")
def run_round(
    calls: Sequence[Number | None],
    rand: ByteSource,
    profile: Profile = DEFAULT,
    plan: NumberingPlan = NANP,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Round:
    """Run a round in which client i had ``calls[i]`` from an unknown number, or None and sends a dummy.

    It is decided by itself. A server looks back over the profile's windows too (``decoding.window``).
    """
    from hushcall.mechanisms.bucket_setup import open_bucket  # needs numpy, which importing this module must not

    # Announce: every client says its caller's area code, or nothing at all, and gets a ticket.
    # A dummy is drawn whether it is needed or not, so that the bytes taken from ``rand`` do not tell.
    numbers = [dummy if call is None else call for call, dummy in ((call, plan.dummy(rand)) for call in calls)]
    profile = profile.daily
    items = profile.spec.items
    buckets = [items.bucket(number) for number in numbers]
    sizes = dict(sorted(Counter(buckets).items()))

    # Gate: which buckets are worth a budget, and with which parameters.
    round_seed = rand(SEED_BYTES)
    running: dict[int, Aggregator[Any]] = {}
    for area, size in sizes.items():
        if aggregator := open_bucket(profile, plan, size, bucket_seed(round_seed, area), buckets=len(sizes)):
            running[area] = aggregator

    # Collect: each client whose bucket runs privatises its number and spends its ε. The others spend nothing.
    reports: dict[int, list[Reported]] = {area: [] for area in running}
    spent = [0.0] * len(numbers)
    for client, (number, area) in enumerate(zip(numbers, buckets, strict=True)):
        if area in running:
            mechanism, public = running[area].mechanism, report_seed(round_seed, rand(TICKET_BYTES))
            reports[area].append((public, mechanism.privatise(items.item(number, plan), public, rand)))
            spent[client] = float(mechanism.cost)
        progress("collect", client + 1, len(numbers))

    # Learn: tally, decode, decide, one bucket after the other.
    listed: list[Listed] = []
    for done, (area, aggregator) in enumerate(running.items(), 1):
        hitters = aggregator.find(aggregator.tally(reports[area]), profile.tau, partial(progress, "decode"))
        listed += [Listed(n, hitter) for hitter in hitters if (n := items.number(hitter.item, area, plan))]
        progress("decode", done, len(running))

    listed.sort(key=lambda entry: (-entry.hitter.estimate, entry.number))
    sizes_of_reports = {area: report_bytes(aggregator.mechanism) for area, aggregator in running.items()}
    return Round(tuple(listed), sizes, frozenset(sizes) - frozenset(running), tuple(spent), sizes_of_reports)

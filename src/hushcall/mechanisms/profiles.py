"""Named parameter sets with their reasons: an operator picks a name, ``hushcall plan`` shows what it buys.

>>> PROFILES["balanced"].epsilon
4.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms import registry
from hushcall.mechanisms.randomisers import Accounting
from hushcall.mechanisms.registry import MechanismSpec, spec_named
from hushcall.protocol.exact import epsilon_value

TAU = 143
"""The paper's smallest τ: U_{31,143} = 75 %."""
EPSILON_OLH = 3.0
"""What the paper sets aside for counting."""
MIN_EPSILON = 0.1
MAX_WINDOW_DAYS = 31
WINDOWS = (1, 2, 4, 7)
"""Rounds that a scan looks back over: a day, two, four, a week."""
CLOSING_SHARE = 0.5
"""Of a day's level, for the last of several rounds of a day: its windows hold whole days, as those of a day's round do.

The others share the rest. By the union bound a day lists a wrong number with the chance that its level says.
"""
# The next four are chosen by ``hushcall-lab experiment defaults``, which prices each on a month of complaints.
LEVEL = 1e-3
"""Of blocking: a call blocked in error is lost, which is worse than the spam that a looser level would block."""
WARN_LEVEL = 0.05
"""Of warnings: one wrong number in twenty rounds. A stricter level warns of fewer calls, a looser one gains few."""
MAX_HUNDREDS = 90
TOLERANCE = 5
"""Lying phones that blocking withstands where devices are invited: dear, but a handful of invitations blocks nobody.

A phone that lies does so every day: a window of seven rounds withstands seven times as many lies.
"""
OPEN_TOLERANCE = 25
"""The same where anybody enrols, by proof of work or not: fakes are cheap there, and a warning does without."""


@dataclass(frozen=True)
class Profile:
    """Everything a round is run with, except what follows from a bucket's size (K, b, the tuned odds).

    ``epsilon`` is the whole budget of one report. A succinct histogram spends ``epsilon_olh`` of it on counting.
    ``tau`` is the count above which a number is listed, and the histograms' gate. ``level`` is the chance that a whole
    day (all rounds, numbers, buckets and windows) lists anything that nobody reported. ``tolerance`` is f: a number is
    listed only if it would be with any f of its supporting reports removed, for each day of the evidence: a device
    takes part in one of the ``rounds_per_day``. This round is number ``place`` of them, from 0. ``windows`` are lengths
    in rounds, which share the level. With a ``warn_level`` there are two tiers: a number is listed at that
    level (``level`` where that is higher) without tolerance, and can be blocked only at ``level`` with tolerance.
    So many per cent of the reports are about ``hundreds`` of numbers. These have half of each level.
    """

    name: str
    reason: str
    mechanism: str
    epsilon: float
    tau: int
    level: float = LEVEL
    epsilon_olh: float = EPSILON_OLH
    repetitions: int = 2  # T: how often a histogram hashes numbers to channels; "rounds" where it is written down
    least_channels: int = 64
    accounting: Accounting = Accounting.PAPER  # how the basic randomiser's budget is reckoned
    list_size: int = 0  # candidates per channel that list decoding keeps; 0: the paper's hard decoder
    anonymous: bool = False  # whether phones may report without a name, with blind tokens
    tolerance: int = 0
    windows: tuple[int, ...] = (1,)
    warn_level: float = 0.0
    rounds_per_day: int = 1
    place: int = 0
    hundreds: int = 0  # per cent

    def __post_init__(self) -> None:
        spec = spec_named(self.mechanism)
        epsilon_value("epsilon", self.epsilon)
        if self.epsilon < MIN_EPSILON:
            raise InvalidParameter(
                "epsilon", f"be at least {MIN_EPSILON:g}: below it nothing is ever found", self.epsilon
            )
        checks.whole("tau", self.tau, 0)
        checks.probability("level", self.level)
        checks.whole("T", self.repetitions, 1, 64)
        checks.power_of_two("K", self.least_channels, 1 << 16)
        checks.whole("list_size", self.list_size, 0, 10_000)
        checks.whole("tolerance", self.tolerance, 0, 1 << 20)
        if self.tolerance and not spec.tolerates:
            raise InvalidParameter(
                "tolerance", f"be 0 for {self.mechanism}, which cannot set reports aside", self.tolerance
            )
        if spec.counts_apart:
            checks.positive("epsilon_olh", self.epsilon_olh)
            if self.epsilon <= self.epsilon_olh:
                rule = f"exceed epsilon_olh ({self.epsilon_olh:g}), which is part of it"
                raise InvalidParameter("epsilon", rule, self.epsilon)
        self._check_windows_and_tiers(spec)

    def _check_windows_and_tiers(self, spec: MechanismSpec) -> None:
        checks.whole("rounds_per_day", self.rounds_per_day, 1, 24)
        checks.whole("place", self.place, 0, self.rounds_per_day - 1)
        for length in self.windows:
            checks.whole("windows", length, 1, MAX_WINDOW_DAYS * self.rounds_per_day)
        if not self.windows or list(self.windows) != sorted(set(self.windows)):
            raise InvalidParameter("windows", "be lengths that grow", self.windows)
        if self.windows != (1,) and not spec.pools:
            raise InvalidParameter(
                "windows", f"be 1 alone for {self.mechanism}, whose rounds do not add up", self.windows
            )
        if self.warn_level:
            checks.probability("warn_level", self.warn_level)
            if not spec.pools:
                raise InvalidParameter("warn_level", f"be 0 for {self.mechanism}, which has one tier", self.warn_level)

        checks.whole("hundreds", self.hundreds, 0, MAX_HUNDREDS)
        if not spec.alone:
            raise InvalidParameter("mechanism", "be one that a round can be run with", self.mechanism)
        if self.hundreds and not spec.hundreds:
            raise InvalidParameter("hundreds", f"be 0 for {self.mechanism}, whose items have none", self.hundreds)
        if self.hundreds and self.anonymous:
            raise InvalidParameter(
                "hundreds", "be 0 in anonymous rounds, whose reports would be of two kinds", self.hundreds
            )

    @property
    def daily(self) -> Profile:
        """The same for a round that is decided by itself, about numbers only."""
        return replace(self, windows=(1,), hundreds=0)

    @property
    def reach(self) -> int:
        """How many rounds, the newest included, a decision may look at."""
        return max(self.windows)

    @property
    def share(self) -> float:
        """The part of the level that one decision gets: each window of each round, of numbers and of hundreds."""
        return self.level * self._decision_share

    @property
    def warn_share(self) -> float:
        """The same of the level of warnings. 0: there is one tier."""
        return max(self.warn_level, self.level) * self._decision_share if self.warn_level else 0.0

    @property
    def _decision_share(self) -> float:
        decisions, rounds = len(self.windows) * (2 if self.hundreds else 1), self.rounds_per_day
        if rounds == 1:
            return 1 / decisions
        of_round = CLOSING_SHARE if self.place == rounds - 1 else (1 - CLOSING_SHARE) / (rounds - 1)
        return of_round / decisions

    def timed(self, rounds_per_day: int) -> Profile:
        """A profile of daily rounds, for the last of so many rounds of a day: its windows hold as many days."""
        windows = tuple(days * rounds_per_day for days in self.windows) if self.spec.pools else self.windows
        return replace(self, windows=windows, rounds_per_day=rounds_per_day, place=rounds_per_day - 1)

    @property
    def closing(self) -> Profile:
        return replace(self, place=self.rounds_per_day - 1)

    @property
    def epsilon_hh(self) -> Fraction:
        """What is left for finding numbers, exactly: a rounded difference could exceed the budget."""
        return Fraction(self.epsilon) - Fraction(self.epsilon_olh)

    @property
    def spec(self) -> MechanismSpec:
        return spec_named(self.mechanism)

    @property
    def bucketed(self) -> bool:
        return self.spec.bucketed

    @property
    def in_the_clear(self) -> str:
        return self.spec.items.in_the_clear

    def to_plain(self) -> dict[str, Any]:
        """Names, numbers and texts only: how a server keeps the profile that a round was opened with."""
        values = asdict(self)
        values["rounds"] = values.pop("repetitions")
        if not self.anonymous:  # as earlier releases wrote it
            del values["anonymous"]
        for name in ("warn_level", "hundreds"):
            if not values[name]:
                del values[name]
        if self.rounds_per_day == 1:
            del values["rounds_per_day"], values["place"]
        values["windows"] = list(self.windows)
        return {**values, "accounting": self.accounting.value}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Profile:
        """The inverse of :meth:`to_plain`. Rounds of older releases tolerate nothing, and decide daily."""
        plain = {"tolerance": 0, "windows": (1,), **values}
        plain |= {"windows": tuple(plain["windows"]), "accounting": Accounting(plain["accounting"])}
        return cls(repetitions=plain.pop("rounds"), **plain)


def window_of(rounds: Sequence[tuple[int, str, Profile]]) -> list[int]:
    """The rounds that are decided together with the last one given, oldest first, itself last.

    Each is (number, name of its plan, profile). Rounds out of reach, or of another plan, mechanism or length, are left
    out.

    >>> balanced, strong, whole = (PROFILES[name] for name in ("balanced", "strong", "strong-whole"))
    >>> window_of([(2, "us", strong), (5, "us", strong), (6, "us", whole), (8, "de", strong), (9, "us", balanced)])
    [5, 9]
    """
    newest, plan, profile = rounds[-1]
    alike = (plan, profile.mechanism, profile.rounds_per_day)
    return [
        number
        for number, its_plan, its_profile in rounds
        if 0 <= newest - number < profile.reach
        and (its_plan, its_profile.mechanism, its_profile.rounds_per_day) == alike
    ]


def _ours(
    name: str, reason: str, mechanism: str, epsilon: float, *, anonymous: bool = False, hundreds: int = 0
) -> Profile:
    """A service's profile: windows of up to a week, two tiers, and blocking that withstands a few liars."""
    chosen: dict[str, Any] = {"tolerance": TOLERANCE, "windows": WINDOWS, "warn_level": WARN_LEVEL}
    return Profile(name, reason, mechanism, epsilon, 10, anonymous=anonymous, hundreds=hundreds, **chosen)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "paper", "the paper's protocol: modified SH, extended randomiser, 8.8 + 3", registry.SH_EXTENDED, 11.8, TAU
        ),
        _ours("strong", "little can be learnt about anyone: for many users and large spammers", registry.SUBSPACE, 2.0),
        _ours("balanced", "finds what the paper finds and much more, at a third of its ε", registry.SUBSPACE, 4.0),
        _ours("sensitive", "finds numbers with a dozen reports a day", registry.SUBSPACE, 8.0),
        _ours(
            "nation",
            "as balanced, and a quarter of the reports find rented hundreds",
            registry.SUBSPACE,
            4.0,
            hundreds=25,
        ),
        _ours("strong-whole", "as strong, and the area code is protected too", registry.WHOLE_NUMBER, 2.0),
        _ours("balanced-whole", "as balanced, and the area code is protected too", registry.WHOLE_NUMBER, 4.0),
        _ours("sensitive-whole", "as sensitive, and the area code is protected too", registry.WHOLE_NUMBER, 8.0),
        _ours(
            "crowd",
            "nothing in the clear and no names: everybody hides everybody, from a hundred thousand phones on",
            registry.WHOLE_NUMBER,
            6.0,
            anonymous=True,
        ),
        Profile("cheapest", "for tests only: no privacy to speak of", registry.SUBSPACE, 16.0, 1),
    )
}
DEFAULT = PROFILES["balanced"]


def profile_named(name: str) -> Profile:
    checks.one_of("profile", name, PROFILES)
    return PROFILES[name]

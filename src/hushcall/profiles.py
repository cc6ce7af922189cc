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
from hushcall.mechanisms import names
from hushcall.mechanisms.scheme import Scheme
from hushcall.mechanisms.schemes import scheme_named
from hushcall.privacy.accounting import Accounting
from hushcall.privacy.exact import epsilon_value

TAU = 143
"""The paper's smallest τ: U_{31,143} = 75 %."""
EPSILON_OLH = 3.0
"""What the paper sets aside for counting."""
LEAST_EPSILON = 0.1
MOST_WINDOW = 31
WINDOWS = (1, 2, 4, 7)
"""Rounds that a scan looks back over: a day, two, four, a week."""
TOLERANCE = 5
"""Lying phones that every listing withstands where devices are invited: a handful of invitations lists nobody.

Its price, with that of the windows: 1000 phones of one area code need 93 reports of a number on one day instead of 83
(ε = 4), and the smallest count that is found at all falls from 83 a day to 37 a day for a week. A phone that lies does
so every day: a window of seven rounds withstands seven times as many lies.
"""
OPEN_TOLERANCE = 25
"""The same where anybody enrols, by proof of work or not: 125 reports on one day, 65 a day for a week."""


@dataclass(frozen=True)
class Profile:
    """Everything a round is run with, but for what follows from a bucket's size (K, b, the tuned odds).

    ``epsilon`` is the whole budget of one report. A succinct histogram spends ``epsilon_olh`` of it on counting.
    ``tau`` is the count above which a number is listed; for the histograms it is the gate too. ``level`` is the chance
    that anything nobody reported is listed in a whole round (all numbers, all buckets, all windows together).
    ``tolerance`` is f, lying phones: a number is listed only if it would be with any f of its supporting reports taken
    away for each round that the evidence is from.
    ``windows`` are the lengths in rounds over which evidence is gathered; the level is split between them.
    """

    name: str
    reason: str
    mechanism: str
    epsilon: float
    tau: int
    level: float = 1e-3
    epsilon_olh: float = EPSILON_OLH
    repetitions: int = 2  # T: how often a histogram hashes numbers to channels; "rounds" where it is written down
    least_channels: int = 64
    accounting: Accounting = Accounting.PAPER  # how the basic randomiser's budget is reckoned
    list_size: int = 0  # candidates per channel that list decoding keeps; 0: the paper's hard decoder
    anonymous: bool = False  # whether phones may report without a name, with blind tokens
    tolerance: int = 0
    windows: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        scheme = scheme_named(self.mechanism)
        epsilon_value("epsilon", self.epsilon)
        if self.epsilon < LEAST_EPSILON:
            raise InvalidParameter(
                "epsilon", f"be at least {LEAST_EPSILON:g}: below it nothing is ever found", self.epsilon
            )
        checks.whole("tau", self.tau, 0)
        checks.probability("level", self.level)
        checks.whole("T", self.repetitions, 1, 64)
        checks.power_of_two("K", self.least_channels, 1 << 16)
        checks.whole("list_size", self.list_size, 0, 10_000)
        checks.whole("tolerance", self.tolerance, 0, 1 << 20)
        if self.tolerance and not scheme.tolerates:
            raise InvalidParameter(
                "tolerance", f"be 0 for {self.mechanism}, which cannot set reports aside", self.tolerance
            )
        if scheme.counts_apart:
            checks.positive("epsilon_olh", self.epsilon_olh)
            if self.epsilon <= self.epsilon_olh:
                rule = f"exceed epsilon_olh ({self.epsilon_olh:g}), which is part of it"
                raise InvalidParameter("epsilon", rule, self.epsilon)
        self._check_windows(scheme)

    def _check_windows(self, scheme: Scheme) -> None:
        for length in self.windows:
            checks.whole("windows", length, 1, MOST_WINDOW)
        if not self.windows or list(self.windows) != sorted(set(self.windows)):
            raise InvalidParameter("windows", "be lengths that grow", self.windows)
        if self.windows != (1,) and not scheme.pools:
            raise InvalidParameter(
                "windows", f"be 1 alone for {self.mechanism}, whose rounds do not add up", self.windows
            )

    @property
    def daily(self) -> Profile:
        """The same for a round that is decided by itself."""
        return replace(self, windows=(1,))

    @property
    def reach(self) -> int:
        """How many rounds, the newest included, a decision may look at: for so long their tallies are kept."""
        return max(self.windows)

    @property
    def share(self) -> float:
        """The part of the level that one decision gets: each window is one."""
        return self.level / len(self.windows)

    @property
    def epsilon_hh(self) -> Fraction:
        """What is left for finding numbers, exactly: a rounded difference could exceed the budget."""
        return Fraction(self.epsilon) - Fraction(self.epsilon_olh)

    @property
    def scheme(self) -> Scheme:
        """The mechanism's row of the table."""
        return scheme_named(self.mechanism)

    @property
    def bucketed(self) -> bool:
        """Whether phones announce an area code and are counted by it; elsewhere the number is protected whole."""
        return self.scheme.bucketed

    @property
    def in_the_clear(self) -> str:
        """What of a number travels unprotected, in words."""
        return self.scheme.items.in_the_clear

    def to_plain(self) -> dict[str, Any]:
        """Names, numbers and texts only: how a server keeps the profile that a round was opened with."""
        values = asdict(self)
        values["rounds"] = values.pop("repetitions")
        if not self.anonymous:  # as earlier releases wrote it
            del values["anonymous"]
        values["windows"] = list(self.windows)
        return {**values, "accounting": self.accounting.value}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Profile:
        """The inverse of :meth:`to_plain`. Rounds of older releases tolerate nothing, and decide daily."""
        given = {"tolerance": 0, "windows": (1,), **values}
        given["repetitions"] = given.pop("rounds")
        given["windows"] = tuple(given["windows"])
        return cls(**{**given, "accounting": Accounting(given["accounting"])})


def window_of(rounds: Sequence[tuple[int, str, Profile]]) -> list[int]:
    """The rounds whose reports are put together for the decision of the last one given, oldest first, itself last.

    Each comes as (number, name of its plan, profile). Those that the last one's windows do not reach are left out, and
    those of another plan or mechanism, whose counts are not of the same numbers. Gaps do no harm.

    >>> balanced, strong, whole = (PROFILES[name] for name in ("balanced", "strong", "strong-whole"))
    >>> window_of([(2, "us", strong), (5, "us", strong), (6, "us", whole), (8, "de", strong), (9, "us", balanced)])
    [5, 9]
    """
    newest, plan, profile = rounds[-1]
    return [
        number
        for number, its_plan, its_profile in rounds
        if 0 <= newest - number < profile.reach and (its_plan, its_profile.mechanism) == (plan, profile.mechanism)
    ]


def _ours(name: str, reason: str, mechanism: str, epsilon: float, *, anonymous: bool = False) -> Profile:
    """What a service is run with: evidence of up to a week, and listings that a few liars cannot buy."""
    return Profile(name, reason, mechanism, epsilon, 10, anonymous=anonymous, tolerance=TOLERANCE, windows=WINDOWS)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "paper",
            "the paper's protocol: modified SH, extended randomiser, 8.8 + 3",
            names.SH_EXTENDED,
            11.8,
            TAU,
        ),
        _ours(
            "strong",
            "little can be learnt about anyone: for many users and large spammers",
            names.SUBSPACE,
            2.0,
        ),
        _ours("balanced", "finds what the paper finds and much more, at a third of its ε", names.SUBSPACE, 4.0),
        _ours("sensitive", "finds numbers with a dozen reports a day", names.SUBSPACE, 8.0),
        _ours("strong-whole", "as strong, and the area code is protected too", names.WHOLE_NUMBER, 2.0),
        _ours("balanced-whole", "as balanced, and the area code is protected too", names.WHOLE_NUMBER, 4.0),
        _ours("sensitive-whole", "as sensitive, and the area code is protected too", names.WHOLE_NUMBER, 8.0),
        _ours(
            "crowd",
            "nothing in the clear and no names: everybody hides everybody, from a hundred thousand phones on",
            names.WHOLE_NUMBER,
            6.0,
            anonymous=True,
        ),
        Profile("cheapest", "for tests only: no privacy to speak of", names.SUBSPACE, 16.0, 1),
    )
}
DEFAULT = PROFILES["balanced"]


def profile_named(name: str) -> Profile:
    """The profile of that name, or an error that lists them."""
    try:
        return PROFILES[name]
    except KeyError:
        raise InvalidParameter("profile", f"be one of {', '.join(PROFILES)}", name) from None

"""The server's half of RAPPOR: randomised Bloom filters and candidates come in, the candidates' counts leave.

RAPPOR cannot find numbers that nobody thought of: it is given the candidates (or a domain small enough to try
them all). Reports add up to one count per cohort and bit. With t the unbiased count of phones that truly set a
bit, and π = 1 − (1 − 1/m)^k the chance that another item sets it, two decoders use them:

* ``estimate``, in closed form: the average of t over a candidate's bits, less what others set there. Unbiased
  over the choice of the hash functions.
* ``find``, RAPPOR's own (Erlingsson, Pihur and Korolova 2014, section 4): a regression of t on the filters of
  the candidates, which knows that a bit can belong to several. Non-negative least squares select, ordinary
  least squares on the selected give estimates and p-values, and Bonferroni over the candidates decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, stats

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.learn import tally_codec as files
from hushcall.learn.comparators.splitting import check_domain, pieces, shares
from hushcall.learn.decision import HeavyHitter, Rule
from hushcall.learn.gate import more_than_tau
from hushcall.learn.learner import InOnePart, Progress, Reported, matrix, quiet, valid_suffixes
from hushcall.learn.local_hashing import same_maker
from hushcall.numbers import NumberingPlan
from hushcall.privacy.coins import ONE
from hushcall.profiles import Profile
from hushcall.report.hashing import HASH_BITS
from hushcall.report.rappor import COHORT_PIECE, Rappor

ASSUMED_CANDIDATES = 1000
"""Plans reckon as if it were given so many numbers to choose among."""
MOST_TRIED = 1 << 17
_ANY = (2_000_000,)
_BLOCK = 1 << 11  # candidates whose filters exist at a time


@dataclass(frozen=True)
class RapporTally:
    """How often each bit came up in each cohort, and how many reports each cohort has."""

    made_by: bytes
    ones: NDArray[np.int64] = field(repr=False)
    sizes: NDArray[np.int64] = field(repr=False)

    @property
    def count(self) -> int:
        """How many reports went in."""
        return int(self.sizes.sum())

    def merge(self, other: RapporTally) -> RapporTally:
        """Both together: everything adds up."""
        same_maker(self.made_by, other.made_by)
        return RapporTally(self.made_by, self.ones + other.ones, self.sizes + other.sizes)

    def to_bytes(self) -> bytes:
        """Counts per bit, versioned and checksummed: a flipped byte is noticed."""
        return files.pack(self.made_by, {"ones": self.ones, "sizes": self.sizes})


@dataclass(frozen=True)
class RapporLearner(InOnePart[RapporTally]):
    """RAPPOR's server. ``candidates`` are tried; without any, the whole domain is, if it is small.

    The regression takes the ``width`` candidates with the largest closed-form estimates.
    """

    mechanism: Rappor
    domain: range
    candidates: tuple[int, ...] = field(default=(), repr=False)
    width: int = 256
    level: float = 0.05

    def __post_init__(self) -> None:
        check_domain(self.domain, self.mechanism.item_bits)
        if not self.candidates and len(self.domain) > MOST_TRIED:
            raise InvalidParameter("candidates", f"be given for more than {MOST_TRIED} items", self.domain)
        if len(set(self.candidates)) < len(self.candidates) or not all(item in self.domain for item in self.candidates):
            raise InvalidParameter("candidates", "be different items of the domain", self.candidates)
        checks.whole("width", self.width, 1, 1 << 12)
        checks.probability("level", self.level)

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters in a tally's header: a tally of others is refused."""
        return files.fingerprint(self.mechanism)

    def tally(self, reports: Iterable[Reported]) -> RapporTally:
        """Count the bits, cohort by cohort."""
        pairs, chosen = list(reports), self.mechanism
        bits = np.unpackbits(matrix(chosen, [report for _, report in pairs]), axis=1, bitorder="little")
        cohorts = shares(pieces([public for public, _ in pairs]), COHORT_PIECE, chosen.cohorts)
        ones = np.zeros((chosen.cohorts, chosen.bits), dtype=np.int64)
        np.add.at(ones, cohorts, bits)
        return RapporTally(self.made_by, ones, np.bincount(cohorts, minlength=chosen.cohorts).astype(np.int64))

    def from_bytes(self, data: bytes) -> RapporTally:
        """Read a tally back; one of other parameters is an :class:`InvalidTally`."""
        ones = (self.mechanism.cohorts, self.mechanism.bits)
        arrays = files.shaped(files.unpack(self.made_by, data), ones=ones, sizes=ones[:1])
        return RapporTally(self.made_by, arrays["ones"].astype(np.int64), arrays["sizes"].astype(np.int64))

    @property
    def taken(self) -> float:
        """π: that another item sets a given bit."""
        return float(1 - (1 - 1 / self.mechanism.bits) ** self.mechanism.functions)

    def excess(self, tally: RapporTally) -> NDArray[np.float64]:
        """Each cohort and bit's t − π·n: the phones that truly set it, beyond what chance sets."""
        keep, flip = (weight / ONE for weight in self.mechanism.flips.odds)
        sizes = tally.sizes[:, None]
        return (tally.ones - flip * sizes) / (keep - flip) - self.taken * sizes

    def filters(self, items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(items, cohorts, bits): the Bloom filters."""
        chosen = self.mechanism
        out = np.zeros((len(items), chosen.cohorts, chosen.bits), dtype=np.bool_)
        every, shift = np.arange(len(items)), np.uint64(64 - HASH_BITS)
        for cohort, functions in enumerate(chosen.bloom):
            for function in functions:
                hashed = (items.astype(np.uint64) * np.uint64(function.a) + np.uint64(function.b)) >> shift
                places = hashed * np.uint64(chosen.bits) >> np.uint64(HASH_BITS)
                out[every, cohort, places.astype(np.int64)] = True
        return out

    def estimate(self, tally: RapporTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = Σ_cohorts (mean of t over the item's bits − π·n_cohort)/(1 − π)."""
        excess, every = self.excess(tally), np.asarray(items, dtype=np.int64)
        out = np.empty(len(every))
        for first in range(0, len(every), _BLOCK):
            filters = self.filters(every[first : first + _BLOCK])
            means = (filters * excess).sum(axis=2) / filters.sum(axis=2)
            out[first : first + _BLOCK] = means.sum(axis=1) / (1 - self.taken)
        return out

    def regress(self, tally: RapporTally, items: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
        """Per item, its count and the count's standard error; both 0 where least squares want none of it."""
        # A candidate that c phones hold adds c·n_cohort/n to its bits there, and takes c·π·n_cohort/n from chance.
        weights = (tally.sizes / max(tally.count, 1))[:, None]
        design = ((self.filters(items) - self.taken) * weights).reshape(len(items), -1).T
        target = self.excess(tally).ravel()
        gram = design.T @ design
        # Least squares depend on the Gram matrix alone, so a square root of it stands in for the tall design.
        root = linalg.cholesky(gram + 1e-9 * np.trace(gram) / len(items) * np.eye(len(items)))
        sought, _ = optimize.nnls(root, linalg.solve_triangular(root, design.T @ target, trans="T"))
        counts, errors, chosen = np.zeros(len(items)), np.zeros(len(items)), np.flatnonzero(sought > 0)
        inverse = linalg.pinvh(gram[np.ix_(chosen, chosen)])
        counts[chosen] = inverse @ (design[:, chosen].T @ target)
        freedom = max(len(target) - len(chosen), 1)
        residual = ((target - design[:, chosen] @ counts[chosen]) ** 2).sum() / freedom
        errors[chosen] = np.sqrt(residual * np.diag(inverse))
        return counts, errors

    def find(self, tally: RapporTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """The candidates that the regression finds significant and above τ, largest first."""
        if tally.count == 0:
            return []
        tried = np.asarray(self.candidates or self.domain, dtype=np.int64)
        rough = self.estimate(tally, tried.tolist())
        likely = np.sort(tried[np.argsort(-rough, kind="stable")[: self.width]])
        counts, errors = self.regress(tally, likely)
        rule, reach = Rule(tau, self.level, len(tried)), float(stats.norm.isf(0.025))
        return rule.decide(
            HeavyHitter(
                int(item),
                float(count),
                float(max(count - reach * error, 0)),
                float(count + reach * error),
                float(stats.norm.sf(count / error)),
            )
            for item, count, error in zip(likely, counts, errors, strict=True)
            if error > 0
        )

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """With normal noise, and as if it were given a thousand candidates."""
        keep, flip = (weight / ONE for weight in self.mechanism.flips.odds)
        # Every phone adds the mean of h noisy bits, each off by a coin's variance over (keep − flip)².
        spread = flip * (1 - flip) / (keep - flip) ** 2 + self.taken * (1 - self.taken)
        error = math.sqrt(users * spread / self.mechanism.functions) / (1 - self.taken)
        cut = max(stats.norm.isf(self.level / ASSUMED_CANDIDATES) * error, tau)
        return lambda holders: float(stats.norm.sf((cut - holders) / error))

    @property
    def setting(self) -> str:
        """What it is short of."""
        return "needs a list"


def open_bucket(profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int) -> RapporLearner | None:
    """Behind the histograms' gate; with one candidate, since a plan needs none and a round cannot be run."""
    if not more_than_tau(users, profile.tau):
        return None
    return RapporLearner(Rappor(profile.epsilon, seed=seed, item_bits=plan.suffix_bits), valid_suffixes(plan), _ANY)


def resume(profile: Profile, plan: NumberingPlan, mechanism: Rappor, buckets: int) -> RapporLearner:
    """With the parameters that the phones were given."""
    return RapporLearner(mechanism, valid_suffixes(plan), _ANY)

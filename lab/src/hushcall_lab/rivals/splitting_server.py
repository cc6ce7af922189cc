"""The server side of split protocols: the part of each report, growing prefixes, and estimates from one part."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.decision import HeavyHitter, Support
from hushcall.protocol.seeds import SEED_BYTES
from hushcall_lab.rivals.splitting import PIECE_BYTES, PIECES, PrefixSplit


def pieces(publics: Sequence[bytes]) -> NDArray[np.uint64]:
    for public in publics:
        if len(public) != SEED_BYTES:
            raise InvalidParameter("public", f"be exactly {SEED_BYTES} bytes", public)
    return np.frombuffer(b"".join(publics), dtype=">u4").reshape(len(publics), PIECES).astype(np.uint64)


def shares(seeds: NDArray[np.uint64], place: int, size: int) -> NDArray[np.int64]:
    return (seeds[:, place] * np.uint64(size) >> np.uint64(8 * PIECE_BYTES)).astype(np.int64)


def roots(length: int, item_bits: int, domain: range) -> NDArray[np.int64]:
    shift = item_bits - length
    return np.arange(domain.start >> shift, (domain.stop - 1 >> shift) + 1, dtype=np.int64)


def extend(prefixes: NDArray[np.int64], length: int, longer: int, item_bits: int, domain: range) -> NDArray[np.int64]:
    """All continuations to ``longer`` bits that lead to some item of the domain, ascending if the prefixes are."""
    grown = (prefixes[:, None] << (longer - length) | np.arange(1 << (longer - length))).ravel()
    shift = item_bits - longer
    return grown[(grown >= domain.start >> shift) & (grown <= domain.stop - 1 >> shift)]


def best(counts: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    return np.sort(np.argsort(-counts, kind="stable")[:limit])


def check_domain(domain: range, item_bits: int) -> None:
    if domain.step != 1 or not 0 <= domain.start < domain.stop <= 1 << item_bits:
        raise InvalidParameter("domain", f"be an interval within {item_bits} bits", domain)


def scaled(law: Support, part: int) -> Support:
    """The law of C(x) in ``part`` of the reports, as a law about all of them. ``law`` gives n, p and q.

    A client is in the part with probability s = part/n, so a holder supports x there with s·p, another client with s·q.
    The estimate is n/part times the part's own, and the interval also covers how many holders fell into the part. (The
    part's size is known, not random, so the interval is a little too wide.)
    """
    share = part / law.reports
    return Support(law.reports, share * law.p, share * law.q)


def judge(law: Support, part: int, item: int, count: int) -> HeavyHitter:
    """A heavy hitter from a part's count: the estimate is scaled to all clients, the p-value is the part's own."""
    return replace(scaled(law, part).hitter(item, count), p_value=Support(part, law.p, law.q).p_value(count))


class StagedSearch:
    """An aggregator that descends from short prefixes to long ones, with one group of clients for each length."""

    mechanism: PrefixSplit
    domain: range

    def law(self, reports: int) -> Support:
        """The odds of support at every stage."""
        raise NotImplementedError

    def counts(self, tally: Any, group: int, prefixes: NDArray[np.int64]) -> NDArray[np.int64]:
        """C of each prefix: the reports of the group that support it."""
        raise NotImplementedError

    def extended(self, counts: NDArray[np.int64], reports: int) -> NDArray[np.int64]:
        raise NotImplementedError

    def stage(self, law: Support, nodes: int, *, last: bool) -> tuple[int, int]:
        """(the count that is enough, the number of nodes that are extended) where so many nodes are examined."""
        raise NotImplementedError

    def estimate(self, tally: Any, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = n/n_last · (C − q·n_last)/(p − q), from the last group's reports, or 0 if it has none."""
        last = self.mechanism.groups - 1
        part = tally.size(last)
        if part == 0:
            return np.zeros(len(items))
        counts = self.counts(tally, last, np.asarray(items, dtype=np.int64))
        return np.asarray(scaled(self.law(tally.count), part).estimate(counts.astype(np.float64)))

    def candidates(self, tally: Any) -> NDArray[np.int64]:
        lengths, bits = self.mechanism.lengths, self.mechanism.item_bits
        prefixes = roots(lengths[0], bits, self.domain)
        for group, (length, longer) in enumerate(pairwise(lengths)):
            top = self.extended(self.counts(tally, group, prefixes), tally.size(group))
            prefixes = extend(prefixes[top], length, longer, bits, self.domain)
        return prefixes

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """Each stage sees its share of the reports. An approximation: PEM's cut is where noise fills its places."""
        lengths, groups, odds = self.mechanism.lengths, self.mechanism.groups, self.law(1)
        law = Support(max(users // groups, 1), odds.p, odds.q)
        nodes, cuts = len(roots(lengths[0], self.mechanism.item_bits, self.domain)), []
        for place, length in enumerate(lengths):
            last = place == groups - 1
            cut, extended = self.stage(law, nodes, last=last)
            cuts.append(cut)
            if not last:
                nodes = min(extended, nodes) << (lengths[place + 1] - length)
        cuts[-1] = max(cuts[-1], law.needed(tau / groups))

        def listed(holders: int) -> float:
            reached = min(holders // groups, law.reports)
            return math.prod(law.power(reached, cut) for cut in cuts)

        return listed

    @property
    def setting(self) -> str:
        return f"{self.mechanism.groups} groups"

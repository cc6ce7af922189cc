"""The server runs this for split protocols: public seeds come in, which part each report belongs to leaves.

And what PEM and TreeHist share: growing prefixes within the domain, and speaking about all phones from one
part's reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter
from hushcall.learn.decision import HeavyHitter, Support
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.report.splitting import PIECE_BYTES, PIECES


def pieces(publics: Sequence[bytes]) -> NDArray[np.uint64]:
    """(n, 8): the 32-bit pieces of public seeds."""
    for public in publics:
        if len(public) != SEED_BYTES:
            raise InvalidParameter("public", f"be exactly {SEED_BYTES} bytes", public)
    return np.frombuffer(b"".join(publics), dtype=">u4").reshape(len(publics), PIECES).astype(np.uint64)


def shares(cut: NDArray[np.uint64], place: int, size: int) -> NDArray[np.int64]:
    """``report.splitting.share`` of many seeds at once, from their pieces."""
    return (cut[:, place] * np.uint64(size) >> np.uint64(8 * PIECE_BYTES)).astype(np.int64)


def roots(length: int, item_bits: int, domain: range) -> NDArray[np.int64]:
    """All prefixes of ``length`` bits that some item of the domain has."""
    left = item_bits - length
    return np.arange(domain.start >> left, (domain.stop - 1 >> left) + 1, dtype=np.int64)


def extend(prefixes: NDArray[np.int64], length: int, longer: int, item_bits: int, domain: range) -> NDArray[np.int64]:
    """All continuations to ``longer`` bits that lead to some item of the domain, ascending if the prefixes are."""
    grown = (prefixes[:, None] << (longer - length) | np.arange(1 << (longer - length))).ravel()
    left = item_bits - longer
    return grown[(grown >= domain.start >> left) & (grown <= domain.stop - 1 >> left)]


def best(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The places of the ``most`` largest counts, ascending; ties go to the first."""
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def check_domain(domain: range, item_bits: int) -> None:
    """A plain interval of items that fit."""
    if domain.step != 1 or not 0 <= domain.start < domain.stop <= 1 << item_bits:
        raise InvalidParameter("domain", f"be an interval within {item_bits} bits", domain)


def scaled(whole: Support, part: int) -> Support:
    """The law of C(x) in a part of the reports, as a law about all of them: ``whole`` gives n, p and q.

    A phone is in the part with probability s = part/n, so a holder supports x there with s·p, another phone
    with s·q. The estimate is then n/part times the part's own; the interval also covers how many of the
    holders fell into the part. (The part's size is known, not random: the interval is a little wider than it
    need be.)
    """
    share = part / whole.reports
    return Support(whole.reports, share * whole.p, share * whole.q)


def judge(whole: Support, part: int, item: int, count: int) -> HeavyHitter:
    """What a part's count says about an item: scaled to all phones; the p-value is the part's own."""
    own = Support(part, whole.p, whole.q)
    return replace(scaled(whole, part).hitter(item, count), p_value=own.p_value(count))

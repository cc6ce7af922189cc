"""The server's channels: symbols come in, 32 sums per channel accumulate, numbers spelled out by them leave."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushcall.report.codes import ExtendedHamming


def bad_symbols(symbols: NDArray[np.uint8], length: int, *, zero_allowed: bool) -> NDArray[np.bool_]:
    """Which reports (rows) hold a byte that no honest phone sends."""
    code = symbols >> 6
    bad = (code == 3) | ((symbols & 63) >= length)
    if not zero_allowed:
        bad |= code == 0
    return np.asarray(bad.any(axis=1))


def channel_sums(symbols: NDArray[np.uint8], length: int) -> NDArray[np.int32]:
    """(n, channels) symbols → (channels, m): pluses minus minuses at every position of every channel."""
    channels = symbols.shape[1]
    # One flat index per possible (channel, byte): counting is a single pass, and the sign is applied once at the end.
    flat = symbols + np.arange(channels, dtype=np.int64) * 256
    seen = np.bincount(flat.ravel(), minlength=channels * 256).reshape(channels, 4, 64)
    return np.asarray(seen[:, 1, :length] - seen[:, 2, :length], dtype=np.int32)


def decode_hard(sums: NDArray[np.int32], code: ExtendedHamming, item_bits: int, domain: range) -> list[int]:
    """The paper's decoder: round every sum to a bit (z̄ ≥ 0 is a plus), repair one error, keep what is a valid item.

    A plus is a 0 and a minus a 1, x_r = (−1)^bit/√m: the paper leaves the choice open, and as valid suffixes have a few
    more zeros than ones, the tie that it rounds to plus is right a little more often this way.
    Items shorter than the message leave its upper bits zero: the decoder knows that and does not read them (a shortened
    code; reading them would only let noise in, and cost up to 5 points of detection at the paper's budgets).
    Two errors, an upper bit repaired to one, a message outside the domain: no candidate. Sorted, each candidate once.
    """
    ones = sums < 0
    ones[:, list(code.message_positions[item_bits:])] = False
    places = np.arange(code.length)
    syndrome = np.bitwise_xor.reduce(np.where(ones, places, 0), axis=1)
    odd = ones.sum(axis=1) % 2 == 1
    ones[odd, syndrome[odd]] ^= True
    weights = np.int64(1) << np.arange(code.message_bits, dtype=np.int64)
    messages = ones[:, list(code.message_positions)] @ weights
    decoded = messages[odd | (syndrome == 0)]
    return [int(item) for item in np.unique(decoded) if int(item) in domain]

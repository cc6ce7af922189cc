"""When a phone speaks: a round's windows come in, two random moments leave, drawn once and then kept.

Moments are uniform over what is left of a window when the phone first sees it, and are drawn before anything is known
about the number: when a phone speaks says nothing about what it has to say.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.privacy.coins import WORD_BYTES, ByteSource, read, uniform, words
from hushcall.protocol.round_document import RoundInfo

SLACK_SHARE = 10
"""The last tenth of a window stays free,"""
MOST_SLACK = 3600
"""but no more than an hour: a phone that is woken every quarter of an hour never comes too late."""


@dataclass(frozen=True, slots=True)
class Moments:
    """By the server's clock, unix seconds."""

    announce_at: int
    report_at: int


def draw(info: RoundInfo, coins: ByteSource) -> Moments:
    """Both moments of a round, from 16 bytes."""
    first, second = words(read(coins, 2 * WORD_BYTES))
    return Moments(
        _between(first, max(info.opens, info.server_time), _end(info.opens, info.collects)),
        _between(second, info.collects, _end(info.collects, info.closes)),
    )


def draw_nameless(info: RoundInfo, middle: int, coins: ByteSource) -> tuple[int, Moments]:
    """When to ask for a token (before ``middle``), and both moments of a round, from 24 bytes: all independent."""
    first, second, third = words(read(coins, 3 * WORD_BYTES))
    issue_at = _between(first, max(info.opens, info.server_time), middle)
    return issue_at, Moments(
        _between(second, middle, _end(info.opens, info.collects)),
        _between(third, info.collects, _end(info.collects, info.closes)),
    )


def _end(start: int, end: int) -> int:
    return end - min((end - start) // SLACK_SHARE, MOST_SLACK)


def _between(word: int, start: int, end: int) -> int:
    return start + uniform(word, max(1, end - start))

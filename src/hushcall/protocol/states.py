"""Where a round can be, in one place: the words that stand in the database, in the round document and on the pages.

::

    announcing ──► collecting ──► closed ──► decoded ──► published
         └────────────┴─────────────┴───────────┘            ▲
                            │                                │
                           held ── discarded by an operator ─┘

A held round goes back to where it was when it is released; one that is discarded counts as published, without a
finding.
"""

from __future__ import annotations

from enum import StrEnum


class RoundState(StrEnum):
    """One state. The value is what is stored and sent: it never changes."""

    ANNOUNCING = "announcing"
    """Phones say which bucket their caller is in."""
    COLLECTING = "collecting"
    """Buckets are decided; phones send their reports."""
    CLOSED = "closed"
    """Nothing is taken in any more; tallies are sealed and decoded."""
    DECODED = "decoded"
    """What was found is known; the list is about to be signed."""
    PUBLISHED = "published"
    """Nothing is left to do."""
    HELD = "held"
    """Stopped, by an operator or a guard, until somebody has looked at it."""


ANNOUNCING, COLLECTING, CLOSED = RoundState.ANNOUNCING, RoundState.COLLECTING, RoundState.CLOSED
DECODED, PUBLISHED, HELD = RoundState.DECODED, RoundState.PUBLISHED, RoundState.HELD

PHASES = (ANNOUNCING, COLLECTING, CLOSED, DECODED, PUBLISHED)
"""The way of a round that nobody holds."""
TAKES_UPLOADS = frozenset({ANNOUNCING, COLLECTING})
"""A new round is not opened before the newest one has left these."""
OVER_FOR_PHONES = frozenset({CLOSED, DECODED, PUBLISHED})
"""What a phone has not sent by now is not sent any more. A held round may yet go on."""
HAS_FINDINGS = frozenset({DECODED, PUBLISHED})
"""Everything that a round can tell has been worked out."""
TAKES_RESULTS = frozenset({CLOSED, HELD})
"""Tallies and finds of a round are stored: it was not discarded meanwhile."""
RESTS = frozenset({PUBLISHED, HELD})
"""The clock does not move it."""

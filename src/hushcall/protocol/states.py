"""The states of a round, as the database, the round document and the pages name them.

::

    announcing ──► collecting ──► closed ──► decoded ──► published
         └────────────┴─────────────┴───────────┘            ▲
                            │                                │
                           held ── discarded by an operator ─┘

A held round returns to its former state when it is released. A discarded one counts as published, without a finding.
"""

from __future__ import annotations

from enum import StrEnum


class RoundState(StrEnum):
    """One state. Its value is stored and sent, and never changes."""

    ANNOUNCING = "announcing"
    """Clients announce the bucket of their caller."""
    COLLECTING = "collecting"
    """Buckets are decided. Clients send their reports."""
    CLOSED = "closed"
    """No more uploads. Tallies are sealed and decoded."""
    DECODED = "decoded"
    """The findings are stored. The list is about to be signed."""
    PUBLISHED = "published"
    HELD = "held"
    """Stopped by an operator or a guard, until an operator decides."""


ANNOUNCING, COLLECTING, CLOSED = RoundState.ANNOUNCING, RoundState.COLLECTING, RoundState.CLOSED
DECODED, PUBLISHED, HELD = RoundState.DECODED, RoundState.PUBLISHED, RoundState.HELD

PHASES = (ANNOUNCING, COLLECTING, CLOSED, DECODED, PUBLISHED)
"""The order of states without a hold."""
TAKES_UPLOADS = frozenset({ANNOUNCING, COLLECTING})
"""No new round is opened while the newest one is in these."""
OVER_FOR_PHONES = frozenset({CLOSED, DECODED, PUBLISHED})
"""Clients send nothing more. A held round may still go on."""
HAS_FINDINGS = frozenset({DECODED, PUBLISHED})
TAKES_RESULTS = frozenset({CLOSED, HELD})
"""Tallies and findings of a round may be stored."""
RESTS = frozenset({PUBLISHED, HELD})
"""The clock does not move it."""

"""What happens to a call: the words that lists, the owner and the exchange share."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What to do with a call; a warning is shown, and the call still rings."""

    ALLOW = "allow"
    WARN = "warn"
    BLOCK = "block"

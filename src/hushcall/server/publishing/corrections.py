"""An operator corrects the list: a number in any notation comes in, the log and a new version of the list leave.

The command line, the API and the pages all come here, so that there is one order: first the log, then the list. A
server that dies in between publishes the list when it starts again (``server.scheduler``).
"""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.numbers import NumberingPlan
from hushcall.server.db.store import Store
from hushcall.server.publishing import appeals
from hushcall.server.publishing.publisher import Publisher


@dataclass(frozen=True)
class Corrected:
    """What was done. ``entry`` is the appeal's number in the log; ``published``: the list changed, and is in force."""

    published: bool
    number: str = ""
    entry: int = 0


@dataclass(frozen=True)
class Corrections:
    """The four things that an operator can do about a number."""

    store: Store
    plan: NumberingPlan
    publisher: Publisher

    def appeal(self, number: str, why: str, who: str, now: int) -> Corrected:
        """Take a number off at once, and keep it off while the appeal is open; the one that is open already stays."""
        text = str(self.plan.parse(number))
        entry = appeals.appeal(self.store, text, why, who, now)
        return Corrected(self.publisher.republish(now), text, entry)

    def close(self, entry: int, why: str, now: int) -> Corrected:
        """End an appeal: its number may be listed again."""
        appeals.close_appeal(self.store, entry, why, now)
        return Corrected(self.publisher.republish(now), entry=entry)

    def allow(self, number: str, why: str, who: str, now: int) -> Corrected:
        """Never list this number; if it is listed now, it leaves at once."""
        text = str(self.plan.parse(number))
        appeals.allow(self.store, text, why, who, now)
        return Corrected(self.publisher.republish(now), text)

    def disallow(self, number: str, now: int) -> Corrected:
        """Take a number off the allowlist: rounds may list it again."""
        text = str(self.plan.parse(number))
        appeals.disallow(self.store, text)
        return Corrected(self.publisher.republish(now), text)

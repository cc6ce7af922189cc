"""A caller comes in, allow, warn or block leaves: the owner's own list first, then contacts, then the synced list."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from hushcall import checks
from hushcall.errors import InvalidList, InvalidNumber, InvalidParameter
from hushcall.numbers import NANP, Number, NumberingPlan
from hushcall.phone.calls import candidates
from hushcall.phone.home.action import Action
from hushcall.phone.home.personal import Personal, any_e164
from hushcall.phone.home.store import Store
from hushcall.phone.screening.lookup import LIST_FILE, STATE_FILE, LoadedList, Policy, Verdict, check

POLICIES = ("block", "warn")
NO_LIST, DAMAGED = "there is no list yet", "the list is damaged"


@dataclass
class Screen:
    """The list and the contacts in memory, for one lookup or for thousands a second."""

    store: Store
    plan: NumberingPlan = NANP
    _loaded: LoadedList | None = field(default=None, init=False, repr=False)
    _stamp: object = field(default=None, init=False, repr=False)
    _policy: Policy = field(default_factory=Policy, init=False, repr=False)
    _own: Personal = field(default_factory=Personal, init=False, repr=False)
    _harshest: str = field(default="block", init=False, repr=False)
    _none: str = field(default=NO_LIST, init=False, repr=False)  # why there is no list in memory

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Take over what has changed since: contacts, policy, a newer list."""
        self._policy = Policy(int(self.store.get("block_days", "0")) or None, contacts=candidates.contacts(self.store))
        self._own = Personal.load(self.store)
        self._harshest = self.store.get("policy", "block")
        stamp = self._list_stamp()
        if stamp == self._stamp:
            return
        try:
            self._loaded = LoadedList.load(self.store.lists) if stamp else None
        except InvalidList:
            if self._loaded is not None:
                raise  # the one in memory is better than none
            self._none = DAMAGED
            return  # not remembered: the next refresh looks again
        self._stamp, self._none = stamp, NO_LIST

    def parse(self, raw: str) -> Number | None:
        """The plan's number behind a caller id, if it is one."""
        try:
            return self.plan.parse(raw)
        except InvalidNumber:
            return None

    def verdict(self, raw: str | Number, now: int) -> Verdict:
        """Judge a caller. Where the owner's policy is to warn, nothing is blocked."""
        number = raw if isinstance(raw, Number) else self.parse(raw)
        own = self._own.verdict(str(number) if number is not None else any_e164(str(raw), self.plan))
        if own is not None:
            return Verdict(own, "on your own list")
        if number is None:
            return Verdict(Action.ALLOW, f"not a number that a list could hold (plan {self.plan.name})")
        loaded = self._loaded  # once: a refresh in another thread may take it away
        if loaded is None:
            if self._policy.knows(str(number)):
                return Verdict(Action.ALLOW, "one of your contacts")
            return Verdict(Action.ALLOW, self._none, None, f"{self._none}: run hushcall phone sync")
        found = check(loaded, number, self._policy, now)
        if found.action is Action.BLOCK and self._harshest == "warn":
            return replace(found, action=Action.WARN)
        return found

    def _list_stamp(self) -> tuple[int, ...] | None:
        """Changes with the list and with its state: a sync that finds nothing new still moves the expiry."""
        if self.store.folder is None or not (self.store.lists / LIST_FILE).exists():
            return None
        return *_stamp(self.store.lists / LIST_FILE), *_stamp(self.store.lists / STATE_FILE)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size


def save_policy(store: Store, policy: str | None, block_days: int | None) -> None:
    """Keep the owner's policy: the harshest action, and from how many days on the list a number is blocked.

    What is None stays as it was.
    """
    if policy is not None and policy not in POLICIES:
        raise InvalidParameter("policy", f"be one of {', '.join(POLICIES)}", policy)
    if block_days is not None:
        checks.whole("block days", block_days, 1)
        store.put("block_days", str(block_days))
    if policy is not None:
        store.put("policy", policy)

"""Screens callers for an owner: the own list decides first, then contacts, then the synced list."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from hushcall import checks
from hushcall.client.calls import candidates
from hushcall.client.screening.lookup import LIST_FILE, STATE_FILE, LoadedList, Policy, Verdict, check
from hushcall.client.storage.personal import Action, Personal, any_e164
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidList, InvalidNumber
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.numbers import NANP, Number, NumberingPlan

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
    _why_no_list: str = field(default=NO_LIST, init=False, repr=False)

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
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
                raise  # the list in memory is better than none
            self._why_no_list = DAMAGED
            return  # without its stamp: the next refresh tries again
        self._stamp, self._why_no_list = stamp, NO_LIST

    def stamp(self) -> tuple[object, ...]:
        """Changes with what :meth:`blocked` depends on."""
        return self._stamp, self._policy, self._own, self._harshest

    def blocked(self) -> list[str]:
        """The numbers that are blocked, in E.164: the owner's own, then the most reported ones."""
        own = [number for number, action in self._own.entries.items() if action is Action.BLOCK and "*" not in number]
        if self._loaded is None or self._harshest == "warn":
            return own
        header, policy, verdict = self._loaded.header, self._policy, self._own.verdict
        listed = [
            entry
            for entry in Blocklist.from_bytes((self.store.lists / LIST_FILE).read_bytes()).entries
            if policy.blocks(entry, header) and not policy.knows(entry.number) and verdict(entry.number) is None
        ]
        listed.sort(key=lambda entry: (-entry.estimate, -entry.days, entry.number))
        return [*own, *(entry.number for entry in listed)]

    def parse(self, raw: str) -> Number | None:
        try:
            return self.plan.parse(raw)
        except InvalidNumber:
            return None

    def verdict(self, raw: str | Number, now: int) -> Verdict:
        """Judge a caller. Where the owner's policy is to warn, nothing is blocked by the list."""
        number = raw if isinstance(raw, Number) else self.parse(raw)
        own_action = self._own.verdict(str(number) if number is not None else any_e164(str(raw), self.plan))
        if own_action is not None:
            return Verdict(own_action, "on your own list")
        if number is None:
            return Verdict(Action.ALLOW, f"not a number that a list could hold (plan {self.plan.name})")
        loaded = self._loaded  # once: a refresh in another thread may replace it
        if loaded is None:
            if self._policy.knows(str(number)):
                return Verdict(Action.ALLOW, "one of your contacts")
            return _no_list(self._why_no_list)
        try:
            verdict = check(loaded, number, self._policy, now)
        except InvalidList:
            verdict = _no_list(DAMAGED)
        if verdict.action is Action.BLOCK and self._harshest == "warn":
            return replace(verdict, action=Action.WARN)
        return verdict

    def _list_stamp(self) -> tuple[int, ...] | None:
        """Changes with the list and with its state: a sync that finds nothing new still extends the expiry."""
        if self.store.folder is None or not (self.store.lists / LIST_FILE).exists():
            return None
        return *_stamp(self.store.lists / LIST_FILE), *_stamp(self.store.lists / STATE_FILE)


def _no_list(why: str) -> Verdict:
    return Verdict(Action.ALLOW, why, None, f"{why}: run hushcall phone sync")


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size


def save_policy(store: Store, policy: str | None, block_rounds: int | None) -> None:
    """Save the owner's harshest action, and from how many rounds on a number is blocked, where given."""
    if policy is not None:
        checks.one_of("policy", policy, POLICIES)
    if block_rounds is not None:
        checks.whole("block days", block_rounds, 1)
        store.put("block_days", str(block_rounds))
    if policy is not None:
        store.put("policy", policy)

"""Screens callers for an owner: the own list decides, then contacts, then the synced lists in the owner's order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hushcall import checks
from hushcall.client.calls import candidates
from hushcall.client.screening import subscriptions
from hushcall.client.screening.lookup import Policy, Verdict
from hushcall.client.screening.server_list import DAMAGED, NO_LIST, ServerList
from hushcall.client.storage.personal import Action, Personal, any_e164
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidList, InvalidNumber
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader
from hushcall.protocol.numbers import NANP, Number, NumberingPlan

POLICIES = ("block", "warn")


@dataclass
class Screen:
    """The lists and the contacts in memory, for one lookup or for thousands a second."""

    store: Store
    plan: NumberingPlan = NANP
    _lists: list[ServerList] = field(default_factory=list, init=False, repr=False)
    _policy: Policy = field(default_factory=Policy, init=False, repr=False)
    _own: Personal = field(default_factory=Personal, init=False, repr=False)
    _harshest: str = field(default="block", init=False, repr=False)

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        self._policy = Policy(int(self.store.get("block_days", "0")) or None, contacts=candidates.contacts(self.store))
        self._own = Personal.load(self.store)
        self._harshest = self.store.get("policy", "block")
        loaded = {(each.name, each.folder): each for each in self._lists}
        lists, problem = list[ServerList](), None
        for row in subscriptions.in_order(self.store):
            folder = row.folder(self.store) if self.store.folder else None
            name = row.name if row.url else subscriptions.host_of(self.store.get("server")) or "list"
            lists.append(loaded.get((name, folder)) or ServerList(name, folder, not row.url))
            try:
                lists[-1].refresh()
            except InvalidList as error:  # the one in memory goes on, and so do the others
                problem = error
        self._lists = lists
        if problem is not None:
            raise problem

    def stamp(self, now: int) -> tuple[object, ...]:
        """Changes with what :meth:`blocked` depends on."""
        lists = tuple((each.name, each.stamp, each.names(now)) for each in self._lists)
        return lists, self._policy, self._own, self._harshest

    def blocked(self, now: int) -> list[str]:
        """The numbers that are blocked, in E.164: the owner's own, then the most reported ones."""
        own = [number for number, action in self._own.entries.items() if action is Action.BLOCK and "*" not in number]
        if self._harshest == "warn":
            return own
        policy, verdict = self._policy, self._own.verdict
        listed = [
            entry
            for entry in self._entries(policy, now)
            if entry.block and not policy.knows(entry.number) and verdict(entry.number) is None
        ]
        listed.sort(key=lambda entry: (-entry.estimate, -entry.days, entry.number))
        return [*own, *(entry.number for entry in listed)]

    def merged(self, now: int) -> Blocklist | None:
        """All lists as one, for an export. One list with nothing imported is given as it is. None without any."""
        first = next((blocklist for each in self._lists if (blocklist := each.blocklist())), None)
        if first is not None and len(self._lists) == 1 and self._lists[0].imported is None:
            return first
        if not any(each.names(now) for each in self._lists):
            return None
        entries = tuple(sorted(self._entries(None, now), key=lambda entry: entry.number))
        lists = [each.loaded for each in reversed(self._lists) if each.names(now) and each.loaded]
        ranges = tuple({entry.number: entry for loaded in lists for entry in loaded.ranges.entries}.values())
        if first is None:
            return Blocklist(0, 0, now, ListHeader("imported", 0.0, 0, 0.0, self.plan.name, 1, 2), entries)
        header = replace(first.header, block_days=first.header.block_days or 2)
        return replace(first, header=header, entries=entries, ranges=ranges)

    def _entries(self, policy: Policy | None, now: int) -> list[Entry]:
        """Each number once, as the first list has it that names it."""
        named: dict[str, Entry] = {}
        for each in self._lists:
            for entry in each.entries(policy, now):
                named.setdefault(entry.number, entry)
        return list(named.values())

    def parse(self, raw: str) -> Number | None:
        try:
            return self.plan.parse(raw)
        except InvalidNumber:
            return None

    def verdict(self, raw: str | Number, now: int) -> Verdict:
        """Judge a caller. Where the owner's policy is to warn, nothing is blocked by a list."""
        number = raw if isinstance(raw, Number) else self.parse(raw)
        text = str(number) if number is not None else any_e164(str(raw), self.plan)
        own_action = self._own.verdict(text)
        if own_action is not None:
            return Verdict(own_action, "on your own list")
        if number is None and not (text and len(self._lists) > 1):  # another server's list may be of another country
            return Verdict(Action.ALLOW, f"not a number that a list could hold (plan {self.plan.name})")
        if self._policy.knows(text):
            return Verdict(Action.ALLOW, "one of your contacts")
        lists, why = self._lists, ""
        for each in lists:
            try:
                verdict = each.verdict(text, self._policy, now)
            except InvalidList:
                why = DAMAGED
                continue
            if verdict is not None:
                harsh = verdict.action is Action.BLOCK and self._harshest == "warn"
                return replace(verdict, action=Action.WARN) if harsh else verdict
        own = next((each for each in lists if each.own), None)
        if not why and any(each.names(now) for each in lists):
            return Verdict(Action.ALLOW, "not on the list", None, own.warning(now) if own else "")
        why = why or (own.why_none if own else NO_LIST)
        return Verdict(Action.ALLOW, why, None, f"{why}: run hushcall phone sync")


def save_policy(store: Store, policy: str | None, block_days: int | None) -> None:
    """Save the owner's harshest action, and from how many days on a number is blocked, where given."""
    if policy is not None:
        checks.one_of("policy", policy, POLICIES)
    if block_days is not None:
        checks.whole("block days", block_days, 1)
        store.put("block_days", str(block_days))
    if policy is not None:
        store.put("policy", policy)

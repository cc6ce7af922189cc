"""Setting a phone up: a server's address, where trust starts and what the owner allows come in, a ready folder leaves.

Run again it changes what is given and leaves the rest. Whatever is wrong with the arguments is found before anything is
written or sent; a change of servers is all or nothing (:mod:`~hushcall.phone.home.change_server`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hushcall.errors import InvalidData, InvalidParameter, Refused, Unreachable, WrongServer
from hushcall.numbers import NANP, PLANS, NumberingPlan, plan_named
from hushcall.numbers.plans import take_plan
from hushcall.phone.home.change_server import drop_stale_list, move_to, pin
from hushcall.phone.home.lock import PATIENCE, locked
from hushcall.phone.home.store import Store
from hushcall.phone.home.trouble import FILE, had_one
from hushcall.phone.reporting import witness
from hushcall.phone.reporting.ledger import Limits
from hushcall.phone.reporting.transport import Enrolment, HttpTransport, checked_url
from hushcall.phone.screening.screen import save_policy
from hushcall.phone.visit import HOME_AREA
from hushcall.protocol.pairing import split

_DIGEST = re.compile("[0-9a-f]{64}")
LONGEST_TOKEN = 200


@dataclass(frozen=True)
class SetUp:
    """What a set-up came to. ``before`` is the server until then; ``device`` is 0 where the operator gave a token."""

    url: str
    device: int
    enrolled: bool
    before: str
    limits: Limits

    @property
    def moved(self) -> bool:
        """Whether another server was left: its list is gone, and what was spent there stays in the ledger."""
        return self.before not in ("", self.url)


def set_up(
    folder: Path,
    server: str | None = None,
    *,
    invite: str = "",
    token: str = "",
    root: Path | None = None,
    root_sha256: str = "",
    limits: Mapping[str, float | str | None] | None = None,
    policy: str | None = None,
    block_days: int | None = None,
    home_area: int | None = None,
    trust_again: bool = False,
    plan: NumberingPlan = NANP,
    patience: float = PATIENCE,
) -> SetUp:
    """Enrol the phone of a folder, or change its settings.

    A phone enrols (or takes the operator's ``token``) when it has no server yet, changes it, or is given a new token.
    ``root`` is the operator's ``root.json``, ``root_sha256`` its digest: without either, the first root that the
    server shows is believed. ``home_area`` is the owner's own area code, which never leaves the phone. ``trust_again``
    takes part again with a server that showed this phone a round of its own. ``limits`` are changes to
    :class:`~hushcall.phone.reporting.ledger.Limits` by name. ``server`` may carry the root's digest, as the operator's
    pages and their QR code write it (:mod:`hushcall.protocol.pairing`).
    """
    server, named = split(server) if server is not None else (None, "")
    if named and root_sha256 and named.lower() != root_sha256.lower():
        raise InvalidParameter("root_sha256", "be the digest that the address names", root_sha256)
    pinned, digest, given = _root(root), _digest(root_sha256 or named), _token(token)
    if server is None and not is_set_up(folder):
        raise InvalidParameter("server", "be given the first time", None)
    wanted = checked_url(server) if server is not None else ""
    with closing(Store.open(folder)) as store, locked(folder, patience):
        allowed = Limits.load(store).changed(limits or {})
        allowed.save(store)
        save_policy(store, policy, block_days)
        if home_area is not None:
            store.put(HOME_AREA, str(plan.number(home_area, plan.first_suffix).area))
        if trust_again:
            witness.forgive(store)
        before = store.get("server")
        url = wanted or checked_url(before)
        new = before != url or not store.get("token") or bool(given)
        if new:
            enrolled = Enrolment(0, given, _plan_at(url)) if given else HttpTransport(url).enrol(invite)
            learnt = _learnt(url, enrolled.plan)  # one that cannot be had is refused before anything is kept
            move_to(store, url, enrolled.token, enrolled.device, pinned, digest, plan=enrolled.plan, plan_file=learnt)
        else:
            pin(store, pinned, digest)
        drop_stale_list(store)  # where a change of servers was cut short
        return SetUp(url, int(store.get("device")), new, before, allowed)


def is_set_up(folder: Path) -> bool:
    """Whether there is a store, or was one; whoever only looks makes none."""
    return (folder / FILE).exists() or had_one(folder)


def opened(folder: Path, *, reading: bool = False) -> Store:
    """The store of a phone that was set up, or an error that says how to; ``reading`` as in :meth:`Store.open`."""
    if not is_set_up(folder):
        raise InvalidParameter("phone", "be set up first (hushcall phone init --server URL)", str(folder))
    return Store.open(folder, reading=reading)


def plan_of(store: Store) -> NumberingPlan:
    """The numbering plan that the phone learnt from its server when it enrolled. It refuses rounds of any other."""
    if kept := store.get("plan_file"):
        take_plan(kept.encode())
    return plan_named(store.get("plan") or NANP.name)


def _learnt(url: str, name: str) -> str:
    """The file of a plan that is not shipped, as the server has it; its name is the digest of what it must say."""
    if not name or name in PLANS:
        return ""
    data = HttpTransport(url).plan_file(name)
    found = take_plan(data)
    if found.name != name:
        raise InvalidData("plan", f"be the one that the server named ({name})", found.name)
    return data.decode()


def transport_of(store: Store) -> HttpTransport:
    """The way to the server that the phone is enrolled with."""
    if not store.get("server"):
        raise InvalidParameter("phone", "be enrolled first (hushcall phone init --server URL)", "no server yet")
    return HttpTransport(store.get("server"), store.get("token"))


def _plan_at(url: str) -> str:
    """The plan of a server that the operator enrolled us with; before its first round it is the usual one."""
    try:
        return HttpTransport(url).current_round().plan
    except WrongServer:  # nobody leaves a server for a web page
        raise
    except (Refused, Unreachable):
        return ""


def _root(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        text = path.read_text(encoding="utf-8")
        if json.loads(text)["signed"]["_type"] == "root":
            return text
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InvalidData("root", "be the operator's root.json", str(path))


def _digest(given: str) -> str:
    if given and not _DIGEST.fullmatch(given.lower()):
        raise InvalidParameter("root_sha256", "be 64 hexadecimal digits", given)
    return given.lower()


def _token(given: str) -> str:
    """The value is in no message: it is a secret even where it is a wrong one."""
    usable = given.startswith("hcd_") and given.isascii() and given.isprintable() and len(given) <= LONGEST_TOKEN
    if given and not usable:
        raise InvalidParameter("token", "be a device's token: hcd_ and 64 digits", "something else")
    return given

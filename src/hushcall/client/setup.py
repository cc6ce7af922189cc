"""Setting up a client. Wrong arguments are found before anything is written or sent."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from hushcall.client.reporting import anonymity, participation, split_view
from hushcall.client.reporting.anonymity import require_other_host
from hushcall.client.reporting.consent import HOME_AREA, WHOLE_NUMBERS, Limits
from hushcall.client.reporting.transport import Enrolment, HttpTransport, checked_url
from hushcall.client.screening.screen import save_policy
from hushcall.client.storage.folder import TIMEOUT_SECONDS, locked
from hushcall.client.storage.store import LEFT, Store
from hushcall.client.storage.trouble import FILE, had_store
from hushcall.errors import InvalidData, InvalidParameter, Refused, Unreachable, WrongServer
from hushcall.protocol.numbers import NANP, PLANS, NumberingPlan, plan_named
from hushcall.protocol.numbers.plans import SHIPPED, take_plan
from hushcall.protocol.pairing import split

_DIGEST = re.compile("[0-9a-f]{64}")
MAX_TOKEN_LENGTH = 200
STALE = "stale_list"
"""Setting: the list in the folder, with the keys it was trusted for, is of a server that was left."""


@dataclass(frozen=True)
class Options:
    """What the owner sets. None and empty texts leave a setting as it is.

    Without the operator's ``root`` or its ``root_sha256``, the server's first root is trusted. With a ``relay`` the
    client takes part anonymously only. ``agreed_plan`` is a region, or the name of a plan that is not shipped: a server
    of another plan is refused. Where it is empty, any shipped plan is accepted.
    """

    invite: str = ""
    token: str = ""
    root: Path | None = None
    root_sha256: str = ""
    limits: Mapping[str, float | str | None] = field(default_factory=dict)
    policy: str | None = None
    block_days: int | None = None
    home_area: int | None = None
    trust_again: bool = False
    plan: NumberingPlan = NANP
    agreed_plan: str = ""
    relay: str = ""
    log: str = ""


@dataclass(frozen=True)
class SetUp:
    """The result of a set-up. ``before`` is the former server. ``device`` is 0 where the operator gave a token."""

    url: str
    device: int
    enrolled: bool
    before: str
    limits: Limits
    plan: NumberingPlan = NANP

    @property
    def moved(self) -> bool:
        """Whether another server was left: its list is gone, and what was spent there stays in the ledger."""
        return self.before not in ("", self.url)


def set_up(folder: Path, server: str | None, options: Options, timeout_seconds: float = TIMEOUT_SECONDS) -> SetUp:
    """Enrol the client of a folder (with a new server or operator's token), or change its settings.

    ``server`` may carry the root's digest, as a QR code does (:mod:`hushcall.protocol.pairing`).
    """
    server, named_digest = split(server) if server is not None else (None, "")
    if named_digest and options.root_sha256 and named_digest.lower() != options.root_sha256.lower():
        raise InvalidParameter("root_sha256", "be the digest that the address names", options.root_sha256)
    root, digest = _read_root(options.root), _checked_digest(options.root_sha256 or named_digest)
    token = _checked_token(options.token)
    if server is None and not is_set_up(folder):
        raise InvalidParameter("server", "be given the first time", None)
    url = checked_url(server) if server is not None else ""
    with closing(Store.open(folder)) as store, locked(folder, timeout_seconds):
        url = url or checked_url(store.get("server"))
        before = store.get("server")
        needed = server is not None if store.get(LEFT) else not store.get("token")
        enrol = before != url or needed or bool(token)
        if enrol and digest:  # before the client names itself there
            from hushcall.client.screening.list_sync import check_root  # takes a while to import

            check_root(url, digest)
        log = require_other_host("log", options.log, url) if options.log else store.get(split_view.LOG)
        limits = Limits.load(store).changed(_with_relay(store, url, options))
        limits.save(store)
        store.put(split_view.LOG, log)
        save_policy(store, options.policy, options.block_days)
        if options.home_area is not None:
            store.put(HOME_AREA, str(options.plan.number(options.home_area, options.plan.first_suffix).area))
        if options.trust_again:
            split_view.trust_again(store)
        if enrol:
            enrolment = Enrolment(0, token, _plan_at(url)) if token else HttpTransport(url).enrol(options.invite)
            _require_agreed(store, options.agreed_plan, enrolment.plan)
            _change_server(store, url, enrolment, root, digest)
        else:
            _pin(store, root, digest)
        drop_stale_list(store)  # also where a change of servers was interrupted
        if options.limits.get("area_in_clear"):
            store.put(WHOLE_NUMBERS, "")
        return SetUp(url, int(store.get("device")), enrol, before, limits, plan_of(store))


def _with_relay(store: Store, url: str, options: Options) -> dict[str, float | str | None]:
    """Save the owner's relay. Returns the limits to change: with a relay there are no names, and the reverse."""
    changes, before = dict(options.limits), anonymity.route_of(store)
    moves = store.get("server") not in ("", url)
    if options.relay:
        if changes.get("by_name"):
            raise InvalidParameter("relay", "be left out by a phone that reports by name", options.relay)
        relay = require_other_host("relay", options.relay, url)
        anonymity.save_route(store, relay, anonymity.gateway_by(relay))
        return {**changes, "by_name": False}
    if changes.get("by_name") is False and (moves or before is None):
        raise InvalidParameter("relay", "be given with --anonymous-only, like https://relay.example.net", None)
    if changes.get("by_name") or moves:
        anonymity.save_route(store, "", None)
    return changes


def leave(store: Store) -> None:
    """Have the device deleted on its server, directly: the token names it. The ledger stays."""
    if not store.get("token"):
        raise InvalidParameter("phone", "be enrolled", "no device")
    try:
        transport_of(store).leave()
    except Refused as refusal:
        if refusal.problem != "unknown-token":  # deleted already, and the answer was lost
            raise
    with store.transaction():
        for name in ("token", "device"):
            store.put(name, "" if name == "token" else "0")
        store.put(LEFT, "yes")
        store.run("DELETE FROM passes")
        participation.end_unfinished(store, "this phone has left")


def is_set_up(folder: Path) -> bool:
    return (folder / FILE).exists() or had_store(folder)


def opened(folder: Path, *, reading: bool = False) -> Store:
    if not is_set_up(folder):
        raise InvalidParameter("phone", "be set up first (hushcall phone init --server URL)", str(folder))
    return Store.open(folder, reading=reading)


def plan_of(store: Store) -> NumberingPlan:
    """The numbering plan that the server named when the client enrolled. Rounds of other plans are rejected."""
    if plan_file := store.get("plan_file"):
        take_plan(plan_file.encode())
    return plan_named(store.get("plan") or NANP.name)


def transport_of(store: Store) -> HttpTransport:
    if not store.get("server"):
        raise InvalidParameter("phone", "be enrolled first (hushcall phone init --server URL)", "no server yet")
    return HttpTransport(store.get("server"), store.get("token"))


def _change_server(store: Store, url: str, enrolment: Enrolment, root: str, root_sha256: str) -> None:
    """In one transaction: at no moment is one server trusted by what was pinned for another."""
    plan_file = _plan_file(url, enrolment.plan)  # one that cannot be had is an error before anything is saved
    settings = {"server": url, "token": enrolment.token, "device": str(enrolment.device), WHOLE_NUMBERS: ""}
    settings |= {"plan": enrolment.plan, "plan_file": plan_file, LEFT: ""}
    with store.transaction():
        if store.get("server") not in ("", url):
            settings |= {"root": "", "root_sha256": "", STALE: "yes"}
        for name, value in settings.items():
            store.put(name, value)
        _pin(store, root, root_sha256)


def _require_agreed(store: Store, agreed: str, name: str) -> None:
    """Raise unless the owner agreed to the server's plan: it decides which digits travel in the clear."""
    plan = name or NANP.name
    if SHIPPED.get(agreed.upper(), agreed or plan) != plan:
        raise InvalidParameter("plan", f"be that of the server, {plan}", agreed)
    if plan not in PLANS and agreed != plan and store.get("plan") != plan:
        rule = f"be a shipped one, or agreed to (hushcall phone init --plan {plan})"
        raise InvalidParameter("the server's plan", rule, plan)


def _pin(store: Store, root: str, root_sha256: str) -> None:
    for name, value in (("root", root), ("root_sha256", root_sha256)):
        if value:
            store.put(name, value)


def drop_stale_list(store: Store) -> None:
    """Delete the signed list of a former server, and its metadata: the next sync starts anew."""
    if not store.get(STALE):
        return
    try:
        if store.lists.exists():
            shutil.rmtree(store.lists)
    except OSError as error:
        raise InvalidData("the phone's list", f"be erasable ({error.strerror})", str(store.lists)) from None
    store.put(STALE, "")


def _plan_file(url: str, name: str) -> str:
    if not name or name in PLANS:
        return ""
    data = HttpTransport(url).plan_file(name)
    plan = take_plan(data)
    if plan.name != name:
        raise InvalidData("plan", f"be the one that the server named ({name})", plan.name)
    return data.decode()


def _plan_at(url: str) -> str:
    """The plan of a server's current round. Empty before its first round, which means the usual plan."""
    try:
        return HttpTransport(url).current_round().plan
    except WrongServer:  # a web page is no server to change to
        raise
    except (Refused, Unreachable):
        return ""


def _read_root(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        text = path.read_text(encoding="utf-8")
        if json.loads(text)["signed"]["_type"] == "root":
            return text
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InvalidData("root", "be the operator's root.json", str(path))


def _checked_digest(text: str) -> str:
    if text and not _DIGEST.fullmatch(text.lower()):
        raise InvalidParameter("root_sha256", "be 64 hexadecimal digits", text)
    return text.lower()


def _checked_token(text: str) -> str:
    """The value is in no message: it is a secret even where it is wrong."""
    usable = text.startswith("hcd_") and text.isascii() and text.isprintable() and len(text) <= MAX_TOKEN_LENGTH
    if text and not usable:
        raise InvalidParameter("token", "be a device's token: hcd_ and 64 digits", "something else")
    return text

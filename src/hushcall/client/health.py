"""Examines a client: findings about its store, server, clock, budget, calls and list, and what to do about them."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hushcall.client import setup
from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.reporting import consent, ledger, participation, split_view
from hushcall.client.reporting.anonymity import MAX_CLOCK_SKEW_SECONDS
from hushcall.client.screening import subscriptions
from hushcall.client.screening.lookup import LIST_FILE, ImportedNumbers, LoadedList
from hushcall.client.screening.server_list import ServerList
from hushcall.client.screening.subscriptions import Subscription
from hushcall.client.storage import device_key
from hushcall.client.storage.folder import HOME_FILE
from hushcall.client.storage.store import DAY_SECONDS, LEFT, NO_LIST_YET, SYNC_TROUBLE
from hushcall.client.storage.trouble import StoreTrouble
from hushcall.errors import HushcallError, InvalidList, Refused, Unreachable, WrongServer
from hushcall.protocol.blocklist import iso
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import OVER_FOR_PHONES
from hushcall.wording import counted


@dataclass(frozen=True, slots=True)
class Finding:
    topic: str
    ok: bool
    words: str
    todo: str = ""


NOT_SET_UP = Finding(
    "phone", False, "this phone is not set up.", "Run: hushcall phone init --server https://your.server"
)


def examine_folder(folder: Path, *, offline: bool = False) -> list[Finding]:
    """Examine the client of a folder. That there is none, or that it cannot be opened, is a finding too."""
    if not setup.is_set_up(folder):
        return [NOT_SET_UP]
    try:
        with closing(setup.opened(folder)) as store:
            return (
                examine(Client(store, setup.transport_of(store), setup.plan_of(store)), offline=offline)
                if store.get("server")
                else [NOT_SET_UP]
            )
    except StoreTrouble as trouble:
        return [Finding("store", False, trouble.words, trouble.todo)]
    except HushcallError as error:
        return [Finding("phone", False, str(error))]


def examine(client: Client, *, offline: bool = False) -> list[Finding]:
    """Examine everything. An unreachable server is a finding, not an error. With ``offline`` it is not asked."""
    now = int(client.clock())
    info, server = (None, None) if offline else _server(client)
    findings = [server] if server else []
    if info is not None:
        findings += [_clock(info, now), _consent(client, info), _round(client, info)]
    findings += _copy(client, now)
    findings += [_budget(client, info, now), _calls(client, info, now), _list(client, info, now)]
    return [*findings, *(_other_list(client, row, now) for row in subscriptions.in_order(client.store) if row.url)]


def _server(client: Client) -> tuple[RoundInfo | None, Finding]:
    try:
        info = client.look()
    except Unreachable as error:
        return None, Finding("server", False, f"{error}", "Check the network; reports wait, and the list still works.")
    except WrongServer as error:
        return None, Finding("server", False, f"there is none of hushcall at {error.url}: {error.detail}", error.todo)
    except Refused as error:
        if error.problem == "no-round":
            return None, Finding("server", True, "reachable; it has not started a round yet.")
        return None, Finding("server", False, str(error), error.todo or "Ask the operator of the server.")
    except HushcallError as error:
        return None, Finding("server", False, f"its answer cannot be read: {error}", "Is it a hushcall server?")
    return info, Finding("server", True, f"reachable; round {info.round} is {info.state}.")


def _clock(info: RoundInfo, now: int) -> Finding:
    skew_seconds = now - info.server_time
    if abs(skew_seconds) <= MAX_CLOCK_SKEW_SECONDS:
        return Finding("clock", True, "agrees with the server's.")
    direction = "ahead of" if skew_seconds > 0 else "behind"
    words = f"this phone's clock is {counted(abs(skew_seconds) // 60, 'minute')} {direction} the server's."
    return Finding("clock", False, words, "Set the clock (the ledger counts days by it), or tell the operator.")


def _consent(client: Client, info: RoundInfo) -> Finding:
    """Whether the owner agreed to the server's round, and the server shows this client what it shows everybody."""
    limits = client.limits
    clear = "area codes in the clear" if limits.area_in_clear else "nothing in the clear"
    words = (
        f"agreed to {limits.mechanisms.replace(' ', ', ')} with ε up to {float(limits.report):g}, {clear}, one caller "
        f"in one report in {limits.horizon_days} days, {limits.rounds_per_day} a day."
    )
    if rejection := split_view.rejection(client.store, client.transport.url):
        todo = "Ask others what they were shown, and the operator; hushcall phone init --trust-again takes part again."
        return Finding("terms", False, f"this phone takes no part with its server: {rejection}.", todo)
    rejection = consent.round_rejection(limits, client.plan, info)
    return Finding("terms", not rejection, words, f"Nothing will be sent: {rejection}." if rejection else "")


def _copy(client: Client, now: int) -> list[Finding]:
    until = device_key.made_up_until(client.store, now, client.limits.horizon_days)
    words = f"this phone's folder was copied or restored: until {iso(until)} it reports made-up callers only."
    return [Finding("copy", True, words)] if until else []


def _round(client: Client, info: RoundInfo) -> Finding:
    if client.store.get(LEFT):
        return Finding("round", True, "this phone has left its server.")
    row = participation.find(client.store, client.transport.url, info.round)
    if row is None:
        return Finding("round", True, f"round {info.round}: not joined.")
    why = f" ({row.why})" if row.why else ""
    return Finding("round", row.state != participation.CLOSED, f"round {info.round}: {row.state}{why}.")


def first_list(info: RoundInfo | None) -> str:
    words = "the server has none yet, so every caller rings; that is no trouble of this phone's."
    if info is None:
        return f"{words} The first comes with its first round that ends."
    if info.state in OVER_FOR_PHONES:
        return f"{words} It may come any moment now that round {info.round} is {info.state}."
    return f"{words} The first comes after round {info.round} has closed, at {iso(info.closes)}: sync then."


def _budget(client: Client, info: RoundInfo | None, now: int) -> Finding:
    limits = client.limits
    window = ledger.spent(client.store, now - limits.window_days * DAY_SECONDS)
    words = (
        f"ε = {float(window):g} of {float(limits.window):g} in {limits.window_days} days, "
        f"{float(ledger.spent(client.store)):g} of {float(limits.life):g} for life."
    )
    row = participation.find(client.store, client.transport.url, info.round) if info else None
    cost = Fraction(info.epsilon) if info and row is None else Fraction(0)
    rejection = ledger.rejection(client.store, limits, cost, now)
    return Finding("budget", not rejection, words, f"Nothing will be sent: {rejection}." if rejection else "")


def _calls(client: Client, info: RoundInfo | None, now: int) -> Finding:
    limits = client.limits
    window_days = min(limits.window_days, info.window_days) if info else limits.window_days
    waiting = candidates.count_reportable(client.store, now, window_days, limits.horizon_days)
    contacts = len(candidates.contacts(client.store))
    words = (
        f"{counted(waiting, 'unknown number') if waiting else 'no unknown numbers'} waiting; "
        f"{counted(contacts, 'contact') if contacts else 'no contacts'} (never reported)."
    )
    todo = "Add contacts: hushcall phone ingest --contacts FILE"
    if client.store.folder and (client.store.folder / HOME_FILE).exists():
        todo = "Save contacts in the router, or as .vcf files in a folder: hushcall home init --folder FOLDER"
    return Finding("calls", bool(contacts), words, "" if contacts else todo)


def _list(client: Client, info: RoundInfo | None, now: int) -> Finding:
    others = None
    with suppress(InvalidList):
        others = ImportedNumbers.load(client.store.lists)
    imported = f" Imported: {counted(len(others.all(now)), 'number')}." if others else ""
    try:
        loaded = LoadedList.load(client.store.lists)
    except InvalidList:
        if (client.store.lists / LIST_FILE).exists():
            return Finding("list", False, "the list here cannot be read.", "Run: hushcall phone sync")
        if client.store.get(NO_LIST_YET):
            return Finding("list", True, f"{first_list(info)}{imported}")
        return Finding("list", False, "this phone has no list yet: every caller rings.", "Run: hushcall phone sync")
    words = f"version {loaded.version}, {counted(len(loaded), 'number')}.{imported}"
    if loaded.expires is not None and loaded.expired(now):
        return Finding("list", False, f"{words} It expired on {iso(loaded.expires)}.", "Run: hushcall phone sync")
    if trouble := client.store.get(SYNC_TROUBLE):
        todo = "This list still works. Sync again in a day or two; if it stays so, ask the operator."
        return Finding("list", False, f"{words} The last sync was refused: {trouble}", todo)
    return Finding("list", True, words)


def _other_list(client: Client, row: Subscription, now: int) -> Finding:
    """A list of another server. When it has expired it names nobody."""
    server_list = ServerList(row.name, row.folder(client.store), own=False)
    with suppress(InvalidList):
        server_list.refresh()
    loaded, expires, topic = server_list.loaded, server_list.expires, f"list of {row.name}"
    todo = f"Ask its operator, or: hushcall phone lists remove {row.name}"
    trouble = f" The last sync failed: {row.trouble}." if row.trouble else ""
    if expires is None:
        return Finding(topic, False, f"it is not here yet, and names nobody.{trouble}", "Run: hushcall phone sync")
    if now >= expires:
        return Finding(topic, False, f"it expired on {iso(expires)}, and names nobody.{trouble}", todo)
    words = f"version {loaded.version}, {counted(len(loaded), 'number')}." if loaded else "none yet."
    return Finding(topic, not trouble, f"{words}{trouble}", todo if trouble else "")

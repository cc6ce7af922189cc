"""How the phone is doing: its store, its server and its clock come in, what is wrong and what to do leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hushcall.errors import HushcallError, InvalidList, Refused, Unreachable, WrongServer
from hushcall.phone import setup
from hushcall.phone.calls import candidates
from hushcall.phone.home import device_key
from hushcall.phone.home.store import NO_LIST_YET, SYNC_TROUBLE
from hushcall.phone.home.trouble import StoreTrouble
from hushcall.phone.phone import Phone
from hushcall.phone.reporting import ledger, participation, terms, witness
from hushcall.phone.reporting.ledger import DAY
from hushcall.phone.screening.lookup import LIST_FILE, LoadedList
from hushcall.protocol.blocklist import iso
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.states import OVER_FOR_PHONES
from hushcall.wording import counted

CLOCK_SECONDS = 300
"""A clock this far off the server's is worth a word."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``todo`` is empty where nothing needs doing."""

    topic: str
    ok: bool
    words: str
    todo: str = ""


NOT_SET_UP = Finding(
    "phone", False, "this phone is not set up.", "Run: hushcall phone init --server https://your.server"
)


def examine_folder(folder: Path) -> list[Finding]:
    """Look at the phone in a folder; that there is none, or that it cannot be opened, is a finding too."""
    if not setup.is_set_up(folder):
        return [NOT_SET_UP]
    try:
        with closing(setup.opened(folder)) as store:
            return examine(Phone(store, setup.transport_of(store))) if store.get("server") else [NOT_SET_UP]
    except StoreTrouble as trouble:
        return [Finding("store", False, trouble.words, trouble.todo)]
    except HushcallError as error:
        return [Finding("phone", False, str(error))]


def examine(phone: Phone) -> list[Finding]:
    """Look at everything; a server that is away is a finding, not an error."""
    now = int(phone.clock())
    info, server = _server(phone)
    findings = [server]
    if info is not None:
        findings += [_clock(info, now), _terms(phone, info), *_round(phone, info)]
    findings += _copy(phone, now)
    return [*findings, _budget(phone, info, now), _calls(phone, info, now), _list(phone, info, now)]


def _server(phone: Phone) -> tuple[RoundInfo | None, Finding]:
    try:
        info = phone.transport.current_round()
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
    off = now - info.server_time
    if abs(off) <= CLOCK_SECONDS:
        return Finding("clock", True, "agrees with the server's.")
    words = (
        f"this phone's clock is {counted(abs(off) // 60, 'minute')} {'ahead of' if off > 0 else 'behind'} the server's."
    )
    return Finding("clock", False, words, "Set the clock (the ledger counts days by it), or tell the operator.")


def _terms(phone: Phone, info: RoundInfo) -> Finding:
    """Whether the server keeps to what the owner agreed to, and shows this phone what it shows everybody."""
    limits = phone.limits
    clear = "area codes in the clear" if limits.area_in_clear else "nothing in the clear"
    words = (
        f"agreed to {limits.mechanisms.replace(' ', ', ')} with ε up to {float(limits.report):g}, {clear}, one caller "
        f"in one report in {limits.horizon} days, {limits.rounds_per_day} a day."
    )
    if why := witness.trouble(phone.store, phone.transport.url):
        todo = "Ask others what they were shown, and the operator; hushcall phone init --trust-again takes part again."
        return Finding("terms", False, f"this phone takes no part with its server: {why}.", todo)
    why = terms.objection(limits, phone.plan, info)
    return Finding("terms", not why, words, why)


def _copy(phone: Phone, now: int) -> list[Finding]:
    copied, horizon = device_key.look_for_copies(phone.store, now), phone.limits.horizon
    if copied is None or now >= copied + horizon * DAY:
        return []
    until = iso(copied + horizon * DAY)
    words = f"this phone's folder was copied or restored: until {until} it reports made-up callers only."
    return [Finding("copy", True, words)]


def _round(phone: Phone, info: RoundInfo) -> Iterator[Finding]:
    row = participation.find(phone.store, phone.transport.url, info.round)
    if row is None:
        yield Finding("round", True, f"round {info.round}: not joined.")
    else:
        why = f" ({row.why})" if row.why else ""
        yield Finding("round", row.state != participation.CLOSED, f"round {info.round}: {row.state}{why}.")


def first_list(info: RoundInfo | None) -> str:
    """When a server that has no list will have one, in words."""
    words = "the server has none yet, so every caller rings; that is no trouble of this phone's."
    if info is None:
        return f"{words} The first comes with its first round that ends."
    if info.state in OVER_FOR_PHONES:
        return f"{words} It may come any moment now that round {info.round} is {info.state}."
    return f"{words} The first comes after round {info.round} has closed, at {iso(info.closes)}: sync then."


def _budget(phone: Phone, info: RoundInfo | None, now: int) -> Finding:
    limits = phone.limits
    window = ledger.spent(phone.store, now - limits.days * DAY)
    words = (
        f"ε = {float(window):g} of {float(limits.window):g} in {limits.days} days, "
        f"{float(ledger.spent(phone.store)):g} of {float(limits.life):g} for life."
    )
    row = participation.find(phone.store, phone.transport.url, info.round) if info else None
    asked = Fraction(info.epsilon) if info and row is None else Fraction(0)
    why = ledger.objection(phone.store, limits, asked, now)
    return Finding("budget", not why, words, f"Nothing will be sent: {why}." if why else "")


def _calls(phone: Phone, info: RoundInfo | None, now: int) -> Finding:
    limits = phone.limits
    days = min(limits.days, info.window) if info else limits.days
    waiting = candidates.waiting(phone.store, now, days, limits.horizon)
    contacts = len(candidates.contacts(phone.store))
    words = (
        f"{counted(waiting, 'unknown number') if waiting else 'no unknown numbers'} waiting; "
        f"{counted(contacts, 'contact') if contacts else 'no contacts'} (never reported)."
    )
    todo = "" if contacts else "Add contacts: hushcall phone ingest --contacts FILE"
    return Finding("calls", bool(contacts), words, todo)


def _list(phone: Phone, info: RoundInfo | None, now: int) -> Finding:
    try:
        loaded = LoadedList.load(phone.store.lists)
    except InvalidList:
        if (phone.store.lists / LIST_FILE).exists():
            return Finding("list", False, "the list here cannot be read.", "Run: hushcall phone sync")
        if phone.store.get(NO_LIST_YET):
            return Finding("list", True, first_list(info))
        return Finding("list", False, "this phone has no list yet: every caller rings.", "Run: hushcall phone sync")
    words = f"version {loaded.version}, {counted(len(loaded), 'number')}."
    if loaded.expires is not None and loaded.expired(now):
        return Finding("list", False, f"{words} It expired on {iso(loaded.expires)}.", "Run: hushcall phone sync")
    if trouble := phone.store.get(SYNC_TROUBLE):
        todo = "This list still works. Sync again in a day or two; if it stays so, ask the operator."
        return Finding("list", False, f"{words} The last sync was refused: {trouble}", todo)
    return Finding("list", True, words)

"""A FRITZ!Box over TR-064 (service ``X_AVM-DE_OnTel``), by fritzconnection: call list, phonebooks, call barring.

The box's user needs the right "Voice messages, fax messages, FRITZ!App Fon and call list" and no other. Entries whose
name begins with ``hushcall`` are ours. No other entry is changed, and our phonebook has no contacts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hushcall.errors import InvalidData, MissingExtra
from hushcall.formats.blocklists.address_books import MAX_NUMBERS, contact_xml
from hushcall.formats.blocklists.writer import MARK
from hushcall.formats.calls.fritzbox import call_list
from hushcall.wording import counted
from hushcall_home.config import Router
from hushcall_home.parts import Fetched, Place, Trouble

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from fritzconnection import FritzConnection
    from fritzconnection.core.fritzmonitor import FritzMonitor

SERVICE = "X_AVM-DE_OnTel1"
TIMEOUT_SECONDS = 20
LOCKOUT_SECONDS = 3600  # after a refused password: each try with a wrong one makes the box wait longer
_BLOCKING_MODES = frozenset(("eBellBlockade", "eBusy", "eNoSignal"))
_RIGHT = "Its user needs the right to voice messages, fax messages, FRITZ!App Fon and call list."


@dataclass(frozen=True, slots=True)
class Contact:
    unique_id: int | None
    name: str
    numbers: tuple[str, ...]

    @classmethod
    def of(cls, element: Element) -> Contact:
        text = element.findtext("uniqueid") or ""
        numbers = tuple(number.text.strip() for number in element.iter("number") if number.text)
        return cls(int(text) if text.isdecimal() else None, element.findtext("person/realName") or "", numbers)


class Unsupported(Trouble):
    """The box has no such action."""


class Full(Trouble):
    """The box takes no more entries."""


class Box:
    """One connection, made when it is first needed and made anew after an error."""

    def __init__(self, router: Router) -> None:
        self.router = router
        parts = urlsplit(router.address if "://" in router.address else f"https://{router.address}")
        self.host, self.tls, self.port = parts.hostname or "", parts.scheme != "http", parts.port
        self._connection: FritzConnection | None = None
        self.refused: Trouble | None = None
        """Why the box refuses us. Only the call list asks again then: each refusal makes the box wait longer."""

    def call(self, action: str, **arguments: str | int) -> dict[str, Any]:
        with self._errors(action) as connection:
            return dict(connection.call_action(SERVICE, action, arguments=dict(arguments)))

    def fetch(self, address: str) -> bytes:
        """A document at an address that an action gave. The box put a session into it."""
        with self._errors("documents") as connection:
            answer = connection.session.get(address, timeout=TIMEOUT_SECONDS)
            answer.raise_for_status()
            return bytes(answer.content)

    def contacts(self, action: str, **book: int) -> list[Contact]:
        from defusedxml import DefusedXmlException
        from defusedxml.ElementTree import ParseError, fromstring

        address = self.call(action, **book).get("NewPhonebookURL")
        try:
            root = fromstring(self.fetch(str(address)) if address else b"<phonebooks/>", forbid_dtd=True)
        except (ParseError, DefusedXmlException, ValueError):
            raise Trouble("The FRITZ!Box sent half a phonebook.") from None
        return [Contact.of(element) for element in root.iter("contact")]

    @contextmanager
    def _errors(self, action: str) -> Iterator[FritzConnection]:
        """The connection. What goes wrong with it becomes a :class:`Trouble`, and it is made anew."""
        try:
            import requests
            from fritzconnection.core import exceptions as fritz
        except ImportError:
            raise MissingExtra("The FRITZ!Box", "home") from None
        try:
            yield self._connected()
            self.refused = None
        except fritz.FritzLookUpError:
            raise Trouble("An entry of the FRITZ!Box was deleted meanwhile.") from None
        except (fritz.FritzActionError, fritz.FritzServiceError, KeyError):
            raise Unsupported(f"This FRITZ!OS has no {action}.", "Update FRITZ!OS.") from None
        except (fritz.FritzAuthorizationError, fritz.FritzSecurityError):
            self._connection = None
            words = f"The FRITZ!Box refuses the user {self.router.user or 'without a name'}, or its password."
            todo = f"Run: hushcall home init --fritzbox-user NAME, which asks for the password. {_RIGHT}"
            self.refused = Trouble(words, todo, LOCKOUT_SECONDS)
            raise self.refused from None
        except fritz.FritzInternalError:
            if action.startswith(("Set", "Add")):
                raise Full("The FRITZ!Box takes no more entries.", "Delete some, or restart it.") from None
            raise Trouble(f"The FRITZ!Box cannot answer {action} now.") from None
        except requests.Timeout:
            self._connection = None
            words = f"The FRITZ!Box at {self.host} did not answer in {TIMEOUT_SECONDS} seconds."
            raise Trouble(words, "It is busy or starting: this is tried again.") from None
        except Trouble:
            raise
        except Exception as error:  # fritzconnection raises what its parts raise when an answer is cut
            self._connection = None
            away = isinstance(error, fritz.FritzConnectionException | requests.ConnectionError)
            fact = "does not answer" if away else f"does not answer as it should ({type(error).__name__})"
            todo = "Is it on, and does it allow access for applications (Home Network > Network > Network Settings)?"
            raise Trouble(f"The FRITZ!Box at {self.host} {fact}.", todo) from None

    def _connected(self) -> FritzConnection:
        if self._connection is None:
            from fritzconnection import FritzConnection
            from fritzconnection.core.logger import fritzlogger

            fritzlogger.disabled = True  # it writes to standard error what is said here

            class Direct(FritzConnection):  # type: ignore[misc]
                """Without the environment's proxies and certificates: the box is in the house, its certificate too."""

                def _load_router_api(self, *args: object) -> None:
                    self.session.trust_env = False
                    super()._load_router_api(*args)

            self._connection = Direct(
                address=self.host,
                port=self.port,
                user=self.router.user or None,
                password=self.router.password,
                timeout=TIMEOUT_SECONDS,
                use_tls=self.tls,
            )
        return self._connection


class CallList:
    name = "fritzbox"

    def __init__(self, box: Box, zone: tzinfo) -> None:
        self._box, self._zone = box, zone
        self._monitor: FritzMonitor | None = None

    def address(self) -> str:
        address = str(self._box.call("GetCallList").get("NewCallListURL") or "")
        if not address:
            raise Trouble("The FRITZ!Box keeps no call list.", "Switch it on: Telephony > Calls.")
        return address

    def calls(self, since: str) -> Fetched:
        """Fetch the calls after the last id. The box numbers calls, and starts anew when it is reset."""
        timestamp, last = json.loads(since) if since else (0, 0)
        data = self._box.fetch(f"{self.address()}{f'&timestamp={timestamp}&id={last}' if since else ''}")
        try:
            numbered = call_list(data, self._zone, (timestamp, last))
        except InvalidData as error:
            raise Trouble(f"The FRITZ!Box sent a call list that cannot be read ({error.field}).") from None
        return Fetched(numbered.calls, json.dumps(numbered.position), numbered.marks, numbered.malformed)

    def contacts(self) -> Iterable[str]:
        """The numbers of all phonebooks but ours, and but those that the household blocks as a whole."""
        blocked = _blocked_books(self._box)
        for book in _book_ids(self._box):
            for contact in () if book in blocked else self._box.contacts("GetPhonebook", NewPhonebookID=book):
                if not contact.name.startswith(MARK):
                    yield from contact.numbers

    def listen(self, tell: Callable[[str | None], None]) -> None:
        from fritzconnection.core.fritzmonitor import FritzMonitor

        if self._monitor is not None and self._monitor.is_alive:
            return
        monitor = FritzMonitor(address=self._box.host, port=self._box.router.monitor_port, timeout=2)
        try:
            lines = monitor.start()
        except OSError:  # the household has not switched it on (#96*5*)
            return
        self._monitor = monitor
        Thread(target=_forward, args=(monitor, lines, tell), daemon=True).start()

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()


def _forward(monitor: FritzMonitor, lines: Queue[str], tell: Callable[[str | None], None]) -> None:
    """Events are ``date;RING;connection;caller;called;line;`` and ``date;DISCONNECT;connection;seconds;``."""
    while monitor.is_alive:
        try:
            fields = lines.get(timeout=1).split(";")
        except Empty:
            continue
        if len(fields) > 3 and fields[1] == "RING":
            tell(fields[3])
        elif len(fields) > 1 and fields[1] == "DISCONNECT":
            tell(None)


class _Entries(Place):
    """Entries of ours among the box's others, and the actions that list, set and delete them."""

    listing: str
    setting: str
    deletion: str
    size = 1  # numbers of an entry

    def __init__(self, box: Box) -> None:
        self._box = box
        self._book: dict[str, int] = {}  # which phonebook, where there are several

    def entries(self) -> dict[int, tuple[str, ...]]:
        """Unique id → numbers."""
        ours = (entry for entry in self._box.contacts(self.listing, **self._book) if entry.name.startswith(MARK))
        return {entry.unique_id: entry.numbers for entry in ours if entry.unique_id is not None}

    def write(self, numbers: Sequence[str]) -> str:
        """Write what differs. A full box holds the first numbers: as many as it has room for."""
        target = numbers[: self._box.router.limit]
        while True:
            try:
                for unique_id, held in changes(self.entries(), target, self.size):
                    if unique_id is not None and not held:
                        self._box.call(self.deletion, **self._book, NewPhonebookEntryUniqueID=unique_id)
                    else:
                        data = contact_xml(MARK, held, unique_id)
                        self._box.call(self.setting, **self._book, NewPhonebookEntryData=data)
                break
            except Full:
                room = sum(map(len, self.entries().values()))
                if not 0 < room < len(target):
                    raise
                target = target[:room]
        words = f"The FRITZ!Box holds {counted(len(target), 'number')}"
        return words + (f" of {len(numbers):,}: the most reported ones." if len(target) < len(numbers) else ".")


class CallBarring(_Entries):
    """The box's call barring, which has entries of the household too. Old FRITZ!OS has none over TR-064."""

    name = "fritzbox-barring"
    listing, setting, deletion = "GetCallBarringList", "SetCallBarringEntry", "DeleteCallBarringEntryUID"

    def write(self, numbers: Sequence[str]) -> str:
        if self._box.refused:
            raise self._box.refused
        try:
            return super().write(numbers)
        except Unsupported:
            if _blocked_books(self._box).intersection(_our_books(self._box)):
                return f"This FRITZ!OS has no call barring for programs: it blocks the phonebook {MARK}."
            words = "This FRITZ!OS has no call barring for programs."
            todo = f"Update FRITZ!OS, or block the phonebook {MARK} once: Telephony > Call Handling > Call Blocks."
            raise Trouble(words, todo) from None


class Phonebook(_Entries):
    """A phonebook of ours, so that every telephone shows who rings, and a box can block it as a whole."""

    name = "fritzbox-phonebook"
    listing, setting, deletion = "GetPhonebook", "SetPhonebookEntryUID", "DeletePhonebookEntryUID"
    size = MAX_NUMBERS

    def write(self, numbers: Sequence[str]) -> str:
        if self._box.refused:
            raise self._box.refused
        books = _our_books(self._box)
        if not books:
            self._box.call("AddPhonebook", NewPhonebookExtraID=MARK, NewPhonebookName=MARK)
            books = _our_books(self._box)
        if not books:
            raise Trouble("The FRITZ!Box made no phonebook for the list.")
        self._book = {"NewPhonebookID": books[0]}
        return super().write(numbers)


def changes(
    entries: Mapping[int, tuple[str, ...]], numbers: Iterable[str], size: int
) -> list[tuple[int | None, tuple[str, ...]]]:
    """What to write so that the entries hold exactly these numbers, at most ``size`` each.

    An id with numbers is rewritten, an id without any is deleted, and None is a new entry. Entries that need no change
    are not named.

    >>> changes({7: ("+491", "+492"), 8: ("+493",)}, ["+492", "+494", "+495"], 2)
    [(7, ('+492', '+494')), (8, ('+495',))]
    """
    unplaced = dict.fromkeys(numbers)
    staying: dict[int, tuple[str, ...]] = {}
    for unique_id, held in entries.items():
        staying[unique_id] = tuple(number for number in dict.fromkeys(held) if number in unplaced)
        for number in staying[unique_id]:
            del unplaced[number]
    waiting, rows = list(unplaced), list[tuple[int | None, tuple[str, ...]]]()
    for unique_id, held in staying.items():
        room = max(0, size - len(held))
        filled, waiting = (*held, *waiting[:room]), waiting[room:]
        if filled != entries[unique_id]:
            rows.append((unique_id, filled))
    rows.sort(key=lambda row: bool(row[1]))  # deletions make room
    return [*rows, *((None, tuple(waiting[start : start + size])) for start in range(0, len(waiting), size))]


def _book_ids(box: Box) -> list[int]:
    return [int(book) for book in str(box.call("GetPhonebookList").get("NewPhonebookList") or "").split(",") if book]


def _our_books(box: Box) -> list[int]:
    about = {book: box.call("GetPhonebook", NewPhonebookID=book) for book in _book_ids(box)}
    names = ("NewPhonebookExtraID", "NewPhonebookName")
    return [book for book, facts in about.items() if MARK in map(facts.get, names)]


def _blocked_books(box: Box) -> set[int]:
    """The phonebooks whose callers the household lets ring nowhere."""
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root = fromstring(box.call("GetDeflections").get("NewDeflectionList") or "<List/>", forbid_dtd=True)
    except (Unsupported, ParseError):
        return set()
    rules = [{child.tag: child.text or "" for child in item} for item in root.iter("Item")]
    return {
        int(rule["PhonebookID"])
        for rule in rules
        if rule.get("Enable") == "1" and rule.get("Type") == "fromPB" and rule.get("Mode") in _BLOCKING_MODES
        if rule.get("PhonebookID", "").isdecimal()
    }

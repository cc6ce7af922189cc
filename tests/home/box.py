"""A FRITZ!Box on loopback: TR-064 with service descriptions, SOAP and digest authentication, call list, phonebooks,
call barring, deflections, and the call monitor on a socket. Written from what AVM and others publish of the interface.

Faults are fields: what a test sets is how the box behaves from then on.
"""

from __future__ import annotations

import hashlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from defusedxml.ElementTree import fromstring

ON_TEL = "urn:dslforum-org:service:X_AVM-DE_OnTel:1"
DEVICE_INFO = "urn:dslforum-org:service:DeviceInfo:1"
SECURITY = "urn:dslforum-org:service:LANConfigSecurity:1"
REALM = "F!Box SOAP-Auth"
BARRING = ("GetCallBarringList", "SetCallBarringEntry", "DeleteCallBarringEntryUID")
# Action → names in, names out. All variables are strings, but for what ends in ID.
ACTIONS: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    ON_TEL: {
        "GetCallList": ((), ("NewCallListURL",)),
        "GetPhonebookList": ((), ("NewPhonebookList",)),
        "GetPhonebook": (("NewPhonebookID",), ("NewPhonebookName", "NewPhonebookExtraID", "NewPhonebookURL")),
        "AddPhonebook": (("NewPhonebookExtraID", "NewPhonebookName"), ()),
        "SetPhonebookEntryUID": (("NewPhonebookID", "NewPhonebookEntryData"), ("NewPhonebookEntryUniqueID",)),
        "DeletePhonebookEntryUID": (("NewPhonebookID", "NewPhonebookEntryUniqueID"), ()),
        "GetCallBarringList": ((), ("NewPhonebookURL",)),
        "SetCallBarringEntry": (("NewPhonebookEntryData",), ("NewPhonebookEntryUniqueID",)),
        "DeleteCallBarringEntryUID": (("NewPhonebookEntryUniqueID",), ()),
        "GetDeflections": ((), ("NewDeflectionList",)),
    },
    DEVICE_INFO: {"GetInfo": ((), ("NewModelName", "NewSoftwareVersion"))},
    SECURITY: {"X_AVM-DE_GetUserList": ((), ("NewX_AVM-DE_UserList",))},
}
BERLIN = ZoneInfo("Europe/Berlin")
PATHS = {ON_TEL: "x_contact", DEVICE_INFO: "deviceinfo", SECURITY: "lanconfigsecurity"}


@dataclass
class BoxCall:
    """A row of the call list. Types: 1 taken, 2 missed, 3 made, 9 going on, 10 rejected."""

    id: int
    type: int
    number: str
    at: float
    name: str = ""
    port: str = ""


@dataclass
class Entry:
    """A contact of a phonebook, or an entry of the call barring."""

    name: str
    numbers: tuple[str, ...]


@dataclass
class Book:
    """A phonebook: unique id → entry."""

    name: str
    extra: str = ""
    entries: dict[int, Entry] = field(default_factory=dict)


class Fault(Exception):
    """A SOAP fault with AVM's number."""


@dataclass
class FritzBox:
    """The box. ``room`` is how many entries each book and the barring take, ``barring`` whether firmware has it."""

    clock: Callable[[], float]
    zone: tzinfo = BERLIN
    country: str = "49"
    trunk: str = "0"
    user: str = "hushcall"
    password: str = "sesame"  # noqa: S105
    timestamp: int = 1_700_000_000
    room: int = 300
    barring: bool = True
    rights: bool = True
    keeps_calls: bool = True
    status: int = 0  # an HTTP status to answer with instead: 503
    cut: int = 0  # so many bytes are missing at the end of documents
    hangs: bool = False  # whether it takes requests and does not answer
    knows_ids: bool = True  # whether the call list's address takes id and timestamp
    numbered: list[BoxCall] = field(default_factory=list)
    books: dict[int, Book] = field(default_factory=lambda: {0: Book("Telefonbuch")})
    barred: Book = field(default_factory=lambda: Book("Rufsperre"))
    deflections: str = "<List></List>"
    sessions: set[str] = field(default_factory=set)
    actions: list[str] = field(default_factory=list)
    served: list[int] = field(default_factory=list)
    """The ids of all calls that any call list named, as often as they were named."""
    refused: int = 0
    address: str = ""
    monitor_port: int = 0
    _next_id: int = 1
    _next_uid: int = 1
    _listeners: list[socket.socket] = field(default_factory=list)

    def ring(self, number: str, type_: int = 2, name: str = "") -> BoxCall:
        """A call that is over. A barred or blocked caller does not ring: the box rejects it."""
        if type_ in (1, 2) and any(number == n or self.national(n) == number for n in self.blocked()):
            type_ = 10
        call = BoxCall(self._next_id, type_, number, self.clock(), name or self.name_of(number))
        self._next_id += 1
        self.numbered.insert(0, call)
        self.tell(f"RING;0;{number};5550100;SIP0;", "DISCONNECT;0;0;")
        return call

    def name_of(self, number: str) -> str:
        """What the box shows for a number: the name of the first contact with it, in any phonebook."""
        entries = (entry for book in self.books.values() for entry in book.entries.values())
        named = (e.name for e in entries if any(self.national(re.sub(r"[^+0-9]", "", n)) == number for n in e.numbers))
        return next(named, "")

    def tell(self, *events: str) -> None:
        """Tell whoever listens to the call monitor."""
        at = datetime.fromtimestamp(self.clock(), self.zone).strftime("%d.%m.%y %H:%M:%S")
        for listener in self._listeners:
            for event in events:
                try:
                    listener.sendall(f"{at};{event}\r\n".encode())
                except OSError:
                    continue

    def blocked(self) -> set[str]:
        """All numbers that do not ring: of the barring, and of phonebooks that a rule blocks."""
        books = [self.barred] + [
            self.books[int(book)]
            for book in re.findall(r"<PhonebookID>(\d+)<", self.deflections)
            if int(book) in self.books
        ]
        return {number for book in books for entry in book.entries.values() for number in entry.numbers}

    def national(self, number: str) -> str:
        """A number as the box shows it."""
        prefix = f"+{self.country}"
        return self.trunk + number.removeprefix(prefix) if number.startswith(prefix) else number.replace("+", "00")

    def numbers_of(self, book: Book, mark: str = "hushcall") -> list[str]:
        """The numbers of entries whose name begins so, as often as they are there."""
        return [number for entry in book.entries.values() if entry.name.startswith(mark) for number in entry.numbers]

    def add(self, book: Book, name: str, *numbers: str) -> int:
        """An entry of the household."""
        unique_id, self._next_uid = self._next_uid, self._next_uid + 1
        book.entries[unique_id] = Entry(name, numbers)
        return unique_id

    def reboot(self) -> None:
        """Sessions are gone, and so are connections to the monitor."""
        self.sessions.clear()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def act(self, action: str, values: dict[str, str]) -> dict[str, str]:  # noqa: PLR0911, PLR0912
        """What an action answers."""
        self.actions.append(action)
        if not self.rights:
            raise Fault("606")
        if action in BARRING and not self.barring:
            raise Fault("401")
        match action:
            case "GetCallList":
                return {"NewCallListURL": self._with_session("calllist.lua") if self.keeps_calls else ""}
            case "GetPhonebookList":
                return {"NewPhonebookList": ",".join(map(str, self.books))}
            case "GetPhonebook":
                book = self._book(values)
                url = self._with_session("phonebook.lua") + f"&pbid={values['NewPhonebookID']}"
                return {"NewPhonebookName": book.name, "NewPhonebookExtraID": book.extra, "NewPhonebookURL": url}
            case "AddPhonebook":
                self.books[max(self.books) + 1] = Book(values["NewPhonebookName"], values["NewPhonebookExtraID"])
                return {}
            case "SetPhonebookEntryUID":
                return self._set(self._book(values), values)
            case "DeletePhonebookEntryUID":
                return self._delete(self._book(values), values)
            case "GetCallBarringList":
                return {"NewPhonebookURL": self._with_session("phonebook.lua") + "&pbid=258"}
            case "SetCallBarringEntry":
                return self._set(self.barred, values)
            case "DeleteCallBarringEntryUID":
                return self._delete(self.barred, values)
            case "GetDeflections":
                return {"NewDeflectionList": self.deflections}
            case "X_AVM-DE_GetUserList":
                return {"NewX_AVM-DE_UserList": f'<List><Username last_user="1">{self.user}</Username></List>'}
            case "GetInfo":
                return {"NewModelName": "FRITZ!Box 7590", "NewSoftwareVersion": "154.07.57"}
        raise Fault("401")

    def document(self, path: str, query: dict[str, list[str]]) -> str:
        """A call list or a phonebook, for a session that is open."""
        if query.get("sid", [""])[0] not in self.sessions:
            raise Fault("session")
        if path == "/calllist.lua":
            return self._call_list(query)
        book = self.barred if query["pbid"] == ["258"] else self.books[int(query["pbid"][0])]
        contacts = "".join(_contact(uid, entry) for uid, entry in book.entries.items())
        return (
            '<?xml version="1.0" encoding="utf-8"?>\n<phonebooks>\n'
            f'<phonebook name="{escape(book.name)}"><timestamp>{self.timestamp}</timestamp>{contacts}</phonebook>\n'
            "</phonebooks>\n"
        )

    def description(self, path: str) -> str:
        """The device description, or a service's."""
        if path == "/tr64desc.xml":
            return self._device()
        (service,) = [kind for kind, name in PATHS.items() if path == f"/{name}SCPD.xml"]
        missing = BARRING if not self.barring else ()
        actions = {name: args for name, args in ACTIONS[service].items() if name not in missing}
        return _scpd(actions)

    def _call_list(self, query: dict[str, list[str]]) -> str:
        same = query.get("timestamp") == [str(self.timestamp)]
        after = int(query["id"][0]) if self.knows_ids and same and "id" in query else 0
        rows = [call for call in self.numbered if call.id > after]
        self.served += [call.id for call in rows]
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<root>'
            f"<timestamp>{self.timestamp}</timestamp>{''.join(map(self._row, rows))}</root>\n"
        )

    def _row(self, call: BoxCall) -> str:
        at = datetime.fromtimestamp(call.at, self.zone).strftime("%d.%m.%y %H:%M")
        out = call.type in (3, 11)
        caller, called = ("5550100", call.number) if out else (call.number, "5550100")
        return (
            f"<Call><Id>{call.id}</Id><Type>{call.type}</Type><Caller>{caller}</Caller><Called>{called}</Called>"
            f"<CallerNumber>{caller}</CallerNumber><CalledNumber>{called}</CalledNumber>"
            f"<Name>{escape(call.name)}</Name><Numbertype>sip</Numbertype><Device></Device><Port>{call.port}</Port>"
            f"<Date>{at}</Date><Duration>0:01</Duration><Count></Count><Path /></Call>\n"
        )

    def _with_session(self, path: str) -> str:
        session = hashlib.sha256(f"{len(self.actions)} {self.address}".encode()).hexdigest()[:16]
        self.sessions.add(session)
        return f"{self.address}/{path}?sid={session}"

    def _book(self, values: dict[str, str]) -> Book:
        try:
            return self.books[int(values["NewPhonebookID"])]
        except (KeyError, ValueError):
            raise Fault("713") from None

    def _set(self, book: Book, values: dict[str, str]) -> dict[str, str]:
        contact: Any = fromstring(values["NewPhonebookEntryData"])
        contact = contact if contact.tag == "contact" else contact.find("contact")
        numbers = tuple(str(number.text) for number in contact.iter("number"))
        text = contact.findtext("uniqueid") or ""
        unique_id = int(text) if text else 0
        if unique_id not in book.entries:
            if len(book.entries) >= self.room:
                raise Fault("820")
            unique_id = self.add(book, "", *numbers)
        book.entries[unique_id] = Entry(contact.findtext("person/realName") or "", numbers)
        return {"NewPhonebookEntryUniqueID": str(unique_id)}

    def _delete(self, book: Book, values: dict[str, str]) -> dict[str, str]:
        if book.entries.pop(int(values["NewPhonebookEntryUniqueID"]), None) is None:
            raise Fault("714")
        return {}

    def _device(self) -> str:
        services = "".join(
            f"<service><serviceType>{kind}</serviceType><serviceId>{kind.replace(':service:', ':serviceId:')[:-2]}"
            f"{kind[-1]}</serviceId><controlURL>/upnp/control/{name}</controlURL>"
            f"<eventSubURL>/upnp/control/{name}</eventSubURL><SCPDURL>/{name}SCPD.xml</SCPDURL></service>"
            for kind, name in PATHS.items()
        )
        return (
            '<?xml version="1.0"?><root xmlns="urn:dslforum-org:device-1-0">'
            "<specVersion><major>1</major><minor>0</minor></specVersion>"
            "<systemVersion><HW>226</HW><Major>154</Major><Minor>7</Minor><Patch>57</Patch>"
            "<Buildnumber>105000</Buildnumber><Display>154.07.57</Display></systemVersion>"
            "<device><deviceType>urn:dslforum-org:device:InternetGatewayDevice:1</deviceType>"
            "<friendlyName>FRITZ!Box 7590</friendlyName><manufacturer>AVM</manufacturer>"
            f"<modelName>FRITZ!Box 7590</modelName><serviceList>{services}</serviceList></device></root>"
        )


def _contact(unique_id: int, entry: Entry) -> str:
    numbers = "".join(
        f'<number type="home" prio="{int(place == 0)}" id="{place}">{number}</number>'
        for place, number in enumerate(entry.numbers)
    )
    return (
        f"<contact><category>0</category><person><realName>{escape(entry.name)}</realName></person>"
        f'<telephony nid="{len(entry.numbers)}">{numbers}</telephony><services /><setup />'
        f"<uniqueid>{unique_id}</uniqueid></contact>"
    )


def _scpd(actions: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> str:
    def argument(name: str, direction: str) -> str:
        variable = name.removeprefix("New")
        return (
            f"<argument><name>{name}</name><direction>{direction}</direction>"
            f"<relatedStateVariable>{variable}</relatedStateVariable></argument>"
        )

    named = {name.removeprefix("New") for inputs, outputs in actions.values() for name in (*inputs, *outputs)}
    variables = "".join(
        f"<stateVariable><name>{name}</name><dataType>string</dataType></stateVariable>" for name in sorted(named)
    )
    rows = "".join(
        f"<action><name>{name}</name><argumentList>{''.join(argument(n, 'in') for n in inputs)}"
        f"{''.join(argument(n, 'out') for n in outputs)}</argumentList></action>"
        for name, (inputs, outputs) in actions.items()
    )
    return (
        '<?xml version="1.0"?><scpd xmlns="urn:dslforum-org:service-1-0"><specVersion><major>1</major><minor>0</minor>'
        f"</specVersion><actionList>{rows}</actionList><serviceStateTable>{variables}</serviceStateTable></scpd>"
    )


def _md5(*parts: str) -> str:
    return hashlib.md5(":".join(parts).encode(), usedforsecurity=False).hexdigest()


def _authorized(box: FritzBox, header: str, method: str) -> bool:
    """Digest authentication (RFC 2617 with qop=auth), as boxes ask for it."""
    given = dict(re.findall(r'(\w+)="?([^",]*)"?', header.removeprefix("Digest ")))
    if given.get("username") != box.user or given.get("nonce") != NONCE:
        return False
    secret, request = _md5(box.user, REALM, box.password), _md5(method, given.get("uri", ""))
    wanted = _md5(secret, NONCE, given.get("nc", ""), given.get("cnonce", ""), "auth", request)
    return given.get("response") == wanted


NONCE = "5E2D9F1A0C3B7E64"


def _certificate(folder: Path) -> ssl.SSLContext:
    """A certificate that the box signed itself, as boxes do."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fritz.box")])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start.replace(year=2090))
    pem = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "box.pem").write_bytes(pem + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "box.pem")
    return context


@contextmanager
def running(box: FritzBox, tls: Path | None = None) -> Iterator[FritzBox]:
    """The box on loopback: its TR-064 port and its call monitor. ``tls``: a folder for its certificate."""
    lock, released = threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: a second one would wait for its acknowledgement
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
            try:
                with lock:
                    if path.endswith("lua"):
                        text = box.document(path, query)
                        self.answer(200, text[: -box.cut] if box.cut else text)
                    else:
                        self.answer(200, box.description(path))
            except Fault:
                self.answer(403, "<html><body>403 Forbidden</body></html>", "text/html")
            except ValueError:
                self.answer(404, "<html><body>404 Not Found</body></html>", "text/html")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            header = self.headers.get("Authorization", "")
            if not _authorized(box, header, "POST"):
                box.refused += bool(header)
                challenge = f'Digest realm="{REALM}",nonce="{NONCE}",algorithm=MD5,qop="auth"'
                text = "<HTML><HEAD><TITLE>401 Unauthorized</TITLE></HEAD><BODY>401 Unauthorized</BODY></HTML>"
                self.answer(401, text, "text/html", {"WWW-Authenticate": challenge})
                return
            service, _, action = self.headers["SOAPAction"].strip('"').partition("#")
            element: Any = fromstring(body).find(f".//{{{service}}}{action}")
            try:
                with lock:
                    values = {child.tag: child.text or "" for child in element}
                    answers = box.act(action, values)
                inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in answers.items())
                self.answer(200, _envelope(f'<u:{action}Response xmlns:u="{service}">{inner}</u:{action}Response>'))
            except Fault as fault:
                detail = (
                    "<s:Fault>\n<faultcode>s:Client</faultcode>\n<faultstring>UPnPError</faultstring>\n<detail>\n"
                    '<UPnPError xmlns="urn:dslforum-org:control-1-0">\n'
                    f"<errorCode>{fault}</errorCode>\n<errorDescription>Error</errorDescription>\n</UPnPError>\n"
                    "</detail>\n</s:Fault>"
                )
                self.answer(500, _envelope(detail))

        def answer(self, status: int, text: str, kind: str = "text/xml", headers: dict[str, str] | None = None) -> None:
            if box.hangs:
                released.wait()
            if box.status:
                status, text, kind, headers = box.status, "<html><body>busy</body></html>", "text/html", {}
            data = text.encode()
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that does not wait is what some tests are about."""

    server = Quiet(("127.0.0.1", 0), Handler)
    monitor = socket.create_server(("127.0.0.1", 0))
    if tls:
        server.socket = _certificate(tls).wrap_socket(server.socket, server_side=True)
    box.address = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    box.monitor_port = monitor.getsockname()[1]

    def listen() -> None:
        while True:
            try:
                connection, _ = monitor.accept()
            except OSError:
                return
            box._listeners.append(connection)

    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True),
        threading.Thread(target=listen, daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield box
    finally:
        released.set()
        server.shutdown()
        server.server_close()
        monitor.close()
        for listener in box._listeners:
            listener.close()


def _envelope(inner: str) -> str:
    return (
        '<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" '
        f's:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/"><s:Body>{inner}</s:Body></s:Envelope>'
    )

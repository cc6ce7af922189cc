"""The calls that a client makes to a server: a protocol, and its HTTP form, with equal headers for all numbers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import quote, urlsplit

from hushcall.errors import InvalidParameter, Refused, Unreachable, WrongServer
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.proof_of_work import MAX_BITS, NONCE_BYTES, solve
from hushcall.protocol.randomness import ByteSource, os_entropy, read
from hushcall.protocol.round_document import RoundInfo

if TYPE_CHECKING:
    from hushcall.client.reporting.anonymity import AnonymousTransport, Route

ATTEMPTS = 4
MAX_PAUSE_SECONDS = 30.0  # a server that asks for a longer pause is asked again by the next run
CONNECT_SECONDS, READ_SECONDS = 10.0, 30.0
MAX_BYTES = 4 << 20  # of an answer. A round of 469 buckets has some 60 kB
MAX_PLAN_NAME = 64
_RETRIED = frozenset({429, 500, 502, 503, 504})


class Transport(Protocol):
    """The calls to a server. Errors are :class:`Refused` and :class:`Unreachable`."""

    @property
    def url(self) -> str:
        """The server's address, which keeps its rounds apart from those of other servers."""

    def current_round(self) -> RoundInfo:
        """The current round. :class:`Refused` as ``no-round`` before the first."""

    def announce(self, round_: int, bucket: int) -> str:
        """Announce a bucket. Returns the ticket, 32 hexadecimal digits. The same again gives the same ticket."""

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        """Send the report. The same bytes again are no error."""


@runtime_checkable
class SupportsAnonymity(Protocol):
    def issue(self, round_: int, request: bytes) -> bytes:
        """The blind signature of a token request. The same request again is signed again."""

    def anonymous(self, route: Route, token: bytes = b"") -> Transport:
        """The same server with a blind token instead of the device's name, on connections of its own."""


@dataclass(frozen=True)
class Enrolment:
    """A device's identity, which the server shows once."""

    device: int
    token: str = field(repr=False)
    plan: str = ""  # the server's numbering plan. Old servers do not send it


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes


class HttpTransport:
    """A server behind a URL, by urllib3. ``pool``: a ``urllib3.PoolManager`` that many clients of a process share."""

    max_bytes = MAX_BYTES

    def __init__(
        self, url: str, token: str = "", sleep: Callable[[float], None] = time.sleep, pool: Any = None
    ) -> None:
        self.url = checked_url(url)
        self._token, self._sleep = token, sleep
        self._pool = pool
        self._relay_pool: Any = None  # connections of its own, but for a simulation

    def current_round(self) -> RoundInfo:
        return RoundInfo.from_plain(self._json(self._request("GET", "/v1/rounds/current")))

    def announce(self, round_: int, bucket: int) -> str:
        body = json.dumps({"bucket": bucket}).encode()
        answer = self._json(self._request("POST", f"/v1/rounds/{round_}/announcements", body, "application/json"))
        ticket = answer.get("ticket")
        if not isinstance(ticket, str) or len(ticket) != 32 or set(ticket) - set("0123456789abcdef"):
            raise InvalidParameter("ticket", "be 32 hexadecimal digits", ticket)
        return ticket

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        self._request("PUT", f"/v1/rounds/{round_}/reports/{ticket}", report, "application/octet-stream")

    def enrol(self, invite: str = "", rand: ByteSource = os_entropy) -> Enrolment:
        """Register a new device. Solves a proof of work where the server asks for it."""
        fields = {"invite": invite} if invite else {}
        try:
            answer = self._enrol(fields)
        except Refused as refusal:
            if refusal.problem != "work-needed":
                raise
            answer = self._enrol({**fields, "work": self._proof_of_work(rand)})
        device, token = answer.get("device"), answer.get("token")
        if type(device) is not int or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise InvalidParameter("enrolment", "hold a device number and a token", sorted(answer))
        return Enrolment(device, token, str(answer.get("plan", ""))[:MAX_PLAN_NAME])

    def leave(self) -> None:
        """Have the device deleted on the server."""
        self._request("DELETE", "/v1/devices/self")

    def plan_file(self, name: str) -> bytes:
        """The file of a numbering plan. The caller compares its digest with the name."""
        return self._request("GET", f"/v1/plans/{quote(name, safe='')}").data

    def _enrol(self, fields: dict[str, str]) -> dict[str, Any]:
        return self._json(self._request("POST", "/v1/devices", json.dumps(fields).encode(), "application/json"))

    def _proof_of_work(self, rand: ByteSource) -> str:
        answer = self._json(self._request("GET", "/v1/devices/challenge"))
        challenge, bits = str(answer.get("challenge", "")), answer.get("bits")
        if type(bits) is not int or not 0 <= bits <= MAX_BITS:
            raise InvalidParameter("challenge", f"ask for at most {MAX_BITS} bits of work", bits)
        start = int.from_bytes(read(rand, NONCE_BYTES - 1), "big")
        return f"{challenge}:{solve(challenge.encode(), bits, start).hex()}"

    def issue(self, round_: int, request: bytes) -> bytes:
        return self._request("POST", f"/v1/rounds/{round_}/tokens", request, tokens.REQUEST_TYPE).data

    def anonymous(self, route: Route, token: bytes = b"") -> AnonymousTransport:
        from hushcall.client.reporting.anonymity import AnonymousTransport

        return AnonymousTransport(self.url, route, token, sleep=self._sleep, pool=self._relay_pool)

    def authorization(self) -> str:
        return f"Bearer {self._token}" if self._token else ""

    def _request(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> Answer:
        """The answer of a request that succeeded, after retries. Any other answer is raised."""
        attempt = 1
        while True:
            answer = self._attempt(method, path, body, kind)
            if answer.status < 300:
                return answer
            pause_seconds = _pause_seconds(answer.headers, attempt)
            if answer.status not in _RETRIED or attempt == ATTEMPTS or pause_seconds > MAX_PAUSE_SECONDS:
                raise _refusal(self.url, answer)
            self._sleep(pause_seconds)
            attempt += 1

    def _attempt(self, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        headers = {"User-Agent": "hushcall", "Accept": "application/json", "Accept-Encoding": "identity"}
        if kind:
            headers["Content-Type"] = kind
        if self.authorization() and method != "GET":  # public documents are requested without the device's name
            headers["Authorization"] = self.authorization()
        return self.fetch(method, self.url + path, body, headers)

    def fetch(self, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        import urllib3  # takes 0.05 s, which a lookup does not need

        if self._pool is None:
            timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
            self._pool = urllib3.PoolManager(timeout=timeout, retries=False)
        try:
            answer = self._pool.request(method, url, body=body, headers=headers, redirect=False, preload_content=False)
            data = answer.read(self.max_bytes + 1)
            # A connection goes back to the pool only after its answer was read to the end.
            (answer.release_conn if len(data) <= self.max_bytes else answer.close)()
        except urllib3.exceptions.HTTPError as error:
            fact, question = f"does not answer ({type(error).__name__})", "is it the right address?"
            if isinstance(error, urllib3.exceptions.SSLError):
                why = getattr(error.args[0], "verify_message", "") or getattr(error.args[0], "reason", "")
                fact, question = f"answers, but not by TLS as it should ({why})", "is its certificate valid?"
            raise Unreachable(f"{url.partition('/v1/')[0]} {fact}: {question}") from None
        return Answer(answer.status, answer.headers, data)

    def _json(self, answer: Answer) -> dict[str, Any]:
        document = parsed(answer.data)
        if document is None:
            raise WrongServer(self.url, answer.status, _content_type(answer))
        return document


def checked_url(url: str, name: str = "server") -> str:
    """An address without its last slash. Raises :class:`InvalidParameter` for one that cannot be used."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or parts.query or parts.fragment or parts.username:
        raise InvalidParameter(name, "be an address like https://calls.example.org", url)
    return url.rstrip("/")


def _pause_seconds(headers: Mapping[str, str], attempt: int) -> float:
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else float(2 ** (attempt - 1))


def parsed(data: bytes) -> dict[str, Any] | None:
    """The JSON object of an answer, or None where there is none, or it is too large."""
    try:
        document = json.loads(data) if len(data) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _refusal(url: str, answer: Answer) -> Refused:
    """The error for an answer. One without a problem document comes from another web server."""
    if 300 <= answer.status < 400:  # not followed: the owner agreed to an address
        target = _line(answer.headers.get("Location", ""))
        return Refused(
            "moved", answer.status, f"it has moved: {target}", "Give the new address to hushcall phone init."
        )
    problem, name = parsed(answer.data) or {}, problem_of(answer)
    if not name and answer.status not in _RETRIED:
        return WrongServer(url, answer.status, _content_type(answer))
    detail = _line(problem.get("detail") or problem.get("title") or "no reason given.")
    return Refused(name[:60] or f"http-{answer.status}", answer.status, detail, _line(problem.get("todo", "")))


def problem_of(answer: Answer) -> str:
    return _line((parsed(answer.data) or {}).get("type", "")).rpartition(":")[2]


def _content_type(answer: Answer) -> str:
    return _line(answer.headers.get("Content-Type", "").partition(";")[0])[:60]


def _line(value: object) -> str:
    """A server's text as it may be shown: one line of limited length, without control characters."""
    return "".join(char if char.isprintable() else " " for char in str(value)[:300])

"""How a phone speaks to a server: a protocol of three calls, and its HTTP form.

Whoever embeds a phone, or simulates thousands, gives :class:`~hushcall.phone.phone.Phone` any object with these calls.
Requests carry nothing that depends on the number but the bucket and the report: the same headers, the same sizes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from hushcall.anonymity import tokens
from hushcall.errors import InvalidParameter, Refused, Unreachable, WrongServer
from hushcall.protocol.anonymity import AnonymityTerms
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.work import MOST_BITS, solve

ATTEMPTS = 4
LONGEST_PAUSE = 30.0
"""Seconds. A server that asks for more patience is asked again by the next run."""
CONNECT_SECONDS, READ_SECONDS = 10.0, 30.0
MOST_BYTES = 4 << 20
"""A round of 469 buckets is some 60 kB; nobody makes a phone read gigabytes."""
_AGAIN = frozenset({429, 500, 502, 503, 504})


class Transport(Protocol):
    """What a phone asks of a server. Errors are :class:`Refused` and :class:`Unreachable`."""

    @property
    def url(self) -> str:
        """Which server: the diary keeps rounds of different servers apart."""

    def current_round(self) -> RoundInfo:
        """What the server says about the round that is on; ``Refused`` as ``no-round`` before the first."""

    def announce(self, round_: int, bucket: int) -> str:
        """Announce a bucket; the ticket, 32 hexadecimal digits. The same again gives the same ticket."""

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        """Hand in the report. The same bytes again are no error."""


LONGEST_PLAN_NAME = 64


@dataclass(frozen=True)
class Enrolment:
    """A device's identity, shown once."""

    device: int
    token: str
    plan: str = ""  # the server's numbering plan; servers of before did not say

    def __repr__(self) -> str:
        """Never the token: it may end up in a log."""
        return f"Enrolment(device={self.device})"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever it says."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class HttpTransport:
    """A server behind a URL, by urllib3. Busy answers are tried again, as long as the server asks within reason."""

    def __init__(
        self, url: str, token: str = "", sleep: Callable[[float], None] = time.sleep, pool: Any = None
    ) -> None:
        """``pool``: a ``urllib3.PoolManager`` to share among many phones of one process; by default one of its own."""
        self.url = checked_url(url)
        self._token, self._sleep = token, sleep
        self._pool = pool

    def current_round(self) -> RoundInfo:
        """What the server says about the round that is on, read and checked."""
        return RoundInfo.from_plain(self._json(self._ask("GET", "/v1/rounds/current")))  # without the token: see _once

    def announce(self, round_: int, bucket: int) -> str:
        """Announce a bucket; the ticket."""
        body = json.dumps({"bucket": bucket}).encode()
        answer = self._json(self._ask("POST", f"/v1/rounds/{round_}/announcements", body, "application/json"))
        ticket = answer.get("ticket")
        if not isinstance(ticket, str) or len(ticket) != 32 or set(ticket) - set("0123456789abcdef"):
            raise InvalidParameter("ticket", "be 32 hexadecimal digits", ticket)
        return ticket

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        """Hand in the report; whatever the server says but yes is an error."""
        self._ask("PUT", f"/v1/rounds/{round_}/reports/{ticket}", report, "application/octet-stream")

    def enrol(self, invite: str = "") -> Enrolment:
        """Become a device of this server."""
        asked = {"invite": invite} if invite else {}
        try:
            answer = self._enrolled(asked)
        except Refused as refusal:
            if refusal.problem != "work-needed":
                raise
            answer = self._enrolled({**asked, "work": self._work()})
        device, token = answer.get("device"), answer.get("token")
        if type(device) is not int or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise InvalidParameter("enrolment", "hold a device number and a token", sorted(answer))
        return Enrolment(device, token, str(answer.get("plan", ""))[:LONGEST_PLAN_NAME])

    def plan_file(self, name: str) -> bytes:
        """The numbering plan of that name, as a file; whoever reads it compares its digest."""
        return self._ask("GET", f"/v1/plans/{quote(name, safe='')}").data

    def _enrolled(self, asked: dict[str, str]) -> dict[str, Any]:
        return self._json(self._ask("POST", "/v1/devices", json.dumps(asked).encode(), "application/json"))

    def _work(self) -> str:
        """Solve what the server asks for: a second or so, once."""
        asked = self._json(self._ask("GET", "/v1/devices/challenge"))
        challenge, bits = str(asked.get("challenge", "")), asked.get("bits")
        if type(bits) is not int or not 0 <= bits <= MOST_BITS:
            raise InvalidParameter("challenge", f"ask for at most {MOST_BITS} bits of work", bits)
        return f"{challenge}:{solve(challenge.encode(), bits).hex()}"

    def issue(self, round_: int, request: bytes) -> bytes:
        """Have a blinded message signed (``anonymity.tokens``)."""
        return self._ask("POST", f"/v1/rounds/{round_}/tokens", request, tokens.REQUEST_TYPE).data

    def without_name(self, terms: AnonymityTerms, token: bytes = b"") -> Transport:
        """The same server, spoken to with a blind token instead of a name, on connections of its own."""
        from hushcall.phone.reporting.nameless import NamelessTransport

        return NamelessTransport(self.url, terms, token, sleep=self._sleep)

    def authorization(self) -> str:
        """The header that says who speaks; empty for nobody."""
        return f"Bearer {self._token}" if self._token else ""

    def _ask(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> Answer:
        """One answer that says yes, or an error of ours."""
        attempt = 1
        while True:
            answer = self._once(method, path, body, kind)
            if answer.status < 300:
                return answer
            pause = _pause(answer.headers, attempt)
            if answer.status not in _AGAIN or attempt == ATTEMPTS or pause > LONGEST_PAUSE:
                raise self._refusal(answer)
            self._sleep(pause)
            attempt += 1

    def _once(self, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        headers = {"User-Agent": "hushcall", "Accept": "application/json", "Accept-Encoding": "identity"}
        if kind:
            headers["Content-Type"] = kind
        if self.authorization() and method != "GET":  # what is public is asked for by nobody in particular
            headers["Authorization"] = self.authorization()
        return self.fetch(method, self.url + path, body, headers)

    def fetch(self, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """One request over HTTP; ``Unreachable`` where there is no answer."""
        import urllib3  # a twentieth of a second that ``check`` does not need

        if self._pool is None:
            timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
            self._pool = urllib3.PoolManager(timeout=timeout, retries=False)
        try:
            answer = self._pool.request(method, url, body=body, headers=headers, redirect=False, preload_content=False)
            data = answer.read(MOST_BYTES + 1)
            # A connection goes back only when its answer was read to the end.
            (answer.release_conn if len(data) <= MOST_BYTES else answer.close)()
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(
                f"{url.partition('/v1/')[0]} does not answer ({type(error).__name__}): is it the right address?"
            ) from None
        return Answer(answer.status, answer.headers, data)

    def _json(self, answer: Answer) -> dict[str, Any]:
        found = parsed(answer.data)
        if found is None:
            raise WrongServer(self.url, answer.status, _kind(answer))
        return found

    def _refusal(self, answer: Answer) -> Refused:
        """What an answer that is no yes means. One that is in nobody's words but a web server's is not of ours."""
        found = _refusal(answer)
        if found.problem == f"http-{answer.status}" and answer.status not in _AGAIN:
            return WrongServer(self.url, answer.status, _kind(answer))
        return found


def checked_url(url: str) -> str:
    """The address without its last slash, if it is one that a phone can use."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or parts.query or parts.fragment or parts.username:
        raise InvalidParameter("server", "be an address like https://calls.example.org", url)
    return url.rstrip("/")


def _pause(headers: Mapping[str, str], attempt: int) -> float:
    """Seconds until the next attempt: what the server asks for, or one, two, four."""
    asked = headers.get("Retry-After", "")
    return float(asked) if asked.isascii() and asked.isdigit() else float(2 ** (attempt - 1))


def parsed(data: bytes) -> dict[str, Any] | None:
    """The document that an answer holds; None where it holds none, or is too large to be one."""
    try:
        found = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refusal(answer: Answer) -> Refused:
    if 300 <= answer.status < 400:  # not followed: what the owner agreed to is an address
        where = _line(answer.headers.get("Location", ""))
        return Refused("moved", answer.status, f"it has moved: {where}", "Give the new address to hushcall phone init.")
    problem = parsed(answer.data) or {}
    kind = _line(problem.get("type", "")).rpartition(":")[2] or f"http-{answer.status}"
    detail = _line(problem.get("detail") or problem.get("title") or "no reason given.")
    return Refused(kind[:60], answer.status, detail, _line(problem.get("todo", "")))


def _kind(answer: Answer) -> str:
    """What somebody sent instead of JSON, by its own word."""
    return _line(answer.headers.get("Content-Type", "").partition(";")[0])[:60]


def _line(value: object) -> str:
    """A server's words as they may be shown: one line, not too long, and nothing that steers a terminal."""
    return "".join(char if char.isprintable() else " " for char in str(value)[:300])

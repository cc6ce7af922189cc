"""Taking part anonymously: a blind token per round, and everything else through a relay that the owner chose.

A client with a relay names its device to the server in two messages only: when it enrols, and when it asks for a token.
Both go directly. Whatever else it sends or fetches is sealed and goes through the relay, lists included. No run does
both, so that no message tells whose the next one is:

1. It joins a round at one moment, and looks at it again at another one, drawn anew. Nobody can know that both looks are
   one client's, so a server that shows each asker a round of its own is found out before the device is named.
2. It asks for its token at a moment drawn from the round's signed times, without looking at the round before.
3. It announces and reports at moments drawn independently of that. The server's clock and state move nothing.

A token request is recorded before it is sent, and a token before it is used: after a crash the client sends the same
again. If the relay does not answer, the client waits, and never goes around it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from hushcall.client.reporting import participation
from hushcall.client.reporting.consent import Rejection
from hushcall.client.reporting.participation import Participation
from hushcall.client.reporting.round_context import POLL_SECONDS, Outcome, RoundContext
from hushcall.client.reporting.transport import (
    Answer,
    HttpTransport,
    SupportsAnonymity,
    Transport,
    checked_url,
    problem_of,
)
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidMessage, InvalidParameter, InvalidToken, Refused, Unreachable
from hushcall.protocol.anonymity import binary_http, ohttp, tokens
from hushcall.protocol.anonymity.blind_rsa import Blinding
from hushcall.protocol.anonymity.ohttp import KeyConfig
from hushcall.protocol.anonymity.tokens import PendingToken
from hushcall.protocol.items import WHOLE
from hushcall.protocol.problems import is_final
from hushcall.protocol.randomness import WORD_BYTES, ByteSource, os_entropy, read, uniform, words
from hushcall.protocol.round_document import AnonymityInfo, RoundInfo

RELAY, GATEWAY = "relay", "gateway"
"""Settings: the owner's relay, and the key of the server's gateway behind it."""
LOOK_AT, SYNC_AT, CONFIRMED = "anonymity.look_at", "anonymity.sync_at", "anonymity.confirmed"
"""Settings: when to ask for round and list again, and the round that was seen alike at two moments."""
_SERVERS_CHOICE = "anonymity.terms"  # setting of an earlier release: the relay that the server named
PADDED_BYTES = 1024  # of all requests inside the seal. The longest, a report with its token, has some 700
MAX_CLOCK_SKEW_SECONDS = 300
MAX_LIST_BYTES = 64 << 20
SYNC_SECONDS = 12 * 3600
"""A list is fetched again after so long, and as much again at random: its signatures hold for 36 hours at least."""


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a server's gateway. Without a relay requests go to the server itself."""

    gateway: KeyConfig
    relay: str


@dataclass(frozen=True, slots=True)
class RoundToken:
    round: int
    issue_at: int
    parameters: AnonymityInfo
    pending: PendingToken
    token: bytes  # empty until the issuer has signed


def route_of(store: Store) -> Route | None:
    if store.get(RELAY):
        return Route(KeyConfig.from_bytes(bytes.fromhex(store.get(GATEWAY))), store.get(RELAY))
    if before := store.get(_SERVERS_CHOICE):  # an earlier release took part through it
        info = AnonymityInfo.from_plain(json.loads(before))
        if info.relay and urlsplit(info.relay).hostname != urlsplit(store.get("server")).hostname:
            return Route(info.gateway, info.relay)
    return None


def require_other_host(name: str, address: str, server: str) -> str:
    """The address of a relay or a log, checked. One at the server's host hides nothing from the server."""
    url = checked_url(address, name)
    if urlsplit(url).hostname == urlsplit(server).hostname:
        raise InvalidParameter(name, "be on another host than the server, and another party's", address)
    return url


def gateway_by(relay: str) -> KeyConfig:
    """The gateway's key, which a relay gives to all of its clients. The server could give each client another one."""
    answer = HttpTransport(relay).fetch("GET", relay, None, {"User-Agent": "hushcall"})
    if answer.status != 200 or answer.headers.get("Content-Type") != ohttp.KEYS_TYPE:
        raise Refused(
            "no-keys", answer.status, f"{relay} does not give its gateway's key.", "Is it a relay of this release?"
        )
    try:
        return ohttp.decode_configs(answer.data)
    except InvalidMessage as error:
        raise InvalidParameter("relay", f"give a key that can be used ({error})", relay) from None


def save_route(store: Store, relay: str, gateway: KeyConfig | None) -> None:
    store.put(RELAY, relay)
    store.put(GATEWAY, "" if gateway is None else gateway.to_bytes().hex())
    store.put(_SERVERS_CHOICE, "")


def middle(info: RoundInfo) -> int:
    """When issuing ends and redeeming begins."""
    return (info.opens + info.collects) // 2


def prepare(store: Store, server: str, info: RoundInfo, issue_at: int, rand: ByteSource) -> None:
    """Record a pending token: part of the transaction that joins a round."""
    if info.anonymity is None:
        raise InvalidParameter("round", "take part without a name", info.round)
    pending = tokens.prepare(info.anonymity.token_key, info.seed, rand)
    store.run("DELETE FROM passes WHERE server = ? AND round < ?", server, info.round)
    store.run(
        "INSERT INTO passes (server, round, issue_at, terms, input, blinded, inverse, token) VALUES (?,?,?,?,?,?,?,?)",
        *(server, info.round, issue_at, json.dumps(info.anonymity.to_plain()), pending.token_input),
        *(pending.blinding.blinded_msg, f"{pending.blinding.inv:x}", b""),
    )


def find(store: Store, server: str, round_: int) -> RoundToken | None:
    query = "SELECT issue_at, terms, input, blinded, inverse, token FROM passes WHERE server = ? AND round = ?"
    row = store.row(query, server, round_)
    if row is None:
        return None
    issue_at, parameters, token_input, blinded, inverse, token = row
    pending = PendingToken(token_input, Blinding(blinded, int(inverse, 16)))
    return RoundToken(round_, issue_at, AnonymityInfo.from_plain(json.loads(parameters)), pending, token)


def look(store: Store, transport: Transport) -> RoundInfo:
    """Ask for the round, through the relay where there is one. No device is named either way."""
    route = _route_now(store)
    if route is None or not isinstance(transport, SupportsAnonymity):
        return transport.current_round()
    return transport.anonymous(route).current_round()


def files(store: Store, transport: Transport) -> Callable[[str], Answer] | None:
    route = _route_now(store)
    if route is None or not isinstance(transport, HttpTransport):
        return None
    return transport.anonymous(route).file


def _route_now(store: Store) -> Route | None:
    """The route, with the gateway's key that the relay gives to everybody now.

    A key that is kept would tell when it was asked for: a server that gives the relay a new one every few minutes would
    know its clients apart by their keys, and could show each a round of its own.
    """
    route = route_of(store)
    if route is None:
        return None
    try:
        gateway = gateway_by(route.relay)
    except Refused:
        if store.get(RELAY):
            raise
        return route  # an earlier release's relay gives none
    if not store.get(RELAY) or gateway != route.gateway:
        save_route(store, route.relay, gateway)
    return Route(gateway, route.relay)


def sync_at(store: Store, now: int) -> int:
    """When to fetch the list again. 0 where that is now, as it always is without a relay."""
    at = int(store.get(SYNC_AT) or 0)
    return at if route_of(store) and now < at < now + 2 * SYNC_SECONDS else 0


def synced(store: Store, rand: ByteSource, now: int) -> None:
    if route_of(store):
        store.put(SYNC_AT, str(next_sync(rand, now)))


def next_sync(rand: ByteSource, now: int) -> int:
    (word,) = words(read(rand, WORD_BYTES))
    return now + SYNC_SECONDS + uniform(word, SYNC_SECONDS)


def seconds_to_wait(store: Store, rand: ByteSource, now: int) -> int:
    """A delay of up to the time between two runs. Afterwards the moment says nothing about when runs begin."""
    if route_of(store) is None:
        return 0
    row, look_at = participation.latest(store), int(store.get(LOOK_AT) or 0)
    round_token = find(store, row.server, row.round) if row and row.state == participation.PLANNED else None
    due = min(look_at, round_token.issue_at) if round_token and not round_token.token else look_at
    (word,) = words(read(rand, WORD_BYTES))
    return 0 if now + POLL_SECONDS <= due else uniform(word, POLL_SECONDS)


def as_signed(info: RoundInfo, now: int) -> RoundInfo:
    """The round by its signed times and this client's clock: a server could give each asker times of its own."""
    schedule = info.anonymity.schedule if info.anonymity else None
    if schedule is None:
        return info
    signed = replace(info, next=None)
    return replace(signed, opens=schedule.opens, collects=schedule.collects, closes=schedule.closes, server_time=now)


def rejection(context: RoundContext) -> Rejection | None:
    limits, offered = context.limits, context.info.anonymity
    if offered is None:
        return Rejection("the server wants reports by name, and the owner does not")
    if route_of(context.store) is None:
        return None if limits.by_name else Rejection("no relay is chosen (hushcall phone init --relay)")
    if offered.schedule is None:
        return Rejection("the server is older than this phone and does not sign when its rounds are")
    if offered.schedule.shortest_phase < limits.least_phase:
        return Rejection(
            f"the shortest phase of its rounds has {offered.schedule.shortest_phase} seconds, and the owner wants"
            f" {limits.least_phase} (hushcall phone init --min-phase)"
        )
    return None


def clock_rejection(info: RoundInfo, now: int) -> Rejection | None:
    if abs(info.server_time - now) <= MAX_CLOCK_SKEW_SECONDS:
        return None
    return Rejection(f"this phone's clock and the server's differ by {abs(info.server_time - now)} seconds")


def look_again(context: RoundContext) -> Outcome | None:
    """The end of a run that has joined. The token is asked for after the second look, in any case."""
    if context.skip_delays or not (context.anonymous and route_of(context.store)):
        return None
    (word,) = words(read(context.keyed("look"), WORD_BYTES))
    at = context.now + 1 + uniform(word, max(1, seconds_to_look(context)))
    return context.outcome("waiting", f"Round {context.info.round}: joined; it looks again before it speaks.", at)


def too_late(context: RoundContext) -> bool:
    needed = context.limits.least_phase if route_of(context.store) else 0
    return context.info.server_time + needed >= middle(context.info)


def seconds_to_look(context: RoundContext) -> int:
    """The time in which a client with a relay looks a second time. Others need none."""
    if route_of(context.store) is None:
        return 0
    return min(context.limits.least_phase, max(0, middle(context.info) - context.now) // 2)


def keep_look(context: RoundContext, outcome: Outcome) -> None:
    """Remember when to look next, at most a quarter of a day ahead: a server cannot send a client to sleep."""
    latest = context.now + 24 * POLL_SECONDS
    context.store.put(LOOK_AT, str(min(outcome.next_at or latest, latest)))


def confirm(context: RoundContext, row: Participation) -> Outcome | None:
    """The step before asking for a token: the same round was shown at two moments. Asking is left to another run."""
    round_token = find(context.store, row.server, row.round)
    if round_token is None or round_token.token or route_of(context.store) is None or context.skip_delays:
        return None
    context.store.put(CONFIRMED, str(row.round))
    return context.outcome("waiting", f"Round {row.round}: will ask for a token.", round_token.issue_at)


def without_looking(store: Store, transport: Transport, now: int) -> Outcome | None:
    """Ask for a token that is due, or wait for the next look. None where it is time to look."""
    if outcome := ask_if_due(store, transport, now):
        return outcome
    look_at = int(store.get(LOOK_AT) or 0)
    return Outcome("waiting", "There is nothing to ask before.", next_at=look_at) if now < look_at else None


def ask_if_due(store: Store, transport: Transport, now: int) -> Outcome | None:
    """Ask for a token whose moment has come. Nothing else is sent in this run. None where there is nothing to do."""
    row = participation.latest(store)
    if row is None or row.state != participation.PLANNED or row.server != transport.url:
        return None
    round_token = find(store, row.server, row.round)
    if round_token is None or round_token.token or store.get(CONFIRMED) != str(row.round):
        return None
    schedule = round_token.parameters.schedule
    if schedule is None or now >= schedule.middle:
        return None
    if now < round_token.issue_at:
        text = f"Round {row.round}: will ask for a token."
        return Outcome("waiting", text, row.round, round_token.issue_at)
    if why := _ask(store, transport, row, round_token):
        participation.finish(store, row, participation.SKIPPED, why)
        return Outcome("skipped", f"Round {row.round}: no report, {why}.", row.round, row.announce_at)
    store.put(LOOK_AT, str(row.announce_at))
    store.put(SYNC_AT, str(max(int(store.get(SYNC_AT) or 0), now + POLL_SECONDS)))  # nothing follows in this run
    return Outcome("waiting", f"Round {row.round}: has a token.", row.round, row.announce_at)


def get_token(context: RoundContext, row: Participation) -> Outcome | None:
    """The step before announcing without a relay: have the token signed, at its moment."""
    round_token = find(context.store, row.server, row.round)
    if round_token is None or round_token.token:
        return None
    if outcome := context.waiting_until(round_token.issue_at, "ask for a token"):
        return outcome
    if why := _ask(context.store, context.transport, row, round_token):
        return context.skipped(row, why)
    if context.skip_delays:
        return None
    return context.outcome("waiting", f"Round {row.round}: has a token.", row.announce_at)


def _ask(store: Store, transport: Transport, row: Participation, round_token: RoundToken) -> str:
    """Have the token signed. Returns why that will never be, or an empty text."""
    if not isinstance(transport, SupportsAnonymity):
        raise InvalidParameter("transport", "support anonymous rounds", type(transport).__name__)
    key = round_token.parameters.token_key
    try:
        signature = transport.issue(row.round, tokens.write_request(key, round_token.pending))
        token = tokens.token_of(key, round_token.pending, signature)
    except Refused as refusal:
        if not is_final(refusal.problem):
            raise
        return str(refusal)
    except InvalidToken:
        return "the server signed with another key than it told"
    store.run("UPDATE passes SET token = ? WHERE server = ? AND round = ?", token, row.server, row.round)
    return ""


def transport_for(context: RoundContext, row: Participation) -> Transport:
    round_token, transport = find(context.store, row.server, row.round), context.transport
    if round_token is None or not isinstance(transport, SupportsAnonymity):
        return transport
    route = route_of(context.store) or Route(round_token.parameters.gateway, "")
    return transport.anonymous(route, round_token.token)


def set_rejection(context: RoundContext, row: Participation) -> Rejection | None:
    min_size, size = context.limits.least_crowd, context.info.crowd_of(row.bucket)
    anonymous = find(context.store, row.server, row.round) is not None
    if not (min_size and anonymous) or context.info.parameters_for(row.bucket) is None:
        return None
    if size is None and row.bucket == WHOLE:  # a server of before, whose only bucket has everybody
        size = context.info.crowd
    if size is None:
        return Rejection("the server does not say how many phones of this area code take part anonymously")
    if size >= min_size:
        return None
    return Rejection(f"{size} phones take part anonymously, and the owner wants {min_size}")


class AnonymousTransport(HttpTransport):
    """A server behind a relay, or without one. ``token`` is empty for requests that need none."""

    max_bytes = MAX_LIST_BYTES

    def __init__(
        self, url: str, route: Route, token: bytes = b"", *, rand: ByteSource = os_entropy, **connection: Any
    ) -> None:
        super().__init__(url, **connection)
        self._route, self._blind_token, self._rand = route, token, rand

    def authorization(self) -> str:
        """``PrivateToken token=…`` as in RFC 9577, section 2.2."""
        token = base64.urlsafe_b64encode(self._blind_token).decode()
        return f'PrivateToken token="{token}"' if token else ""

    def file(self, url: str) -> Answer:
        """A public file of the server, whatever its status, through the relay."""
        return self._attempt("GET", url.removeprefix(self.url), None, "")

    def _attempt(self, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        if not self._route.relay:
            return super()._attempt(method, path, body, kind)
        request = self._inner_request(method, path, body, kind)
        sealed, exchange = ohttp.encapsulate_request(self._route.gateway, request, self._rand)
        headers = {"User-Agent": "hushcall", "Content-Type": ohttp.REQUEST_TYPE, "Accept-Encoding": "identity"}
        answer = self.fetch("POST", self._route.relay, sealed, headers)
        if answer.status == 200 and answer.headers.get("Content-Type") == ohttp.RESPONSE_TYPE:
            return self._opened(exchange, answer.data)
        # What is not sealed is anybody's word: only that it should be tried again is believed.
        if answer.status == 400 and problem_of(answer) == "sealed-otherwise":
            raise Refused("sealed-otherwise", 400, "its gateway has another key.", "Try again: it is asked for.")
        if answer.status == 429 or answer.status >= 500:
            return Answer(answer.status, {"Retry-After": answer.headers.get("Retry-After", "")}, b"")
        raise Unreachable(f"the relay {self._route.relay} answers by itself (status {answer.status})")

    def _inner_request(self, method: str, path: str, body: bytes | None, kind: str) -> bytes:
        fields = [("accept", b"application/json")]
        if kind:
            fields.append(("content-type", kind.encode()))
        if self.authorization():
            fields.append(("authorization", self.authorization().encode()))
        request = binary_http.Request(method, "https", urlsplit(self.url).netloc, path, tuple(fields), body or b"")
        return binary_http.padded(request.to_bytes(), PADDED_BYTES)

    def _opened(self, exchange: ohttp.Exchange, sealed: bytes) -> Answer:
        try:
            response = binary_http.read_response(ohttp.decapsulate_response(exchange, sealed))
        except InvalidMessage:
            raise Unreachable(
                f"{self.url} does not answer through its relay: what came back was not sealed for us"
            ) from None
        headers = {
            "-".join(part.capitalize() for part in name.split("-")): value.decode("latin-1")
            for name, value in response.fields
        }
        return Answer(response.status, headers, response.content)

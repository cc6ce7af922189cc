"""Bugs that can be planted in the client. Each breaks a promise."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from hushcall.client import round_session
from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.reporting import anonymity, consent, ledger, participation, round_context, split_view, transport
from hushcall.client.round_session import RoundSession
from hushcall.client.storage.personal import Personal
from hushcall.errors import Refused
from hushcall.protocol.randomness import seeded
from hushcall_lab.proofs.promises import Bug, replaced

_reportable, _fetch = candidates.reportable, transport.HttpTransport.fetch
_mark_reported = candidates.mark_reported


@contextmanager
def _endless_window() -> Iterator[None]:
    def year(store: Any, now: int, _days: int, horizon: int, **options: Any) -> list[str]:
        return _reportable(store, now, 366, horizon, **options)

    with patch.object(candidates, "reportable", year), patch.object(candidates, "prune", lambda *_: None):
        yield


def _other_bytes(self: RoundSession, row: Any) -> Any:
    line: Any = self.transport
    line.sends = getattr(line, "sends", 0) + 1  # every second report differs, in the same way in every run
    line.send(row.round, row.ticket, row.report[:-1] + bytes([row.report[-1] ^ line.sends & 1]))
    raise Refused("busy", 503, "as if the answer was lost")


def _mark_what_was_sent(store: Any, number: str, seq: int, at: int) -> None:
    row = participation.latest(store)
    if row is not None and row.parameters is not None:
        _mark_reported(store, number, seq, at)


def _nothing_instead(self: RoundSession, row: Any) -> None:
    if rejection := self._make_report(row):
        participation.finish(self.store, row, participation.SKIPPED, str(rejection))


def _fetch_with_token(self: Any, method: str, url: str, body: bytes | None, headers: dict[str, str]) -> Any:
    return _fetch(self, method, url, body, {**headers, "Authorization": f"Bearer {self._token}"})


def _unkeyed_stream() -> Any:
    """Random bytes that depend on no key, but are the same in every run."""
    stream = seeded(b"random bytes of the moment")
    return patch.object(round_context, "keyed", lambda *_: stream)


def _servers_relay(context: Any, row: Any) -> Any:
    held = anonymity.find(context.store, row.server, row.round)
    assert held is not None
    return context.transport.anonymous(anonymity.Route(held.parameters.gateway, held.parameters.relay), held.token)


_report, _look = Client.report, anonymity.look


@contextmanager
def _kept_key() -> Iterator[None]:
    def look(store: Any, transport: Any) -> Any:
        try:
            return _look(store, transport)
        except Refused as refusal:
            if refusal.problem == "sealed-otherwise" and (route := anonymity.route_of(store)):
                anonymity.save_route(store, route.relay, anonymity.gateway_by(route.relay))
            raise

    with patch.object(anonymity, "look", look), patch.object(anonymity, "_route_now", anonymity.route_of):
        yield


def _sync_in_report(self: Client, now: int | None = None, *, skip_delays: bool = False) -> Any:
    outcome = _report(self, now, skip_delays=skip_delays)
    if "no key that this phone knows" in outcome.words:
        with patch.object(anonymity, "files", lambda *_: None):
            self.sync()
    return outcome


LINKING_BUGS: dict[str, Bug] = {
    "the list is fetched directly": replaced(anonymity, "files", lambda *_: None),
    "a new key is fetched within a report": replaced(Client, "report", _sync_in_report),
    "the server's relay is used": replaced(anonymity, "transport_for", _servers_relay),
    "a round is looked at once": replaced(anonymity, "look_again", lambda _: None),
    "the gateway's key is kept until it is refused": _kept_key,
    "messages leave when a run begins": replaced(anonymity, "seconds_to_wait", lambda *_: 0),
    "an expired list is none to stop for": replaced(split_view, "list_rejection", lambda _: None),
    "the log is not compared": replaced(split_view, "log_rejection", lambda *_: None),
}
"""Bugs that tell whose an anonymous report is."""
BUGS: dict[str, Bug] = {
    "reported callers are forgotten": replaced(candidates, "mark_reported", lambda *_: None),
    "a talked-to caller is reported": replaced(candidates, "talked", lambda *_: False),
    "a caller let through is reported": replaced(Personal, "verdict", lambda *_: None),
    "old rounds are joined": replaced(participation, "highest", lambda *_: -1),
    "joining ends no other round": replaced(participation, "_unfinished", lambda _: []),
    "the caller is not checked again": replaced(RoundSession, "_with_reportable_number", lambda _self, row: row),
    "reports of a day are not counted": replaced(ledger, "recorded_between", lambda *_: 0),
    "few bits are accepted": replaced(consent, "bits_rejection", lambda _: None),
    "any mechanism is accepted": replaced(consent, "round_rejection", lambda *_: None),
    "random bytes are fresh": _unkeyed_stream,
    "a retry is made anew": replaced(RoundSession, "_send", _other_bytes),
    "public requests carry the token": replaced(transport.HttpTransport, "fetch", _fetch_with_token),
    "a caller in no report is announced again": replaced(candidates, "mark_reported", _mark_what_was_sent),
    "nothing is sent in a skipped bucket": replaced(RoundSession, "_record", _nothing_instead),
    "a yes to whole numbers is one to area codes": replaced(round_session, "sends_area_code", lambda _: False),
    "the owner's window is not kept": _endless_window,
    "the limits are not checked": replaced(ledger, "rejection", lambda *_: None),
}

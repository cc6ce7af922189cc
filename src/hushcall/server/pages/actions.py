"""What an operator can do from a page: a form comes in, it is checked and put into words to confirm, then it is done.

One table: each action has its scope, its question and its deed. The deeds are those of the API.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hushcall.errors import HushcallError, InvalidNumber
from hushcall.numbers import NumberingPlan
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, DECODED, PUBLISHED, TAKES_UPLOADS, RoundState
from hushcall.server.access.devices import SCOPES, Admin
from hushcall.server.logs import log
from hushcall.server.pages.words import number as spaced
from hushcall.server.problems import Problem
from hushcall.server.rounds.round_status import one_round
from hushcall.server.rounds.state_machine import Seen
from hushcall.server.service import Service

_MOST = {"why": 1000, "who": 200, "number": 40, "note": 200, "invite": 40}
_WHOLE = {"entry": 1 << 31, "round": 1 << 31, "device": 1 << 53, "token": 1 << 31, "uses": 100_001}
"""Fields that are whole numbers from 1 on, and what each is below."""

FLASHES = {
    "appealed": "The appeal is open. A list without the number is published.",
    "appealed-unlisted": "The appeal is open. The number was not on the list.",
    "closed": "The appeal is closed.",
    "closed-listed": "The appeal is closed, and a new list is published.",
    "allowed": "The number is on the allowlist. A list without it is published.",
    "allowed-unlisted": "The number is on the allowlist. It was not on the list.",
    "disallowed": "The number is off the allowlist.",
    "disallowed-listed": "The number is off the allowlist, and a new list is published.",
    "held": "The round is held.",
    "released": "The round goes on.",
    "discarded": "The round is discarded: nothing is learnt from it.",
    "device-revoked": "The device is revoked.",
    "invite-revoked": "The code enrols nobody else.",
    "token-revoked": "The token is revoked.",
    "advancing": "Rounds move on now.",
    "in": "You are logged in.",
    "out": "You are logged out.",
}
"""What a page says after it was done. A cookie carries the name, never a text."""


@dataclass(frozen=True)
class Asked:
    """A form, checked: who asks for what."""

    admin: Admin
    number: str = ""
    entry: int = 0
    round: int = 0
    why: str = ""
    who: str = ""
    seen: Seen | None = None  # the newest round, as the page that asks showed it
    device: int = 0
    token: int = 0
    uses: int = 0
    invite: str = ""
    note: str = ""
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Done:
    """What to say, and where to go. ``later`` is what still runs then; ``made`` a secret that is shown, this once."""

    flash: str
    path: str
    later: Callable[[], None] | None = None
    made: str = ""


@dataclass(frozen=True)
class Action:
    """One thing to do."""

    name: str
    scope: str
    title: str
    button: str
    fields: tuple[str, ...]
    question: Callable[[Service, Asked], str]
    do: Callable[[Service, Asked], Done]
    seen: Callable[[Service], str] = lambda _: ""  # what the question was about, sent back with the answer


def checked(action: Action, form: Mapping[str, str], admin: Admin, plan: NumberingPlan) -> Asked:
    """The form, or a problem that says what is wrong with it."""
    admin.need(action.scope)
    for name, most in _MOST.items():
        if len(form.get(name, "")) > most:
            raise Problem("bad-request", f"The field '{name}' may have {most} characters.")
    why, who = form.get("why", "").strip(), form.get("who", "").strip()
    if "why" in action.fields and not why:
        raise Problem("bad-request", "Say why: it is kept in the log.")
    number, given = "", dict[str, Any]()
    if "number" in action.fields:
        try:
            number = str(plan.parse(form.get("number", "")))
        except InvalidNumber:
            raise Problem("malformed-number") from None
    for name, below in _WHOLE.items():
        text = form.get(name, "").strip()
        if name in action.fields and not (_whole(text) and 0 < int(text) < below):
            raise Problem("bad-request", f"The field '{name}' must be a whole number below {below:,}.")
        given[name] = int(text) if name in action.fields else 0
    given |= {name: form.get(name, "").strip() for name in ("invite", "note") if name in action.fields}
    scopes = frozenset(scope for scope in SCOPES if form.get(f"scope-{scope}") and f"scope-{scope}" in action.fields)
    seen = _read_seen(form.get("seen", ""))
    return Asked(admin, number, why=why, who=who or admin.note or "operator", seen=seen, scopes=scopes, **given)


_LOGGED = {
    "advance": "force",
    "revoke-device": "revoke",
    "revoke-invite": "revoke invite",
    "revoke-token": "revoke token",
}
"""What the log calls an action, as the command line and the API have it, where a page has another name for it."""


def _read_seen(text: str) -> Seen | None:
    number, _, state = text.partition(" ")
    return (int(number), RoundState(state)) if _whole(number) and state in list(RoundState) else None


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 16


def perform(action: Action, service: Service, asked: Asked) -> Done:
    """Do it; what one of our own rules refuses becomes a problem in its words. Either is in the log."""
    named = (
        asked.number,
        asked.entry and f"appeal {asked.entry}",
        asked.round and f"round {asked.round}",
        asked.device and f"device {asked.device}",
        asked.token and f"token {asked.token}",
        asked.uses and f"{asked.uses} devices",
        asked.invite,
        ",".join(sorted(asked.scopes)),
    )
    about = next((one for one in named if one), "")
    what = _LOGGED.get(action.name, action.name)
    try:
        with service.audit.act(asked.admin.id, asked.admin.note, what, about, asked.why or asked.note):
            return action.do(service, asked)
    except HushcallError as error:
        rule = f"The {getattr(error, 'field', 'request')} must {getattr(error, 'rule', 'be possible just now')}."
        raise Problem("bad-request", rule) from None


def _appeal(service: Service, asked: Asked) -> Done:
    done = service.corrections.appeal(asked.number, asked.why, asked.who, service.now)
    return Done("appealed" if done.published else "appealed-unlisted", f"/numbers/{asked.number}")


def _close(service: Service, asked: Asked) -> Done:
    done = service.corrections.close(asked.entry, asked.why, service.now)
    return Done("closed-listed" if done.published else "closed", "/appeals")


def _allow(service: Service, asked: Asked) -> Done:
    done = service.corrections.allow(asked.number, asked.why, asked.who, service.now)
    return Done("allowed" if done.published else "allowed-unlisted", f"/numbers/{asked.number}")


def _disallow(service: Service, asked: Asked) -> Done:
    done = service.corrections.disallow(asked.number, service.now)
    return Done("disallowed-listed" if done.published else "disallowed", f"/numbers/{asked.number}")


def _hold(service: Service, asked: Asked) -> Done:
    service.rounds.hold(asked.round, asked.why)
    return Done("held", f"/rounds/{asked.round}")


def _release(service: Service, asked: Asked) -> Done:
    service.rounds.release(asked.round)
    return Done("released", f"/rounds/{asked.round}")


def _advance(service: Service, asked: Asked) -> Done:
    def later() -> None:
        """Decoding takes its time: the overview shows how far it is."""
        try:
            service.rounds.advance(service.now, force=True, seen=asked.seen)
        except Exception as error:
            log("moving on failed", level=logging.ERROR, error=error)

    return Done("advancing", "/", later)


_NEXT = {
    ANNOUNCING: "Round {id} starts to collect now: phones that have not announced yet miss it.",
    COLLECTING: "Round {id} closes now and is decoded: reports that have not come yet are lost.",
    CLOSED: "Round {id} is decoded and published.",
    DECODED: "Round {id} is published.",
    PUBLISHED: "The next round opens now, ahead of its time.",
}


def _what_moves(service: Service, _: Asked) -> str:
    newest = service.rounds.newest()
    round_ = None if newest is None else one_round(service.store, newest.id)
    if round_ is None:
        return "The first round opens now."
    if round_.held:
        held = f"Round {round_.id} is held and stays so."
        return held if round_.phase in TAKES_UPLOADS else f"{held} The next round opens now."
    return _NEXT[round_.phase].format(id=round_.id)


def _newest(service: Service) -> str:
    newest = service.rounds.newest()
    return "" if newest is None else f"{newest.id} {newest.state}"


def says(text: str) -> Callable[[Service, Asked], str]:
    """A question that only names what was asked for."""

    def said(_: Service, asked: Asked) -> str:
        plain = {name: getattr(asked, name) for name in ("entry", "round", "device", "token", "uses", "invite")}
        return text.format(number=spaced(asked.number), scopes=", ".join(sorted(asked.scopes)) or "nothing", **plain)

    return said


ACTIONS = {
    action.name: action
    for action in (
        Action(
            "appeal",
            "lists",
            "Appeal a number",
            "Take it off",
            ("number", "why", "who"),
            says("{number} leaves the list at once, and stays off while the appeal is open."),
            _appeal,
        ),
        Action(
            "close",
            "lists",
            "Close an appeal",
            "Close the appeal",
            ("entry", "why"),
            says("Appeal {entry} ends: its number may be listed again."),
            _close,
        ),
        Action(
            "allow",
            "lists",
            "Never list a number",
            "Put it on the allowlist",
            ("number", "why", "who"),
            says("{number} leaves the list at once and is never listed again, whatever phones report."),
            _allow,
        ),
        Action(
            "disallow",
            "lists",
            "Take a number off the allowlist",
            "Take it off the allowlist",
            ("number",),
            says("{number} may be listed again if rounds find it."),
            _disallow,
        ),
        Action(
            "hold",
            "rounds",
            "Hold a round",
            "Hold it",
            ("round", "why"),
            says("Round {round} stops where it is: it takes no uploads and is not decoded until it is released."),
            _hold,
        ),
        Action(
            "release",
            "rounds",
            "Release a round",
            "Let it go on",
            ("round",),
            says("Round {round} goes on from where it was held."),
            _release,
        ),
        Action("advance", "rounds", "Move on now", "Move on", ("seen",), _what_moves, _advance, _newest),
    )
}

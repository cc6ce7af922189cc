"""What an operator can do from a page: the form is checked, confirmed with a question, and performed.

Nobody hands out or takes away more than their own scopes: a token gets scopes of its maker, and is revoked by an
operator who has all of its scopes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hushcall.errors import HushcallError, InvalidNumber, NotFound
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.ranges import number_or_range
from hushcall.server.auth.devices import SCOPES, Admin
from hushcall.server.logs import log
from hushcall.server.problems import Problem
from hushcall.server.rounds import holding
from hushcall.server.rounds.state_machine import Seen
from hushcall.server.service import Service

_SCOPE_FIELDS = tuple(f"scope-{scope}" for scope in SCOPES)


class ActionForm(BaseModel):
    """A checked form, and the operator who sent it. ``seen`` is the newest round that the page showed."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)
    admin: Admin
    number: str = Field(default="", max_length=40)
    entry: int = Field(default=0, ge=1, lt=1 << 31)
    round: int = Field(default=0, ge=1, lt=1 << 31)
    why: str = Field(default="", max_length=1000)
    who: str = Field(default="", max_length=200)
    seen: Annotated[Seen | None, BeforeValidator(lambda text: text.split() or None)] = None
    device: int = Field(default=0, ge=1, lt=1 << 53)
    token: int = Field(default=0, ge=1, lt=1 << 31)
    uses: int = Field(default=0, ge=1, le=100_000)
    invite: str = Field(default="", max_length=40)
    note: str = Field(default="", max_length=200)
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outcome:
    """The message and the next page. ``later`` runs after the answer. ``secret`` is shown this once."""

    flash: str
    path: str
    later: Callable[[], None] | None = None
    secret: str = ""


_Perform = Callable[[Service, ActionForm], Outcome]


@dataclass(frozen=True)
class Action:
    name: str
    scope: str
    title: str
    button: str
    fields: tuple[str, ...]
    perform: _Perform


ACTIONS: dict[str, Action] = {}


def _action(name: str, scope: str, title: str, button: str, fields: tuple[str, ...]) -> Callable[[_Perform], None]:
    def register(perform: _Perform) -> None:
        ACTIONS[name] = Action(name, scope, title, button, fields, perform)

    return register


def checked(action: Action, form: Mapping[str, str], admin: Admin, plan: NumberingPlan) -> ActionForm:
    admin.need(action.scope)
    values: dict[str, Any] = {name: form.get(name, "") for name in action.fields if name not in _SCOPE_FIELDS}
    if not values.get("why", "why").strip():
        raise Problem("bad-request", "Say why: it is kept in the log.")
    if "number" in values:
        try:
            values["number"] = number_or_range(values["number"], plan)
        except InvalidNumber:
            raise Problem("malformed-number") from None
    values["who"] = form.get("who", "").strip() or admin.note or "operator"
    values["scopes"] = [scope for scope in SCOPES if form.get(f"scope-{scope}") and f"scope-{scope}" in action.fields]
    try:
        return ActionForm(admin=admin, **values)
    except ValidationError as error:
        first = error.errors()[0]
        raise Problem("bad-request", f"The field '{first['loc'][0]}': {first['msg']}.") from None


_LOGGED_AS = {"advance": "force", "revoke-device": "revoke"}
"""Names in the operators' log, where the command line and the API use another one."""


def perform(action: Action, service: Service, form: ActionForm) -> Outcome:
    subjects = (
        form.number,
        form.entry and f"appeal {form.entry}",
        form.round and f"round {form.round}",
        form.device and f"device {form.device}",
        form.token and f"token {form.token}",
        form.uses and f"{form.uses} devices",
        form.invite,
        ",".join(sorted(form.scopes)),
    )
    subject = next((subject for subject in subjects if subject), "")
    name = _LOGGED_AS.get(action.name, action.name.replace("-", " "))
    try:
        with service.audit.act(form.admin.id, form.admin.note, name, subject, form.why or form.note):
            return action.perform(service, form)
    except NotFound as error:
        raise Problem("bad-request", error.fact) from None
    except HushcallError as error:
        rule = f"The {getattr(error, 'field', 'request')} must {getattr(error, 'rule', 'be possible just now')}."
        raise Problem("bad-request", rule) from None


@_action("appeal", "lists", "Appeal a number", "Take it off", ("number", "why", "who"))
def _appeal(service: Service, form: ActionForm) -> Outcome:
    _, published = service.corrections.appeal(form.number, form.why, form.who, service.now)
    return Outcome("appealed" if published else "appealed-unlisted", f"/numbers/{form.number}")


@_action("close", "lists", "Close an appeal", "Close the appeal", ("entry", "why"))
def _close(service: Service, form: ActionForm) -> Outcome:
    published = service.corrections.close(form.entry, form.why, service.now)
    return Outcome("closed-listed" if published else "closed", "/appeals")


@_action("allow", "lists", "Never list a number", "Put it on the allowlist", ("number", "why", "who"))
def _allow(service: Service, form: ActionForm) -> Outcome:
    published = service.corrections.allow(form.number, form.why, form.who, service.now)
    return Outcome("allowed" if published else "allowed-unlisted", f"/numbers/{form.number}")


@_action("disallow", "lists", "Take a number off the allowlist", "Take it off the allowlist", ("number",))
def _disallow(service: Service, form: ActionForm) -> Outcome:
    published = service.corrections.disallow(form.number, service.now)
    return Outcome("disallowed-listed" if published else "disallowed", f"/numbers/{form.number}")


@_action("hold", "rounds", "Hold a round", "Hold it", ("round", "why"))
def _hold(service: Service, form: ActionForm) -> Outcome:
    holding.hold(service.store, form.round, form.why)
    return Outcome("held", f"/rounds/{form.round}")


@_action("release", "rounds", "Release a round", "Let it go on", ("round",))
def _release(service: Service, form: ActionForm) -> Outcome:
    holding.release(service.store, form.round)
    return Outcome("released", f"/rounds/{form.round}")


@_action("discard", "rounds", "Discard a round", "Discard it", ("round", "why"))
def _discard(service: Service, form: ActionForm) -> Outcome:
    holding.discard(service.store, form.round, form.why)
    return Outcome("discarded", f"/rounds/{form.round}")


@_action("advance", "rounds", "Move on now", "Move on", ("seen",))
def _advance(service: Service, form: ActionForm) -> Outcome:
    def later() -> None:
        """Decoding takes long. The overview shows its progress."""
        try:
            service.rounds.advance(service.now, force=True, seen=form.seen)
        except Exception as error:
            log("moving on failed", level=logging.ERROR, error=error)

    return Outcome("advancing", "/", later)


@_action("revoke-device", "devices", "Revoke a device", "Revoke it", ("device", "why"))
def _revoke_device(service: Service, form: ActionForm) -> Outcome:
    service.devices.revoke(form.device, service.now)
    return Outcome("device-revoked", "/access")


@_action("delete-device", "devices", "Delete a device and what names it", "Delete it", ("device",))
def _delete_device(service: Service, form: ActionForm) -> Outcome:
    service.devices.delete(form.device)
    return Outcome("device-deleted", "/access")


@_action("invite", "devices", "Make an invite code", "Make it", ("uses", "note"))
def _make_invite(service: Service, form: ActionForm) -> Outcome:
    return Outcome("", "/access", secret=service.devices.invite(form.uses, form.note, service.now))


@_action("revoke-invite", "devices", "Revoke an invite code", "Revoke it", ("invite",))
def _revoke_invite(service: Service, form: ActionForm) -> Outcome:
    service.devices.revoke_invite(form.invite)
    return Outcome("invite-revoked", "/access")


@_action("token", "devices", "Make an operator's token", "Make it", ("note", *_SCOPE_FIELDS))
def _make_token(service: Service, form: ActionForm) -> Outcome:
    if not form.scopes or not form.scopes <= form.admin.scopes:
        raise Problem("forbidden", "A token may do what you may do yourself, and something at least.")
    return Outcome("", "/access", secret=service.devices.new_admin(form.scopes, form.note, service.now))


@_action("revoke-token", "devices", "Revoke an operator's token", "Revoke it", ("token",))
def _revoke_token(service: Service, form: ActionForm) -> Outcome:
    token = next((row for row in service.devices.admins() if row.id == form.token), None)
    if token and not frozenset(token.scopes.split(",")) <= form.admin.scopes:
        raise Problem("forbidden", "This token may do more than you. An operator with all of its scopes can revoke it.")
    service.devices.revoke_admin(form.token, service.now)
    return Outcome("token-revoked", "/access")

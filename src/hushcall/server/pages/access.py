"""Who may speak, as an operator sees and changes it: devices, invite codes, operators' tokens; how a phone connects.

Nobody hands out or takes away more than they may do themselves: a token is made with scopes of one's own, and revoked
by who has all of its scopes. What is secret is shown once, on the page that answers the form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import segno
import sqlalchemy as sa

from hushcall.protocol.pairing import pairing
from hushcall.server.access.devices import SCOPES
from hushcall.server.db import schema
from hushcall.server.db.store import PublishedFiles
from hushcall.server.pages.actions import Action, Asked, Done, says
from hushcall.server.pages.listed import PAGE, Slice
from hushcall.server.problems import Problem
from hushcall.server.service import Service
from hushcall.server.signing.ceremony import root_sha256

QUIET = 4
"""Light cells around a QR code, so that cameras find it."""


@dataclass(frozen=True)
class Connect:
    """How a phone connects: a command, and its address as the cells of a QR code, ``size`` wide with the margin."""

    address: str
    command: str
    path: str
    size: int


def connect(service: Service, origin: str, mode: str) -> Connect:
    """For a server that is reached at ``origin``; what the QR code says is what ``phone init --server`` takes."""
    with service.store.read() as connection:
        address = pairing(origin, root_sha256(PublishedFiles(connection)))
    invite = {"invite": " --invite CODE", "operator": " --token TOKEN"}.get(mode, "")
    cells = segno.make(address, error="m", micro=False).matrix
    path = "".join(
        f"M{x + QUIET} {y + QUIET}h1v1h-1z" for y, row in enumerate(cells) for x, dark in enumerate(row) if dark
    )
    return Connect(address, f"hushcall phone init --server '{address}'{invite}", path, len(cells) + 2 * QUIET)


def values(service: Service, page: int) -> dict[str, Any]:
    """What the page shows: devices by the page, newest first; all codes and tokens."""
    table = schema.devices.c
    with service.store.read() as connection:
        count = sa.select(sa.func.count(), sa.func.count(table.revoked))
        enrolled, revoked = connection.execute(count).one()
        pages = max(-(-enrolled // PAGE), 1)
        page = min(page, pages)
        newest = sa.select(table.id, table.enrolled, table.revoked).order_by(table.enrolled.desc(), table.id)
        rows = connection.execute(newest.limit(PAGE).offset((page - 1) * PAGE)).all()
    return {
        "devices": Slice(rows, page, pages),
        "enrolled": enrolled,
        "revoked": revoked,
        "invites": service.devices.invites(),
        "tokens": service.devices.admins(),
        "scopes": SCOPES,
    }


def _revoke_device(service: Service, asked: Asked) -> Done:
    service.devices.revoke(asked.device, service.now)
    return Done("device-revoked", "/access")


def _make_invite(service: Service, asked: Asked) -> Done:
    code = service.devices.invite(asked.uses, asked.note, service.now)
    return Done("", "/access", made=code)


def _revoke_invite(service: Service, asked: Asked) -> Done:
    service.devices.revoke_invite(asked.invite)
    return Done("invite-revoked", "/access")


def _make_token(service: Service, asked: Asked) -> Done:
    if not asked.scopes or not asked.scopes <= asked.admin.scopes:
        raise Problem("forbidden", "A token may do what you may do yourself, and something at least.")
    return Done("", "/access", made=service.devices.new_admin(asked.scopes, asked.note, service.now))


def _revoke_token(service: Service, asked: Asked) -> Done:
    meant = [one for one in service.devices.admins() if one.id == asked.token]
    if meant and not frozenset(meant[0].scopes.split(",")) <= asked.admin.scopes:
        raise Problem("forbidden", "It may do more than you: somebody who may do as much has to take it away.")
    service.devices.revoke_admin(asked.token, service.now)
    return Done("token-revoked", "/access")


def _discard(service: Service, asked: Asked) -> Done:
    service.rounds.discard(asked.round, asked.why)
    return Done("discarded", f"/rounds/{asked.round}")


ACTIONS = {
    action.name: action
    for action in (
        Action(
            "discard",
            "rounds",
            "Discard a round",
            "Discard it",
            ("round", "why"),
            says(
                "Round {round} ends for good: its reports are deleted, nothing is learnt from it. There is no way back."
            ),
            _discard,
        ),
        Action(
            "revoke-device",
            "devices",
            "Revoke a device",
            "Revoke it",
            ("device", "why"),
            says("Device {device} is refused from its next request on. What it reported before stays."),
            _revoke_device,
        ),
        Action(
            "invite",
            "devices",
            "Make an invite code",
            "Make it",
            ("uses", "note"),
            says("A code that enrols {uses} devices. It is shown once."),
            _make_invite,
        ),
        Action(
            "revoke-invite",
            "devices",
            "Revoke an invite code",
            "Revoke it",
            ("invite",),
            says("Code {invite} enrols nobody else. Devices that came with it stay."),
            _revoke_invite,
        ),
        Action(
            "token",
            "devices",
            "Make an operator's token",
            "Make it",
            ("note", *(f"scope-{scope}" for scope in SCOPES)),
            says("A token that may: {scopes}. It is shown once."),
            _make_token,
        ),
        Action(
            "revoke-token",
            "devices",
            "Revoke an operator's token",
            "Revoke it",
            ("token",),
            says("Token {token} and every session that was opened with it end now."),
            _revoke_token,
        ),
    )
}

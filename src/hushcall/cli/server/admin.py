"""``hushcall admin``: devices, invitations, operators' tokens, appeals and the allowlist, on the server's own data."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.server.on_service import on_service
from hushcall.cli.show import Json

if TYPE_CHECKING:
    from hushcall.server.service import Service

admin = typer.Typer(help="What an operator does beside rounds. Works on the data folder.", no_args_is_help=True)
WhyOption = Annotated[str, typer.Option(help="For the log.")]
WhoOption = Annotated[str | None, typer.Option(help="Who asked. Default: you.")]
NumberArgument = Annotated[str, typer.Argument(help="In any usual notation.")]


@admin.command("token")
@on_service
def token(
    service: Service,
    scope: Annotated[list[str] | None, typer.Option(help="read, lists, rounds, devices. Default: all.")] = None,
    note: Annotated[str, typer.Option(help="Whose it is.")] = "",
    revoke: Annotated[int | None, typer.Option(help="Take the token with this id away instead.")] = None,
    json: Json = False,
) -> None:
    """Make a token for an operator, which may do no more than its scopes say; or revoke one.

    [bold]Examples[/bold]

      hushcall admin token --scope read --note prometheus

      hushcall admin token --revoke 2
    """
    from hushcall.server.access.devices import SCOPES

    if revoke is not None:
        service.devices.revoke_admin(revoke, service.now)
        _say({"revoked": revoke}, json, f"Token {revoke} is revoked.")
        return
    made = service.devices.new_admin(frozenset(scope or SCOPES), note, service.now)
    _say({"token": made, "scopes": sorted(scope or SCOPES)}, json, f"{made}\nIt is not shown again.")


@admin.command("tokens")
@on_service
def tokens(
    service: Service,
    json: Json = False,
) -> None:
    """List operators' tokens: their ids, scopes and notes, never the tokens themselves.

    [bold]Example[/bold]

      hushcall admin tokens
    """
    import sqlalchemy as sa

    from hushcall.server.db import schema

    table = schema.admins.c
    rows = service.store.rows(sa.select(table.id, table.scopes, table.note, table.made, table.revoked))
    _table("Operators' tokens", rows, json)


@admin.command("invite")
@on_service
def invite(
    service: Service,
    uses: Annotated[int, typer.Option(min=1, help="How many devices may enrol with it.")] = 1,
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
    json: Json = False,
) -> None:
    """Make an invite code, for servers whose enrolment is by invitation.

    [bold]Example[/bold]

      hushcall admin invite --uses 100
    """
    code = service.devices.invite(uses, note, service.now)
    _say({"invite": code, "uses": uses}, json, f"{code}\nEnrols {uses} device(s). It is not shown again.")


@admin.command("enrol")
@on_service
def enrol(
    service: Service,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 1,
    json: Json = False,
) -> None:
    """Enrol devices and print their tokens, for servers on which the operator hands them out.

    [bold]Example[/bold]

      hushcall admin enrol --count 3 --json
    """
    made = service.devices.enrol_many(count, service.now)
    text = "\n".join(f"device {device}: {secret}" for device, secret in made)
    _say({"devices": [{"device": device, "token": secret} for device, secret in made]}, json, text)


@admin.command("revoke")
@on_service
def revoke(
    service: Service,
    device: Annotated[int, typer.Argument(help="The device's number.")],
    json: Json = False,
) -> None:
    """Revoke a device: it is refused from its next request on.

    [bold]Example[/bold]

      hushcall admin revoke 4056565151213303
    """
    service.devices.revoke(device, service.now)
    _say({"revoked": device}, json, f"Device {device} is revoked.")


@admin.command("appeal")
@on_service
def appeal(
    service: Service,
    number: NumberArgument,
    why: WhyOption,
    who: WhoOption = None,
    json: Json = False,
) -> None:
    """Take a number off the list at once, and keep it off while the appeal is open.

    [bold]Example[/bold]

      hushcall admin appeal "+1 202 555 0143" --why "a school's daily call" --who "the school"
    """
    from hushcall.server.publishing import appeals

    entry = appeals.appeal(service.store, number, why, who or getpass.getuser(), service.now)
    published = service.publisher.republish(service.now)
    text = f"Appeal {entry} is open; " + (
        "a list without the number is published." if published else "it was not listed."
    )
    _say({"appeal": entry, "published": published}, json, text)


@admin.command("close")
@on_service
def close(
    service: Service,
    entry: Annotated[int, typer.Argument(help="The appeal's number in the log.")],
    why: WhyOption,
    json: Json = False,
) -> None:
    """Close an appeal: the number may be listed again.

    [bold]Example[/bold]

      hushcall admin close 3 --why "the caller never answered"
    """
    from hushcall.server.publishing import appeals

    appeals.close_appeal(service.store, entry, why, service.now)
    published = service.publisher.republish(service.now)
    _say({"closed": entry, "published": published}, json, f"Appeal {entry} is closed.")


@admin.command("appeals")
@on_service
def appeal_log(
    service: Service,
    json: Json = False,
) -> None:
    """Show the log of appeals: who, when, why, and how each ended.

    [bold]Example[/bold]

      hushcall admin appeals
    """
    from hushcall.server.publishing import appeals

    rows = appeals.appeals(service.store)
    _table("Appeals", rows, json)


@admin.command("allow")
@on_service
def allow(
    service: Service,
    number: NumberArgument,
    why: WhyOption = "",
    who: WhoOption = None,
    remove: Annotated[bool, typer.Option(help="Take it off the allowlist instead.")] = False,
    json: Json = False,
) -> None:
    """Put a number on the allowlist: it is never listed, whatever is reported.

    [bold]Examples[/bold]

      hushcall admin allow "+1 202 555 0199" --why "the pharmacy's reminder line"

      hushcall admin allow "+1 202 555 0199" --remove
    """
    from hushcall.server.publishing import appeals

    if remove:
        appeals.disallow(service.store, number)
    else:
        appeals.allow(service.store, number, why, who or getpass.getuser(), service.now)
    published = service.publisher.republish(service.now)
    done = "may be listed again" if remove else "is never listed"
    _say({"number": number, "removed": remove, "published": published}, json, f"{number} {done}.")


@admin.command("allowlist")
@on_service
def allowlist(
    service: Service,
    json: Json = False,
) -> None:
    """Show the allowlist.

    [bold]Example[/bold]

      hushcall admin allowlist
    """
    from hushcall.server.publishing import appeals

    rows = appeals.allowlist(service.store)
    _table("Never listed", rows, json)


def _say(value: dict[str, Any], json: bool, text: str) -> None:
    if json:
        show.print_json(value)
    else:
        show.console.print(text, markup=False, soft_wrap=True)


def _table(title: str, rows: Any, json: bool) -> None:
    plain = [dict(row._mapping) for row in rows]
    if json:
        show.print_json(plain)
        return
    if not plain:
        show.console.print(f"{title}: none.")
        return
    table = Table(title=title)
    for column in plain[0]:
        table.add_column(column.replace("_", " "), no_wrap=column in ("id", "number"))
    for row in plain:
        table.add_row(*(_cell(column, value) for column, value in row.items()))
    show.console.print(table)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if column in ("at", "made", "closed", "revoked", "enrolled"):
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M}"
    return escape(str(value))

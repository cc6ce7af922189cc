"""``hushcall admin``: devices, invitations, operators' tokens, appeals and the allowlist."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import audited, on_service
from hushcall.cli.show import Json
from hushcall.protocol.blocklist import iso
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.server.service import Service

admin = typer.Typer(help="What an operator does beside rounds. Works on the data folder.", no_args_is_help=True)
REMAINS = "Sealed tallies and earlier backups stay: in a tally nobody can tell which report was its own."
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
    """Make a token for an operator, which may do no more than its scopes say; or revoke one."""
    from hushcall.server.auth.devices import SCOPES

    if revoke is not None:
        with audited(service, "revoke token", f"token {revoke}"):
            service.devices.revoke_admin(revoke, service.now)
        show.say({"revoked": revoke}, json, f"Token {revoke} is revoked.")
        return
    with audited(service, "token", ",".join(sorted(scope or SCOPES)), note):
        token = service.devices.new_admin(frozenset(scope or SCOPES), note, service.now)
    show.say({"token": token, "scopes": sorted(scope or SCOPES)}, json, f"{token}\nIt is not shown again.")


@admin.command("tokens")
@on_service
def tokens(service: Service, json: Json = False) -> None:
    """List operators' tokens: their ids, scopes and notes, never the tokens themselves."""
    rows = [asdict(row) for row in service.devices.admins()]
    for row in rows:
        del row["token_hash"]
    _table("Operators' tokens", rows, json)


@admin.command("invite")
@on_service
def invite(
    service: Service,
    uses: Annotated[int, typer.Option(min=1, help="How many devices may enrol with it.")] = 1,
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
    json: Json = False,
) -> None:
    """Make an invite code, for servers whose enrolment is by invitation."""
    with audited(service, "invite", counted(uses, "device"), note):
        code = service.devices.invite(uses, note, service.now)
    show.say({"invite": code, "uses": uses}, json, f"{code}\nEnrols {uses} device(s). It is not shown again.")


@admin.command("invites")
@on_service
def invites(
    service: Service,
    revoke: Annotated[str | None, typer.Option(metavar="NAME", help="Let this one enrol nobody else.")] = None,
    json: Json = False,
) -> None:
    """List invite codes, by names that enrol nobody; or revoke one. Devices that came with it stay."""
    if revoke is not None:
        with audited(service, "revoke invite", revoke):
            service.devices.revoke_invite(revoke)
        show.say({"revoked": revoke}, json, f"Invite {revoke} is revoked.")
        return
    _table("Invite codes", [asdict(row) for row in service.devices.invites()], json)


@admin.command("devices")
@on_service
def devices(
    service: Service,
    after: Annotated[int, typer.Option(min=0, help="Begin after this number.")] = 0,
    most: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    json: Json = False,
) -> None:
    """List devices by number: when each enrolled, and when it was revoked."""
    _table("Devices", [asdict(row) for row in service.devices.devices(most, after)], json)


@admin.command("log")
@on_service
def log(
    service: Service,
    most: Annotated[int, typer.Option(min=1, help="How many entries.")] = 100,
    json: Json = False,
) -> None:
    """Show what operators did: who, what, when, why, and how it ended. Newest first."""
    _table("What operators did", [asdict(row) for row in service.audit.entries(most)], json)


@admin.command("enrol")
@on_service
def enrol(
    service: Service,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="How many.")] = 1,
    json: Json = False,
) -> None:
    """Enrol devices and print their tokens, for servers on which the operator hands them out."""
    with audited(service, "enrol", counted(count, "device")):
        enrolled = service.devices.enrol_many(count, service.now)
    text = "\n".join(f"device {device}: {secret}" for device, secret in enrolled)
    show.say({"devices": [{"device": device, "token": secret} for device, secret in enrolled]}, json, text)


@admin.command("revoke")
@on_service
def revoke(
    service: Service,
    device: Annotated[int, typer.Argument(help="The device's number.")],
    json: Json = False,
) -> None:
    """Revoke a device: it is refused from its next request on."""
    with audited(service, "revoke", f"device {device}"):
        service.devices.revoke(device, service.now)
    show.say({"revoked": device}, json, f"Device {device} is revoked.")


@admin.command("delete-device")
@on_service
def delete_device(
    service: Service, device: Annotated[int, typer.Argument(help="The device's number.")], json: Json = False
) -> None:
    """Delete a device and every row that names it, when its owner asks; 'revoke' keeps them.

    Sealed tallies stay: nobody can tell which report in them is its own. So do backups made before.
    """
    with audited(service, "delete device", f"device {device}"):
        service.devices.delete(device)
    text = f"Device {device} is deleted. {REMAINS}"
    show.say({"deleted": device, "remains": REMAINS}, json, text)


@admin.command("appeal")
@on_service
def appeal(service: Service, number: NumberArgument, why: WhyOption, who: WhoOption = None, json: Json = False) -> None:
    """Take a number off the list at once, and keep it off while the appeal is open."""
    with audited(service, "appeal", number, why):
        entry, published = service.corrections.appeal(number, why, who or getpass.getuser(), service.now)
    then = "a list without the number is published." if published else "it was not listed."
    show.say({"appeal": entry, "published": published}, json, f"Appeal {entry} is open; {then}")


@admin.command("close")
@on_service
def close(
    service: Service,
    entry: Annotated[int, typer.Argument(help="The appeal's number in the log.")],
    why: WhyOption,
    json: Json = False,
) -> None:
    """Close an appeal: the number may be listed again."""
    with audited(service, "close", f"appeal {entry}", why):
        published = service.corrections.close(entry, why, service.now)
    show.say({"closed": entry, "published": published}, json, f"Appeal {entry} is closed.")


@admin.command("appeals")
@on_service
def appeal_log(service: Service, json: Json = False) -> None:
    """Show the log of appeals: who, when, why, and how each ended."""
    from hushcall.server.publishing import exclusions

    _table("Appeals", [asdict(row) for row in exclusions.appeals(service.store)], json)


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
    """Put a number on the allowlist: it is never listed, whatever is reported."""
    with audited(service, "disallow" if remove else "allow", number, why):
        if remove:
            published = service.corrections.disallow(number, service.now)
        else:
            published = service.corrections.allow(number, why, who or getpass.getuser(), service.now)
    then = "may be listed again" if remove else "is never listed"
    show.say({"number": number, "removed": remove, "published": published}, json, f"{number} {then}.")


@admin.command("allowlist")
@on_service
def allowlist(service: Service, json: Json = False) -> None:
    """Show the allowlist."""
    from hushcall.server.publishing import exclusions

    _table("Never listed", [asdict(row) for row in exclusions.allowlist(service.store)], json)


@admin.command("import-complaints")
@on_service
def import_complaints(
    service: Service,
    address: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="The FTC's CSV, PhoneBlock's JSON, our list, or a number a line.")
    ],
    source: Annotated[
        str, typer.Option(help="Its name in every verdict. Default: ftc, phoneblock, hushcall, list.")
    ] = "",
    complaints: Annotated[
        int | None, typer.Option(min=1, help="So many a number needs. Default: 3 to the FTC, 5 on PhoneBlock, else 1.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="They expire so long after the file was made.")] = 30,
    json: Json = False,
) -> None:
    """Publish numbers that others complain about, apart from what phones find. They warn, and never block.

    Complaints in the FTC's daily files add up, any other list replaces the one before. In an address {date} is
    yesterday.

    [bold]Examples[/bold]

      hushcall admin import-complaints DNC_Complaint_Numbers_2026-11-18.csv

      hushcall admin import-complaints https://lists.example.org/numbers.txt --source example
    """
    with show.progress("importing"), audited(service, "import", address):
        result = service.imports.add(address, service.now, source=source, least=complaints, days=days)
    text = (
        f"{result.source}: {counted(result.numbers, 'number')} imported, {result.skipped} skipped. Now "
        f"{counted(result.listed, 'number')} with at least {counted(result.least, 'complaint')} until "
        f"{iso(result.until)} at most. Phones warn of them after their next sync."
    )
    show.say({**asdict(result), "until": iso(result.until)}, json, text)


@admin.command("imports")
@on_service
def imports(
    service: Service,
    remove: Annotated[str | None, typer.Option(metavar="SOURCE", help="Remove all that is imported of it.")] = None,
    json: Json = False,
) -> None:
    """List imported files, with source, expiry and size; or remove a source."""
    if remove is None:
        _table("Imported complaints", service.imports.sources(), json)
        return
    with audited(service, "remove import", remove):
        files = service.imports.remove(remove, service.now)
    show.say({"removed": remove, "files": files}, json, f"{remove} is removed ({counted(files, 'file')}).")


_MOMENTS = ("at", "made", "closed", "revoked", "enrolled", "until")


def _table(title: str, plain: list[dict[str, Any]], json: bool) -> None:
    if json:
        show.print_json(plain)
        return
    if not plain:
        show.console.print(f"{title}: none.")
        return
    table = Table(title=title)
    for column in plain[0]:
        table.add_column(column.replace("_", " "), no_wrap=column in ("id", "number", *_MOMENTS), overflow="fold")
    for row in plain:
        table.add_row(*(_cell(column, value) for column, value in row.items()))
    show.console.print(table)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return ""
    if column in _MOMENTS:
        return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M}"
    return escape(str(value))

"""``hushcall phone``: the client on a phone, a computer or a PBX; enrol, report, sync, check."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushcall.cli import show
from hushcall.cli.phone import agi, calls, keeping, personal, show_state, simulate
from hushcall.cli.phone.home import LOCK_PATIENCE, Home, folder_of, opened, phone_in
from hushcall.cli.show import Json
from hushcall.errors import HushcallError, Refused

if TYPE_CHECKING:
    from hushcall.phone.phone import Phone
    from hushcall.phone.reporting.ledger import Limits
    from hushcall.phone.setup import SetUp
    from hushcall.phone.visit import Outcome

phone = typer.Typer(
    help="The client on a phone, a computer or a PBX: reports privately, keeps the list, checks callers offline.",
    no_args_is_help=True,
)
LONGEST_NAP = 900


def init(
    server: Annotated[
        str | None,
        typer.Option(
            help="The server's address, like https://calls.example.org, or what its QR code says. Needed at first."
        ),
    ] = None,
    invite: Annotated[str, typer.Option(help="An invite code, where the server asks for one.")] = "",
    token: Annotated[str, typer.Option(help="A device's token from the operator, instead of enrolling.")] = "",
    root: Annotated[
        Path | None, typer.Option(help="The operator's root.json, got in a trusted way. Default: trust on first sync.")
    ] = None,
    root_sha256: Annotated[
        str, typer.Option("--root-sha256", help="Or only its digest, as 'hushcall keys status' prints it there.")
    ] = "",
    cap_window: Annotated[float | None, typer.Option(help="Most ε in seven days. Default: 32.")] = None,
    cap_life: Annotated[float | None, typer.Option(help="Most ε ever. Default: 1460.")] = None,
    max_epsilon: Annotated[float | None, typer.Option(help="Most ε of one report. Default: 4.")] = None,
    rounds_per_day: Annotated[int | None, typer.Option(help="Most rounds joined in a day. Default: 1.")] = None,
    whole_only: Annotated[
        bool | None, typer.Option("--whole-only/--area-in-clear", help="Whether area codes must be protected too.")
    ] = None,
    nameless_only: Annotated[
        bool | None, typer.Option("--nameless-only/--by-name", help="Whether to report with blind tokens only.")
    ] = None,
    least_crowd: Annotated[
        int | None, typer.Option(min=0, help="Phones without a name that a round must have. Default: 0.")
    ] = None,
    mechanisms: Annotated[
        str | None, typer.Option(help="What a server may use, by name. Default: 'subspace whole-number'.")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Days in which one caller is in at most one report. Default: 30.")
    ] = None,
    home_area: Annotated[
        int | None, typer.Option(help="Your own area code: made-up callers share it like real ones. Never sent.")
    ] = None,
    trust_again: Annotated[
        bool, typer.Option("--trust-again", help="Take part again after the server showed a round of its own.")
    ] = False,
    policy: Annotated[str | None, typer.Option(help="What a bad caller gets: block or warn. Default: block.")] = None,
    block_days: Annotated[int | None, typer.Option(help="Block what was seen on so many days. Default: 2.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Enrol this phone with a server and set what it may spend. Run again, it changes the settings that are given.

    [bold]Examples[/bold]

      hushcall phone init --server https://calls.example.org

      hushcall phone init --server https://calls.example.org --invite CODE --root root.json

      hushcall phone init --max-epsilon 2 --cap-window 14
    """
    from hushcall.phone.setup import set_up

    limits = {
        "report": max_epsilon,
        "window": cap_window,
        "life": cap_life,
        "rounds_per_day": rounds_per_day,
        "area_in_clear": None if whole_only is None else not whole_only,
        "least_crowd": least_crowd,
        "by_name": None if nameless_only is None else not nameless_only,
        "mechanisms": mechanisms,
        "horizon": horizon,
    }
    done = set_up(
        folder_of(home),
        server,
        invite=invite,
        token=token,
        root=root,
        root_sha256=root_sha256,
        limits=limits,
        policy=policy,
        block_days=block_days,
        home_area=home_area,
        trust_again=trust_again,
        patience=LOCK_PATIENCE,
    )
    if json:
        facts = {"server": done.url, "device": done.device, "enrolled": done.enrolled, "home": str(folder_of(home))}
        show.print_json(facts | {"limits": _plain(done.limits)})
        return
    for line in _set_up_in_words(done):
        show.console.print(line, markup=False, soft_wrap=True)


def report(
    wait: Annotated[bool, typer.Option("--wait", help="Stay until this round is done.")] = False,
    hurry: Annotated[
        bool,
        typer.Option("--hurry", help="Skip the random delays: weakens privacy, meant for tests and demos."),
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Do what the current round needs now: announce, or report. Run it every quarter of an hour, or with --wait.

    [bold]Examples[/bold]

      hushcall phone report

      hushcall phone report --wait
    """
    with closing(phone_in(home)) as client:
        while True:
            outcome = _look(client, hurry=hurry, patient=wait)
            if not wait or outcome.action not in ("waiting", "announced") or outcome.next_at is None:
                break
            if not json:
                show.console.print(_sentence(outcome), markup=False, soft_wrap=True)
            time.sleep(min(LONGEST_NAP, max(1, outcome.next_at - int(time.time()))))
    if json:
        show.print_json(asdict(outcome))
    else:
        show.console.print(_sentence(outcome), markup=False, soft_wrap=True)


def sync(home: Home = None, json: Json = False) -> None:
    """Fetch the newest list and verify its signatures; if anything is wrong the old one stays.

    A server that has not ended a round has no list yet: that is said, with the time of the first, and is no error.

    [bold]Examples[/bold]

      hushcall phone sync
    """
    from hushcall.phone.screening.list_sync import NO_LIST
    from hushcall.protocol.blocklist import iso

    with closing(phone_in(home)) as client:
        try:
            with show.progress("fetching the list"), client.alone(LOCK_PATIENCE):
                result = client.sync()
        except Refused as refusal:
            if refusal.problem != NO_LIST:
                raise
            _no_list(client, json=json)
            return
    expires = iso(int(result.expires.timestamp()))
    if json:
        show.print_json({**asdict(result), "expires": expires})
        return
    numbers = "1 number" if result.entries == 1 else f"{result.entries:,} numbers"
    show.console.print(
        f"List version {result.version}: {numbers} ({result.how}, {result.bytes:,} bytes); good until {expires}.",
        soft_wrap=True,
    )


def _no_list(client: Phone, *, json: bool) -> None:
    """The server has no list yet: when it will."""
    from hushcall.phone.health import first_list
    from hushcall.protocol.blocklist import iso

    try:
        info = client.transport.current_round()
    except HushcallError:
        info = None
    if json:
        show.print_json({"version": None, "first_after": None if info is None else iso(info.closes)})
    else:
        show.console.print(f"No list: {first_list(info)}", soft_wrap=True)


def check(
    number: Annotated[str, typer.Argument(help="A caller, in any usual notation.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Judge a caller offline: allow, warn or block, and why.

    [bold]Examples[/bold]

      hushcall phone check "(202) 555-0143"
    """
    from hushcall.phone.screening.screen import Screen
    from hushcall.phone.setup import plan_of

    with opened(home, reading=True) as store:
        verdict = Screen(store, plan_of(store)).verdict(number, int(time.time()))
    if json:
        entry = None if verdict.entry is None else asdict(verdict.entry)
        show.print_json(
            {"action": verdict.action.value, "why": verdict.why, "warning": verdict.warning, "entry": entry}
        )
        return
    show.console.print(f"{verdict.action.value}: {verdict.why}")
    if verdict.warning:
        print(f"hushcall: {verdict.warning}", file=sys.stderr)


def _look(client: Phone, *, hurry: bool, patient: bool) -> Outcome:
    if patient:
        return client.report_patiently(hurry=hurry, patience=LOCK_PATIENCE)
    with client.alone(LOCK_PATIENCE):
        return client.report(hurry=hurry)


def _set_up_in_words(done: SetUp) -> Iterator[str]:
    device = f"device {done.device}" if done.device else "with the operator's token"
    yield f"{'Enrolled' if done.enrolled else 'Settings changed'}: {device} at {done.url}."
    if not done.enrolled:
        yield "In force: " + ", ".join(f"{name} {value}" for name, value in _plain(done.limits).items())
    if done.moved:
        yield f"The list of {done.before} was removed; what was spent stays in the ledger."
    if done.url.startswith("http://"):
        yield "This address is not encrypted: use https:// outside your own network."
    yield "Next: hushcall phone ingest FILE --contacts FILE; hushcall phone status says what is missing."


def _plain(limits: Limits) -> dict[str, Any]:
    return {name: float(value) if isinstance(value, Fraction) else value for name, value in asdict(limits).items()}


def _sentence(outcome: Outcome) -> str:
    from hushcall.protocol.blocklist import iso

    return outcome.words if outcome.next_at is None else f"{outcome.words} Run again after {iso(outcome.next_at)}."


# In the order in which a newcomer needs them: --help lists them so.
for _command in (
    init,
    calls.ingest,
    report,
    sync,
    check,
    personal.allow,
    personal.block,
    personal.own,
    show_state.status,
    show_state.ledger,
    show_state.explain,
    calls.watch,
    agi.agi,
    keeping.backup,
    keeping.restore,
    keeping.forget,
    simulate.simulate,
):
    phone.command()(_command)

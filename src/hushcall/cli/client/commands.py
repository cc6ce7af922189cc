"""``hushcall phone``: the client on a phone, a computer or a PBX. Here: ``init``, ``report`` and ``sync``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from hushcall.cli import show
from hushcall.cli.client import calls, keeping, lists, screening, show_state
from hushcall.cli.options import Home, client_in, folder_of, grouped
from hushcall.cli.show import Json
from hushcall.client.health import first_list
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.round_context import Outcome
from hushcall.client.setup import Options, SetUp, set_up
from hushcall.errors import HushcallError, Refused
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP

_HELP = "The client on a phone, a computer or a PBX: reports privately, keeps the list, checks callers offline."
phone = typer.Typer(help=_HELP, no_args_is_help=True)
MAX_SLEEP_SECONDS = 900


@dataclass(frozen=True)
class LimitOptions:
    """Changes to ``client.reporting.consent.Limits``: the fields have its names."""

    window: Annotated[float | None, typer.Option("--cap-window", help="Most ε in seven days. Default: 32.")] = None
    life: Annotated[float | None, typer.Option("--cap-life", help="Most ε ever. Default: 1460.")] = None
    report: Annotated[float | None, typer.Option("--max-epsilon", help="Most ε of one report. Default: 4.")] = None
    rounds_per_day: Annotated[int | None, typer.Option(help="Most rounds joined in a day. Default: 1.")] = None
    area_in_clear: Annotated[
        bool | None, typer.Option("--area-in-clear/--whole-only", help="Whether area codes may be sent unprotected.")
    ] = None
    by_name: Annotated[
        bool | None,
        typer.Option(
            "--by-name/--anonymous-only", " /--nameless-only", help="Report by name too, or with blind tokens only."
        ),
    ] = None
    least_crowd: Annotated[
        int | None,
        typer.Option("--min-anonymity-set", "--least-crowd", min=0, help="Anonymous phones in a round. Default: 0."),
    ] = None
    mechanisms: Annotated[
        str | None, typer.Option(help="What a server may use, by name. Default: 'subspace whole-number'.")
    ] = None
    least_phase: Annotated[
        int | None, typer.Option("--min-phase", min=0, help="Seconds of each phase of anonymous rounds. Default: 3600.")
    ] = None
    horizon: Annotated[
        int | None, typer.Option(help="Days in which one caller is in at most one report. Default: 30.")
    ] = None
    talked_seconds: Annotated[
        int | None, typer.Option(help="A caller you talked to for so long is never reported. Default: 20.")
    ] = None


@dataclass(frozen=True)
class SetUpOptions:
    """Those of ``client.setup.Options`` that a command line sets: the fields have its names."""

    invite: Annotated[str, typer.Option(help="An invite code, where the server asks for one.")] = ""
    token: Annotated[str, typer.Option(help="A device's token from the operator, instead of enrolling.")] = ""
    root: Annotated[
        Path | None, typer.Option(help="The operator's root.json, got in a trusted way. Default: trust on first sync.")
    ] = None
    root_sha256: Annotated[
        str, typer.Option("--root-sha256", help="Or only its digest, as 'hushcall keys status' prints it there.")
    ] = ""
    relay: Annotated[
        str, typer.Option(help="A relay that is not the server's: everything goes through it, with no name. See below.")
    ] = ""
    log: Annotated[
        str, typer.Option(help="A log of the server's rounds and lists that somebody else keeps, to compare with.")
    ] = ""
    home_area: Annotated[
        int | None, typer.Option(help="Your own area code: made-up callers share it like real ones. Never sent.")
    ] = None
    agreed_plan: Annotated[
        str, typer.Option("--plan", help="Your region, like DE, or a plan's name: a server of another is refused.")
    ] = ""
    trust_again: Annotated[
        bool, typer.Option("--trust-again", help="Take part again after the server showed a round of its own.")
    ] = False
    policy: Annotated[str | None, typer.Option(help="What a bad caller gets: block or warn. Default: block.")] = None
    block_days: Annotated[
        int | None, typer.Option(help="Block what was found on so many days. Default: the list decides.")
    ] = None


@grouped
def init(
    *,
    server: Annotated[
        str | None, typer.Option(help="Its address, like https://calls.example.org, or its QR code. Needed at first.")
    ] = None,
    options: SetUpOptions,
    limits: LimitOptions,
    home: Home = None,
    json: Json = False,
) -> None:
    """Enrol this phone with a server and set what it may spend. Run again, it changes the settings that are given.

    [bold]Examples[/bold]

      hushcall phone init --server https://calls.example.org

      hushcall phone init --server https://calls.example.org --invite CODE --root root.json

      hushcall phone init --max-epsilon 2 --cap-window 14

      hushcall phone init --relay https://relay.example.net --log https://relay.example.net/log
    """
    result = set_up(folder_of(home), server, Options(**vars(options), limits=vars(limits)))
    facts = {"server": result.url, "device": result.device, "enrolled": result.enrolled}
    facts |= {"plan": result.plan.name, "home": str(folder_of(home)), "limits": _plain(result.limits)}
    show.say(facts, json, "\n".join(_set_up_in_words(result)))


def report(
    wait: Annotated[bool, typer.Option("--wait", help="Stay until this round is done.")] = False,
    skip_delays: Annotated[
        bool,
        typer.Option("--skip-delays", "--hurry", help="Skip the random delays: weakens privacy, for tests and demos."),
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Do what the current round needs now: announce, or report. Run it every quarter of an hour, or with --wait."""
    with closing(client_in(home)) as client:
        while True:
            if not skip_delays and (seconds := client.seconds_to_wait()):  # when this was run must not show
                if not json:
                    show.out(f"Waits {seconds} seconds, so that its moment tells nothing (--skip-delays: not).")
                time.sleep(seconds)
            if wait:
                outcome = client.report_patiently(skip_delays=skip_delays)
            else:
                with client.alone():
                    outcome = client.report(skip_delays=skip_delays)
            if not wait or outcome.action not in ("waiting", "announced") or outcome.next_at is None:
                break
            if not json:
                show.out(_sentence(outcome))
            time.sleep(min(MAX_SLEEP_SECONDS, max(1, outcome.next_at - int(time.time()))))
    show.say(asdict(outcome), json, _sentence(outcome))


def sync(
    now: Annotated[bool, typer.Option("--now", help="With a relay too, where it is done once or twice a day.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Fetch the newest lists and verify their signatures; if anything is wrong the old one stays."""
    from hushcall.client.screening.list_sync import NO_LIST  # tuf takes a while to import

    with closing(client_in(home)) as client:
        if not now and (sync_at := client.sync_at()):
            with client.alone():
                others = client.sync_others()
            text = f"The list is fetched again at {iso(sync_at)}, a moment drawn for it (--now: at once)."
            facts: dict[str, Any] = {"version": None, "next_at": sync_at, **lists.facts(others)}
            show.say(facts, json, "\n".join([text, *lists.in_words(others)]))
            return
        try:
            with show.progress("fetching the list"), client.alone():
                others = client.sync_others(force=now) if now or not client.relayed else []
                result = client.sync()
        except Refused as refusal:
            if refusal.problem != NO_LIST:
                raise
            info = None
            with suppress(HushcallError):
                info = client.look()
            facts = {"version": None, "first_after": info and iso(info.closes), **lists.facts(others)}
            show.say(facts, json, "\n".join([f"No list: {first_list(info)}", *lists.in_words(others)]))
            return
    text = lists.result_in_words(result)
    values = {**lists.result_facts(result), **lists.facts(others)}
    show.say(values, json, "\n".join([text, *lists.in_words(others)]))


def _set_up_in_words(result: SetUp) -> Iterator[str]:
    device = f"device {result.device}" if result.device else "with the operator's token"
    yield f"{'Enrolled' if result.enrolled else 'Settings changed'}: {device} at {result.url}."
    if not result.enrolled:
        yield "Effective settings: " + ", ".join(f"{name} {value}" for name, value in _plain(result.limits).items())
    if result.enrolled and result.plan.name != NANP.name:
        yield f"Numbering plan {result.plan.name}: {result.plan.region}, +{result.plan.country_code}."
    if result.moved:
        yield f"The list of {result.before} was removed; what was spent stays in the ledger."
    if result.url.startswith("http://"):
        yield "This address is not encrypted: use https:// outside your own network."
    yield "Next: hushcall phone ingest FILE --contacts FILE; hushcall phone status says what is missing."


def _plain(limits: Limits) -> dict[str, Any]:
    return {name: float(value) if isinstance(value, Fraction) else value for name, value in asdict(limits).items()}


def _sentence(outcome: Outcome) -> str:
    return outcome.words if outcome.next_at is None else f"{outcome.words} Run again after {iso(outcome.next_at)}."


# In the order in which a newcomer needs them: --help lists them so.
for _command in (
    init,
    calls.ingest,
    report,
    sync,
    screening.check,
    screening.allow,
    screening.block,
    screening.own,
    show_state.status,
    show_state.ledger,
    show_state.explain,
    screening.agi,
    keeping.backup,
    keeping.restore,
    keeping.leave,
    keeping.forget,
):
    phone.command()(_command)
phone.add_typer(lists.lists, name="lists")

"""``hushcall phone``: the client on a phone, a computer or a PBX; enrol, report, sync, check, forget."""

from __future__ import annotations

import json as jsonlib
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushcall.cli import show
from hushcall.cli.phone import agi, calls, personal, show_state
from hushcall.cli.phone.home import LOCK_PATIENCE, Home, folder_of, is_set_up, opened, phone_of
from hushcall.cli.show import Json
from hushcall.errors import InvalidData, InvalidParameter, Refused, Unreachable, UntrustedList

if TYPE_CHECKING:
    from hushcall.phone.home.store import Store
    from hushcall.phone.phone import Outcome, Phone
    from hushcall.phone.reporting.ledger import Limits

phone = typer.Typer(
    help="The client on a phone, a computer or a PBX: reports privately, keeps the list, checks callers offline.",
    no_args_is_help=True,
)
LONGEST_NAP = 900


def init(
    server: Annotated[
        str | None, typer.Option(help="The server's address, like https://calls.example.org. Needed the first time.")
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
    from hushcall.phone.home.change_server import drop_stale_list, move_to, pin
    from hushcall.phone.home.lock import locked
    from hushcall.phone.home.store import Store
    from hushcall.phone.reporting.transport import Enrolment, HttpServer, checked_url
    from hushcall.phone.screening.screen import save_policy

    pinned, digest = _root(root), _digest(root_sha256)
    if server is None and not is_set_up(home):
        raise InvalidParameter("--server", "be given the first time", None)
    url = checked_url(server) if server is not None else ""
    store = Store.open(folder_of(home))
    try:
        with locked(folder_of(home), LOCK_PATIENCE):
            limits = _limits(store, max_epsilon, cap_window, cap_life, rounds_per_day, whole_only)
            limits.save(store)
            save_policy(
                store,
                store.get("policy", "block") if policy is None else policy,
                int(store.get("block_days", "2")) if block_days is None else block_days,
            )
            before = store.get("server")
            url = url or checked_url(before)
            new = before != url or not store.get("token") or bool(token)
            if new:
                enrolled = Enrolment(0, _token(token)) if token else HttpServer(url).enrol(invite)
                move_to(store, url, enrolled.token, enrolled.device, pinned, digest)
            else:
                pin(store, pinned, digest)
            drop_stale_list(store)  # where a change of servers was cut short
        result = {"server": url, "device": int(store.get("device")), "enrolled": new, "home": str(folder_of(home))}
    finally:
        store.close()
    if json:
        show.print_json(result | {"limits": _plain(limits)})
        return
    device = f"device {result['device']}" if result["device"] else "with the operator's token"
    show.console.print(f"{'Enrolled' if new else 'Settings changed'}: {device} at {url}.")
    if not new:
        words = ", ".join(f"{name} {value}" for name, value in _plain(limits).items())
        show.console.print(f"In force: {words}", markup=False, soft_wrap=True)
    if before and before != url:
        show.console.print(f"The list of {before} was removed; what was spent stays in the ledger.")
    if url.startswith("http://"):
        show.console.print("This address is not encrypted: use https:// outside your own network.")
    show.console.print("Next: hushcall phone ingest FILE --contacts FILE; hushcall phone status says what is missing.")


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
    with opened(home) as store:
        client = phone_of(store)
        while True:
            outcome = _step(client, folder_of(home), hurry=hurry, patient=wait)
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

    [bold]Examples[/bold]

      hushcall phone sync
    """
    from hushcall.phone.home.lock import locked
    from hushcall.protocol.blocklist import iso

    with opened(home) as store, show.progress("fetching the list"), locked(folder_of(home), LOCK_PATIENCE):
        try:
            result = phone_of(store).sync()
        except UntrustedList as error:
            store.put("sync.trouble", str(error))  # for status: the old list stays, and that may matter
            raise
        store.put("sync.trouble", "")
    expires = iso(int(result.expires.timestamp()))
    if json:
        show.print_json({**asdict(result), "expires": expires})
        return
    numbers = "1 number" if result.entries == 1 else f"{result.entries:,} numbers"
    show.console.print(
        f"List version {result.version}: {numbers} ({result.how}, {result.bytes:,} bytes); good until {expires}.",
        soft_wrap=True,
    )


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

    with opened(home) as store:
        verdict = Screen(store).verdict(number, int(time.time()))
    if json:
        entry = None if verdict.entry is None else asdict(verdict.entry)
        show.print_json(
            {"action": verdict.action.value, "why": verdict.why, "warning": verdict.warning, "entry": entry}
        )
        return
    show.console.print(f"{verdict.action.value}: {verdict.why}")
    if verdict.warning:
        print(f"hushcall: {verdict.warning}", file=sys.stderr)


def forget(
    everything: Annotated[bool, typer.Option("--all", help="The ledger, the settings and the list as well.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Erase every number from this phone: calls, contacts, what was reported. The ledger keeps its totals.

    The phone also forgets which numbers it has reported. If it reads a call log with them again, they may be reported
    again, even within the window. Nothing that was sent can be called back.

    [bold]Examples[/bold]

      hushcall phone forget

      hushcall phone forget --all --yes
    """
    from hushcall.phone.home.erasing import erase_all
    from hushcall.phone.home.lock import locked

    if everything and not yes:
        typer.confirm("Erase the ledger and the enrolment too? The caps start from zero then.", abort=True)
    folder = folder_of(home)
    if everything and is_set_up(home):
        with locked(folder, LOCK_PATIENCE):
            erase_all(folder)
    elif not everything:
        with opened(home) as store, locked(folder, LOCK_PATIENCE):
            store.forget()
    if json:
        show.print_json({"forgotten": "everything" if everything else "numbers"})
    else:
        show.console.print("Forgotten." if everything else "Forgotten; the ledger and the settings stay.")


def _step(client: Phone, folder: Path, *, hurry: bool, patient: bool) -> Outcome:
    """One look at the round. A patient phone outlasts a network that is away, a server in trouble, a busy folder."""
    from hushcall.phone.home.lock import Busy, locked
    from hushcall.phone.phone import POLL_SECONDS, Outcome

    try:
        with locked(folder, LOCK_PATIENCE):
            return client.report(hurry=hurry)
    except (Unreachable, Refused, Busy) as error:
        lasting = isinstance(error, Refused) and error.status != 429 and error.status < 500
        if lasting or not patient:
            raise
        words = f"{error}" if f"{error}".endswith((".", "?")) else f"{error}."
        return Outcome("waiting", f"{words} This will be tried again.", next_at=int(time.time()) + POLL_SECONDS)


def _root(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        text = path.read_text(encoding="utf-8")
        if jsonlib.loads(text)["signed"]["_type"] == "root":
            return text
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise InvalidData("root", "be the operator's root.json", str(path))


def _digest(given: str) -> str:
    if given and not re.fullmatch(r"[0-9a-f]{64}", given.lower()):
        raise InvalidParameter("--root-sha256", "be 64 hexadecimal digits", given)
    return given.lower()


def _token(given: str) -> str:
    if not (given.startswith("hcd_") and given.isascii() and given.isprintable() and len(given) <= 200):
        raise InvalidParameter("--token", "be a device's token: hcd_ and 64 digits", "something else")
    return given


def _limits(
    store: Store,
    report_cap: float | None,
    window: float | None,
    life: float | None,
    rounds: int | None,
    whole_only: bool | None,
) -> Limits:
    from dataclasses import replace
    from fractions import Fraction

    from hushcall import checks
    from hushcall.phone.reporting.ledger import Limits

    changes: dict[str, Any] = {}
    for name, value in (("report", report_cap), ("window", window), ("life", life)):
        if value is not None:
            checks.positive(f"the cap per {name}", value)
            changes[name] = Fraction(value)
    if rounds is not None:
        changes["rounds_per_day"] = rounds
    if whole_only is not None:
        changes["area_in_clear"] = not whole_only
    found = replace(Limits.load(store), **changes)
    if found.report > found.window:
        raise InvalidParameter("the cap per window", "allow at least one report", float(found.window))
    return found


def _plain(limits: Limits) -> dict[str, Any]:
    return {name: value if isinstance(value, int) else float(value) for name, value in asdict(limits).items()}


def _sentence(outcome: Outcome) -> str:
    if outcome.next_at is None:
        return outcome.words
    return f"{outcome.words} Run again after {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(outcome.next_at))}."


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
    forget,
):
    phone.command()(_command)

"""``hushcall-lab phones``: test phones against a server, one round of them, and what the server found."""

from __future__ import annotations

from dataclasses import asdict
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.wording import counted
from hushcall_lab.cli.output import steps

if TYPE_CHECKING:
    from hushcall_lab.simulation.trial import Tried


def simulate(
    server: Annotated[str, typer.Option(help="The server's address, like http://127.0.0.1:8750.")],
    operator: Annotated[
        str, typer.Option(metavar="TOKEN", help="An operator's token: enrols phones, and moves the round on.")
    ],
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Test phones.")] = 120,
    spammers: Annotated[int, typer.Option(min=0, max=90, help="Planted spammers, in one area code.")] = 1,
    reach: Annotated[float, typer.Option(min=0.0, max=1.0, help="The share of phones that each of them calls.")] = 0.6,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same calls and the same random bytes.")] = 1,
    really: Annotated[
        bool, typer.Option("--really", help="Also against a server that is not on this machine.")
    ] = False,
    json: Json = False,
) -> None:
    """Make test phones that enrol, announce and report in one round, and see whether planted spammers are found.

    Every phone has its own ledger and random bytes, in memory. Random delays are skipped. What they say becomes part of
    the server's round and list, and their devices stay enrolled: use a server that is for trying things.
    """
    from hushcall.client.reporting.transport import checked_url
    from hushcall_lab.simulation.trial import Trial, run

    url = checked_url(server)
    if not really and not _here(url):
        rule = "be on this machine (test phones spoil a real list), or be meant: --really"
        raise InvalidParameter("server", rule, server)
    with steps("phones enrol") as progress:
        done = run(Trial(count, spammers, reach, seed), url, operator, progress)
    if json:
        show.print_json(asdict(done))
        return
    for line in _in_words(done):
        show.console.print(line, markup=False, soft_wrap=True)


def _here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _in_words(done: Tried) -> list[str]:
    lines = [
        f"Round {done.round}: {counted(done.phones, 'phone')} enrolled, {done.announced:,} announced, "
        f"{counted(done.reports, 'report')} sent, {counted(done.covers, 'cover')} in place of one (their area code was "
        f"too small to be worth a budget). A report cost ε = {done.epsilon:g}. "
        f"{counted(round(done.seconds), 'second')}."
    ]
    for each in done.planted:
        fate = "is on" if each.listed else "is not on"
        lines.append(f"  {each.number}: called {counted(each.phones, 'phone')}, and {fate} the list.")
    if not all(each.listed for each in done.planted):
        lines.append("Appeals and the allowlist keep numbers off: hushcall admin appeals, hushcall admin allowlist.")
    if done.wrong:
        lines.append(f"Also on the list: {', '.join(done.wrong)}.")
    lines.append(f"The round is {done.state}. The devices stay enrolled; their phones are gone.")
    return lines

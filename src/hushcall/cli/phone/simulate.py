"""``hushcall phone simulate``: test phones against a server, one round of them, and what the server found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.lab.live.trial import Planted, Progress, Tried


_KEPT_OFF = {"appealed": "appealed (hushcall admin appeals)", "allowed": "allowed (hushcall admin allowlist)"}


def simulate(
    server: Annotated[str, typer.Option(help="The server's address, like http://127.0.0.1:8750.")],
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Test phones.")] = 120,
    invite: Annotated[str, typer.Option(help="An invite code, where the server asks for one.")] = "",
    operator: Annotated[
        str, typer.Option(metavar="TOKEN", help="An operator's token: enrols phones at once, and moves the round on.")
    ] = "",
    spammers: Annotated[int, typer.Option(min=0, max=90, help="Planted spammers, in one area code.")] = 1,
    reach: Annotated[float, typer.Option(min=0.0, max=1.0, help="The share of phones that each of them calls.")] = 0.6,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the round where there is no operator's token.")
    ] = 900.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same calls and the same coins.")] = 1,
    really: Annotated[
        bool, typer.Option("--really", help="Also against a server that is not on this machine.")
    ] = False,
    json: Json = False,
) -> None:
    """Make test phones that enrol, announce and report in one round, and see whether planted spammers are found.

    Every phone has its own ledger and coins, in memory; random delays are skipped. What they say becomes part of the
    server's round and list, and their devices stay enrolled: use a server that is for trying things. Without an
    operator's token the phones wait until the round goes on by itself.

    [bold]Examples[/bold]

      hushcall phone simulate --count 120 --server http://127.0.0.1:8750 --operator hca_…

      hushcall phone simulate --count 300 --spammers 2 --reach 0.4 --server http://127.0.0.1:8750 --invite hci_…
    """
    from hushcall.lab.live.trial import Trial, run
    from hushcall.phone.reporting.transport import checked_url

    url = checked_url(server)
    if not really and not _here(url):
        rule = "be on this machine (test phones spoil a real list), or be meant: --really"
        raise InvalidParameter("server", rule, server)
    trial = Trial(count, spammers, reach, seed, patience)
    with _told() as progress:
        done = run(trial, url, invite=invite, operator_token=operator, progress=progress)
    if json:
        show.print_json(asdict(done))
        return
    for line in _in_words(done):
        show.console.print(line, markup=False, soft_wrap=True)


@contextmanager
def _told() -> Iterator[Progress]:
    """A bar where somebody watches; elsewhere a line for whatever takes more than a few seconds."""
    if sys.stderr.isatty():
        with show.progress("phones enrol") as bar:
            yield lambda what, step, total: show.step(bar, what, step, total)
        return
    with show.busy() as say:
        last = ""

        def tell(what: str, _done: int, _total: int) -> None:
            nonlocal last
            if what != last:
                say(f"{what} ...")
            last = what

        yield tell


def _here(url: str) -> bool:
    """Whether an address is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _in_words(done: Tried) -> list[str]:
    head = (
        f"Round {done.round}: {counted(done.phones, 'phone')} enrolled, {done.announced:,} announced, "
        f"{counted(done.reports, 'report')} sent, {counted(done.covers, 'cover')} in place of one (their area code was "
        f"too small to be worth a budget). A report cost ε = {done.epsilon:g}. "
        f"{counted(round(done.seconds), 'second')}."
    )
    lines = [head, *(f"  {one.number}: called {counted(one.phones, 'phone')}, {_fate(one)}" for one in done.planted)]
    if done.wrong:
        lines.append(f"Also on the list: {', '.join(done.wrong)}.")
    lines.append(f"The round is {done.state}. The devices stay enrolled; their phones are gone.")
    return lines


def _fate(one: Planted) -> str:
    if one.listed is None:
        return "and the list of this round is still to come."
    if one.listed:
        return "and is on the list."
    if one.found:
        return f"found, but off the list{f': {_KEPT_OFF[one.kept_off]}' if one.kept_off else ''}."
    return f"and is not on the list{f' ({one.kept_off} before; this round did not find it)' if one.kept_off else ''}."

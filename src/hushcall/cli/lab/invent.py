"""``hushcall lab``: worlds to try things on."""

from __future__ import annotations

from typing import Annotated

import typer

from hushcall.cli import show
from hushcall.cli.addresses import address_of
from hushcall.cli.options import PROFILE_HELP, chosen_profile
from hushcall.cli.show import Json
from hushcall.profiles import MOST_WINDOW
from hushcall.wording import counted

lab = typer.Typer(help="Worlds to try things on.", no_args_is_help=True)


@lab.callback()
def _lab() -> None:
    """Worlds to try things on."""


@lab.command("archive")
def archive(
    out: Annotated[str, typer.Option(help="Where to write it: a folder, or any address that fsspec knows.")],
    reports: Annotated[float, typer.Option(min=1, help="How many in a round, 1e8 for instance.")] = 1e6,
    profile: Annotated[str, typer.Option(help=PROFILE_HELP)] = "strong",
    epsilon: Annotated[float | None, typer.Option(help="Instead of the profile's.")] = None,
    spammers: Annotated[int, typer.Option(min=0, help="Planted numbers, each just large enough to be found.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same archive.")] = 1,
    areas: Annotated[int | None, typer.Option(min=1, help="Only so many area codes. Default: all.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=MOST_WINDOW, help="So many, with the same spammers in each.")] = 1,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes. Default: one a core.")] = None,
    json: Json = False,
) -> None:
    """Invent an archived round of any size, in bounded memory; what was planted stands in planted.json.

    [bold]Examples[/bold]

      hushcall lab archive --reports 1e7 --out /tmp/nation

      hushcall lab archive --reports 1e6 --rounds 7 --out /tmp/week
    """
    address_of(out)
    from hushcall.lab.data import archive_synthesis

    chosen = chosen_profile(profile, None, epsilon, None)
    with show.progress("inventing") as bar:
        found, planted = archive_synthesis.invent(
            out,
            int(reports),
            chosen,
            spammers,
            seed,
            areas,
            workers,
            lambda done, total: show.step(bar, "invent", done, total),
            rounds,
        )
    size = sum(file.bytes for bucket in found.buckets for file in bucket.files)
    if json:
        show.print_json({"reports": found.reports, "buckets": len(found.buckets), "bytes": size, "planted": planted})
        return
    each = f" in the last of {rounds} rounds" if rounds > 1 else ""
    show.console.print(
        f"{counted(found.reports, 'report')} of {counted(len(found.buckets), 'bucket')}, {size / 1e6:,.0f} MB{each}; "
        f"{len(planted)} planted."
    )

"""``hushcall-lab data``: complaints as published or invented. ``hushcall-lab archive``: an invented round."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import PROFILE_HELP, chosen_profile
from hushcall.cli.server.archive import address_of
from hushcall.cli.show import Json
from hushcall.mechanisms.profiles import MAX_WINDOW_DAYS
from hushcall.wording import counted
from hushcall_lab.cli.output import figure, stepper, table

data = typer.Typer(
    help="Read complaints as published, invent a month like the paper's, and look at either.", no_args_is_help=True
)
INVENTED = Path("synth")
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same month.")]


@data.command()
def synth(
    file: Annotated[Path, typer.Argument(help="Where to write the month (.csv, .csv.gz).")],
    seed: Seed = 2016,
    json: Json = False,
) -> None:
    """Invent a month of complaints like the paper's of 2016: as many, as weekly, as heavy-tailed."""
    describe([INVENTED], file, seed, json)


@data.command()
def describe(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files or folders: the FTC's CSV, date,caller tables. Or: synth, the invention."),
    ],
    save: Annotated[Path | None, typer.Option(help="Write the valid calls (.csv, .csv.gz).")] = None,
    seed: Seed = 2016,
    json: Json = False,
) -> None:
    """Say what the paper says about its data: days, heavy numbers, area codes, what a blocklist would stop."""
    from hushcall_lab.data import datasets, synthesis, tables
    from hushcall_lab.study import describe as facts_of

    if save is not None:
        tables.check_path(save)
    if sources == [INVENTED]:
        calls = synthesis.synthesise(seed)
    else:
        with show.progress("reading") as bar:
            calls = datasets.load(sources, stepper(bar)("reading"))
    if save is not None:
        datasets.save(calls, save)
    facts = facts_of.summary(calls)
    if json:
        show.print_json({**facts, "calls_by_area_code": facts_of.by_area_code(calls), "saved": save and str(save)})
        return
    show.console.print(_facts(f"{counted(facts['calls'], 'call')}, {facts['first']} to {facts['last']}", facts))
    if save is not None:
        show.console.print(f"Written: {save}", soft_wrap=True)


def _facts(title: str, facts: dict[str, Any]) -> Table:
    parts = {key: value.items() if isinstance(value, dict) else [("", value)] for key, value in facts.items()}
    rows = ((f"{key} {name}".strip().replace("_", " "), figure(part)) for key in parts for name, part in parts[key])
    return table(title, ("fact", "figure"), rows)


def archive(
    out: Annotated[str, typer.Option(help="Where to write it: a folder, or any address that fsspec knows.")],
    reports: Annotated[float, typer.Option(min=1, help="How many in a round, 1e8 for instance.")] = 1e6,
    profile: Annotated[str, typer.Option(help=PROFILE_HELP)] = "strong",
    epsilon: Annotated[float | None, typer.Option(help="Instead of the profile's.")] = None,
    spammers: Annotated[int, typer.Option(min=0, help="Planted numbers, each just large enough to be found.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same archive.")] = 1,
    areas: Annotated[int | None, typer.Option(min=1, help="Only so many area codes. Default: all.")] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=MAX_WINDOW_DAYS, help="So many, with the same spammers in each.")
    ] = 1,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes. Default: one a core.")] = None,
    json: Json = False,
) -> None:
    """Invent an archived round of any size, in bounded memory. The planted numbers are in planted.json."""
    address_of(out)
    from hushcall_lab.data import archive_synthesis

    chosen = chosen_profile(profile, None, epsilon, None)
    with show.progress("inventing") as bar:
        index, planted = archive_synthesis.invent(
            out,
            int(reports),
            chosen,
            spammers,
            seed,
            areas,
            workers,
            stepper(bar)("invent"),
            rounds,
        )
    size = sum(file.bytes for bucket in index.buckets for file in bucket.files)
    if json:
        show.print_json({"reports": index.reports, "buckets": len(index.buckets), "bytes": size, "planted": planted})
        return
    each = f" in the last of {rounds} rounds" if rounds > 1 else ""
    show.console.print(
        f"{counted(index.reports, 'report')} of {counted(len(index.buckets), 'bucket')}, {size / 1e6:,.0f} MB{each}; "
        f"{len(planted)} planted."
    )

"""``hushcall config``: the effective settings, checked, or as an example to start from. And ``hushcall plan-of``."""

from __future__ import annotations

import json as jsonlib
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from hushcall.atomic_file import atomic_write
from hushcall.cli import show
from hushcall.cli.options import Place, chosen_settings, grouped, has_database, in_words
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.wording import counted

config = typer.Typer(help="The server's settings: a TOML file, then HUSHCALL_* variables.", no_args_is_help=True)


@config.command("show")
@grouped
def show_settings(*, place: Place, json: Json = False) -> None:
    """Print the effective value of every setting. A password in the database URL is hidden.

    These are the values with which 'hushcall serve' was started, and in a folder that was never served, the values
    with which it would start.
    """
    chosen_settings(place)  # for its error where the server's packages are missing
    from hushcall.server import effective_settings

    settings, different = effective_settings.of_folder(place.config, **place.settings)
    values = jsonlib.loads(settings.model_dump_json())
    from hushcall.server.db.engine import parse_url

    values["database"] = parse_url(settings.url).render_as_string(hide_password=True)
    for difference in different:
        show.remark(f"{difference}: it counts when 'hushcall serve' starts again")
    if json:
        show.print_json(values)
        return
    for name, value in values.items():
        if isinstance(value, dict):
            show.console.print(f"[bold]\\[{name}][/bold]")
            for inner, setting in value.items():
                show.console.print(f"  {inner} = {jsonlib.dumps(setting)}", markup=False)
        else:
            show.console.print(f"{name} = {jsonlib.dumps(value)}", markup=False)


@config.command("check")
@grouped
def check_settings(*, place: Place) -> None:
    """Check the settings, and whether the database, the keys and the allowlist can be read.

    Checks the settings with which 'hushcall serve' would start, and names those that differ from its last start.
    """
    settings = chosen_settings(place)
    from hushcall.server import effective_settings
    from hushcall.server.publishing import exclusions
    from hushcall.server.service import open_data
    from hushcall.server.signing import keys

    show.console.print("settings: ok")
    for difference in effective_settings.of_folder(place.config, **place.settings)[1]:
        show.console.print(f"at the next start: {difference}", markup=False, soft_wrap=True)
    if has_database(settings):
        with in_words(settings), closing(open_data(settings)) as store:
            store.check()
        show.console.print("database: ok, schema up to date")
    else:
        show.console.print("database: none yet, the first start makes it")
    missing = [role for role in ("timestamp", "snapshot", "targets") if not keys.key_files(settings.keys, role)]
    if len(missing) == 3:
        show.console.print("keys: none yet, the first start makes them")
    elif missing:
        rule = f"hold the key of every online role: {' and '.join(missing)} missing, restore it from your backup"
        raise InvalidParameter("keys", rule, str(settings.keys))
    else:
        show.console.print("keys: ok")
    if settings.list.allow_file is not None:
        count = len(exclusions.read_allow_file(settings.list.allow_file, settings.round.chosen_plan()))
        show.console.print(f"allowlist: ok, {counted(count, 'number')}")


@config.command("example")
def example_settings() -> None:
    """Print a TOML file with every setting, its default and what it is for."""
    chosen_settings()  # for its error where the server's packages are missing
    from hushcall.server.settings import example

    print(example(), end="")


def plan_of(
    region: Annotated[str, typer.Argument(help="Two letters, like PL.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write; else to standard output.")] = None,
) -> None:
    """Write a region's numbering plan, from phonenumberslite's metadata.

    The plan's name contains a digest of its content. A server takes the file as its setting `plan`. Phones learn the
    plan when they enrol, check the digest, and never change to another plan.

    [bold]Examples[/bold]

      hushcall plan-of PL --out pl.json

      HUSHCALL_ROUND__PLAN=pl.json hushcall serve
    """
    from hushcall.protocol.items import SUFFIX
    from hushcall.protocol.numbers.generate import plan_document
    from hushcall.protocol.numbers.plans import read_plan, to_bytes

    data = to_bytes(plan_document(region))
    if out is None:
        sys.stdout.buffer.write(data)
        return
    atomic_write(out, data, "--out")
    plan = read_plan(data)
    lengths = "of any length" if plan.lengths else f"of {plan.max_digits} digits"
    show.out(
        f"Plan {plan.name}: +{plan.country_code}, {len(plan.area_codes)} area codes of {plan.area_digits} digits, "
        f"numbers {lengths}, items of {SUFFIX.bits(plan)} bits: {out}"
    )

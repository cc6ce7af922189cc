"""``hushcall config``: the settings in force, checked, or as an example to start from."""

from __future__ import annotations

import json as jsonlib
from contextlib import closing

import typer

from hushcall.cli import show
from hushcall.cli.server.on_service import (
    ConfigOption,
    DatabaseOption,
    DataOption,
    chosen_settings,
    has_database,
    in_words,
)
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.wording import counted

config = typer.Typer(help="The server's settings: a TOML file, then HUSHCALL_* variables.", no_args_is_help=True)


@config.command("show")
def show_settings(
    config: ConfigOption = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    json: Json = False,
) -> None:
    """Print every setting with the value that is in force; a password in the database URL is hidden.

    In force is what 'hushcall serve' was started with, which it keeps in the data folder; in a folder that it never
    served, what it would start with.

    [bold]Example[/bold]

      HUSHCALL_ROUND__PERIOD=3600 hushcall config show
    """
    chosen_settings(config, data, database)  # for its error where the server's packages are missing
    from hushcall.server import in_force

    given = {key: value for key, value in (("data", data), ("database", database)) if value is not None}
    settings, different = in_force.of_folder(config, **given)
    values = jsonlib.loads(settings.model_dump_json())
    from hushcall.server.db.store import parse_url

    values["database"] = parse_url(settings.url).render_as_string(hide_password=True)
    for one in different:
        show.aside(f"hushcall: {one}: it counts when 'hushcall serve' starts again")
    if json:
        show.print_json(values)
        return
    for name, value in values.items():
        if isinstance(value, dict):
            show.console.print(f"[bold]\\[{name}][/bold]")
            for inner, one in value.items():
                show.console.print(f"  {inner} = {jsonlib.dumps(one)}", markup=False)
        else:
            show.console.print(f"{name} = {jsonlib.dumps(value)}", markup=False)


@config.command("check")
def check_settings(config: ConfigOption = None, data: DataOption = None, database: DatabaseOption = None) -> None:
    """Say whether the settings are right, and whether the database, the keys and the allowlist can be read.

    Checks what 'hushcall serve' would start with, and names what differs from what it was last started with.

    [bold]Example[/bold]

      hushcall config check --config /etc/hushcall.toml
    """
    settings = chosen_settings(config, data, database)
    from hushcall.server import in_force
    from hushcall.server.publishing import exclusions
    from hushcall.server.service import open_data
    from hushcall.server.signing import keys

    show.console.print("settings: ok")
    given = {key: value for key, value in (("data", data), ("database", database)) if value is not None}
    for one in in_force.of_folder(config, **given)[1]:
        show.console.print(f"at the next start: {one}", markup=False, soft_wrap=True)
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
    """Print a TOML file with every setting, its default and what it is for.

    [bold]Example[/bold]

      hushcall config example > hushcall.toml
    """
    chosen_settings(None, None)  # for its error where the server's packages are missing
    from hushcall.server.settings import example

    print(example(), end="")

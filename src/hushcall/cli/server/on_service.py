"""What the operator's commands share: which settings are meant, and the service over them."""

from __future__ import annotations

import functools
import getpass
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushcall.cli import show
from hushcall.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from hushcall.server.service import Service
    from hushcall.server.settings import Settings

DATABASE_FILE = "hushcall.db"
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A TOML file. Default: hushcall.toml here, if there is one.")
]
DataOption = Annotated[Path | None, typer.Option(help="The data folder. Default: hushcall-data, or the settings'.")]
DatabaseOption = Annotated[
    str | None, typer.Option(help="postgresql://user@host/name. Default: SQLite in the data folder.")
]


def chosen_settings(config: Path | None, data: Path | None, database: str | None = None, **changes: Any) -> Settings:
    """The settings in force, with what the command line changes."""
    try:
        from hushcall.server.settings import load_settings
    except ImportError:
        raise MissingExtra("the server", "server") from None
    given: dict[str, Any] = {key: value for key, value in changes.items() if value}
    if data is not None:
        given["data"] = data
    if database is not None:
        given["database"] = database
    return load_settings(config, **given)


def settings_of(config: Path | None, data: Path | None, database: str | None = None) -> Settings:
    """The settings of a service that exists: those it was started with, which its data folder holds."""
    given = {key: value for key, value in (("data", data), ("database", database)) if value is not None}
    chosen_settings(config, data, database)  # for its error where the server's packages are missing
    from hushcall.server import in_force

    settings, different = in_force.of_folder(config, **given)
    in_force.refuse(different, settings.data)
    for one in different:
        show.aside(f"hushcall: {one}: the service's counts until 'hushcall serve' starts again")
    must_exist(settings)
    return settings


def must_exist(settings: Settings) -> None:
    """Refuse to make a second server by a slip in a path: only 'serve' and 'keys init' begin one."""
    if not has_database(settings):
        rule = "hold a server's database ('hushcall serve' makes one): see --data, and --database for PostgreSQL"
        raise InvalidParameter("data", rule, str(settings.data))


def has_database(settings: Settings) -> bool:
    """Whether there is a database, or was: a folder that has lost its own says so when that is opened."""
    from hushcall.server import in_force

    return bool(settings.database) or (settings.data / DATABASE_FILE).is_file() or in_force.served(settings)


def in_words(settings: Settings) -> AbstractContextManager[None]:
    """Have what is wrong with the database end the command in one sentence."""
    from hushcall.server.db import store, trouble

    return trouble.in_words(store.parse_url(settings.url))


def acting(service: Service, what: str, about: str = "", why: str = "") -> AbstractContextManager[None]:
    """Have what is done inside in the operators' log, as done by this user of the machine."""
    from hushcall.server.access.audit import COMMAND_LINE

    return service.audit.act(COMMAND_LINE, getpass.getuser(), what, about, why)


def on_service(command: Callable[..., None]) -> Callable[..., None]:
    """A command that gets an open service as its first argument.

    It takes --config, --data and --database, which say whose; the command itself never sees them.
    """

    @functools.wraps(command)
    def run(config: Path | None = None, data: Path | None = None, database: str | None = None, **options: Any) -> None:
        settings = settings_of(config, data, database)
        from hushcall.server.service import open_service

        with in_words(settings):
            service = open_service(settings)
            try:
                command(service, **options)
            finally:
                service.close()

    _, *own = inspect.signature(command).parameters.values()
    where = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (("config", ConfigOption), ("data", DataOption), ("database", DatabaseOption))
    ]
    # Typer reads what a function takes from its signature and its annotations. Those of the service are for mypy only.
    known = {one.name: eval(one.annotation, command.__globals__) for one in own}  # noqa: S307 - our own source
    given = [one.replace(annotation=known[one.name], kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    run.__signature__ = inspect.Signature([*given, *where])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*given, *where)}
    return run

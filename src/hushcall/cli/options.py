"""Options that several commands share, and what they open: a profile, a phone's folder, a server's settings."""

from __future__ import annotations

import functools
import getpass
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from hushcall.cli import show
from hushcall.client import setup
from hushcall.client.client import Client
from hushcall.client.storage.store import Store
from hushcall.client.storage.trouble import StoreTrouble
from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.mechanisms.profiles import DEFAULT, PROFILES, TAU, Profile, profile_named
from hushcall.mechanisms.registry import MECHANISMS, spec_named

if TYPE_CHECKING:
    from hushcall.server.service import Service
    from hushcall.server.settings import Settings

PROFILE_HELP = f"A named set of parameters: {', '.join(PROFILES)}."
MECHANISM_HELP = f"Instead of the profile's: {', '.join(MECHANISMS)}."
Home = Annotated[
    Path | None,
    typer.Option("--home", help="The phone's folder. Default: HUSHCALL_HOME, or ~/.hushcall.", show_default=False),
]
DATABASE_FILE = "hushcall.db"
DataOption = Annotated[Path | None, typer.Option(help="The data folder. Default: hushcall-data, or the settings'.")]


def chosen_profile(
    profile: str | None,
    mechanism: str | None,
    epsilon: float | None,
    tau: int | None,
    level: float | None = None,
    tolerance: int | None = None,
    windows: Sequence[int] | None = None,
) -> Profile:
    """A named profile with these changes. A mechanism other than the profile's brings its own τ."""
    base = profile_named(profile) if profile else DEFAULT
    if mechanism is not None:
        spec = spec_named(mechanism)
        base = base if profile else profile_named(spec.profile)
        base = replace(
            base,
            name=mechanism,
            reason="as given",
            mechanism=mechanism,
            tau=base.tau if spec.pools else TAU,
            tolerance=base.tolerance if spec.tolerates else 0,
            windows=base.windows if spec.pools else (1,),
            warn_level=base.warn_level if spec.pools else 0.0,
        )
    changed = where_set(epsilon=epsilon, tau=tau, level=level, tolerance=tolerance)
    return replace(base, **changed, windows=tuple(windows or base.windows))


def where_set(**options: Any) -> dict[str, Any]:
    """The options that the command line has."""
    return {name: value for name, value in options.items() if value is not None}


def folder_of(home: Path | None) -> Path:
    return home or Path(os.environ.get("HUSHCALL_HOME") or Path.home() / ".hushcall")


def client_in(home: Path | None) -> Client:
    return Client.open(folder_of(home))


@contextmanager
def opened(home: Path | None, *, reading: bool = False) -> Iterator[Store]:
    """The store of a client that was set up, for commands that need no server.

    With ``reading``, a store that cannot be written is opened as well, with a line on stderr.
    """
    with closing(setup.opened(folder_of(home), reading=reading)) as store:
        warn_only_read(store.only_read)
        yield store


def warn_only_read(trouble: StoreTrouble | None) -> None:
    if trouble is not None:
        show.remark(f"{trouble.words} It is only read here.")


@dataclass(frozen=True)
class Place:
    """Where the service's settings and data are."""

    config: Annotated[
        Path | None, typer.Option("--config", help="A TOML file. Default: hushcall.toml here, if there is one.")
    ] = None
    data: DataOption = None
    database: Annotated[
        str | None, typer.Option(help="postgresql://user@host/name. Default: SQLite in the data folder.")
    ] = None

    @property
    def settings(self) -> dict[str, Any]:
        return where_set(data=self.data, database=self.database)


def chosen_settings(place: Place = Place(), **changes: Any) -> Settings:
    """The settings of the file and the environment, with the changes of the command line."""
    try:
        from hushcall.server.settings import load_settings
    except ImportError:
        raise MissingExtra("the server", "server") from None
    changes = {key: value for key, value in changes.items() if value}
    return load_settings(place.config, **changes, **place.settings)


def settings_of(place: Place) -> Settings:
    """The effective settings of an existing service, which its data folder holds.

    A mistyped path is an error: only 'serve' and 'keys init' make a new server.
    """
    chosen_settings(place)  # for its error where the server's packages are missing
    from hushcall.server import effective_settings

    settings, different = effective_settings.of_folder(place.config, **place.settings)
    effective_settings.refuse(different, settings.data)
    for difference in different:
        show.remark(f"{difference}: the service's counts until 'hushcall serve' starts again")
    if not has_database(settings):
        rule = "hold a server's database ('hushcall serve' makes one): see --data, and --database for PostgreSQL"
        raise InvalidParameter("data", rule, str(settings.data))
    return settings


def has_database(settings: Settings) -> bool:
    """Whether there is a database, or was one: opening a lost one is an error of its own."""
    from hushcall.server import effective_settings

    return bool(settings.database) or (settings.data / DATABASE_FILE).is_file() or effective_settings.served(settings)


def in_words(settings: Settings) -> AbstractContextManager[None]:
    """Turns database errors inside into one sentence."""
    from hushcall.server.db.engine import explaining, parse_url

    return explaining(parse_url(settings.url))


def audited(service: Service, what: str, about: str = "", why: str = "") -> AbstractContextManager[None]:
    """Records the action inside in the operators' log, as done by this user of the machine."""
    from hushcall.server.auth.operators import COMMAND_LINE

    return service.audit.act(COMMAND_LINE, getpass.getuser(), what, about, why)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses appear as one option per field."""
    options: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if not (isinstance(group, type) and is_dataclass(group)):
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = group
        hints = get_type_hints(group, include_extras=True)
        options += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in fields(group)
        ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def on_service(command: Callable[..., None]) -> Callable[..., None]:
    """Makes a command that gets an open service as its first argument, and takes --config, --data and --database."""

    def run(place: Place, **options: Any) -> None:
        settings = settings_of(place)
        from hushcall.server.service import open_service

        with in_words(settings), closing(open_service(settings)) as service:
            command(service, **options)

    # Typer reads the options of a function from its signature, here without the service.
    _, *own = inspect.signature(command, locals={"Service": object}, eval_str=True).parameters.values()
    place = inspect.Parameter("place", inspect.Parameter.KEYWORD_ONLY, annotation=Place)
    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, {}
    run.__signature__ = inspect.Signature([parameter.replace(kind=place.kind) for parameter in own] + [place])  # type: ignore[attr-defined]
    return grouped(run)

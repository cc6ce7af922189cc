"""The settings of a service, recorded in its data folder.

``serve`` writes them there, and every other command reads them, so that all processes of one folder agree. Differences
from the settings of a command are named. The file holds no password.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from hushcall.atomic_file import atomic_write
from hushcall.errors import InvalidParameter
from hushcall.server.db.engine import file_of, parse_url
from hushcall.server.settings import Settings, address, load_settings

FILE = "settings.json"
OWN = frozenset({"data", "server", "intake", "round.decoders", "round.dask", "round.gpu", "round.scheduler"})
"""Settings and sections that each process decides for itself."""


@dataclass(frozen=True)
class Difference:
    """A setting that differs from the service's. ``explicit``: by a variable or an option, not by a file."""

    name: str
    in_service: object
    here: object
    explicit: bool

    def __str__(self) -> str:
        source = "the environment or on the command line" if self.explicit else "the settings' file"
        return f"{self.name} is {self.in_service!r} in the service and {self.here!r} in {source}"


def record(settings: Settings) -> Path:
    """Writes the settings into the data folder, readable by its owner only."""
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = settings.data / FILE
    path.touch(mode=0o600)
    atomic_write(path, document(settings), "settings")
    path.chmod(0o600)
    return path


def document(settings: Settings) -> bytes:
    """The recorded form of settings, without a password and with absolute paths."""
    url = parse_url(settings.url)
    values = settings.model_dump(mode="json", exclude={"data"})
    values["database"] = place_of(settings) if settings.database else ""
    if settings.list.allow_file is not None:
        values["list"]["allow_file"] = str(settings.list.allow_file.absolute())
    has_password = bool(url.password or url.query.get("password"))
    content = {"hushcall": 1, "password_left_out": has_password, "settings": values}
    return json.dumps(content, indent=2).encode() + b"\n"


def recorded(data: Path) -> dict[str, Any] | None:
    """The document that ``serve`` wrote into a data folder. None where it never ran."""
    try:
        text = (data / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter("settings", f"be readable ({error})", str(data / FILE)) from None
    try:
        content: dict[str, Any] = json.loads(text)
        if content["hushcall"] != 1:
            raise ValueError
        Settings.model_validate_json(json.dumps({**content["settings"], "data": str(data)}))
    except (ValueError, KeyError, TypeError, ValidationError):
        rule = "be what this release of 'hushcall serve' writes: start it again, with your settings, to write it anew"
        raise InvalidParameter("settings", rule, str(data / FILE)) from None
    return content


def place_of(settings: Settings) -> str:
    """The database's URL without a password, with a file's absolute path."""
    url = parse_url(settings.url)
    database, query = url.database, {name: value for name, value in url.query.items() if name != "password"}
    if file := file_of(url):
        database = str(file.absolute())
    return sa.URL.create(url.drivername, url.username, None, url.host, url.port, database, query).render_as_string()


def of_folder(file: Path | None = None, **changes: Any) -> tuple[Settings, list[Difference]]:
    """The settings for a command that is not ``serve``, and how the command's own differ from the service's."""
    here = load_settings(file, **changes)
    record = recorded(here.data)
    if record is None:
        return here, []
    explicit, values = dict(_leaves(_set_values(load_settings(None, alone=True, **changes)))), record["settings"]
    in_service, differences = dict(_leaves(values)), []
    for name, value in _leaves(_set_values(here)):
        section, _, inner = name.rpartition(".")
        if name in OWN or section in OWN:
            (values[section] if section else values)[inner] = value
        elif name == "database":
            if not _same_place(here, in_service[name]):
                service_place = in_service[name] or "SQLite in the folder"
                differences.append(Difference(name, service_place, place_of(here), name in explicit))
        elif (str(Path(value).absolute()) if name == "list.allow_file" and value else value) != in_service.get(name):
            differences.append(Difference(name, in_service.get(name), value, name in explicit))
    if here.database and _same_place(here, in_service["database"]):
        values["database"] = here.database  # it may have the password
    elif record.get("password_left_out") and not _has_password_elsewhere():
        rule = "come with its password, which the data folder does not keep: set PGPASSWORD, or give --database"
        raise InvalidParameter("database", rule, in_service["database"])
    return Settings.model_validate_json(json.dumps({**values, "data": str(here.data)})), differences


def refuse(differences: list[Difference], folder: Path) -> None:
    """Raises for a difference by an option or a variable, and for another database."""
    for difference in differences:
        if difference.explicit or difference.name == "database":
            rule = (
                f"be that of the service, {difference.in_service!r} ({folder / FILE}): leave it out, "
                "or start 'hushcall serve' with it first"
            )
            raise InvalidParameter(difference.name, rule, difference.here)


def changes(settings: Settings) -> list[str]:
    """The settings that have changed since ``serve`` last started, a line each.

    Another database is an error: it would be another server with the same keys.
    """
    record = None
    with suppress(InvalidParameter):  # ``serve`` is about to replace it
        record = recorded(settings.data)
    if record is None:
        return []
    if not _same_place(settings, record["settings"]["database"]):
        former = record["settings"]["database"] or "SQLite in the folder"
        rule = (
            f"be the one that this folder was used with, {former}: see --database. If you moved it, remove "
            f"{settings.data / FILE}"
        )
        raise InvalidParameter("database", rule, place_of(settings))
    before, set_here = dict(_leaves(record["settings"])), dict(_leaves(_set_values(settings)))
    after = dict(_leaves(json.loads(document(settings))["settings"]))
    return [
        f"{name} was {_text(before[name])}, is {_text(value)} now{'' if name in set_here else ' (the default)'}"
        for name, value in after.items()
        if name != "database" and name in before and before[name] != value
    ]


def served(settings: Settings) -> bool:
    """Whether ``serve`` ran over this folder with this database. Then an empty or absent database is damage."""
    try:
        record = recorded(settings.data)
    except InvalidParameter:
        return True  # it ran, even if its record is unreadable
    return record is not None and _same_place(settings, record["settings"]["database"])


def _same_place(settings: Settings, database: str) -> bool:
    if not database:
        return not settings.database or place_of(settings) == place_of(settings.model_copy(update={"database": ""}))
    return place_of(settings) == place_of(settings.model_copy(update={"database": address(database)}))


def _has_password_elsewhere() -> bool:
    passfile = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    return bool(os.environ.get("PGPASSWORD")) or passfile.is_file()


def _set_values(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_unset=True)


def _leaves(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield before + name, value


def _text(value: object) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)

"""What a service runs with, kept in its data folder: ``serve`` writes its settings, every other command reads them.

Two processes over one folder must not disagree about periods, plans or databases. So what ``serve`` started with stands
for every other command, whatever file or variable lies about where that one runs; what differs is named. The file holds
no password: the address of a database is kept without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from hushcall.errors import InvalidParameter
from hushcall.server.db.store import parse_url
from hushcall.server.settings import Settings, address, load_settings
from hushcall.whole_file import write_whole

FILE = "settings.json"
OWN = frozenset({"data", "server", "intake", "round.decoders", "round.dask", "round.scheduler"})
"""What each process decides for itself: names of settings, or of whole sections."""


@dataclass(frozen=True)
class Difference:
    """A setting that is another one here than in the service. ``said`` is whether a variable or an option says so."""

    name: str
    kept: Any
    here: Any
    said: bool

    def __str__(self) -> str:
        where = "the environment or on the command line" if self.said else "the settings' file"
        return f"{self.name} is {self.kept!r} in the service and {self.here!r} in {where}"


def record(settings: Settings) -> Path:
    """Write what is in force into the data folder, readable by its owner alone; a password is left out."""
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = settings.data / FILE
    if not path.exists():
        path.touch(mode=0o600)
    write_whole(path, document(settings), "settings")
    path.chmod(0o600)
    return path


def document(settings: Settings) -> bytes:
    """What is kept of settings: a password is left out, paths are whole."""
    url = parse_url(settings.url)
    values = settings.model_dump(mode="json", exclude={"data"})
    values["database"] = place_of(settings) if settings.database else ""
    if settings.list.allow_file is not None:  # whoever reads this may be in another folder
        values["list"]["allow_file"] = str(settings.list.allow_file.absolute())
    whole = {"hushcall": 1, "password_left_out": bool(url.password or url.query.get("password")), "settings": values}
    return json.dumps(whole, indent=2).encode() + b"\n"


def recorded(data: Path) -> dict[str, Any] | None:
    """What ``serve`` wrote into a data folder; None where it never did."""
    try:
        text = (data / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter("settings", f"be readable ({error})", str(data / FILE)) from None
    try:
        document = json.loads(text)
        if document["hushcall"] != 1:
            raise ValueError
        Settings.model_validate_json(json.dumps({**document["settings"], "data": str(data)}))
    except (ValueError, KeyError, TypeError, ValidationError):
        rule = "be what this release of 'hushcall serve' writes: start it again, with your settings, to write it anew"
        raise InvalidParameter("settings", rule, str(data / FILE)) from None
    kept: dict[str, Any] = document
    return kept


def place_of(settings: Settings) -> str:
    """Which database, as it may be shown and kept: without a password; a file by its whole path."""
    url = parse_url(settings.url)
    where, query = url.database, {name: value for name, value in url.query.items() if name != "password"}
    if url.get_backend_name() == "sqlite" and where and where != ":memory:":
        where = str(Path(where).absolute())
    plain = sa.URL.create(url.drivername, url.username, None, url.host, url.port, where, query)
    return plain.render_as_string()


def of_folder(file: Path | None = None, **changes: Any) -> tuple[Settings, list[Difference]]:
    """The settings of a command that is not ``serve``: those of the service, and what is said otherwise here."""
    here = load_settings(file, **changes)
    kept = recorded(here.data)
    if kept is None:
        return here, []
    said, values = dict(_leaves(_given(load_settings(None, alone=True, **changes)))), kept["settings"]
    known, different = dict(_leaves(values)), []
    for name, value in _leaves(_given(here)):
        if name in OWN or name.partition(".")[0] in OWN:
            _put(values, name, value)
        elif name == "database":
            if not _same_place(here, known[name]):
                different.append(Difference(name, known[name] or "SQLite in the folder", place_of(here), name in said))
        elif _plain(name, value) != known.get(name):
            different.append(Difference(name, known.get(name), value, name in said))
    if here.database and _same_place(here, known["database"]):
        values["database"] = here.database  # with its password, if it has one
    elif kept.get("password_left_out") and not _password_elsewhere():
        rule = "come with its password, which the data folder does not keep: set PGPASSWORD, or give --database"
        raise InvalidParameter("database", rule, known["database"])
    return Settings.model_validate_json(json.dumps({**values, "data": str(here.data)})), different


def refuse(different: list[Difference], folder: Path) -> None:
    """Stop at what an option or a variable says against the service, and at another database wherever it is named."""
    for one in different:
        if one.said or one.name == "database":
            rule = (
                f"be that of the service, {one.kept!r} ({folder / FILE}): leave it out, "
                "or start 'hushcall serve' with it first"
            )
            raise InvalidParameter(one.name, rule, one.here)


def same_database(settings: Settings) -> None:
    """``serve`` over a folder of another database would be another server with the same keys: refuse it."""
    try:
        kept = recorded(settings.data)
    except InvalidParameter:
        return  # it is about to be written anew
    if kept is not None and not _same_place(settings, kept["settings"]["database"]):
        was = kept["settings"]["database"] or "SQLite in the folder"
        rule = (
            f"be the one that this folder was used with, {was}: see --database. If you moved it, remove "
            f"{settings.data / FILE}"
        )
        raise InvalidParameter("database", rule, place_of(settings))


def changes(settings: Settings) -> list[str]:
    """What ``serve`` runs with now and did not at its last start, a line each; nothing at the first."""
    try:
        kept = recorded(settings.data)
    except InvalidParameter:
        return []  # it is about to be written anew
    if kept is None:
        return []
    before, given = dict(_leaves(kept["settings"])), dict(_leaves(_given(settings)))
    after = dict(_leaves(json.loads(document(settings))["settings"]))
    return [
        f"{name} was {_shown(before[name])}, is {_shown(value)} now" + ("" if name in given else " (the default)")
        for name, value in after.items()
        if name != "database" and name in before and before[name] != value  # of another database: same_database
    ]


def served(settings: Settings) -> bool:
    """Whether ``serve`` once ran over this folder with this very database: then an empty or absent one is damage."""
    try:
        kept = recorded(settings.data)
    except InvalidParameter:
        return True  # it did, whatever it wrote
    return kept is not None and _same_place(settings, kept["settings"]["database"])


def _same_place(settings: Settings, kept: str) -> bool:
    if not kept:
        return not settings.database or place_of(settings) == place_of(settings.model_copy(update={"database": ""}))
    return place_of(settings) == place_of(settings.model_copy(update={"database": address(kept)}))


def _password_elsewhere() -> bool:
    """Whether PostgreSQL's own client finds one."""
    passfile = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    return bool(os.environ.get("PGPASSWORD")) or passfile.is_file()


def _given(settings: Settings) -> dict[str, Any]:
    """What somebody said, without the defaults."""
    return settings.model_dump(mode="json", exclude_unset=True)


def _leaves(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield before + name, value


def _shown(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    section, _, inner = name.rpartition(".")
    (values[section] if section else values)[inner] = value


def _plain(name: str, value: Any) -> Any:
    return str(Path(value).absolute()) if name == "list.allow_file" and value else value

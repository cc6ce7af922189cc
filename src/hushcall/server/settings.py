"""The operator's settings, in one place: a TOML file, then ``HUSHCALL_*`` variables, then defaults that just work.

A variable is stronger than the file, and what the command line says is stronger than both.
``HUSHCALL_ROUND__PERIOD=3600`` sets ``period`` in ``[round]``.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.mechanisms import names
from hushcall.numbers import NANP, SHIPPED, NumberingPlan, plan_named
from hushcall.numbers.plans import take_plan
from hushcall.profiles import OPEN_TOLERANCE, PROFILES, TOLERANCE, Profile

DATABASE = "hushcall.db"
_FILE = "toml_values"
_Unset = BeforeValidator(lambda value: None if value == "" else value)  # TOML and the environment have no other word


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(_Section):
    """Where the service listens."""

    host: str = Field(
        default="127.0.0.1", description="address to listen on; put a reverse proxy with TLS before any other"
    )
    port: int = Field(default=8750, ge=0, le=65535, description="0 takes a free one")
    workers: int = Field(default=1, ge=1, le=64, description="processes; more than one pays on PostgreSQL")
    connections: int = Field(
        default=2000,
        ge=1,
        le=1_000_000,
        description="that a worker keeps at a time; beyond it the longest idle one goes",
    )
    access_log: bool = Field(
        default=False, description="one log line a request: route and status, never an address or a token"
    )


WIDEST = {names.WHOLE_NUMBER: 24, names.SH_BASIC: 26, names.SH_EXTENDED: 26, names.SH_TUNED: 26}
"""Bits of a suffix that a mechanism can hold, where not all: its decoder or its code words have so many."""


def _check_width(mechanism: str, plan: NumberingPlan) -> None:
    most = WIDEST.get(mechanism, plan.suffix_bits)
    if plan.suffix_bits > most:
        raise ValueError(
            f"plan must have suffixes of at most {most} bits for {mechanism}, and {plan.name} has {plan.suffix_bits}: "
            "choose a profile with subspace, which takes them all"
        )


class RoundSettings(_Section):
    """What a round is and when its phases change."""

    profile: str = Field(default="balanced", description=f"one of {', '.join(PROFILES)}")
    epsilon: Annotated[float | None, _Unset] = Field(default=None, description="instead of the profile's")
    tau: Annotated[int | None, _Unset] = Field(default=None, description="instead of the profile's")
    level: Annotated[float | None, _Unset] = Field(default=None, description="instead of the profile's")
    plan: str = Field(default=NANP.name, description=f"whose numbers: {', '.join(SHIPPED)}, or a plan-of file")
    windows: Annotated[list[int] | None, _Unset] = Field(
        default=None,
        description="rounds over which evidence is gathered, instead of the profile's [1, 2, 4, 7]; [1]: daily",
    )
    tolerance: Annotated[int | None, _Unset] = Field(
        default=None,
        description=f"lying phones that a listing withstands; unset: {TOLERANCE}, {OPEN_TOLERANCE} where mode is open",
    )
    anonymous: Annotated[bool | None, _Unset] = Field(
        default=None, description="let phones report without a name (blind tokens); instead of the profile's"
    )
    relay: str = Field(default="", description="address of a relay that somebody else runs; phones report through it")
    period: int = Field(default=86_400, ge=1, description="seconds from one round to the next")
    announce: float = Field(default=0.5, gt=0, lt=1, description="share of the period in which phones announce")
    collect: float = Field(default=0.45, gt=0, lt=1, description="share of the period in which phones report")
    scheduler: bool = Field(default=True, description="advance rounds by itself; false: 'hushcall round advance' does")
    decoders: int = Field(default=2, ge=0, le=64, description="processes that decode; 0 decodes inside the server")
    dask: str = Field(default="", description="address of a Dask scheduler that decodes, instead of processes here")
    keep_reports: bool = Field(default=False, description="keep raw reports after the tally is sealed, for research")

    @field_validator("plan", mode="after")
    @classmethod
    def _whole_name(cls, plan: str) -> str:
        """A region stands for the plan of today: what is kept, sent and signed is the plan's own name."""
        return SHIPPED.get(plan.upper(), plan)

    @model_validator(mode="after")
    def _phases_fit(self) -> RoundSettings:
        if self.announce + self.collect > 1:
            raise ValueError("announce and collect together must not exceed the period")
        self.chosen_profile()
        _check_width(self.chosen_profile().mechanism, self.chosen_plan())
        return self

    def chosen_plan(self) -> NumberingPlan:
        """Whose numbers the next round is about. A file that ``hushcall plan-of`` wrote is read here."""
        try:
            return take_plan(Path(self.plan).read_bytes()) if self.plan.endswith(".json") else plan_named(self.plan)
        except (InvalidParameter, InvalidData) as error:
            raise ValueError(str(error)) from None
        except OSError as error:
            raise ValueError(f"plan must be a file that can be read ({error.strerror}), got {self.plan!r}") from None

    def chosen_profile(self) -> Profile:
        """The profile as it is set here; who may enrol has a say too (:attr:`Settings.profile`)."""
        if self.profile not in PROFILES:
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}")
        changes = {
            "epsilon": self.epsilon,
            "tau": self.tau,
            "level": self.level,
            "tolerance": self.tolerance,
            "anonymous": self.anonymous,
        }
        given: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
        if self.windows is not None:
            given["windows"] = tuple(self.windows)
        try:
            return replace(PROFILES[self.profile], **given)
        except InvalidParameter as error:
            raise ValueError(str(error)) from None


class GuardSettings(_Section):
    """When a round is held for a person to look at."""

    rejected: float = Field(default=0.10, gt=0, le=1, description="share of the devices that may have uploads refused")
    devices: float = Field(default=3.0, gt=1, description="devices may be this many times more or fewer than usual")
    growth: float = Field(
        default=3.0, gt=1, description="an area code of more than 'least' devices may be this many times its usual size"
    )
    least: int = Field(default=100, ge=1, description="rounds with fewer devices than this are not judged")
    per_device: int = Field(
        default=20, ge=1, description="refused uploads after which a device is not listened to for the round"
    )


class IntakeSettings(_Section):
    """Uploads."""

    batch: int = Field(default=100, ge=1, le=10_000, description="uploads in one commit, at most")
    linger_ms: float = Field(
        default=2.0,
        ge=0,
        le=1000,
        description="how long a commit waits for company; while somebody keeps coming, up to 20 ms",
    )
    queue: int = Field(default=1_000, ge=1, description="uploads that may wait; beyond it phones are told to come back")
    patience: float = Field(
        default=10.0, gt=0, le=25, description="seconds that an upload waits for the disk; then it is told to come back"
    )
    max_body: int = Field(default=1 << 17, ge=64, description="bytes of one request")
    sealed: int = Field(default=60_000, ge=1, description="sealed requests a minute that the gateway opens")
    per_device: int = Field(default=60, ge=2, description="requests a minute that one device may make")


class EnrolSettings(_Section):
    """Who may take part."""

    mode: Annotated[Literal["open", "invite", "operator"] | None, _Unset] = Field(
        default=None,
        description="anyone, invite codes, or your token only; unset: invite codes where others reach the service",
    )
    work: Annotated[int | None, _Unset] = Field(
        default=None,
        ge=0,
        le=32,
        description="bits of proof of work in open mode; unset: 20 where others reach the service, else none",
    )
    command: list[str] = Field(
        default=[],
        description="in open mode, your own rule instead: reads the phone's code, ends with 0 to let in",
    )
    per_minute: int = Field(default=600, ge=1, description="enrolments a minute, all workers together")


class ListSettings(_Section):
    """What is published."""

    window: int = Field(
        default=7, ge=1, le=366, description="rounds without a sighting after which a number leaves the list"
    )
    block_days: int = Field(
        default=2,
        ge=1,
        le=31,
        description="rounds in which (or over which) a number is found before it blocks; 1: at once",
    )
    allow_file: Annotated[Path | None, _Unset] = Field(
        default=None, description="numbers that are never listed, one a line"
    )
    allow_command: list[str] = Field(
        default=[], description="a lookup of your own: numbers on stdin, a line each; prints those not to list"
    )
    allow_timeout: float = Field(
        default=60.0, gt=0, description="seconds that the lookup may take; later the round waits"
    )
    exports: list[str] = Field(default=["all"], description="formats to publish beside the list; [] for none")
    deltas: int = Field(default=14, ge=0, le=366, description="versions back to which deltas are published")


class Settings(BaseSettings):
    """Everything an operator can set."""

    model_config = SettingsConfigDict(
        env_prefix="HUSHCALL_", env_nested_delimiter="__", extra="forbid", frozen=True, toml_file=None
    )

    data: Path = Field(default=Path("hushcall-data"), description="folder of the database and the keys")
    database: str = Field(
        default="", description="postgresql+psycopg://user@host/name; empty: SQLite in the data folder"
    )
    server: ServerSettings = ServerSettings()
    round: RoundSettings = RoundSettings()
    guard: GuardSettings = GuardSettings()
    intake: IntakeSettings = IntakeSettings()
    enrol: EnrolSettings = EnrolSettings()
    list: Annotated[ListSettings, Field()] = ListSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment is stronger than the file: a container overrides what its image brings."""
        del dotenv_settings, file_secret_settings
        assert isinstance(init_settings, InitSettingsSource)  # noqa: S101
        file = init_settings.init_kwargs.pop(_FILE, {})
        return init_settings, env_settings, InitSettingsSource(settings_cls, file)

    @property
    def profile(self) -> Profile:
        """What the next round is run with. Where anybody may enrol, more lies have to be withstood, unless set."""
        chosen = self.round.chosen_profile()
        if self.round.tolerance is None and self.enrol.mode == "open" and chosen.tolerance:
            return replace(chosen, tolerance=OPEN_TOLERANCE)
        return chosen

    @property
    def url(self) -> str:
        """Where the database is, as SQLAlchemy writes it."""
        return address(self.database) or f"sqlite:///{self.data / DATABASE}"

    @property
    def keys(self) -> Path:
        """Where the online keys are."""
        return self.data / "keys"


def address(database: str) -> str:
    """A database's URL as SQLAlchemy writes it, from any of the ways that people do."""
    if database.startswith(("postgres://", "postgresql://")):
        return "postgresql+psycopg://" + database.split("://", 1)[1]
    return database


def load_settings(file: Path | None = None, *, alone: bool = False, **changes: Any) -> Settings:
    """What is set here; a file that cannot be read or a wrong value is an error that names it.

    Without ``file``, ``hushcall.toml`` of the working folder is read if it is there; ``alone``: no file at all. What a
    service runs with is in its data folder (``in_force``).
    """
    values: dict[str, Any] = {}
    if not alone and file is None and Path("hushcall.toml").is_file():
        file = Path("hushcall.toml")
    if file is not None:
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidParameter("settings", f"be a readable TOML file ({error})", str(file)) from None
    given: dict[str, Any] = {_FILE: values, **changes}
    try:
        return Settings(**given)
    except SettingsError as error:
        raise InvalidParameter("environment", f"be valid ({error})", "HUSHCALL_*") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        if first["type"] == "extra_forbidden":
            raise InvalidParameter("settings", "hold names that exist ('hushcall config example')", name) from None
        raise InvalidParameter(name, f"be valid ({first['msg'].lower()})", first.get("input")) from None


def example() -> str:
    """A TOML file with every setting, its default and what it is for."""
    lines = ["# Settings of hushcall. Every line is a default: uncomment what you change.", ""]
    sections = []
    for name, info in Settings.model_fields.items():
        default = info.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            sections += ["", f"[{name}]", f"# {type(default).__doc__}"]
            for inner, about in type(default).model_fields.items():
                sections.append(_line(inner, getattr(default, inner), about.description or ""))
        else:
            lines.append(_line(name, default, info.description or ""))
    return "\n".join([*lines, *sections]) + "\n"


def as_toml(settings: Settings) -> str:
    """A TOML file of what is not as it is by default: what a service was started with, for ``serve --config``."""
    lines, sections = [], []
    for name, value in settings:
        if isinstance(value, BaseModel):
            plain = type(value)()
            changed = [(inner, one) for inner, one in value if one != getattr(plain, inner)]
            sections += ["", f"[{name}]", *(f"{inner} = {_written(one)}" for inner, one in changed)] if changed else []
        elif value != type(settings).model_fields[name].default:
            lines.append(f"{name} = {_written(value)}")
    return "\n".join([*lines, *sections]) + "\n"


def _written(value: Any) -> str:
    plain = str(value) if isinstance(value, Path) else value
    return json.dumps(plain, ensure_ascii=False)  # strings, numbers, booleans and lists are the same in both


def _line(name: str, value: Any, about: str) -> str:
    if isinstance(value, Path):
        value = str(value)
    text = '""' if value is None else str(value).lower() if isinstance(value, bool) else _toml(value)
    return f"# {name} = {text}  # {about}"


def _toml(value: Any) -> str:
    return (
        str(value).replace("'", '"')
        if isinstance(value, list)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )

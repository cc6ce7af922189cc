"""The operator's settings: a TOML file, which ``HUSHCALL_*`` variables override, which options override.

``HUSHCALL_ROUND__PERIOD=3600`` sets ``period`` in ``[round]``. The spelling of a setting stays. Where it lacks a unit,
code reads a property that has it.
"""

from __future__ import annotations

import json
import re
import tomllib
import warnings
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
from hushcall.mechanisms.profiles import OPEN_TOLERANCE, PROFILES, TOLERANCE, Profile
from hushcall.mechanisms.registry import spec_named
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers import NANP, SHIPPED, NumberingPlan, plan_named
from hushcall.protocol.numbers.plans import take_plan
from hushcall.protocol.round_document import MAX_WINDOW_DAYS

DATABASE = "hushcall.db"
DAY_SECONDS, MIN_ROUND_SECONDS = 86_400, 3600
_FILE = "toml_values"
WORK_BITS = 20
_Unset = BeforeValidator(lambda value: None if value == "" else value)  # TOML and the environment have no null
_Float = Annotated[float | None, _Unset]
_Int = Annotated[int | None, _Unset]


def _or_default(default: str | int) -> BeforeValidator:
    """For "" and null, which earlier releases took and recorded."""
    return BeforeValidator(lambda value: default if value in ("", None) else value)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(_Section):
    """Where the service listens."""

    host: str = Field(default="127.0.0.1", description="address to listen on; others need a reverse proxy with TLS")
    port: int = Field(default=8750, ge=0, le=65535, description="0 takes a free one")
    workers: int = Field(default=1, ge=1, le=64, description="processes; more than one helps on PostgreSQL only")
    connections: int = Field(default=2000, ge=1, le=1_000_000, description="of a worker; more close the longest idle")
    access_log: bool = Field(default=False, description="log a line for each request, with route and status only")
    security_contact: str = Field(default="", description="in /.well-known/security.txt, which is absent where empty")

    @field_validator("security_contact", mode="after")
    @classmethod
    def _is_address(cls, contact: str) -> str:
        if contact and not re.fullmatch(r"(mailto:|tel:|https://)[!-~]+", contact):
            raise ValueError("security_contact must start with mailto:, tel: or https:// and hold no spaces")
        return contact


class RoundSettings(_Section):
    """Rounds: what they find, and when their phases end."""

    profile: str = Field(default="balanced", description=f"one of {', '.join(PROFILES)}")
    epsilon: _Float = Field(default=None, description="instead of the profile's")
    tau: _Int = Field(default=None, description="instead of the profile's")
    level: _Float = Field(default=None, description="instead of the profile's")
    warn_level: _Float = Field(default=None, description="of warnings, instead of the profile's; 0: one tier, at level")
    hundreds: _Int = Field(default=None, description="per cent of reports about hundreds, instead of the profile's")
    plan: str = Field(default=NANP.name, description=f"the numbering plan: {', '.join(SHIPPED)}, or a plan-of file")
    windows_hours: Annotated[list[int] | None, _Unset] = Field(
        default=None,
        description="hours over which evidence is gathered, instead of the profile's [24, 48, 96, 168]",
    )
    windows: Annotated[list[int] | None, _Unset] = Field(
        default=None, description="deprecated: windows_hours, in rounds; [1]: each alone"
    )
    tolerance: _Int = Field(
        default=None,
        description=f"lying phones that blocking withstands; unset: {TOLERANCE}, {OPEN_TOLERANCE} where mode is open",
    )
    anonymous: Annotated[bool | None, _Unset] = Field(
        default=None, description="let phones report anonymously (blind tokens); instead of the profile's"
    )
    relay: str = Field(default="", description="address of a relay that another party runs; phones report through it")
    period: int = Field(
        default=DAY_SECONDS,
        ge=1,
        description="seconds from one round to the next, 3600 to 86400; a shorter round stands for a day, for trials",
    )
    announce: float = Field(default=0.5, gt=0, lt=1, description="share of the period in which phones announce")
    collect: float = Field(default=0.45, gt=0, lt=1, description="share of the period in which phones report")
    scheduler: bool = Field(default=True, description="advance rounds by itself; false: 'hushcall round advance' does")
    decoders: int = Field(default=2, ge=0, le=64, description="processes that decode; 0: the server's own")
    dask: str = Field(default="", description="address of a Dask scheduler that decodes, instead of processes here")
    gpu: bool = Field(default=False, description="decode on this machine's graphics card; decoders read for it")
    keep_reports: bool = Field(default=False, description="keep raw reports after the tally is sealed, for research")

    @field_validator("plan", mode="after")
    @classmethod
    def _whole_name(cls, plan: str) -> str:
        """A region means its present plan. The plan's own name is stored, sent and signed."""
        return SHIPPED.get(plan.upper(), plan)

    @model_validator(mode="after")
    def _phases_fit(self) -> RoundSettings:
        if self.announce + self.collect > 1:
            raise ValueError("announce and collect together must not exceed the period")
        if self.dask and self.gpu:
            raise ValueError("dask and gpu exclude each other: a round is decoded by one of them")
        if self.windows is not None:
            warnings.warn("round.windows is round.windows_hours now, in hours", DeprecationWarning, stacklevel=2)
        if self.windows is not None and self.windows_hours is not None:
            raise ValueError("windows and windows_hours exclude each other: windows is the former name, in rounds")
        mechanism, plan = self.chosen_profile().mechanism, self.chosen_plan()
        limit, bits = spec_named(mechanism).max_suffix_bits, SUFFIX.bits(plan)
        if bits > limit:
            raise ValueError(
                f"plan must have suffixes of at most {limit} bits for {mechanism}, and {plan.name} has {bits}: "
                "choose a profile with subspace, which takes them all"
            )
        return self

    def chosen_plan(self) -> NumberingPlan:
        """The numbering plan of the next round. Reads a file of ``hushcall plan-of``."""
        try:
            return take_plan(Path(self.plan).read_bytes()) if self.plan.endswith(".json") else plan_named(self.plan)
        except (InvalidParameter, InvalidData) as error:
            raise ValueError(str(error)) from None
        except OSError as error:
            raise ValueError(f"plan must be a file that can be read ({error.strerror}), got {self.plan!r}") from None

    def chosen_profile(self) -> Profile:
        """The profile with this section's changes. :attr:`Settings.profile` also depends on the enrolment mode."""
        if self.profile not in PROFILES:
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}")
        names = {"epsilon", "tau", "level", "warn_level", "hundreds", "tolerance", "anonymous"}
        chosen = self.model_dump(include=names, exclude_none=True)
        if self.windows is not None:
            chosen["windows"] = tuple(self.windows)
        if MIN_ROUND_SECONDS <= self.period < DAY_SECONDS and DAY_SECONDS % self.period:
            raise ValueError(f"period must divide a day (86400) if it is an hour or more, got {self.period}")
        if self.windows_hours is not None:
            chosen["windows"] = tuple(hours * self.rounds_per_day // 24 for hours in self.windows_hours)
            if [length * 24 for length in chosen["windows"]] != [h * self.rounds_per_day for h in self.windows_hours]:
                raise ValueError(f"windows_hours must hold whole rounds, got {self.windows_hours}")
        try:
            return replace(PROFILES[self.profile].timed(self.rounds_per_day), **chosen)
        except InvalidParameter as error:
            raise ValueError(str(error)) from None

    @property
    def period_seconds(self) -> int:
        return self.period

    @property
    def rounds_per_day(self) -> int:
        return max(DAY_SECONDS // self.period, 1) if self.period >= MIN_ROUND_SECONDS else 1


class GuardSettings(_Section):
    """When a round is held for a person to look at."""

    rejected: float = Field(default=0.33, gt=0, le=1, description="share of the devices that may have uploads refused")
    devices: float = Field(default=3.0, gt=1, description="devices may be this many times more or fewer than usual")
    growth: float = Field(default=3.0, gt=1, description="an area code over 'least' may be this many times its usual")
    least: int = Field(default=100, ge=1, description="rounds with fewer devices than this are not judged")
    per_device: int = Field(default=20, ge=1, description="refused uploads after which a device is shut out of a round")


class IntakeSettings(_Section):
    """Uploads."""

    batch: int = Field(default=100, ge=1, le=10_000, description="uploads in one commit, at most")
    linger_ms: float = Field(default=2.0, ge=0, le=1000, description="milliseconds that a commit waits; under load 20")
    queue: int = Field(default=1_000, ge=1, description="uploads that may wait; beyond it phones have to try again")
    patience: float = Field(default=10.0, gt=0, le=25, description="seconds that an upload waits for the disk at most")
    max_body: int = Field(default=1 << 17, ge=64, description="bytes of one request")
    sealed: int = Field(default=60_000, ge=1, description="sealed requests a minute that the gateway opens")
    per_device: int = Field(default=60, ge=2, description="requests a minute that one device may make")

    @property
    def linger_seconds(self) -> float:
        return self.linger_ms / 1000


class EnrolSettings(_Section):
    """Who may take part."""

    mode: Annotated[Literal["open", "invite", "operator"], _or_default("invite")] = Field(
        default="invite", description="open: anyone; invite: who has a code; operator: by your token only"
    )
    work: Annotated[int, _or_default(WORK_BITS)] = Field(
        default=WORK_BITS, ge=0, le=32, description="bits of proof of work in open mode; 20: a second of a phone's time"
    )
    command: list[str] = Field(default=[], description="in open mode, your own rule: reads the code, 0 admits")
    per_minute: int = Field(default=600, ge=1, description="enrolments a minute, all workers together")


class ListSettings(_Section):
    """What is published."""

    window_days: int = Field(
        default=7, ge=1, le=366, description="days without a sighting until a number leaves the list"
    )
    window: Annotated[int | None, _Unset] = Field(
        default=None, ge=1, le=8784, description="deprecated: window_days, in rounds"
    )
    block_days: int = Field(default=2, ge=1, le=31, description="days until a finding blocks, at least; 1: at once")
    block_ranges: bool = Field(default=False, description="ranges block by the rule of numbers; otherwise they warn")
    allow_file: Annotated[Path | None, _Unset] = Field(default=None, description="numbers never listed, one a line")
    allow_command: list[str] = Field(default=[], description="your lookup: reads numbers, prints those not to list")
    allow_timeout: float = Field(default=60.0, gt=0, description="seconds for the lookup; after them the round waits")
    exports: list[str] = Field(default=["all"], description="formats to sign; 'all': up to 10,000 numbers")
    deltas: int = Field(default=14, ge=0, le=366, description="versions back to which deltas are published")

    @model_validator(mode="after")
    def _former_name(self) -> ListSettings:
        if self.window is not None:
            warnings.warn("list.window is list.window_days now, in days", DeprecationWarning, stacklevel=2)
        return self

    @property
    def allow_timeout_seconds(self) -> float:
        return self.allow_timeout


class HintSettings(_Section):
    """Numbers that others complain about. A round tests them with half of its level."""

    sources: list[str] = Field(default=[], description="files and addresses; {date}: the day before; #sha256=… pins it")
    max_age_days: float = Field(default=4.0, gt=0, description="older sources give no hints")
    max_bytes: int = Field(default=1 << 24, ge=1, le=1 << 30, description="larger sources give no hints")
    max_numbers: int = Field(default=100_000, ge=1, le=10_000_000, description="sources with more give no hints")
    timeout: float = Field(default=30.0, gt=0, description="seconds for a source")


class Settings(BaseSettings):
    """All settings of a server, from a file, variables or arguments. ``docs/operating.md`` explains each."""

    model_config = SettingsConfigDict(
        env_prefix="HUSHCALL_", env_nested_delimiter="__", extra="forbid", frozen=True, toml_file=None
    )

    data: Path = Field(default=Path("hushcall-data"), description="folder of the database and the keys")
    database: str = Field(default="", description="postgresql+psycopg://user@host/name; empty: SQLite in the folder")
    server: ServerSettings = ServerSettings()
    round: RoundSettings = RoundSettings()
    guard: GuardSettings = GuardSettings()
    intake: IntakeSettings = IntakeSettings()
    enrol: EnrolSettings = EnrolSettings()
    list: Annotated[ListSettings, Field()] = ListSettings()
    hints: HintSettings = HintSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment overrides the file, so that a container overrides its image."""
        del dotenv_settings, file_secret_settings
        assert isinstance(init_settings, InitSettingsSource)  # noqa: S101
        file = init_settings.init_kwargs.pop(_FILE, {})
        return init_settings, env_settings, InitSettingsSource(settings_cls, file)

    @property
    def profile(self) -> Profile:
        """The profile of the next round. Open enrolment raises the tolerance, unless it is set."""
        chosen = self.round.chosen_profile()
        if self.round.tolerance is None and self.enrol.mode == "open" and chosen.tolerance:
            return replace(chosen, tolerance=OPEN_TOLERANCE)
        return chosen

    @property
    def window_days(self) -> int:
        """For how long a number stays on the list, and how old a reported call may be."""
        if self.list.window is None:
            return self.list.window_days
        return min(-(-self.list.window // self.round.rounds_per_day), MAX_WINDOW_DAYS)

    @property
    def url(self) -> str:
        return address(self.database) or f"sqlite:///{self.data / DATABASE}"

    @property
    def keys(self) -> Path:
        return self.data / "keys"


def address(database: str) -> str:
    if database.startswith(("postgres://", "postgresql://")):
        return "postgresql+psycopg://" + database.split("://", 1)[1]
    return database


def load_settings(file: Path | None = None, *, alone: bool = False, **changes: Any) -> Settings:
    """Reads the settings of this process. Those of a service are in its data folder (``effective_settings``).

    Without ``file``, ``hushcall.toml`` of the working folder is read if it exists. ``alone`` reads no file.
    """
    values: dict[str, Any] = {}
    if not alone and file is None and Path("hushcall.toml").is_file():
        file = Path("hushcall.toml")
    if file is not None:
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidParameter("settings", f"be a readable TOML file ({error})", str(file)) from None
    arguments: dict[str, Any] = {_FILE: values, **changes}
    try:
        return Settings(**arguments)
    except SettingsError as error:
        raise InvalidParameter("environment", f"be valid ({error})", "HUSHCALL_*") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        if first["type"] == "extra_forbidden":
            raise InvalidParameter("settings", "hold names that exist ('hushcall config example')", name) from None
        raise InvalidParameter(name, f"be valid ({first['msg'].lower()})", first.get("input")) from None


def example() -> str:
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
    """A TOML file of the settings that are not defaults, for ``serve --config``."""
    lines, sections = [], []
    for name, value in settings:
        if isinstance(value, BaseModel):
            defaults = type(value)()
            changed = [f"{inner} = {_toml(item)}" for inner, item in value if item != getattr(defaults, inner)]
            sections += ["", f"[{name}]", *changed] if changed else []
        elif value != type(settings).model_fields[name].default:
            lines.append(f"{name} = {_toml(value)}")
    return "\n".join([*lines, *sections]) + "\n"


def _line(name: str, value: object, description: str) -> str:
    return f"# {name} = {_toml(value)}  # {description}"


def _toml(value: object) -> str:
    """TOML's strings, numbers, booleans and lists are written as in JSON."""
    plain = "" if value is None else str(value) if isinstance(value, Path) else value
    return json.dumps(plain, ensure_ascii=False)

"""Settings: the command line, the environment, a TOML file and defaults, in this order; a wrong value is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.profiles import PROFILES
from hushcall.protocol.numbers import NANP
from hushcall.server.settings import Settings, example, load_settings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own."""
    monkeypatch.chdir(tmp_path)


def written(folder: Path, text: str) -> Path:
    path = folder / "some.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_given_gives_defaults_that_work() -> None:
    found = load_settings()
    assert (found.server.host, found.server.port, found.round.profile) == ("127.0.0.1", 8750, "balanced")
    assert found.url == "sqlite:///hushcall-data/hushcall.db"


def test_the_command_line_beats_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, '[server]\nport = 1\nworkers = 2\nhost = "::1"\n[round]\nperiod = 60\n')
    assert load_settings(file).server.port == 1
    monkeypatch.setenv("HUSHCALL_SERVER__PORT", "3")
    monkeypatch.setenv("HUSHCALL_SERVER__WORKERS", "4")
    found = load_settings(file, server={"port": 5})
    assert (found.server.port, found.server.workers, found.server.host) == (5, 4, "::1")
    assert found.round.period == 60


def test_the_file_of_the_working_folder_is_read_if_no_other_is_named(tmp_path: Path) -> None:
    (tmp_path / "hushcall.toml").write_text("[enrol]\nmode = 'invite'\n", encoding="utf-8")
    assert load_settings().enrol.mode == "invite"
    assert load_settings(written(tmp_path, "")).enrol.mode == "invite"


def test_a_worker_reads_the_settings_that_its_parent_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = load_settings(data=tmp_path, server={"port": 5}, round={"profile": "strong", "epsilon": 3.0})
    monkeypatch.setenv("HUSHCALL_SERVER__PORT", "9")
    assert Settings.model_validate_json(given.model_dump_json()) == given


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nport = 70000", r"server\.port must be valid \(.*65535\), got 70000"),
        ("[server]\nprot = 1", r"hold names that exist .*got 'server\.prot'"),
        ("[sever]\nport = 1", r"hold names that exist .*got 'sever'"),
        ("server = 3", r"server must be valid .*got 3"),
        ("[round]\nprofile = 'best'", r"round must be valid \(.*profile must be one of paper, strong"),
        ("[round]\nannounce = 0.6\ncollect = 0.5", r"announce and collect together must not exceed the period"),
        ("[round]\nepsilon = -1", r"round must be valid \(.*epsilon must be .*, got -1"),
        ("[round]\nperiod = 'a day'", r"round\.period must be valid \(.*integer.*\), got 'a day'"),
        ("[enrol]\nmode = 'closed'", r"enrol\.mode must be valid \(.*'open', 'invite' or 'operator'\), got 'closed'"),
        ("[guard]\ndevices = 1", r"guard\.devices must be valid"),
        ("port 3", r"settings must be a readable TOML file"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        load_settings(written(tmp_path, text))


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"settings must be a readable TOML file .*absent\.toml"):
        load_settings(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidParameter, match="settings must be a readable TOML file"):
        load_settings(tmp_path / "bytes.toml")


@pytest.mark.parametrize(("name", "value"), [("HUSHCALL_ROUND", "{broken"), ("HUSHCALL_SERVER__PORT", "many")])
def test_a_wrong_variable_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidParameter, match=r"(environment|server\.port) must be valid"):
        load_settings()


def test_the_example_holds_every_setting_and_only_defaults(tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, example())) == load_settings()
    uncommented = re.sub(r"^# (\w+ = )", r"\1", example(), flags=re.MULTILINE)
    assert load_settings(written(tmp_path, uncommented)) == load_settings()
    names = re.findall(r"^(\w+) = ", uncommented, flags=re.MULTILINE)
    expected: list[str] = []
    for name, value in load_settings().model_dump().items():
        expected += list(value) if isinstance(value, dict) else [name]
    assert sorted(names) == sorted(expected)
    assert all(re.search(rf"^{name} = .*  # \w", uncommented, flags=re.MULTILINE) for name in names)


@pytest.mark.parametrize("given", ["postgres://u:p@h/n", "postgresql://u:p@h/n", "postgresql+psycopg://u:p@h/n"])
def test_usual_spellings_of_a_postgresql_address_are_understood(given: str) -> None:
    assert load_settings(database=given).url == "postgresql+psycopg://u:p@h/n"


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_chosen_by_name_and_changed_by_value(name: str) -> None:
    changes: dict[str, Any] = {"profile": name, "tau": 77, "level": 0.01}
    chosen = load_settings(round=changes).round.chosen_profile()
    assert (chosen.name, chosen.tau, chosen.level) == (name, 77, 0.01)
    assert chosen.epsilon == PROFILES[name].epsilon


def test_a_plan_that_nobody_knows_is_an_error_that_lists_those_there_are() -> None:
    assert load_settings().round.chosen_plan() is NANP
    with pytest.raises(InvalidParameter, match=r"plan must be one of .*nanp-2026.*, got 'moon-2031'"):
        load_settings(round={"plan": "moon-2031"})


@pytest.mark.parametrize(
    ("mode", "tolerance", "expected"),
    [
        (None, None, 5),
        ("invite", None, 5),
        ("operator", None, 5),
        ("open", None, 25),
        ("open", 3, 3),
        ("invite", 40, 40),
    ],
)
def test_who_may_enrol_says_how_many_lies_a_listing_withstands(
    mode: str | None, tolerance: int | None, expected: int
) -> None:
    settings = load_settings(enrol={"mode": mode}, round={"tolerance": tolerance})
    assert settings.profile.tolerance == expected
    assert settings.profile.windows == (1, 2, 4, 7)
    papers = load_settings(enrol={"mode": mode}, round={"profile": "paper"})
    assert (papers.profile.tolerance, papers.profile.windows) == (0, (1,))

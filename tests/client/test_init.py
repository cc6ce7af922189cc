"""``hushcall phone init``: settings, tokens and roots, and a change of servers that may crash at any moment."""

import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.client.conftest import Run
from tests.client.fake_server import FakeService, over_http
from tests.client.lists_on_disk import BLOCKED

from hushcall.client.reporting.anonymity import save_route
from hushcall.client.storage.store import LISTS, Store
from hushcall.protocol.anonymity.ohttp import KeyConfig

ROOT = '{"signed": {"_type": "root"}}'


def test_init_again_changes_only_what_is_given(run: Run, home: Path, url: str) -> None:
    first = run("init", "--server", url, "--max-epsilon", 2, "--json").json
    second = run("init", "--server", url, "--cap-life", 100, "--json").json
    assert (first["enrolled"], second["enrolled"]) == (False, False)
    assert first["device"] == second["device"]
    assert (second["limits"]["report"], second["limits"]["life"], second["limits"]["window"]) == (2.0, 100.0, 32.0)
    assert (home / LISTS).exists()


def test_another_server_gets_no_trust_from_the_old_one(run: Run, home: Path) -> None:
    with over_http(FakeService(time.time)) as other:
        said = run("init", "--server", other)
        assert "The list of" in said.text
        assert not (home / LISTS).exists()
        assert run("check", BLOCKED).out.startswith("allow: there is no list yet")


def test_settings_change_without_naming_the_server_again(run: Run, home: Path) -> None:
    assert home.exists()
    said = run("init", "--rounds-per-day", 3)
    assert said.code == 0
    assert "Settings changed" in said.out
    assert "rounds_per_day 3" in said.out


def test_the_first_time_a_server_is_needed(run: Run) -> None:
    said = run("init", "--max-epsilon", 2)
    assert (said.code, "server must be given the first time" in said.err) == (2, True)


def test_a_token_of_the_operator_is_taken_without_enrolling(run: Run, url: str, tmp_path: Path) -> None:
    token = "hcd_" + "ab" * 32
    said = run("init", "--server", url, "--token", token, "--json")
    assert said.code == 0
    assert settings_of(tmp_path / "home")["token"] == token
    assert "token must be a device's token" in run("init", "--server", url, "--token", "secret").err


def test_a_mechanism_that_there_is_none_of_is_refused(run: Run, url: str) -> None:
    said = run("init", "--server", url, "--mechanisms", "subspace foo")
    assert (said.code, "mechanism must be one of subspace, " in said.err) == (2, True)


def test_a_file_that_is_no_root_is_refused_before_anything_is_enrolled(run: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a server's log")
    assert "root must be the operator's root.json" in run("init", "--server", url, "--root", tmp_path / "log.txt").err
    assert not (tmp_path / "home").exists()


@pytest.fixture
def pinned(run: Run, home: Path, url: str, tmp_path: Path) -> Path:
    """The home of a phone that was given its operator's root."""
    (tmp_path / "root.json").write_text(ROOT)
    assert run("init", "--server", url, "--root", tmp_path / "root.json").code == 0
    return home


def settings_of(home: Path) -> dict[str, str]:
    store = Store.open(home)
    found = {name: store.get(name) for name in ("server", "token", "device", "root")}
    store.close()
    return found


@pytest.mark.parametrize("moment", ["server", "token", "device", "root", "stale_list"])
def test_a_crash_while_the_server_changes_leaves_the_old_one_with_what_was_pinned(
    run: Run, pinned: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before, put = settings_of(pinned), Store.put

    def crash(store: Store, name: str, value: str) -> None:
        if name == moment:
            raise KeyboardInterrupt
        put(store, name, value)

    with over_http(FakeService(time.time)) as other, monkeypatch.context() as patched:
        patched.setattr(Store, "put", crash)
        assert run("init", "--server", other).code != 0
    assert settings_of(pinned) == before
    assert before["root"] == ROOT
    assert (pinned / LISTS / "list.jsonl").exists()  # the root that a first sync pins lies beside it


@pytest.mark.parametrize("heal", ["init", "sync"])
def test_a_crash_after_the_server_changed_leaves_a_list_that_goes_at_the_next_chance(
    run: Run, pinned: Path, monkeypatch: pytest.MonkeyPatch, heal: str
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with over_http(FakeService(time.time)) as other:
        with monkeypatch.context() as patched:
            patched.setattr("hushcall.client.setup.shutil.rmtree", crash)
            assert run("init", "--server", other).code != 0
        assert (settings_of(pinned)["server"], settings_of(pinned)["root"]) == (other, "")
        assert (pinned / LISTS / "list.jsonl").exists()
        run(*(["init", "--server", other] if heal == "init" else ["sync"]))
    assert not (pinned / LISTS / "list.jsonl").exists()
    assert settings_of(pinned)["server"] == other


def test_former_options_still_work(run: Run, home: Path) -> None:
    with closing(Store.open(home)) as store:  # without names, a relay is needed
        save_route(store, "http://relay.example", KeyConfig(1, bytes(32)))
    former = run("init", "--nameless-only", "--least-crowd", 5, "--whole-only", "--json").json["limits"]
    assert (former["by_name"], former["least_crowd"], former["area_in_clear"]) == (False, 5, False)
    current = run("init", "--by-name", "--min-anonymity-set", 7, "--area-in-clear", "--json").json["limits"]
    assert (current["by_name"], current["least_crowd"], current["area_in_clear"]) == (True, 7, True)
    refused = run("init", "--anonymous-only")
    assert (refused.code, "relay" in refused.err) == (2, True)

"""``from hushcall import …`` is all that a program needs: what it names, what it costs, and the page that shows it."""

import doctest
import re
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from tests.client.fake_server import FakeServer
from tests.client.world import World
from tests.server.serving import SPAM, Clock, Village, newest, serving, settings_for, shared_rand

import hushcall
from hushcall.server.service import open_service

PAGE = Path(__file__).parent.parent / "docs" / "embedding.md"
OTHERS = 12
"""Phones that report the same number with coins of their own: it is found whatever the phone of the page says."""


def fresh(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert sorted(hushcall.__all__) == sorted(hushcall._MODULE_OF)
    for name in hushcall.__all__:
        assert getattr(hushcall, name).__doc__, name
    assert set(hushcall.__all__) <= set(dir(hushcall))
    with pytest.raises(AttributeError, match="no attribute 'Phones'"):
        hushcall.Phones  # noqa: B018


def test_types_and_names_are_told_by_one_list() -> None:
    """What type checkers are told is what is found."""
    source = Path(hushcall.__file__).read_text(encoding="utf-8")
    block = source[source.index("if TYPE_CHECKING") : source.index("_MODULES")]
    told = re.findall(r"from hushcall\.([\w.]+) import (\w+) as (\w+)", block)
    assert all(name == exported for _, name, exported in told)
    assert {name: room for room, name, _ in told} == hushcall._MODULE_OF


HEAVY = {"numpy", "scipy", "tuf", "urllib3", "cryptography", "rich", "typer", "sqlalchemy", "phonenumbers", "tempfile"}
OF_THE_DAILY_REPORT = {"hushcall.protocol.anonymity.tokens", "hushcall.client.round_session"}


def test_the_surface_brings_nothing_heavy() -> None:
    """What a lookup does not need is imported by the step that does: the speed itself is in ``make bench``."""
    loaded = set(fresh("import sys\nfrom hushcall import Client, run_round, NANP\nprint(*sys.modules)").split())
    assert {"hushcall.client.client", "hushcall.round"} <= loaded
    assert not loaded & (HEAVY | OF_THE_DAILY_REPORT)


def test_asking_for_one_thing_does_not_bring_all() -> None:
    loaded = fresh("import sys\nimport hushcall\nprint(*(name for name in sys.modules if 'hushcall' in name))")
    assert set(loaded.split()) == {"hushcall", "hushcall.version"}
    assert "hushcall.client" not in fresh("import sys\nfrom hushcall import NANP\nprint(*sys.modules)").split()


NEED_THE_SERVER = ["Outlook", "outlook", "HeavyHitter", "Support", "Service", "open_service", "Settings"]


def test_the_base_install_has_what_a_client_needs_and_says_what_the_others_want() -> None:
    rooms = ("numpy", "scipy", "numba", "sqlalchemy", "pydantic_settings", "pydantic")
    block = f"import sys, hushcall\nfor name in {rooms}: sys.modules[name] = None\nmissing = []\n"
    ask = "for name in hushcall.__all__:\n    try: getattr(hushcall, name)\n"
    ask += "    except hushcall.MissingExtra as error:\n        assert 'hushcall[server]' in str(error)\n"
    ask += "        missing.append(name)\n"
    run = "try: hushcall.run_round([None], bytes)\nexcept hushcall.MissingExtra: print(missing)"
    assert fresh(block + ask + run) == f"{NEED_THE_SERVER}\n"


def test_the_page_uses_nothing_deeper() -> None:
    page = PAGE.read_text(encoding="utf-8")
    python = page[: page.index("## In another language")]
    assert not re.findall(r"hushcall\.[a-z]", python)
    imported = {name.strip() for line in re.findall(r"from hushcall import (.+)", python) for name in line.split(",")}
    assert {"Client", "Call", "CallKind", "LoadedList", "run_round", "NANP", "PROFILES"} <= imported


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    clock = Clock()
    service = open_service(settings_for(tmp_path / "server"), shared_rand("the page"), clock)
    village = Village(service, clock)
    service.rounds.open(service.now)

    def later(state: str) -> None:
        """Half a day passes, and the other phones do their part."""
        if state == "collecting":
            village.announce([SPAM] * OTHERS)
        clock.now = {"collecting": newest(service).collects, "published": newest(service).closes}[state]
        service.rounds.advance(service.now)
        if state == "collecting":
            village.report([SPAM] * OTHERS)

    with serving(service) as client:
        names = {"folder": tmp_path / "phone", "url": str(client.base_url), "now": int(time.time()), "later": later}
        done = doctest.testfile(str(PAGE), module_relative=False, globs=names)
    service.close()
    assert done.failed == 0
    assert done.attempted > 20


def test_former_names_work_with_one_warning() -> None:
    code = "import warnings\nwarnings.simplefilter('always')\nimport hushcall\n"
    code += "with warnings.catch_warnings(record=True) as caught:\n    a, b = hushcall.Phone, hushcall.Phone\n"
    code += "    from hushcall import Phone\n    isinstance(1, Phone)\n"
    code += "print(a is b is Phone is hushcall.Client, [w.category.__name__ for w in caught])"
    assert fresh(code) == "True ['DeprecationWarning']\n"
    assert "Phone" not in hushcall.__all__


def test_former_keyword_arguments_work_with_a_warning() -> None:
    world = World()
    with pytest.warns(DeprecationWarning, match="rand="):
        client = hushcall.Client(world.store, FakeServer(world.service), clock=lambda: world.now, coins=bytes)  # type: ignore[call-arg]
    assert client.rand is bytes
    with pytest.warns(DeprecationWarning, match="skip_delays="):
        assert client.report(hurry=True).action == "announced"  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="timeout_seconds="):
        assert client.report_patiently(hurry=True, patience=1).action == "waiting"  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="rand="):
        hushcall.run_round([None], coins=Random(1).randbytes)  # type: ignore[call-arg]

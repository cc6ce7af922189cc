"""``from hushcall import …`` is all that a program needs: what it names, what it costs, and the page that shows it."""

import doctest
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.server.serving import SPAM, Clock, Village, newest, serving, settings_for, shared_coins

import hushcall
from hushcall.server.service import open_service

PAGE = Path(__file__).parent.parent / "docs" / "embedding.md"
OTHERS = 12
"""Phones that report the same number with coins of their own: it is found whatever the phone of the page says."""


def fresh(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert sorted(hushcall.__all__) == sorted(hushcall._ROOM_OF)
    for name in hushcall.__all__:
        assert getattr(hushcall, name).__doc__, name
    assert set(hushcall.__all__) <= set(dir(hushcall))
    with pytest.raises(AttributeError, match="no attribute 'Phones'"):
        hushcall.Phones  # noqa: B018


def test_types_and_names_are_told_by_one_list() -> None:
    """What type checkers are told is what is found."""
    source = Path(hushcall.__file__).read_text(encoding="utf-8")
    block = source[source.index("if TYPE_CHECKING") : source.index("_ROOMS")]
    told = {
        name.strip(): room
        for room, names in re.findall(r"from hushcall\.([\w.]+) import (?:\((.*?)\))", block, re.DOTALL)
        + re.findall(r"from hushcall\.([\w.]+) import ([^(\n]+)", block)
        for name in names.split(",")
        if name.strip()
    }
    assert told == hushcall._ROOM_OF


HEAVY = {"numpy", "scipy", "tuf", "urllib3", "cryptography", "rich", "typer", "sqlalchemy", "phonenumbers", "tempfile"}
OF_THE_DAILY_REPORT = {"hushcall.mechanisms.examples", "hushcall.anonymity", "hushcall.phone.visit"}


def test_the_surface_brings_nothing_heavy() -> None:
    """What a lookup does not need is imported by the step that does: the speed itself is in ``make bench``."""
    loaded = set(fresh("import sys\nfrom hushcall import Phone, run_round, NANP\nprint(*sys.modules)").split())
    assert {"hushcall.phone.phone", "hushcall.round"} <= loaded
    assert not loaded & (HEAVY | OF_THE_DAILY_REPORT)


def test_asking_for_one_thing_does_not_bring_all() -> None:
    loaded = fresh("import sys\nimport hushcall\nprint(*(name for name in sys.modules if 'hushcall' in name))")
    assert set(loaded.split()) == {"hushcall", "hushcall.version"}
    assert "hushcall.phone" not in fresh("import sys\nfrom hushcall import NANP\nprint(*sys.modules)").split()


def test_the_base_install_has_the_whole_surface_but_runs_no_round() -> None:
    block = "import sys\nfor name in ('numpy', 'scipy', 'numba'): sys.modules[name] = None\n"
    run = "import hushcall\n[getattr(hushcall, name) for name in hushcall.__all__]\n"
    run += "try: hushcall.run_round([None], bytes)\n"
    assert "hushcall[server]" in fresh(block + run + "except hushcall.MissingExtra as error: print(error)")


def test_the_page_uses_nothing_deeper() -> None:
    page = PAGE.read_text(encoding="utf-8")
    python = page[: page.index("## In another language")]
    assert not re.findall(r"hushcall\.[a-z]", python)
    imported = {name.strip() for line in re.findall(r"from hushcall import (.+)", python) for name in line.split(",")}
    assert {"Phone", "Call", "CallKind", "LoadedList", "run_round", "NANP", "PROFILES"} <= imported


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    clock = Clock()
    service = open_service(settings_for(tmp_path / "server"), shared_coins("the page"), clock)
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

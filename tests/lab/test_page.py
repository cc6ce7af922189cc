"""Figures on pages: a command replaces its own block and nothing else, or refuses the page."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.commands import run_main

from hushcall_lab.bench import decode, gpu
from hushcall_lab.cli.output import table
from hushcall_lab.cli.page import _public, markdown, replace_between
from hushcall_lab.proofs import races
from hushcall_lab.study import study

BEFORE = "# Page\r\n\r\nA | text. <!-- a remark -->\n\n"
AFTER = "\n\nMore text, 7 °C.   \n<!-- figures: other -->\nkept\n<!-- end -->"
RACES = races.RacesResult("sqlite", 1, 5, {}, {}, 1, 2, 12.0, 3.0, 0)
COST = {
    "reports": 500, "numbers": 7, "transform_copies": 5.0,
    "rows": [{"epsilon": 4.0, "bits": 5, "seconds": 0.5, "peak_mb": 300.0, "times_naive": 12345.0}],
}  # fmt: skip
COMMANDS = {
    "theory": ["experiment", "theory", "--page"],
    "races": ["prove", "--page", "", "races", "--races", "5", "--no-bugs"],
    "decode": ["bench", "--page", "", "decode", "--reports", "500"],
}
WRITTEN = {
    "theory": (
        "`hushcall-lab experiment theory --data synth --repetitions 1 --seed 1`\n\n",
        "\n| η ≈ 0.023 for n = 1000",
    ),
    "races": (
        "`hushcall-lab prove races --races 5 --no-bugs --seed 1`\n\n5 races of each kind on sqlite: 0 broke a promise.",
        " Publishing took 12 ms at the median. 3 s.\n\n",
    ),
    "decode": (
        "`hushcall-lab bench decode --reports 500`\n\n500 reports against 7 numbers:",
        "| 4 | 5 | 0.5 | 300 | 12,345 |",
    ),
}


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """In an empty folder, with long measurements replaced. Returns what was measured."""
    measured: list[str] = []

    def result(name: str, value: object) -> object:
        measured.append(name)
        return value

    monkeypatch.chdir(tmp_path)
    run_theory = study.run
    monkeypatch.setattr(study, "run", lambda *a: result("theory", run_theory(*a)))
    monkeypatch.setattr(races, "prove", lambda *_, **__: result("races", RACES))
    monkeypatch.setattr(decode, "measure", lambda *_: result("decode", COST))
    return measured


def run(name: str, address: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """Runs a command in this process. Returns its exit status."""
    arguments = [address if word == "" else word for word in COMMANDS[name]]
    arguments += [address] * (arguments[-1] == "--page")
    monkeypatch.setattr(sys, "argv", ["hushcall-lab", *arguments])
    with pytest.raises(SystemExit) as stopped:
        run_main(*arguments)
    return stopped.value.code


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", ["", "#night"])
def test_a_command_replaces_its_block_and_nothing_else(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, start = tmp_path / "page.md", f"<!-- figures: {suffix[1:] or name} -->"
    page.write_bytes(f"{BEFORE}{start}\nold figures\n<!-- end -->{AFTER}".encode())
    assert not run(name, f"{page}{suffix}", monkeypatch)
    content = page.read_bytes().decode()
    assert content.startswith(f"{BEFORE}{start}\n{WRITTEN[name][0]}")
    assert content.endswith(f"\n<!-- end -->{AFTER}")
    assert WRITTEN[name][1] in content
    assert "old figures" not in content
    run(name, f"{page}{suffix}", monkeypatch)
    assert page.read_bytes().decode() == content  # no date, no version


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("fault", ["no marker", "no end", "twice"])
def test_a_page_without_its_block_is_refused_before_anything_is_measured(
    name: str, fault: str, prepared: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    page, start = tmp_path / "page.md", f"<!-- figures: {name} -->"
    blocks = {"no marker": "", "no end": f"{start}\nold\n", "twice": f"{start}\nold\n<!-- end -->\n" * 2}
    content = f"{BEFORE}{blocks[fault]}{AFTER}".encode()
    page.write_bytes(content)
    assert run(name, str(page), monkeypatch) == 2
    assert f"page must have {start} once, and <!-- end --> after it" in capsys.readouterr().err
    assert page.read_bytes() == content
    assert prepared == []


def test_a_block_within_a_line_stays_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("| promise | <!-- figures: races --><!-- end --> |\n", encoding="utf-8")
    run("races", str(page), monkeypatch)
    (line,) = page.read_text(encoding="utf-8").splitlines()
    assert line.startswith(
        "| promise | <!-- figures: races -->`hushcall-lab prove races --races 5 --no-bugs --seed 1`: 5 "
    )
    assert line.endswith(" 3 s<!-- end --> |")


def test_a_page_gets_neither_folders_nor_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- figures: races --><!-- end -->\n", encoding="utf-8")
    database = "postgresql://user:secret@example.org/empty"
    for given in (["--database", database], [f"--database={database}"]):
        monkeypatch.setattr("hushcall_lab.simulation.rig.database_of", lambda _: nullcontext(""))
        monkeypatch.setitem(COMMANDS, "races", ["prove", "--page", "", "races", *given, "--no-bugs"])
        run("races", str(page), monkeypatch)
        assert f"races {given[0].partition('://')[0].strip()}" in page.read_text(encoding="utf-8")
        assert "secret" not in page.read_text(encoding="utf-8")
    assert [_public(word) for word in (str(tmp_path), f"--data={tmp_path}", "/", "20")] == [
        tmp_path.name,
        f"--data={tmp_path.name}",
        "/",
        "20",
    ]


def test_neither_all_nor_an_absent_page_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("races", str(tmp_path / "absent.md"), monkeypatch) == 2
    monkeypatch.setitem(COMMANDS, "all", ["experiment", "all", "--page"])
    assert run("all", str(tmp_path / "absent.md"), monkeypatch) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [" ".join(line.split()[:7]) for line in errors] == [
        "hushcall: page must be a text file",
        "hushcall: page must be given to one",
    ]


def test_tables_become_markdown_and_any_texts_can_bound_a_block(tmp_path: Path) -> None:
    grid = table("Title", ("what", "ms", ""), [("a|b", 1.5, "[red]✗[/]")])
    assert markdown(grid) == "Title:\n\n| what | ms |  |\n|---|---:|---|\n| a\\|b | 1.5 | ✗ |"
    page = tmp_path / "page.md"
    page.write_bytes(b"```text\nday 1\n```\n```text\nnight\n```\r\n")
    replace_between(page, "```text\nday", "\n```", " 2")
    assert page.read_bytes() == b"```text\nday 2\n```\n```text\nnight\n```\r\n"


def test_what_ran_on_a_card_is_one_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backends = {"gpu, its kernels compiled": {"seconds": 4.6, "on_the_card_ms": {"clear": 8, "spread": 55}}}
    row = {"name": "a week", "reports": 9, "rounds": 7, "same_bytes": True, **backends, "local": {"seconds": 8.1}}
    document = {"archives": [row], "memory_ms": {"transform": 60, "touch": 17}, "machine": {"card": "A card"}}
    monkeypatch.setattr(gpu, "measure_all", lambda *_: document)
    monkeypatch.setitem(COMMANDS, "gpu", ["bench", "--page", "", "gpu", "--json"])
    page = tmp_path / "page.md"
    page.write_text("<!-- figures: gpu -->\n<!-- end -->\n", encoding="utf-8")
    run("gpu", str(page), monkeypatch)
    assert "\n| a week | 9 × 7 | 4.6 | 8.1 | clear 8, spread 55 | yes |\n" in page.read_text(encoding="utf-8")

"""The demo's figures that are kept: in small beside ``test_demo.py``, and in the pages of README and docs.

After a change that is meant to change them, ``python -m tests.lab.small_demo`` writes those of the small demo anew, and
``--readme`` those of the default one too; ``make pictures`` does all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hushcall.cli.lab.demo import COLUMNS, _cells, _events, _line
from hushcall.lab.live.demo import Day

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_suffix(".json")
PHONES, DAYS = 500, 4
HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]
SMALL = ["--phones", str(PHONES), "--days", str(DAYS)]
HEAD = "day  reports"
EXAMPLE = f"$ hushcall demo --once --phones {PHONES} --days {DAYS} | head -4\n"


def run_demo(folder: Path, *options: str, **variables: str) -> str:
    """What the demo prints; its page is left in the folder."""
    done = subprocess.run(
        [*HUSHCALL, "demo", *options], cwd=folder, capture_output=True, text=True, timeout=1800,
        env=os.environ | variables, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_small(folder: Path, *options: str, **variables: str) -> dict[str, Any]:
    """The small one, as a machine reads it."""
    found: dict[str, Any] = json.loads(run_demo(folder, "--json", *SMALL, *options, **variables))
    return found


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """All of it but dates and seconds."""
    days = [{name: value for name, value in day.items() if name not in ("date", "seconds")} for day in found["days"]]
    return {"plan": found["plan"], "days": days, "fates": found["fates"], "summary": found["summary"]}


def first_day(found: dict[str, Any]) -> list[str]:
    """As the command prints it where nobody watches."""
    day = Day(**found["days"][0])
    return [_line(COLUMNS), _line(_cells(day)), *(f"     {event}" for event in _events(day))]


def as_the_readme_has_it(printed: str) -> str:
    """Its days and its last words; the table between them is left out."""
    days, _, rest = printed.partition("Who called many")
    words = rest.partition("┘\n")[2].partition("Report page")[0]
    return "\n".join(line.rstrip() for line in [*days.rstrip().splitlines(), "…", *words.rstrip().splitlines()])


def _put(page: Path, start: str, text: str) -> None:
    """Replace what stands between ``start`` and the end of its block."""
    before, _, after = page.read_text(encoding="utf-8").partition(start)
    page.write_text(f"{before}{start}{text}\n```{after.partition('```')[2]}", encoding="utf-8")


def main(*options: str) -> None:
    """Write them anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = run_small(folder, "--port", "0")
        KEPT.write_text(json.dumps(timeless(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        _put(ROOT / "docs" / "commands.md", EXAMPLE, "\n".join(first_day(found)))
        if "--readme" in options:
            shown = as_the_readme_has_it(run_demo(folder, "--port", "0", COLUMNS="80"))
            _put(ROOT / "README.md", f"```text\n{HEAD}", shown.removeprefix(HEAD))


if __name__ == "__main__":
    main(*sys.argv[1:])

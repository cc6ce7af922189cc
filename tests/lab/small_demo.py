"""The demo's figures that are kept: in small beside ``test_demo.py``, and by default in ``docs/commands.md``.

After a change that is meant to change them, ``python -m tests.lab.small_demo`` writes those of the small demo anew, and
``--default`` those of the default one too. ``make pictures`` does all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hushcall_lab.cli.page import replace_between

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_suffix(".json")
PHONES, DAYS = 500, 4
HUSHCALL = [sys.executable, "-c", "from hushcall_lab.cli import main; main()"]
SMALL = ["--phones", str(PHONES), "--days", str(DAYS)]
PAGE = ROOT / "docs" / "commands.md"
EXAMPLE = "$ hushcall-lab demo --once\n"


def run_demo(folder: Path, *options: str, **variables: str) -> str:
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


def as_the_page_has_it(printed: str) -> str:
    """Its first days, the last, and the last words; what is between them is left out."""
    text, _, rest = printed.partition("Who called many")
    days, words = text.rstrip().splitlines(), rest.partition("┘\n")[2]
    return "\n".join(line.rstrip() for line in [*days[:4], "…", days[-1], "…", *words.rstrip().splitlines()])


def main(*options: str) -> None:
    """Write them anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = run_small(folder, "--port", "0")
        KEPT.write_text(json.dumps(timeless(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if "--default" in options:
            shown = as_the_page_has_it(run_demo(folder, "--port", "0", COLUMNS="80"))
            replace_between(PAGE, EXAMPLE, "\n```", shown)


if __name__ == "__main__":
    main(*sys.argv[1:])

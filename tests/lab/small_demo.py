"""The demo in small, for ``test_demo.py``: what it tells, without what depends on when and where it ran.

``python tests/lab/small_demo.py`` writes ``small_demo.json`` anew, after a change that is meant to change its figures;
README and the pictures (``make pictures``) change with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PHONES, DAYS = 500, 4
KEPT = Path(__file__).with_suffix(".json")
HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]


def run_small(folder: Path, *options: str, **variables: str) -> dict[str, Any]:
    """One run as a machine reads it, with its page beside it."""
    command = [*HUSHCALL, "demo", "--json", "--phones", str(PHONES), "--days", str(DAYS), *options]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, env=os.environ | variables, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def timeless(found: dict[str, Any]) -> dict[str, Any]:
    """All of it but dates and seconds."""
    days = [{name: value for name, value in day.items() if name not in ("date", "seconds")} for day in found["days"]]
    return {"plan": found["plan"], "days": days, "fates": found["fates"], "summary": found["summary"]}


def main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(timeless(run_small(Path(folder), "--port", "0")), indent=1, ensure_ascii=False)
    KEPT.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

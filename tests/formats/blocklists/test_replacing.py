"""The page's commands for cron, run against a stand-in for Asterisk's console: own entries outlive every import."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.lists import sample

from hushcall.formats.blocklists import WRITERS

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "formats.md"
CONSOLE = r"""#!/bin/sh
# database show|put|del, as Asterisk prints and takes them; a folder is the database.
cd "$(dirname "$0")/db" || exit 1
set -- $2
case "$2" in
  show) for key in *; do printf '/blacklist/%-40s: %s\n' "$key" "$(cat "$key")"; done ;;
  put) key=$4; shift 4; printf '%s' "$*" | tr -d '"' > "$key" ;;
  del) rm "$4" ;;
  deltree) rm -f ./* ;;
esac
"""


@pytest.fixture
def console(tmp_path: Path) -> Path:
    (tmp_path / "db").mkdir()
    (tmp_path / "asterisk").write_text(CONSOLE)
    (tmp_path / "asterisk").chmod(0o755)
    return tmp_path


def test_an_import_replaces_ours_and_spares_the_users_own(console: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n### asterisk\n")[1].split("\n### ")[0]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found
    own = {"+13125550100": "my ex", "blocked": "1", "dest": "app-blackhole,hangup,1"}
    for key, value in {**own, "+12025550999": "hushcall: seen 1 day - about 9 phones on 2026-01-01"}.items():
        (console / "db" / key).write_text(value)
    (console / "asterisk.txt").write_bytes(WRITERS["asterisk"].write(sample()))
    environment = {"PATH": f"{console}:/usr/bin:/bin"}
    subprocess.run(["sh", "-ec", found[1]], cwd=console, env=environment, check=True, timeout=60)
    kept = {path.name: path.read_text() for path in (console / "db").iterdir()}
    ours = {form for form, value in kept.items() if value.startswith("hushcall:")}
    assert {key: value for key, value in kept.items() if key not in ours} == own
    assert len(ours) == 3 * len(sample().entries)
    assert "+12025550999" not in kept

"""Asterisk's own blacklist (AstDB family ``blacklist``, which FreePBX asks), filled by ``asterisk -rx``."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

from hushcall.errors import InvalidParameter
from hushcall.formats.blocklists.exchanges import forms
from hushcall.formats.blocklists.writer import MARK
from hushcall.wording import counted
from hushcall_home.parts import Place, Trouble

TIMEOUT_SECONDS = 60


class Database(Place):
    """The family ``blacklist``. A key whose value begins with ``hushcall`` is ours."""

    name = "asterisk"

    def __init__(self, command: str) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise InvalidParameter("--asterisk", f"be a command ({error})", command) from None

    def write(self, numbers: Sequence[str]) -> str:
        wanted = {form for number in numbers for form in forms(number)}
        present = dict(self._rows())
        ours = {key for key, value in present.items() if value.startswith(MARK)}
        for key in sorted(ours - wanted):
            self._run(f"database del blacklist {key}")
        for key in sorted(wanted - present.keys()):
            self._run(f'database put blacklist {key} "{MARK}"')
        return f"Asterisk holds {counted(len(numbers), 'number')}."

    def _rows(self) -> list[tuple[str, str]]:
        """Key and value of ``/blacklist/+12025550143   : hushcall``."""
        pairs = (line.split(":", 1) for line in self._run("database show blacklist").splitlines() if ":" in line)
        return [(key.strip().removeprefix("/blacklist/"), value.strip()) for key, value in pairs]

    def _run(self, line: str) -> str:
        try:
            done = subprocess.run(  # noqa: S603  (the owner's own command)
                [*self._command, "-rx", line], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"Asterisk does not answer ({type(error).__name__}).", "Is it running?") from None
        if done.returncode:
            raise Trouble(f"Asterisk does not answer: {done.stderr.strip()[:200]}", "May this user run asterisk -rx?")
        return done.stdout

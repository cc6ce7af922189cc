"""Asterisk under real SIP calls. Debian 12 has no package of it, so where it is missing this only says so."""

import subprocess
from pathlib import Path

from tests.interop.programs.programs import ROOT, program


def test_asterisk_takes_our_dialplan(tmp_path: Path) -> None:
    """The syntax only: ``asterisk -C`` with our extensions reads them and stops. No SIP calls are driven here."""
    binary = program("asterisk")
    (tmp_path / "extensions.conf").write_text((ROOT / "examples" / "asterisk" / "extensions.conf").read_text())
    (tmp_path / "asterisk.conf").write_text(f"[directories]\nastetcdir => {tmp_path}\nastrundir => {tmp_path}\n")
    words = [binary, "-C", str(tmp_path / "asterisk.conf"), "-c", "-n", "-x", "core stop now"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "syntax error" not in (done.stdout + done.stderr).lower()

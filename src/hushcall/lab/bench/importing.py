"""How long a program waits for ``from hushcall import …``: fresh interpreters come in, seconds and a ratio leave."""

from __future__ import annotations

import subprocess
import sys

SURFACE = "from hushcall import Phone, run_round, NANP"
TRIES = 7
_TIMED = "import time\nbegan = time.perf_counter()\n{}\nprint(time.perf_counter() - began)"


def importing(tries: int = TRIES) -> dict[str, float]:
    """The best of several tries, beside that of the standard library's HTTP client: a busy machine is only slower."""
    surface, peer = (_best(statement, tries) for statement in (SURFACE, "import urllib.request"))
    return {"surface_seconds": surface, "urllib_request_seconds": peer, "times_urllib_request": surface / peer}


def _best(statement: str, tries: int) -> float:
    command = [sys.executable, "-c", _TIMED.format(statement)]
    return min(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(tries))

"""Installs the wheels of a folder into a fresh environment of this interpreter, and uses them: ``make smoke``.

Standard library only, so that any interpreter runs it. Its last line says what worked.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DISTRIBUTIONS = {"hushcall": "server", "hushcall_home": "", "hushcall_lab": ""}
"""Wheel → the extra to install. The two others are used where they were built."""
CALLER = "+12025550143"


def main(dist: Path) -> None:
    wheels = {name: sorted(dist.glob(f"{name}-*.whl")) for name in DISTRIBUTIONS}
    if not wheels["hushcall"]:
        sys.exit(f"{dist} holds no wheel of hushcall: make package")
    with tempfile.TemporaryDirectory(prefix="hushcall-smoke-") as folder:
        place = Path(folder)
        run(place, sys.executable, "-m", "venv", "env")
        programs = place / "env" / "bin"
        install = [str(programs / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run(place, *install, str(wheels["hushcall"][-1]))
        base = run(place, programs / "hushcall", "--version")
        run(place, programs / "python", "-c", "import hushcall.client.client, sys; assert 'numpy' not in sys.modules")
        chosen = [
            f"{found[-1]}[{extra}]" if extra else str(found[-1])
            for (name, extra), found in zip(DISTRIBUTIONS.items(), wheels.values(), strict=True)
            if found
        ]
        run(place, *install, *chosen)
        for program in sorted(programs.glob("hushcall*")):
            assert "Usage" in run(place, program, "--help")
        run(place, programs / "python", "-m", "hushcall.mechanisms.kernels.warm_up")
        with server(place, programs) as address:
            use(place, programs, address)
    words = f"CPython {platform.python_version()}: {base.strip()}"
    print(f"{words}: installed, decoders compiled, a phone took part: ok ({', '.join(n for n in wheels if wheels[n])})")


def use(place: Path, programs: Path, address: str) -> None:
    """A phone enrols, takes a call, announces, and looks a caller up."""
    phone = [str(programs / "hushcall"), "phone"]
    run(place, *phone, "init", "--server", address)
    calls = [{"name": "", "phone_number": CALLER, "type": "MISSED", "date": "2026-01-15 08:00:00", "duration": "00:00"}]
    (place / "calls.json").write_text(json.dumps(calls), encoding="utf-8")
    run(place, *phone, "ingest", "calls.json")
    run(place, *phone, "sync")
    assert "announced" in run(place, *phone, "report", "--skip-delays")
    assert json.loads(run(place, *phone, "check", CALLER, "--json"))


@contextmanager
def server(place: Path, programs: Path) -> Iterator[str]:
    """A real server on a free port of loopback."""
    words = [str(programs / "hushcall"), "serve", "--data", "data", "--port", "0", "--enrolment", "open"]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(words, cwd=place, env=environment(place), stdout=log, stderr=log)
    try:
        yield answering(process, place / "log")
    finally:
        process.terminate()
        process.wait(60)


def answering(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that the server tells, once it is alive."""
    for _ in range(1200):
        told = log.read_text(encoding="utf-8")
        assert process.poll() is None, told
        if address := re.search(r"http://127\.0\.0\.1:[1-9]\d*", told):
            with suppress(urllib.error.URLError), urllib.request.urlopen(f"{address[0]}/healthz") as answer:  # noqa: S310
                assert json.loads(answer.read())["status"] == "alive"
                return address[0]
        time.sleep(0.1)
    raise AssertionError(told)


def environment(place: Path) -> dict[str, str]:
    """Without a clone's modules, and with the phone's folder inside."""
    left_out = ("PYTHONPATH", "PYTHONHOME")
    return {**{k: v for k, v in os.environ.items() if k not in left_out}, "HUSHCALL_HOME": str(place / "phone")}


def run(place: Path, *words: str | Path) -> str:
    done = subprocess.run(words, cwd=place, env=environment(place), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())

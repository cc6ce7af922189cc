"""Our side of the comparison with the published package pure-ldp.

pure-ldp needs older packages beside it than ours, so it lives in an environment of its own and is measured in
a subprocess, ``peer_worker.py``. Nothing here needs more than the standard library.
"""

from __future__ import annotations

import json
import pathlib
import platform
import random
import subprocess
import sys

from hushcall.errors import HushcallError, InvalidParameter

ENVIRONMENT = pathlib.Path(".venv-peer")
WORKER = pathlib.Path(__file__).resolve().with_name("peer_worker.py")

# pure-ldp imports scikit-learn and statsmodels without asking for them, and hashes strings, which xxhash 4
# refuses.
REQUIREMENTS = ("pure-ldp==1.2.0", "numpy<2.3", "scikit-learn", "statsmodels", "xxhash<4")
BINARY_ONLY = "numpy,scipy,scikit-learn,statsmodels,pandas"
STAMP = "peer.stamp"
PROBE = "import pure_ldp.frequency_oracles, pure_ldp.heavy_hitters"

REPORTS = 20_000
HEAVY = 10
FEWEST, MOST = 200, 1500


class PeerUnavailable(HushcallError):
    """The peer's environment could not be made here; the message says why."""


def planted(seed: int, bits: int = 24) -> tuple[list[int], dict[int, int]]:
    """Return the benchmark's items, shuffled, and how many hold each of the ten heavy ones.

    The other items are uniform over the rest of the domain: below 2¹⁶ for 16 bits, from 2 000 000 to below
    10 000 000 for 24 bits.

    >>> items, heavy = planted(1)
    >>> len(items), sorted(heavy.values())
    (20000, [200, 344, 489, 633, 778, 922, 1067, 1211, 1356, 1500])
    >>> all(items.count(item) == holders for item, holders in heavy.items())
    True
    """
    domains = {16: range(2**16), 24: range(2_000_000, 10_000_000)}
    if bits not in domains:
        raise InvalidParameter("bits", "be 16 or 24", bits)
    domain = domains[bits]
    rng = random.Random(seed)
    step = (MOST - FEWEST) / (HEAVY - 1)
    heavy = {item: round(FEWEST + step * place) for place, item in enumerate(rng.sample(domain, HEAVY))}
    items = [item for item, holders in heavy.items() for _ in range(holders)]
    while len(items) < REPORTS:
        item = domain[rng.randrange(len(domain))]
        if item not in heavy:
            items.append(item)
    rng.shuffle(items)
    return items, heavy


def ensure(environment: pathlib.Path = ENVIRONMENT) -> pathlib.Path:
    """Make the peer's environment unless it is there already, and return its Python."""
    environment = environment.absolute()
    windows = sys.platform == "win32"
    python = environment / ("Scripts/python.exe" if windows else "bin/python")
    stamp = environment / STAMP
    wanted = "\n".join((platform.python_version(), *REQUIREMENTS, ""))
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    if environment.exists() and any(environment.iterdir()) and not (environment / "pyvenv.cfg").exists():
        raise PeerUnavailable(f"{environment.name} is there, but is no virtual environment: not touching it")
    print(f"making {environment.name} with {' '.join(REQUIREMENTS)} (once)", file=sys.stderr, flush=True)
    _step("make the environment", [sys.executable, "-m", "venv", "--clear", str(environment)])
    (environment / ".gitignore").write_text("*\n", encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    _step("install", [*pip, "--retries=1", f"--only-binary={BINARY_ONLY}", *REQUIREMENTS])
    _step("import pure-ldp", [str(python), "-c", PROBE])
    stamp.write_text(wanted, encoding="utf-8")
    return python


def measure(
    task: dict[str, object], environment: pathlib.Path = ENVIRONMENT, timeout: float = 600.0
) -> dict[str, object]:
    """Run one task of ``peer_worker.py`` in the peer's environment and return its result.

    Raises ``PeerUnavailable`` where the environment cannot be made, ``TimeoutError`` where the peer takes
    longer than ``timeout`` seconds, and ``RuntimeError`` where it fails.
    """
    python = ensure(environment)
    try:
        done = subprocess.run(
            [str(python), "-W", "ignore", str(WORKER)],
            input=json.dumps(task),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise TimeoutError(f"pure-ldp did not finish {task.get('task')!r} in {timeout:g} s") from late
    if done.returncode != 0:
        raise RuntimeError(f"pure-ldp failed at {task.get('task')!r}: {_reason(done.stderr)}")
    result: dict[str, object] = json.loads(done.stdout)
    return result


def _step(name: str, command: list[str]) -> None:
    """Run one step of the installation."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900.0, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"could not {name}: {type(error).__name__}") from error
    if done.returncode != 0:
        raise PeerUnavailable(f"could not {name}: {_reason(done.stderr or done.stdout)}")


def _reason(output: str) -> str:
    """Return the line of a failed command's output that says most."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[-1]

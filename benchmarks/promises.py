"""What is promised about speed, measured: ``python -m benchmarks.promises`` prints each figure beside its promise.

These are no tests: a busy machine breaks such a promise through nobody's fault. Each figure is the best of several
tries, since a busy machine makes things slower and never faster; and beside the seconds stands how many yardsticks they
are, a loop in plain Python that was timed in the same run, which says more when machines are compared.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from rich.console import Console
from rich.table import Table

from hushcall.formats.blocklists import WRITERS
from hushcall.mechanisms.parameters import from_plain, to_plain
from hushcall.numbers import NANP
from hushcall.phone.home.store import LISTS, Store
from hushcall.phone.screening.lookup import LIST_FILE, LoadedList
from hushcall.privacy.coins import os_entropy
from hushcall.profiles import DEFAULT
from hushcall.protocol.blocklist import Blocklist, Entry, Terms, apply_delta, delta
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.seeds import report_seed
from hushcall.report.subspace import Subspace

HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]
MANY = 100_000
CALLS, LINES = 1000, 20


@dataclass(frozen=True)
class Promise:
    """Something that takes at most so many seconds."""

    what: str
    seconds: float
    measure: Callable[[], float]


def best(tries: int, work: Callable[[], object]) -> float:
    """The quickest of so many runs."""
    return min(timed(work) for _ in range(tries))


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def yardstick() -> float:
    """A loop that does the same everywhere."""
    return best(5, lambda: sum(number * number for number in range(200_000)))


def big_list(version: int = 1, step: int = 1) -> Blocklist:
    """A hundred thousand numbers; another ``step`` leaves others in place."""
    terms = Terms("subspace", 4.0, 10, 0.001, NANP.name, 7)
    numbers = (f"+1{2_022_000_000 + 37 * place * step}" for place in range(MANY))
    return Blocklist(version, 1, 1, terms, tuple(Entry(n, 0, 1, 2, 118.2, 97.0, 140.1, 1e-9) for n in numbers))


def imported() -> float:
    """A fresh process brings the client in; what Python itself takes is not counted."""
    work = "from hushcall import NANP, Phone, run_round"
    code = f"import time; began = time.perf_counter(); {work}; print(time.perf_counter() - began)"
    command = [sys.executable, "-c", code]
    return min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5))


def report() -> float:
    """A phone builds the default mechanism from the server's document, and its report."""
    plain, number = to_plain(Subspace(DEFAULT.epsilon, 5)), NANP.parse("+12025550143")

    def work() -> None:
        public = report_seed(bytes(32), bytes(16))
        from_plain(plain).privatise(SUFFIX.item(number, NANP), public, os_entropy)

    return best(50, work)


def loaded() -> float:
    data = big_list().to_bytes()
    return best(5, lambda: LoadedList.from_bytes(data))


def looked_up() -> float:
    """One number, as the mean over two thousand, half of them listed."""
    made = big_list()
    found, asked = LoadedList.from_bytes(made.to_bytes()), [entry.number for entry in made.entries[::100]]
    asked += [number[:-1] + "1" for number in asked]
    return best(5, lambda: [found.find(number) for number in asked]) / len(asked)


def read_and_compared() -> float:
    old, new = big_list(), big_list(2, 2)
    return best(2, lambda: delta(Blocklist.from_bytes(old.to_bytes()), new))


def followed() -> float:
    """The phone's part of a change."""
    old, new = big_list(), big_list(2, 2)
    data, change = old.to_bytes(), delta(old, new)
    return best(2, lambda: apply_delta(data, change))


def exported() -> float:
    """The slowest format."""
    made = big_list()
    return max(timed(lambda writer=writer: writer.write(made)) for writer in WRITERS.values())  # type: ignore[misc]


def served() -> float:
    """From an empty folder to the first answer, the interpreter's start included."""
    with tempfile.TemporaryDirectory(prefix="hushcall-bench-") as folder:
        began = time.perf_counter()
        with _started(["serve", "--data", f"{folder}/data", "--port", "0"], "stdout") as line:
            address = next(word for word in line.split() if word.startswith("http://"))
            while True:
                try:
                    urllib3.request("GET", f"{address}/healthz", timeout=5, retries=False)
                    return time.perf_counter() - began
                except urllib3.exceptions.HTTPError:
                    time.sleep(0.01)


def screened() -> float:
    """One call that Asterisk asks about, as the mean over a thousand of them on twenty lines at once."""
    with tempfile.TemporaryDirectory(prefix="hushcall-bench-") as folder:
        home = Path(folder)
        Store.open(home).close()
        (home / LISTS).mkdir()
        (home / LISTS / LIST_FILE).write_bytes(big_list().to_bytes())
        with _started(["phone", "agi", "--listen", "127.0.0.1:0", "--home", folder], "stderr") as line:
            port = int(line.rpartition(":")[2])
            return best(3, lambda: asyncio.run(_calls(port))) / CALLS


async def _calls(port: int) -> None:
    async def one_line(callers: range) -> None:
        for caller in callers:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"agi_network: yes\nagi_callerid: +1203{9_550_000 + caller}\n\n".encode())
            while await reader.readline():
                writer.write(b"200 result=1\n")
            writer.close()

    lines: list[Awaitable[None]] = [one_line(range(start, CALLS, LINES)) for start in range(LINES)]
    await asyncio.gather(*lines)


@contextmanager
def _started(words: list[str], stream: str) -> Iterator[str]:
    """A command that goes on until it is told to end; the first line that it writes to that stream."""
    process = subprocess.Popen([*HUSHCALL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = getattr(process, stream)
        yield said.readline()
    finally:
        process.terminate()
        process.communicate()


PROMISES = (
    Promise("the client is imported", 0.15, imported),
    Promise("a phone makes a report", 0.005, report),
    Promise("a phone loads a list of 100 000", 0.5, loaded),
    Promise("a phone looks a number up in it", 20e-6, looked_up),
    Promise("a phone follows such a list to its next version", 4.0, followed),
    Promise("Asterisk is told about a call", 1e-3, screened),
    Promise("a server reads and compares lists of 100 000", 12.0, read_and_compared),
    Promise("100 000 numbers in the slowest format", 2.0, exported),
    Promise("a server answers from an empty folder", 5.0, served),
)


def main() -> None:
    """Measure them all."""
    yard = yardstick()
    rows: list[dict[str, Any]] = []
    for promise in PROMISES:
        seconds = promise.measure()
        rows.append({"what": promise.what, "promised": promise.seconds, "seconds": seconds, "yards": seconds / yard})
    if "--json" in sys.argv:
        print(json.dumps({"yardstick": yard, "rows": rows}))
        return
    table = Table(title=f"Promised and measured, in seconds and in yardsticks of {1000 * yard:.1f} ms")
    for column in ("what", "at most", "measured", "yardsticks", ""):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in rows:
        kept = "kept" if row["seconds"] <= row["promised"] else "not kept here"
        table.add_row(str(row["what"]), *(f"{row[name]:.3g}" for name in ("promised", "seconds", "yards")), kept)
    Console().print(table)


if __name__ == "__main__":
    main()

"""Fuzz what comes over the wire or from another disk: reports, tallies, tokens, messages, lists, logs, archives.

``python tests/fuzz/fuzz_readers.py --runs 10000000`` gives so many inputs to each parser, one by one, each in a
process of its own, and says how long that took and how much memory. Readers that are the same code with other
parameters share a parser's inputs; one whose inputs are large gets fewer. ``--jobs`` has several at work, ``--reader
NAME`` takes one, or those whose names begin so, and ``--guided`` lets atheris choose inputs by what they reach. A
reader may only raise :class:`HushcallError`. Inputs are damaged honest ones, random bytes, and for what carries a
checksum also damaged ones with the right checksum.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.fuzz.readers import Reader, readers

MAX_MB = 200
"""What reading may add to a process, whatever the input is."""
CHUNK, LARGE = 10_000, 1 << 14
SOURCE = Path(__file__).parents[2] / "src"


def one_input(reader: Reader, data: bytes) -> None:
    """Feed one input; anything but our own errors escapes."""
    from hushcall.errors import HushcallError

    try:
        reader.read(data)
    except HushcallError:
        return


def inputs(reader: Reader, count: int, seed: int = 1) -> Iterator[bytes]:
    """Damaged honest ones, in turn as they are and with their checksum put right; every eighth is random bytes."""
    from tests.fuzz.mutating import mutated

    dice = random.Random(seed)
    for place, data in enumerate(mutated([reader.honest, *reader.others], count, seed)):
        if place % 8 == 7:
            yield dice.randbytes(dice.randint(0, 2 * len(reader.honest)))
        else:
            yield reader.sealed(data) if place % 2 else data


def feed(reader: Reader, runs: int, say: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
    """So many inputs; how long it took, and what it added to this process's memory."""
    from hushcall_lab.usage import peak_mb

    one_input(reader, reader.honest)
    before, begin = peak_mb(), time.process_time()
    for start in range(0, runs, CHUNK):
        for data in inputs(reader, min(CHUNK, runs - start), start):
            one_input(reader, data)
        say(start + CHUNK)
    added = peak_mb() - before
    assert added < MAX_MB, f"{reader.name}: {added:.0f} MB"
    spent = round(time.process_time() - begin, 2)
    return {"reader": reader.name, "inputs": runs, "core_seconds": spent, "added_mb": round(added, 1)}


def main() -> None:
    """One reader after the other, each in a process of its own; or one of them by atheris."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=100_000, help="inputs for each parser")
    options.add_argument("--text-runs", type=int, default=0, help="inputs for each that reads text; default: as --runs")
    options.add_argument("--jobs", type=int, default=1, help="readers at work at once")
    options.add_argument("--reader", default="", help="only this one, or those whose names begin so")
    options.add_argument("--guided", action="store_true", help="let atheris choose the inputs, --runs for all together")
    chosen = options.parse_args()
    if chosen.guided:
        return guided(chosen.reader, chosen.runs)
    shares = _shares(_named(chosen.reader), chosen.runs, chosen.text_runs)
    with ThreadPoolExecutor(chosen.jobs) as threads:
        work = [threads.submit(_alone, *share) for share in shares.items()]
        for done in as_completed(work):
            print(json.dumps(done.result()), flush=True)
    return None


def _named(wanted: str) -> list[str]:
    """The reader of that name, or all whose names begin so."""
    found = [wanted] if wanted in readers() else [name for name in readers() if name.startswith(wanted)]
    if not found:
        sys.exit(f"fuzz_readers: --reader must be one of {', '.join(readers())}, or how some of them begin")
    return found


def _shares(names: Sequence[str], runs: int, text_runs: int) -> dict[str, int]:
    """How many inputs each reader gets: those of a parser together what is asked for, large ones a tenth of others."""
    chosen = [readers()[name] for name in names]
    weights = {one.name: 1 if len(one.honest) > LARGE else 10 for one in chosen}
    sums = Counter[str]()
    for one in chosen:
        sums[one.parser or one.name] += weights[one.name]
    return {
        one.name: -(-(runs if one.binary else text_runs or runs) * weights[one.name] // sums[one.parser or one.name])
        for one in chosen
    }


def _alone(name: str, runs: int) -> dict[str, Any]:
    """In a process of its own, whose memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(_fed, name, runs).result()


def _fed(name: str, runs: int) -> dict[str, Any]:
    tenth, told = max(runs // 10, CHUNK), 0

    def say(done: int) -> None:
        nonlocal told
        if done // tenth > told and done < runs:
            told = done // tenth
            print(f"{name}: {done:,} of {runs:,}", file=sys.stderr, flush=True)

    return feed(readers()[name], runs, say)


def guided(wanted: str, runs: int) -> None:
    """By coverage, from honest inputs on; the first byte says which of the readers gets the rest."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz_readers: --guided needs atheris, which is not installed (Linux on x86-64: pip install atheris)")
    compiled = [
        ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for file in SOURCE.rglob("*.py")
        if "kernels.compiled import" in file.read_text(encoding="utf-8")
    ]
    # Modules that are imported already cannot be instrumented, and neither can those that numba compiles.
    with atheris.instrument_imports(include=["hushcall"], exclude=compiled):
        chosen = [readers()[name] for name in _named(wanted)]
    honest = [(place, data) for place, one in enumerate(chosen) for data in (one.honest, *one.others)]

    def feed_one(data: bytes) -> None:
        one_input(chosen[data[0] % len(chosen) if data else 0], data[1:])

    with tempfile.TemporaryDirectory() as corpus:
        for number, (place, data) in enumerate(honest):
            (Path(corpus) / str(number)).write_bytes(bytes((place,)) + data)
        longest = 2 * max(len(data) for _, data in honest)
        limits = [f"-runs={runs}", f"-max_len={longest}", "-timeout=60", f"-artifact_prefix={tempfile.gettempdir()}/"]
        atheris.Setup([sys.argv[0], *limits, corpus], feed_one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

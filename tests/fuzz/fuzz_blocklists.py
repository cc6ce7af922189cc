"""Fuzz what reads lists: every export's reader, ``Blocklist.from_bytes``, ``apply_delta`` and PhoneBlock's documents.

Run ``python tests/fuzz/fuzz_blocklists.py --seconds 60`` where atheris is installed. Hostile bytes may only meet
:class:`HushcallError`; anything else, or a list that reads but does not write back, stops the run with a traceback.
"""

import argparse
import importlib
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hushcall.errors import HushcallError
from hushcall.formats.blocklists import WRITERS
from hushcall.formats.phoneblock import document, parse
from hushcall.protocol.blocklist import Blocklist, Entry, Terms, apply_delta, delta

ENTRIES = tuple(
    Entry(f"+120255501{last}", 1_794_700_800, 1_794_787_200, 2, 9.5 * i, 0.0, 200.0, 1e-9)
    for i, last in enumerate(range(40, 51))
)
OLD = Blocklist(12, 12, 1_794_787_200, Terms("subspace", 4.0, 10, 0.001, "nanp-2026", 7), ENTRIES)
NEW = replace(OLD, version=13, entries=ENTRIES[2:])
OLD_BYTES = OLD.to_bytes()


def read_list(data: bytes) -> None:
    """A list that is read has these very bytes."""
    assert Blocklist.from_bytes(data).to_bytes() == data


def read_delta(data: bytes) -> None:
    """A delta that is applied leads to bytes; whether they are the signed ones is the caller's to check."""
    assert isinstance(apply_delta(OLD_BYTES, data), bytes)


def read_document(data: bytes) -> None:
    """A document that is read has these very bytes."""
    changes, version = parse(data)
    assert document(changes, version, "json")[0] == data


def read_export(name: str, data: bytes) -> None:
    """Whatever an export's reader finds, they are numbers that a list may hold, or blocks of such."""
    for number in WRITERS[name].read(data):
        replace(ENTRIES[0], number=number.replace("x", "0"))


NAMES = tuple(WRITERS)


def one_input(data: bytes) -> None:
    """The first byte says which reader gets the rest."""
    choice, rest = (data[0] if data else 0) % (len(NAMES) + 3), data[1:]
    try:
        if choice < len(NAMES):
            read_export(NAMES[choice], rest)
        else:
            (read_list, read_delta, read_document)[choice - len(NAMES)](rest)
    except HushcallError:
        return


def seeds() -> list[bytes]:
    """One honest input for each reader."""
    honest = [WRITERS[name].write(OLD) for name in NAMES]
    honest += [OLD_BYTES, delta(OLD, NEW), WRITERS["phoneblock"].write(OLD)]
    return [bytes([choice]) + data for choice, data in enumerate(honest)]


def main() -> None:
    """Fuzz for a while, from honest inputs on."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--runs", type=int, default=0, help="so many inputs, however long they take")
    chosen = options.parse_args()
    limit = f"-runs={chosen.runs}" if chosen.runs else f"-max_total_time={chosen.seconds}"
    atheris: Any = importlib.import_module("atheris")
    for name in [name for name in sys.modules if name.startswith("hushcall")]:
        del sys.modules[name]  # imported anew below, with coverage built in
    with atheris.instrument_imports(include=["hushcall"]):
        harness = importlib.import_module(Path(__file__).stem)
    with tempfile.TemporaryDirectory() as corpus:
        for place, seed in enumerate(seeds()):
            (Path(corpus) / f"seed{place}").write_bytes(seed)
        arguments = [limit, "-max_len=8192", "-timeout=60", f"-artifact_prefix={corpus}/"]
        atheris.Setup([sys.argv[0], *arguments, corpus], harness.one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Whoever doubts the readers runs this: random files come in, and only hushcall's own errors may leave.

``python tests/fuzz/fuzz_calls.py --seconds 60`` lets atheris (coverage-guided) mutate the samples. The first byte of an
input picks the reader, the rest is the file.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "formats" / "calls" / "samples"
Target = Callable[[bytes], object]


def targets() -> list[Target]:
    """Every reader, the detection, and every kind of contacts. Imported here, so that atheris can watch the imports."""
    from datetime import timedelta, timezone

    from hushcall.formats.calls.contacts import FORMATS, read_contacts
    from hushcall.formats.calls.reading import READERS, read_calls

    zone = timezone(timedelta(hours=-5))
    found: list[Target] = [lambda data: read_calls(data, zone=zone), read_contacts]
    for reader in READERS.values():
        found.append(lambda data, reader=reader: reader.read(data, zone))  # type: ignore[misc]
        found.append(lambda data, reader=reader: reader.read(data, zone, chunk=True))  # type: ignore[misc]
    for name in FORMATS:
        found.append(lambda data, name=name: read_contacts(data, name))  # type: ignore[misc]
    return found


def one_input(table: list[Target], data: bytes) -> None:
    """Feed one input; anything but our own errors escapes."""
    from hushcall.errors import HushcallError

    try:
        table[data[0] % len(table) if data else 0](data[1:])
    except HushcallError:
        return


def write_seeds(folder: Path, count: int) -> None:
    """Each sample for each target."""
    for sample in sorted(SAMPLES.iterdir()):
        for place in range(count):
            (folder / f"{place:03d}-{sample.name}").write_bytes(bytes((place,)) + sample.read_bytes())


def main() -> None:
    """Fuzz until the time is over; a crash leaves its input in the folder that is named on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=0, help="so many inputs, however long they take")
    parser.add_argument("--artifacts", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz_calls: atheris is not installed")
    with atheris.instrument_imports(include=["hushcall.formats"]):
        table = targets()
    with tempfile.TemporaryDirectory() as seeds:
        write_seeds(Path(seeds), len(table))
        limit = f"-runs={arguments.runs}" if arguments.runs else f"-max_total_time={arguments.seconds}"
        options = [limit, "-max_len=4096", "-print_final_stats=1"]
        artifacts = f"-artifact_prefix={arguments.artifacts}/fuzz-calls-"
        atheris.Setup([sys.argv[0], *options, artifacts, seeds], lambda data: one_input(table, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main()

"""The peer's side of the comparison: runs pure-ldp on one task, JSON on stdin, JSON on stdout.

This file runs in the environment that ``peer.ensure`` makes, never in the project's own. It drives pure-ldp
through its public classes only and decides every choice of set-up in its favour: an integer index mapper in
place of the slow bit-string default, one client and one server for all reports, and by default the oracle and
the prefix lengths that did best in our trials.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import pathlib
import random
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy

# pure-ldp's PEM reads its lengths in its own way: the first stage decides start + fragment symbols at once,
# each later stage adds a fragment, and every user answers for one stage only.
LENGTHS = {16: (8, 8), 24: (0, 12)}
ORACLES = ("CMS", "HCMS", "OLH", "FLH", "OUE", "SUE", "DE", "HM")


class Oracle(NamedTuple):
    """A matching client and server of one of pure-ldp's frequency oracles."""

    client: Any
    server: Any


def peak_mb() -> float:
    """Return this process's largest resident size so far, in megabytes."""
    # getrusage's figure starts at the size of the process that launched this one; VmHWM is this one's own.
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    resource = importlib.import_module("resource")
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def from_bits(text: str) -> int:
    """Map a string of bits to its index."""
    return int(text, 2)


def make_oracle(name: str, epsilon: float, rows: int, width: int) -> Oracle:
    """Build an oracle; PEM itself tells it the domain of each stage, so it starts with a domain of one."""
    oracles = importlib.import_module("pure_ldp.frequency_oracles")
    if name in {"CMS", "HCMS"}:
        server = oracles.CMSServer(epsilon, rows, width, is_hadamard=name == "HCMS")
        client = oracles.CMSClient(epsilon, server.get_hash_funcs(), width, is_hadamard=name == "HCMS")
        return Oracle(client, server)
    if name == "FLH":
        options = {"k": rows, "use_olh": True, "index_mapper": from_bits}
        return Oracle(oracles.FastLHClient(epsilon, 1, **options), oracles.FastLHServer(epsilon, 1, **options))
    kinds: dict[str, tuple[str, dict[str, object]]] = {
        "OLH": ("LH", {"use_olh": True}),
        "OUE": ("UE", {"use_oue": True}),
        "SUE": ("UE", {"use_oue": False}),
        "DE": ("DE", {}),
        "HM": ("HadamardMech", {"t": 1, "use_optimal_t": True}),
    }
    if name not in kinds:
        raise ValueError(f"oracle must be one of {', '.join(ORACLES)}, not {name!r}")
    kind, options = kinds[name]
    options["index_mapper"] = from_bits
    make_client, make_server = getattr(oracles, f"{kind}Client"), getattr(oracles, f"{kind}Server")
    return Oracle(make_client(epsilon, 1, **options), make_server(epsilon, 1, **options))


def olh(task: dict[str, Any]) -> dict[str, object]:
    """Time the aggregation of single OLH reports over a whole domain."""
    hashing = importlib.import_module("pure_ldp.frequency_oracles.local_hashing")
    epsilon, domain = float(task["epsilon"]), int(task["domain"])
    options = {"use_olh": True, "index_mapper": int}
    client, server = (
        hashing.LHClient(epsilon, domain, **options),
        hashing.LHServer(epsilon, domain, **options),
    )
    took = []
    for _ in range(int(task["reports"])):
        report = client.privatise(random.randrange(domain))
        begin = time.perf_counter()
        server.aggregate(report)
        took.append(time.perf_counter() - begin)
    return {"seconds_per_report": statistics.median(took), "seconds": took, "peak_mb": peak_mb()}


def pem(task: dict[str, Any]) -> dict[str, object]:
    """Find the heavy hitters among the task's items with the prefix-extending method."""
    prefixes = importlib.import_module("pure_ldp.heavy_hitters.prefix_extending")
    epsilon, bits, k = float(task["epsilon"]), int(task["bits"]), int(task["k"])
    name = str(task.get("oracle", "CMS"))
    default_start, default_fragment = LENGTHS.get(bits, (0, 8))
    start, fragment = int(task.get("start", default_start)), int(task.get("fragment", default_fragment))
    # PEM carries as many prefixes from stage to stage as it is asked for at the end: more may be asked for.
    beam = max(k, int(task.get("beam", k)))
    begin = time.perf_counter()
    oracle = make_oracle(name, epsilon, int(task.get("rows", 128)), int(task.get("width", 1024)))
    shape = {"start_length": start, "max_string_length": bits, "fragment_length": fragment}
    client = prefixes.PEMClient(epsilon, index_mapper=from_bits, fo_client=oracle.client, **shape)
    server = prefixes.PEMServer(epsilon, index_mapper=from_bits, fo_server=oracle.server, **shape)
    ready = time.perf_counter()
    spent = {"client": 0.0, "aggregate": 0.0}
    for item in task["items"]:
        before = time.perf_counter()
        report = client.privatise(format(int(item), f"0{bits}b"))
        between = time.perf_counter()
        server.aggregate(report)
        spent["client"] += between - before
        spent["aggregate"] += time.perf_counter() - between
    before = time.perf_counter()
    found, _ = server.find_heavy_hitters(k=beam)
    end = time.perf_counter()
    return {
        "found": [from_bits(text) for text in found[:k]],
        "seconds": end - begin,
        "client_seconds": spent["client"],
        "server_seconds": (ready - begin) + spent["aggregate"] + (end - before),
        "peak_mb": peak_mb(),
        "oracle": name,
        "stages": int(server.g),
        "start": start,
        "fragment": fragment,
    }


def main() -> int:
    """Read one task, run it, write its result."""
    task: dict[str, Any] = json.load(sys.stdin)
    tasks = {"olh": olh, "pem": pem}
    kind = str(task.get("task"))
    if kind not in tasks:
        print(f"unknown task {kind!r}: expected one of {', '.join(tasks)}", file=sys.stderr)
        return 2
    seed = int(task.get("seed", 0))
    random.seed(seed)  # pure-ldp draws from both of these
    numpy.random.seed(seed)
    with contextlib.redirect_stdout(sys.stderr):
        result = tasks[kind](task)
    json.dump(result, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""All benchmarks in a row: what ``make bench`` runs. ``--peer`` adds pure-ldp, ``--save`` writes results.json.

Each compares with a naive version or a peer in the same run: these machines are noisy, and absolute times mean little.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]
HERE = Path(__file__).parent


def main() -> None:
    """Run them, print their tables, and keep their figures if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure pure-ldp too (makes .venv-peer once)")
    parser.add_argument("--save", action="store_true", help=f"write {HERE.name}/results.json")
    options = parser.parse_args()
    peer = ["--peer", ".venv-peer"] if options.peer else []
    results = {}
    for name, arguments in {
        "phone": ["phone"],
        "intake": ["intake"],
        "decode": ["decode", *peer],
        "whole-number": ["whole-number"],
        "rivals, 24 bits": ["rivals", *peer],
        "rivals, 16 bits": ["rivals", "--bits", "16", *peer],
    }.items():
        command = [*HUSHCALL, "bench", *arguments]
        if options.save:
            print(f"hushcall bench {' '.join(arguments)} --json", flush=True)
            results[name] = json.loads(subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE).stdout)
        else:
            subprocess.run(command, check=True)
    windows = [sys.executable, "-m", "benchmarks.windows"]
    promises = [sys.executable, "-m", "benchmarks.promises"]
    if options.save:
        results["windows"] = json.loads(
            subprocess.run([*windows, "--json"], check=True, stdout=subprocess.PIPE, cwd=HERE.parent).stdout
        )
        results["promises"] = json.loads(
            subprocess.run([*promises, "--json"], check=True, stdout=subprocess.PIPE, cwd=HERE.parent).stdout
        )
    else:
        subprocess.run(windows, check=True, cwd=HERE.parent)
        subprocess.run(promises, check=True, cwd=HERE.parent)
        subprocess.run([sys.executable, "-m", "benchmarks.tokens"], check=True, cwd=HERE.parent)
    if options.save:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
        text = json.dumps({"machine": machine, **results}, indent=1, ensure_ascii=False)
        (HERE / "results.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

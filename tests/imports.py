"""Modules to import come in, everything that a fresh interpreter has loaded for them leaves."""

import subprocess
import sys


def brought_by(*modules: str) -> set[str]:
    """The names of all modules that importing these brings along."""
    code = f"import sys, {', '.join(modules)}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())

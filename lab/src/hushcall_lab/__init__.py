"""Data, studies, proofs, benchmarks and the demo: where the claims of hushcall are measured. Public names are here."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what __getattr__ returns
    from hushcall_lab.data.datasets import Calls, load
    from hushcall_lab.data.synthesis import synthesise
    from hushcall_lab.study.months import Setting, run_month

_MODULE_OF = {"Calls": "data.datasets", "load": "data.datasets", "synthesise": "data.synthesis"}
_MODULE_OF |= dict.fromkeys(("Setting", "run_month"), "study.months")
__all__ = ["Calls", "Setting", "load", "run_month", "synthesise"]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hushcall_lab' has no attribute {name!r}")
    value: object = getattr(import_module(f"hushcall_lab.{_MODULE_OF[name]}"), name)
    return globals().setdefault(name, value)

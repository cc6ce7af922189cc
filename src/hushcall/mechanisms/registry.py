"""The registry of mechanisms, by the name that profiles, rounds and the command line use.

The shipped ones are listed here. Another package adds its own by an entry point in the group ``hushcall.mechanisms``
that names a sequence of :class:`MechanismSpec`. Specs are imported when they are asked for. Nothing else in the library
asks which mechanism it deals with.

>>> list(MECHANISMS)[:3], spec_named("whole-number").bucketed
(['subspace', 'whole-number', 'sh-basic'], False)
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.protocol.items import ItemCodec

GROUP = "hushcall.mechanisms"
SUBSPACE, WHOLE_NUMBER, HUNDREDS = "subspace", "whole-number", "subspace-hundreds"
SH_BASIC, SH_EXTENDED, SH_TUNED = "sh-basic", "sh-extended", "sh-tuned"
SHIPPED = {
    SUBSPACE: "subspace",
    WHOLE_NUMBER: "subspace",
    HUNDREDS: "subspace",
    SH_BASIC: "succinct_histogram",
    SH_EXTENDED: "succinct_histogram",
    SH_TUNED: "succinct_histogram",
}
"""Name → the folder whose ``SPECS`` describes it."""


@dataclass(frozen=True)
class MechanismSpec:
    """One mechanism: its client side, its server side, its items and what else sets it apart."""

    name: str
    client: type[Any]
    """A :class:`~hushcall.mechanisms.mechanism.Mechanism`."""
    server_module: str
    """A :class:`~hushcall.mechanisms.bucket_setup.ServerSide`: it needs numpy, scipy and numba."""
    items: ItemCodec
    wire: str = ""
    """The name in a bucket's parameters, where that is another."""
    profile: str = "balanced"
    """The profile that the command line starts from."""
    max_suffix_bits: int = 64
    """The widest suffix that its decoder takes."""
    parts: int = 1
    """A bucket is decoded in so many jobs."""
    tolerates: bool = True
    """Its decision can set some reports aside."""
    counts_apart: bool = False
    """A part of the budget (``epsilon_olh``) counts what was found."""
    pools: bool = False
    """The counts of several rounds add up, so that windows of rounds can be decided together."""
    one_value: bool = False
    """A report is one randomised value: a :class:`~hushcall.mechanisms.mechanism.OneResponse`."""
    hundreds: str = ""
    """The mechanism of those of its reports that are about hundreds of numbers. Empty: there are none."""
    alone: bool = True
    """Whether a round can be run with it. Otherwise it comes with another, and is not listed."""

    @property
    def wire_name(self) -> str:
        return self.wire or self.name

    @property
    def bucketed(self) -> bool:
        return self.items.bucketed


class Registry(MutableMapping[str, MechanismSpec]):
    def __init__(self) -> None:
        self._specs: dict[str, MechanismSpec] = {}
        self._complete = False

    def __getitem__(self, name: str) -> MechanismSpec:
        if name not in self._specs:
            self._load(name)
        return self._specs[name]

    def __setitem__(self, name: str, spec: MechanismSpec) -> None:
        self._specs[name] = spec

    def __delitem__(self, name: str) -> None:
        del self._specs[name]

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        names = dict.fromkeys([*(name for name in SHIPPED if name in self._specs), *self._specs])
        return (name for name in names if self._specs[name].alone)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _load(self, name: str) -> None:
        if name in SHIPPED and not self._complete:
            specs = import_module(f"hushcall.mechanisms.{SHIPPED[name]}").SPECS
            for spec in specs:
                self._specs.setdefault(spec.name, spec)
        else:
            self._load_all()

    def _load_all(self) -> None:
        if self._complete:
            return
        from importlib.metadata import entry_points  # 40 ms that a report does not need

        for name in SHIPPED:
            self._load(name)
        for entry in entry_points(group=GROUP):
            self._specs.update({spec.name: spec for spec in entry.load()})
        self._complete = True


MECHANISMS = Registry()


def spec_named(name: str) -> MechanismSpec:
    try:
        return MECHANISMS[name]
    except (KeyError, TypeError):
        raise InvalidParameter("mechanism", f"be one of {', '.join(MECHANISMS)}", name) from None


def spec_of(mechanism: Mechanism) -> MechanismSpec:
    return spec_named(mechanism.name)


def sends_area_code(name: str) -> bool:
    """Whether the area code travels in the clear. A mechanism that is unknown today may have sent it."""
    return name not in MECHANISMS or MECHANISMS[name].bucketed

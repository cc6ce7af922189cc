"""A bucket's parameters as plain JSON values, and the mechanism that a client builds of them.

A client trusts none of it. It rebuilds the mechanism, whose constructor checks that the odds are worth the ε they
claim, and compares ``cost`` with what its owner allows.

>>> from hushcall.mechanisms.subspace.client import Subspace
>>> to_plain(Subspace(4.0, 8))
{'mechanism': 'subspace', 'epsilon': 4.0, 'bits': 8, 'item_bits': 24}
>>> from_plain(to_plain(Subspace(4.0, 8))) == Subspace(4.0, 8)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, cast, get_type_hints

from hushcall.errors import HushcallError, InvalidParameter
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.registry import MECHANISMS, spec_named, spec_of
from hushcall.protocol.numbers.plan import NumberingPlan

_LARGE = 1 << 53
"""Integers from here on are written as decimal text: not every JSON reader keeps them."""


def to_plain(mechanism: Mechanism) -> dict[str, Any]:
    return {"mechanism": spec_of(mechanism).wire_name, **_plain(mechanism)}


def from_plain(values: Mapping[str, Any]) -> Mechanism:
    """The mechanism with these parameters, checked by its constructor, or an :class:`InvalidParameter`."""
    name = values.get("mechanism") if isinstance(values, Mapping) else None
    client = _client(name) if isinstance(name, str) else None
    if client is None:
        names = dict.fromkeys(spec.wire_name for spec in MECHANISMS.values())
        raise InvalidParameter("mechanism", f"be one of {', '.join(names)}", values)
    return cast(Mechanism, _build(client, {key: value for key, value in values.items() if key != "mechanism"}))


def about_hundreds(mechanism: Mechanism, plan: NumberingPlan) -> Mechanism:
    """The mechanism of a bucket's reports about hundreds: as that about numbers, but for its items."""
    spec = spec_named(spec_of(mechanism).hundreds)
    values = {**to_plain(mechanism), "mechanism": spec.wire_name, "item_bits": spec.items.bits(plan)}
    return from_plain(values)


def _client(wire_name: str) -> type[Any] | None:
    spec = MECHANISMS.get(wire_name)  # by far the most are called the same on the wire: the others are not imported
    if spec is not None and spec.wire_name == wire_name:
        return spec.client
    return next((spec.client for spec in MECHANISMS.values() if spec.wire_name == wire_name), None)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Fraction) or (isinstance(value, int) and abs(value) >= _LARGE):
        return str(value)
    return value


def _build(kind: type[Any], values: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    types = {field.name: hints[field.name] for field in fields(kind)}
    if set(values) != set(types):
        raise InvalidParameter("parameters", f"be exactly {', '.join(types)}", sorted(values))
    try:
        return kind(**{name: _value(types[name], values[name]) for name in types})
    except HushcallError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        raise InvalidParameter("parameters", f"fit {kind.__name__}", dict(values)) from None


def _value(kind: type[Any], value: Any) -> Any:
    if is_dataclass(kind):
        return _build(kind, value)
    if kind is bytes:
        return bytes.fromhex(value)
    if kind is Fraction:
        # Python would compute "1e999999999" digit by digit: an exponent is a float's.
        exact = isinstance(value, str) and len(value) < 100 and "e" not in value.lower()
        return Fraction(value) if exact else Fraction(float(value))
    if kind is int and isinstance(value, str) and len(value) < 40:
        return int(value)
    return value

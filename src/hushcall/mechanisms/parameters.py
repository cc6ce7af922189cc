"""A bucket's parameters on their way to the phones: a mechanism comes in, plain JSON values leave, and back.

A phone trusts none of it: it rebuilds the mechanism, whose constructor checks that the odds are worth the ε they
claim, and compares ``cost`` with what its owner allows.

>>> from hushcall.report.subspace import Subspace
>>> to_plain(Subspace(4.0, 8))
{'mechanism': 'subspace', 'epsilon': 4.0, 'bits': 8, 'item_bits': 24}
>>> from_plain(to_plain(Subspace(4.0, 8))) == Subspace(4.0, 8)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, cast

from hushcall.errors import HushcallError, InvalidParameter
from hushcall.mechanisms.schemes import SCHEMES, scheme_of
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.mechanism import Mechanism
from hushcall.report.randomisers import ChannelRandomiser

_PARTS: dict[str, type[Any]] = {"randomiser": ChannelRandomiser, "oracle": LocalHashing}
_LARGE = 1 << 53
"""Integers from here on are written as decimal text: not every JSON reader keeps them."""


def to_plain(mechanism: Mechanism) -> dict[str, Any]:
    """Names, numbers and texts only."""
    return {"mechanism": scheme_of(mechanism).wire_name, **_plain(mechanism)}


def from_plain(values: Mapping[str, Any]) -> Mechanism:
    """The mechanism with these parameters, or :class:`InvalidParameter`: its constructor has checked them."""
    phones = {row.wire_name: row.phone for row in SCHEMES.values()}
    named = values.get("mechanism") if isinstance(values, Mapping) else None
    if not isinstance(named, str) or named not in phones:
        raise InvalidParameter("mechanism", f"be one of {', '.join(phones)}", values)
    rest = {key: value for key, value in values.items() if key != "mechanism"}
    return cast(Mechanism, _build(phones[named], rest))


def _plain(value: Any) -> dict[str, Any]:
    return {field.name: _plain_value(getattr(value, field.name)) for field in fields(value)}


def _plain_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Fraction) or (isinstance(value, int) and abs(value) >= _LARGE):
        return str(value)
    return _plain(value) if hasattr(value, "__dataclass_fields__") else value


def _build(kind: type[Any], values: Mapping[str, Any]) -> Any:
    known = {field.name: str(field.type) for field in fields(kind)}
    if set(values) != set(known):
        raise InvalidParameter("parameters", f"be exactly {', '.join(known)}", sorted(values))
    try:
        return kind(**{name: _value(name, known[name], values[name]) for name in known})
    except HushcallError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        raise InvalidParameter("parameters", f"fit {kind.__name__}", dict(values)) from None


def _value(name: str, declared: str, value: Any) -> Any:
    if name in _PARTS:
        return _build(_PARTS[name], value)
    if declared == "bytes":
        return bytes.fromhex(value)
    if declared == "Fraction":
        # Python would work out "1e999999999" digit by digit: an exponent is a float's.
        exact = isinstance(value, str) and len(value) < 100 and "e" not in value.lower()
        return Fraction(value) if exact else Fraction(float(value))
    if declared == "int" and isinstance(value, str) and len(value) < 40:
        return int(value)
    return value

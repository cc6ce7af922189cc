"""Opens a bucket when its size is known: everything that depends on n is decided by the mechanism's server side.

No numpy here. The server side is imported when a bucket is opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from hushcall import checks
from hushcall.errors import MissingExtra
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.registry import MechanismSpec, spec_of
from hushcall.protocol.numbers.plan import NumberingPlan

if TYPE_CHECKING:
    from hushcall.mechanisms.aggregator import Aggregator


class ServerSide(Protocol):
    """A mechanism's module with :func:`open_bucket` and, in place of :func:`aggregator_of`, ``resume``."""

    def open_bucket(
        self, profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
    ) -> Aggregator[Any] | None: ...

    def resume(self, profile: Profile, plan: NumberingPlan, mechanism: Any, buckets: int) -> Aggregator[Any]: ...


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int = 1
) -> Aggregator[Any] | None:
    """The aggregator of a bucket of ``users`` clients, or None if it is skipped.

    ``buckets`` is how many are decided together: the error level covers all of them.
    """
    checks.whole("users", users, 0)
    return server_side(profile.spec).open_bucket(profile, plan, users, seed, buckets) if users else None


def aggregator_of(profile: Profile, plan: NumberingPlan, mechanism: Mechanism, buckets: int = 1) -> Aggregator[Any]:
    """The aggregator of a bucket that was opened before, from the mechanism that its clients were given.

    A server that is upgraded between opening and decoding may choose other parameters today. The reports have these.
    """
    return server_side(spec_of(mechanism)).resume(profile, plan, mechanism, buckets)


def server_side(spec: MechanismSpec) -> ServerSide:
    try:
        return cast("ServerSide", import_module(spec.server_module))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("numpy", "scipy", "numba"):
            raise
        raise MissingExtra("decoding", "server") from None

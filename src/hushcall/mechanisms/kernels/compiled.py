"""numba's decorator with the type that it has in effect: compiled once per machine, free of the interpreter's lock."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from numba import njit

_F = TypeVar("_F", bound=Callable[..., Any])
_KERNELS: list[Any] = []


def kernel(*, parallel: bool = False, inline: Literal["never", "always"] = "never") -> Callable[[_F], _F]:
    """Compile a function on its first call, and keep the result on disk."""
    compiled = njit(cache=True, nogil=True, parallel=parallel, inline=inline)

    def register(function: _F) -> _F:
        _KERNELS.append(compiled(function))
        return cast(_F, _KERNELS[-1])

    return register


def compilations() -> int:
    return sum(sum(compiled.stats.cache_misses.values()) for compiled in _KERNELS)

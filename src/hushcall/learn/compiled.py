"""numba's decorator with the type that it has in effect: compiled once per machine, free of the interpreter's lock."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

from numba import njit

_F = TypeVar("_F", bound=Callable[..., Any])
_KERNELS: list[Any] = []


def kernel(*, parallel: bool = False, inline: Literal["never", "always"] = "never") -> Callable[[_F], _F]:
    """Compile a function on its first call, and keep the result on disk."""
    compiled = njit(cache=True, nogil=True, parallel=parallel, inline=inline)

    def known(function: _F) -> _F:
        _KERNELS.append(compiled(function))
        return cast(_F, _KERNELS[-1])

    return known


def compilations() -> int:
    """How many kernels this process compiled so far, because they were not on disk."""
    return sum(sum(one.stats.cache_misses.values()) for one in _KERNELS)


def specialisations() -> list[str]:
    """What is ready in this process: a kernel once for each list of types. Anything else is made when it is called."""
    return sorted(f"{one.py_func.__qualname__}{types}" for one in _KERNELS for types in one.signatures)

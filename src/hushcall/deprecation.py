"""Former names of keyword arguments, which keep working with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**new_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept keyword arguments by their former names: ``renamed(former="new")``.

    >>> @renamed(coins="rand")
    ... def draw(rand: int) -> int:
    ...     return rand
    >>> with warnings.catch_warnings(record=True):
    ...     draw(coins=4)
    4
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def accept_former_names(*args: P.args, **kwargs: P.kwargs) -> R:
            for former in new_names.keys() & kwargs.keys():
                message = f"{function.__name__}({former}=…) is {new_names[former]}= now"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                kwargs[new_names[former]] = kwargs.pop(former)
            return function(*args, **kwargs)

        return accept_former_names

    return decorate

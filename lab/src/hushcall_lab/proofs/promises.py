"""What all proofs share: broken promises and planted bugs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

Bug = Callable[[], AbstractContextManager[Any]]
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  (a run makes a folder of its own in it)


class Broken(AssertionError):
    """A promise was not kept."""


def require(promise: object, broken: str) -> None:
    if not promise:
        raise Broken(broken)


def replaced(owner: Any, name: str, value: Any) -> Bug:
    return lambda: patch.object(owner, name, value)


def planted(bugs: Mapping[str, Bug], name: str) -> AbstractContextManager[Any]:
    return bugs[name]() if name else nullcontext()

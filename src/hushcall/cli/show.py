"""What commands share: JSON out, tables, a progress bar that only a person sees."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Timer
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
console = Console(highlight=False)
_aside = Console(stderr=True)


def aside(words: str) -> None:
    """One line on stderr."""
    _aside.print(words, soft_wrap=True, markup=False, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on stdout. Infinite numbers become the string "inf": JSON has none."""
    json.dump(_finite(value), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """A bar on stderr with the time left; silent where nobody watches."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=_aside,
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        bar.add_task(label, total=None)
        yield bar


@contextmanager
def said(words: str, after: float = 1.0) -> Iterator[None]:
    """Say on stderr what is going on, once it has gone on for so many seconds: most of the time it is over by then."""
    timer = Timer(after, lambda: aside(words))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def busy(after: float = 5.0) -> Iterator[Callable[[str], None]]:
    """A function to say what is being done: a spinner where somebody watches, else a line for what takes long."""
    timers: list[Timer] = []
    with _aside.status("") if sys.stderr.isatty() else nullcontext() as spinner:

        def say(words: str) -> None:
            for timer in timers:
                timer.cancel()
            if spinner is not None:
                spinner.update(words)
                return
            timers.append(Timer(after, lambda: aside(words)))
            timers[-1].daemon = True
            timers[-1].start()

        try:
            yield say
        finally:
            for timer in timers:
                timer.cancel()


def ready_to_decode() -> None:
    """Compile the decoders where they are not on disk yet, and say so; otherwise the first decode would be silent."""
    from hushcall.learn.kernels import compile_kernels

    with said("Compiling the decoders, once on this machine: half a minute or so ..."):
        compile_kernels()


def step(bar: Progress, label: str, done: int, total: int) -> None:
    """Move the one task of a bar."""
    bar.update(bar.task_ids[0], description=label, completed=done, total=total)


def blocks(share: float, width: int = 24) -> str:
    """A bar of eighth blocks: a picture in one table cell."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]

"""Output of commands: JSON, progress on a terminal, remarks on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from threading import Timer
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
console = Console(highlight=False)
_stderr = Console(stderr=True)


def aside(text: str) -> None:
    """Prints one line on stderr."""
    _stderr.print(text, soft_wrap=True, markup=False, highlight=False)


def remark(words: str) -> None:
    """Prints what a person at the terminal, or a log, should know beside the output."""
    print(f"hushcall: {words}", file=sys.stderr, flush=True)


def out(words: str) -> None:
    """Prints text as it is, without markup or line breaks."""
    console.print(words, markup=False, soft_wrap=True)


def print_json(value: object) -> None:
    """Prints one JSON document. Infinite numbers become the string "inf": JSON has none."""
    json.dump(_finite(value), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def say(value: object, json: bool, text: str) -> None:
    """Prints a value as JSON, or a text as it is."""
    if json:
        print_json(value)
    else:
        out(text)


def findings(name: str, rows: list[dict[str, Any]], json: bool, translated: Callable[[str], str] = str) -> None:
    """Says of each topic whether it is well, and what to do. Exit status 1 where something is wrong."""
    ok = all(row["ok"] for row in rows)
    if json:
        print_json({"ok": ok, name: rows})
    for row in () if json else rows:
        mark = "[green]ok[/]  " if row["ok"] else "[red]look[/]"
        text = escape(f"{translated(row['topic'])}: {translated(row['words'])}")
        console.print(f"{mark} {text}", soft_wrap=True)
        if row["todo"]:
            out(f"     {translated(row['todo'])}")
    if not ok:
        raise typer.Exit(1)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """A progress bar on stderr, only on a terminal."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=_stderr,
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        bar.add_task(label, total=None)
        yield bar


@contextmanager
def remark_if_slow(text: str, after_seconds: float = 1.0) -> Iterator[None]:
    timer = Timer(after_seconds, lambda: aside(text))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def busy(after_seconds: float = 5.0) -> Iterator[Callable[[str], None]]:
    """Yields a function that shows the current step: beside a spinner on a terminal, else as a line if it is slow."""
    with ExitStack() as slow, _stderr.status("") if sys.stderr.isatty() else nullcontext() as spinner:

        def say(text: str) -> None:
            slow.close()
            if spinner is None:
                slow.enter_context(remark_if_slow(text, after_seconds))
            else:
                spinner.update(text)

        yield say


def ready_to_decode() -> None:
    from hushcall.mechanisms.kernels.warm_up import compile_kernels

    with remark_if_slow(
        "Loading the decoders (the first time on a machine they are compiled: half a minute or so) ..."
    ):
        compile_kernels()


def step(bar: Progress, label: str, done: int, total: int) -> None:
    bar.update(bar.task_ids[0], description=label, completed=done, total=total)


def blocks(share: float, width: int = 24) -> str:
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]

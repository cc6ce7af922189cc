"""The blocks of documentation pages that commands write: what they measured, under the command that measured it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from hushcall.atomic_file import atomic_write
from hushcall.errors import InvalidParameter

Page = Annotated[
    str,
    typer.Option(
        "--page",
        metavar="FILE[#NAME]",
        help="Write the figures into a page, between <!-- figures: NAME --> and <!-- end -->. By default NAME is that "
        "of the command or experiment.",
    ),
]
_END = "<!-- end -->"


def replace_between(page: Path, start: str, end: str, text: str) -> None:
    before, _, after = _split(page, start, end)
    atomic_write(page, f"{before}{text}{after}", "page")


def _split(page: Path, start: str, end: str) -> tuple[str, str, str]:
    try:
        content = page.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter("page", "be a text file that can be read", str(page)) from None
    before, _, after = content.partition(start)
    between, closed, remainder = after.partition(end)
    if not closed or start in after or "<!-- figures: " in between:
        raise InvalidParameter("page", f"have {start.strip()} once, and {end.strip()} after it", str(page))
    return before + start, between, closed + remainder


@dataclass(frozen=True)
class Block:
    """A named block of a page. It holds tables where its marker ends a line, and one line of text elsewhere."""

    page: Path
    name: str

    @classmethod
    def parse(cls, address: str, name: str) -> Block:
        """From FILE or FILE#NAME. Refuses a page without the block, before anything is measured."""
        file, _, other = address.partition("#")
        if name == "all":
            raise InvalidParameter("page", "be given to one command at a time", address)
        block = cls(Path(file), other or name)
        _split(block.page, block._start, _END)
        return block

    @property
    def _start(self) -> str:
        return f"<!-- figures: {self.name} -->"

    def write(self, command: str, parts: Iterable[Table | str]) -> None:
        _, between, _ = _split(self.page, self._start, _END)
        if between.startswith("\n"):
            text = "\n" + "\n\n".join([f"`{command}`", *map(markdown, parts)]) + "\n\n"
        else:
            lines = [part.strip().rstrip(".") for part in parts if isinstance(part, str)]
            text = f"`{command}`: {'; '.join(lines)}"
        replace_between(self.page, self._start, _END, text)


_target: ContextVar[tuple[Block, str] | None] = ContextVar("target", default=None)


def open_block(context: typer.Context, address: str, default: str = "") -> None:
    """Called by a group before its command: :func:`write_figures` will write into this block, if there is one."""
    name = context.invoked_subcommand or default
    _target.set((Block.parse(address, name), _command(context, name)) if address else None)


def write_figures(parts: Iterable[Table | str]) -> None:
    if target := _target.get():
        block, command = target
        block.write(command, parts)


def _command(context: typer.Context, name: str) -> str:
    """The command with every setting, typed or by default."""
    group = cast(TyperGroup, context.command)
    typed = sys.argv[sys.argv.index(name) + 1 :] if name in sys.argv else []
    words = [_public(word) for word in typed if word != "--json"]
    for option in group.commands[name].params:
        has_default = option.default not in (None, "") and not isinstance(option.default, bool)
        if has_default and set(option.opts).isdisjoint(word.partition("=")[0] for word in typed):
            words += [option.opts[0], str(option.default)]
    return " ".join(["hushcall-lab", str(group.name), name, *words])


def _public(word: str) -> str:
    """A path without its folder, an address without its host and password."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    short = Path(value).name or value if Path(value).exists() else value.partition("://")[0]
    return f"{option}{equals}{short}"


def markdown(part: Table | str) -> str:
    if isinstance(part, str):
        return part.strip()
    rows = zip(*(map(_plain, [column.header, *column.cells]) for column in part.columns), strict=True)
    head, *body = (f"| {' | '.join(cells)} |" for cells in rows)
    rule = "|" + "|".join("---:" if column.justify == "right" else "---" for column in part.columns) + "|"
    title = [f"{_plain(part.title)}:", ""] if part.title else []
    return "\n".join([*title, head, rule, *body])


def _plain(cell: object) -> str:
    return Text.from_markup(str(cell)).plain.replace("|", "\\|")

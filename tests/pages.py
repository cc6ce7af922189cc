"""Examples of ``docs/commands.md``, for tests that compare them with what the commands print."""

import re
from pathlib import Path

COMMANDS = (Path(__file__).parent.parent / "docs" / "commands.md").read_text(encoding="utf-8")


def assert_example(command: str, printed: str) -> None:
    """The page shows whole lines of ``printed``, in its order. A line of ``…`` stands for lines that it leaves out."""
    example = COMMANDS.partition(f"$ {command}\n")[2].partition("\n```")[0].partition("\n$ ")[0]
    parts = [part.strip("\n") for part in re.split(r"^…$", example, flags=re.M) if part.strip()]
    assert parts, command
    remaining = "\n".join(["", *(line.rstrip() for line in printed.splitlines()), ""])
    for part in parts:
        assert f"\n{part}\n" in remaining, part
        remaining = "\n" + remaining.partition(f"\n{part}\n")[2]

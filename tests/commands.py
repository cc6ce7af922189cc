"""The two programs as a shell would start them."""

import sys

from hushcall.cli import main
from hushcall_lab.cli import app
from hushcall_lab.cli import main as lab_main

HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]
HUSHCALL_LAB = [sys.executable, "-c", "from hushcall_lab.cli import main; main()"]
LAB_COMMANDS = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}


def run_main(*arguments: str) -> None:
    """Run whichever program has the command in this process; ``sys.argv`` is the caller's to set."""
    (lab_main if arguments[:1] and arguments[0] in LAB_COMMANDS - {"archive"} else main)()


def command_line(*arguments: str) -> list[str]:
    """The same in a process of its own."""
    return [*(HUSHCALL_LAB if arguments[:1] and arguments[0] in LAB_COMMANDS - {"archive"} else HUSHCALL), *arguments]

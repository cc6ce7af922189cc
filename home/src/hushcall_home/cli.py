"""``hushcall home``: the household's program."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hushcall.atomic_file import atomic_write
from hushcall.cli import show
from hushcall.cli.options import Home, client_in, folder_of, where_set
from hushcall.cli.show import Json
from hushcall.client.health import Finding, examine_folder
from hushcall.client.setup import Options, is_set_up, opened, set_up
from hushcall.client.storage.folder import HOME_FILE
from hushcall.errors import HushcallError, InvalidData, InvalidParameter, Refused
from hushcall.protocol.blocklist import iso
from hushcall.wording import counted
from hushcall_home.config import Config, Page, Router, hash_password
from hushcall_home.parts import RINGING, Part

PASSWORD = "HUSHCALL_FRITZBOX_PASSWORD"  # noqa: S105  (a variable's name)
PAGE_PASSWORD = "HUSHCALL_PAGE_PASSWORD"  # noqa: S105
UNIT = "hushcall-home.service"
QUIET_SECONDS = 2 * 3600
SYSTEM_UNITS, USER_UNITS = Path("/etc/systemd/system"), ".config/systemd/user"
home = typer.Typer(
    help="The household's program: fetches calls, reports, keeps the list, blocks on the router. Runs by itself.",
    no_args_is_help=True,
)


@home.command()
def init(
    server: Annotated[str | None, typer.Option(help="The hushcall server. Needed at first.")] = None,
    invite: Annotated[str, typer.Option(help="An invite code, where the server asks for one.")] = "",
    root_sha256: Annotated[str, typer.Option("--root-sha256", help="The digest of the operator's root.json.")] = "",
    fritzbox: Annotated[
        str | None, typer.Option(help="Address of a FRITZ!Box, like fritz.box; http:// or https:// may precede.")
    ] = None,
    fritzbox_user: Annotated[str | None, typer.Option(help="The box's user for hushcall.")] = None,
    password_file: Annotated[
        Path | None, typer.Option(help=f"Its password. Default: the variable {PASSWORD}, or asked for.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most numbers on the box. Default: 1000.")] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="[FORMAT:]PATH", help="A log to follow: Asterisk's Master.csv, NCID's cidcall.log."),
    ] = None,
    folder: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A folder that gets call logs and contacts (.vcf) from a sync program."),
    ] = None,
    asterisk: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Keep Asterisk's blacklist by this command: asterisk.")
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="The owner's page. Default: 127.0.0.1:8470. 0.0.0.0:8470: on the network.",
        ),
    ] = None,
    page_password_file: Annotated[
        Path | None, typer.Option(help=f"The page's password. Default: the variable {PAGE_PASSWORD}, or asked for.")
    ] = None,
    page_only_from: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Who alone may ask for it, such as a proxy with a login.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Set it up: enrol, connect the FRITZ!Box or logs, fetch the first list. Again, it replaces what is given.

    An empty value removes: --log "".

    [bold]Examples[/bold]

      hushcall home init --server https://calls.example.org --fritzbox fritz.box --fritzbox-user hushcall

      hushcall home init --log /var/log/asterisk/cdr-csv/Master.csv --asterisk asterisk
    """
    from datetime import UTC

    at = folder_of(home)
    if server is None and not is_set_up(at) and sys.stdin.isatty():
        server = typer.prompt("Address of the hushcall server")
    config = Config.load(at) if (at / HOME_FILE).exists() else Config()
    if fritzbox == "":
        config = replace(config, fritzbox=None)
    elif fritzbox is not None or fritzbox_user is not None or password_file is not None or limit is not None:
        config = replace(config, fritzbox=_router(config, fritzbox, fritzbox_user, password_file, limit))
    config = replace(
        config,
        logs=config.logs if log is None else tuple(map(_absolute, filter(None, log))),
        folders=config.folders if folder is None else tuple(map(_absolute, filter(None, folder))),
        **where_set(asterisk=asterisk),
        page=_page(config.page, page, page_password_file, page_only_from),
    )
    if not (config.fritzbox or config.logs or config.folders):
        raise InvalidParameter("home", "be given --fritzbox, --log or --folder", "none")
    config.opened(UTC)
    lines = list(_tried(config))
    if server is not None or not is_set_up(at):
        result = set_up(at, server, Options(invite=invite, root_sha256=root_sha256))
        lines.append(f"Enrolled at {result.url}." if result.enrolled else f"The server is {result.url}.")
    config.save(at)
    with suppress(Refused), closing(client_in(home)) as client, client.alone():
        version = client.sync()
        lines.append(f"List version {version.version}: {counted(version.entries, 'number')}.")
    lines.append("Next: hushcall home install --enable")
    show.say({"home": str(at), "config": _plain(config), "words": lines}, json, "\n".join(map(_translator(), lines)))


@home.command()
def run(home: Home = None) -> None:
    """Run until stopped: what the installed service does."""
    import signal

    from hushcall_home import daemon as program
    from hushcall_home.page import serve

    with closing(program.Daemon(client_in(home), show.remark, serve)) as daemon:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: daemon.stop())
        daemon.run()


@home.command()
def install(
    system: Annotated[bool, typer.Option("--system", help="As the system's service: needs root.")] = False,
    user: Annotated[str | None, typer.Option(help="With --system: who it runs as. Default: who called sudo.")] = None,
    enable: Annotated[bool, typer.Option("--enable", help="Start it now and at every boot.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write its systemd unit. A user's own unit runs while nobody is logged in only with lingering (loginctl).

    [bold]Examples[/bold]

      hushcall home install --enable

      sudo hushcall home install --system --enable --home /var/lib/hushcall-phone --user asterisk
    """
    at = folder_of(home).absolute()
    Config.load(at)
    owner = (user or os.environ.get("SUDO_USER") or "root") if system else ""
    units = SYSTEM_UNITS if system else Path.home() / USER_UNITS
    try:
        units.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidData("unit", f"be one that can be written ({error.strerror})", str(units)) from None
    path = units / UNIT
    atomic_write(path, unit(_program(), at, owner), "unit")
    scope = [] if system else ["--user"]
    commands = [["systemctl", *scope, *words] for words in (["daemon-reload"], ["enable", UNIT], ["restart", UNIT])]
    commands += [] if system else [["loginctl", "enable-linger"]]
    lines = [f"Wrote {path}."]
    lines += [_ran(command) if enable else f"Next: {' '.join(command)}" for command in commands]
    facts = {"unit": str(path), "commands": [" ".join(command) for command in commands], "enabled": enable}
    show.say({**facts, "words": lines}, json, "\n".join(lines))


@home.command()
def status(home: Home = None, json: Json = False) -> None:
    """Say how every part is doing, and the next step. Asks no server. Exit status 1 where something is wrong."""
    at = folder_of(home)
    findings = examine_folder(at, offline=True)
    parts: list[Part] = []
    with suppress(HushcallError), closing(opened(at, reading=True)) as store:
        parts = Part.all(store)
    rows = [
        *(
            {"topic": p.name, "ok": p.ok, "words": p.words, "todo": p.todo, "done": iso(p.done) if p.done else None}
            for p in parts
            if p.name != RINGING
        ),
        *({**asdict(finding), "done": None} for finding in [*_not_running(at, parts), *findings]),
    ]
    show.findings("parts", rows, json, str if json else _translator())


def _not_running(folder: Path, parts: list[Part]) -> list[Finding]:
    """A finding where the program has tried nothing for longer than it ever rests."""
    last = max((part.tried for part in parts), default=0)
    if not (folder / HOME_FILE).exists():
        return [Finding("program", False, "hushcall home is not set up.", "Run: hushcall home init")]
    if time.time() - last < QUIET_SECONDS:
        return []
    words = f"hushcall home has not run since {iso(last)}." if last else "hushcall home does not run yet."
    return [Finding("program", False, words, "Run: hushcall home install --enable")]


def _program() -> Path:
    """The file of this command, which the unit starts."""
    beside = Path(sys.executable).with_name("hushcall")
    return beside if beside.exists() else Path(sys.argv[0]).absolute()


def unit(program: Path, folder: Path, user: str = "") -> str:
    """The text of the systemd unit. With ``user`` it is the system's, and runs as that user."""
    owner = f'User={user}\nProtectSystem=strict\nReadWritePaths="{folder}"\n' if user else ""
    return f"""[Unit]
Description=hushcall: reports calls privately, blocks listed callers
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=2h
Environment="HUSHCALL_HOME={folder}"
ExecStart="{program}" home run
Restart=always
RestartSec=30
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
{owner}
[Install]
WantedBy={"multi-user" if user else "default"}.target
"""


def _ran(command: list[str]) -> str:
    import subprocess

    from hushcall_home.parts import Trouble

    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (systemd's own)
        trouble = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        trouble = f"{error.strerror}: {command[0]}"
    if trouble:
        words = f"{' '.join(command)}: {' '.join(trouble.split())[:200].rstrip('.')}."
        raise Trouble(words, "Without systemd, let something else run: hushcall home run")
    return f"Done: {' '.join(command)}"


def _router(
    config: Config, address: str | None, user: str | None, password_file: Path | None, limit: int | None
) -> Router:
    router = config.fritzbox or Router()
    if address is not None or user is not None or password_file is not None:
        known = router.password if user is None else ""
        router = replace(router, password=_password("--password-file", password_file, known))
    return replace(router, **where_set(address=address or None, user=user, limit=limit))


def _page(page: Page, listen: str | None, password_file: Path | None, only_from: str | None) -> Page:
    page = replace(page, **where_set(listen=listen, only_from=only_from))
    public = bool(page.listen) and not (page.is_local or page.only_from)
    if password_file is not None or (public and not page.password):
        password = _password("--page-password-file", password_file, "")
        page = replace(page, password=hash_password(password, os.urandom(16)))
    if page.listen:
        page.address()
    return page


_PASSWORDS = {
    "--password-file": (PASSWORD, "The box's password for this user"),
    "--page-password-file": (PAGE_PASSWORD, "A password for the owner's page"),
}


def _password(option: str, path: Path | None, known: str) -> str:
    variable, question = _PASSWORDS[option]
    if path is not None:
        try:
            password = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise InvalidData(option, f"be readable ({getattr(error, 'strerror', error)})", str(path)) from None
        if not password:
            raise InvalidData(option, "hold a password", str(path))
        return password
    if password := os.environ.get(variable, "") or known:
        return password
    if not sys.stdin.isatty():
        raise InvalidParameter(option, f"be given, or {variable}", None)
    return str(typer.prompt(question, hide_input=True))


def _translator() -> Callable[[str], str]:
    """Translates into the terminal's language."""
    from hushcall_home.languages import Language

    return Language.of_machine().sentence


def _absolute(log: str) -> str:
    form, colon, path = log.rpartition(":")
    return f"{form}{colon}{Path(path).absolute()}"


def _tried(config: Config) -> Iterable[str]:
    """What the FRITZ!Box answers, before anything is saved."""
    from datetime import UTC

    from hushcall_home.fritzbox import Box, CallBarring, CallList, Unsupported

    if config.fritzbox is None:
        return
    box = Box(config.fritzbox)
    source = CallList(box, UTC)
    source.address()
    yield f"The FRITZ!Box answers, with {counted(len(list(source.contacts())), 'number')} of contacts."
    try:
        CallBarring(box).entries()
    except Unsupported as trouble:
        yield f"{trouble.words} Block the phonebook hushcall once, in Telephony > Call Handling > Call Blocks."


def _plain(config: Config) -> dict[str, Any]:
    """Without passwords."""
    values = asdict(config)
    del values["page"]["password"]
    if config.fritzbox:
        del values["fritzbox"]["password"]
    return values

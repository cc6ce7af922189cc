"""Kamailio with our route and our table: whom it declines, and whom it lets pass."""

import re
import socket
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.interop.programs.programs import ROOT, eventually, free_port, process, program
from tests.lists import sample

from hushcall.formats.blocklists import WRITERS
from hushcall.protocol.blocklist import Blocklist

TABLE = Path("/usr/share/kamailio/db_sqlite")
CONFIGURATION = """
#!KAMAILIO
children=1
listen=udp:127.0.0.1:{port}
mpath="/usr/lib/x86_64-linux-gnu/kamailio/modules/:/usr/lib/kamailio/modules/"
loadmodule "db_sqlite.so"
loadmodule "sl.so"
loadmodule "pv.so"
loadmodule "textops.so"
loadmodule "kex.so"
loadmodule "corex.so"
{route}
request_route {{
    if (is_method("OPTIONS")) {{ sl_send_reply("200", "OK"); exit; }}
    route(HUSHCALL);
    if ($rU != "100") {{ sl_send_reply("500", "the callee was changed"); exit; }}
    sl_send_reply("486", "Busy Here");
}}
"""
Ask = Callable[[str], int]


def table(folder: Path, blocklist: Blocklist) -> Path:
    """A database as Kamailio's own scripts make it, filled by our export."""
    path = folder / "kamailio.db"
    base = sqlite3.connect(path)
    base.executescript("CREATE TABLE version (table_name VARCHAR(32), table_version INTEGER DEFAULT 0);")
    base.executescript((TABLE / "userblocklist-create.sql").read_text())
    base.executescript((TABLE / "htable-create.sql").read_text())
    base.executescript(WRITERS["kamailio"].write(blocklist).decode())
    base.executescript(WRITERS["kamailio-ranges"].write(blocklist).decode())
    base.close()
    return path


def ask(port: int, caller: str) -> int:
    """The status of the answer to an INVITE from this address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.bind(("127.0.0.1", 0))
        line.settimeout(5)
        mine = f"127.0.0.1:{line.getsockname()[1]}"
        method = "OPTIONS" if caller == "probe" else "INVITE"
        request = (
            f"{method} sip:100@127.0.0.1:{port} SIP/2.0\r\nVia: SIP/2.0/UDP {mine};branch=z9hG4bK{mine[-5:]}\r\n"
            f"From: <{caller}>;tag=1\r\nTo: <sip:100@127.0.0.1>\r\nCall-ID: {mine}\r\nCSeq: 1 {method}\r\n"
            f"Max-Forwards: 70\r\nContact: <sip:x@{mine}>\r\nContent-Length: 0\r\n\r\n"
        )
        line.sendto(request.replace("<probe>", "<sip:probe@127.0.0.1>").encode(), ("127.0.0.1", port))
        found = re.match(rb"SIP/2.0 (\d+)", line.recv(4096))
        assert found
        return int(found[1])


@pytest.fixture(scope="module")
def kamailio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Kamailio at work, with the list of the golden files and two numbers of which one begins the other."""
    yield from at_work(tmp_path_factory.mktemp("kamailio"), ("+493012345", "+4930123457"))


@pytest.fixture(scope="module")
def with_ranges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """The same with rented blocks: a ten of Berlin, and a hundred with three tens of four numbers."""
    ten = [f"+493098765{last}" for last in range(5)]
    hundred = [f"+49302222{tens}{last}" for tens in range(3) for last in range(4)]
    yield from at_work(tmp_path_factory.mktemp("ranges"), (*ten, *hundred), "#!define HUSHCALL_RANGES\n")


def at_work(folder: Path, more: Sequence[str], before: str = "") -> Iterator[Ask]:
    """Kamailio with the route of the example, the list of the golden files and more numbers."""
    binary, first = program("kamailio"), sample().entries[0]
    german = tuple(replace(first, number=number) for number in more)
    path = table(folder, replace(sample(), entries=tuple(sorted((*sample().entries, *german)))))
    route = before + (ROOT / "examples" / "kamailio" / "hushcall.cfg").read_text()
    route = re.sub(r'"mysql://[^"]*"', f'"sqlite://{path}"', route)
    port = free_port(socket.SOCK_DGRAM)
    (folder / "kamailio.cfg").write_text(CONFIGURATION.format(port=port, route=route))
    words = [binary, "-f", str(folder / "kamailio.cfg"), "-DD", "-E", "-m", "16", "-M", "4", "-Y", str(folder)]

    def answers() -> bool:
        try:
            return ask(port, "probe") == 200
        except OSError:
            return False

    with process(words, folder / "log"):
        eventually(answers)
        yield lambda caller: ask(port, caller)


@pytest.mark.parametrize(
    "caller",
    [
        "sip:+12025550143@127.0.0.1",
        "sip:12025550143@127.0.0.1",
        "sip:2025550143@127.0.0.1",
        "sip:0012025550143@127.0.0.1",
        "sip:01112025550143@127.0.0.1",
        "sip:+493012345@127.0.0.1",
        "sip:00493012345@127.0.0.1",
        "sip:+4930123457@127.0.0.1",
    ],
)
def test_a_listed_caller_is_declined_however_it_is_written(kamailio: Ask, caller: str) -> None:
    assert kamailio(caller) == 603


@pytest.mark.parametrize(
    "caller",
    [
        "sip:anonymous@anonymous.invalid",
        "sip:anonymous.invalid",
        "sip:127.0.0.1",
        "sip:alice@127.0.0.1",
        f"sip:{'a' * 50}@127.0.0.1",
        f"sip:{'1' * 40}@127.0.0.1",
        "sip:100@127.0.0.1",
        "sip:+12025550199@127.0.0.1",
        "sip:+202555014@127.0.0.1",
        "sip:+493012346@127.0.0.1",
    ],
)
def test_anybody_else_passes(kamailio: Ask, caller: str) -> None:
    assert kamailio("sip:+12025550143@127.0.0.1") == 603  # what is left of the call before must not matter
    assert kamailio(caller) == 486


def test_a_longer_number_that_begins_like_a_listed_one_passes(kamailio: Ask) -> None:
    """Where numbers have no fixed length, one may be the beginning of another: the module compares beginnings."""
    assert kamailio("sip:+4930123456@127.0.0.1") == 486
    assert kamailio("sip:+493012345678@127.0.0.1") == 486


@pytest.mark.parametrize("caller", ["+4930987659", "004930987658", "+4930222299", "+12025550149"])
def test_a_rented_block_is_declined_whole(with_ranges: Ask, kamailio: Ask, caller: str) -> None:
    assert with_ranges(f"sip:{caller}@127.0.0.1") == 603
    if not caller.startswith("+1"):
        assert kamailio(f"sip:{caller}@127.0.0.1") == 486, "only where the operator asks for it"


@pytest.mark.parametrize(
    "caller", ["+493098765", "+49309876590", "+493022229", "+49302222", "+49302222999", "+4930987660"]
)
def test_numbers_beside_a_block_pass(with_ranges: Ask, caller: str) -> None:
    """Longer, shorter, or another block's: nobody rents them together."""
    assert with_ranges("sip:+4930987650@127.0.0.1") == 603
    assert with_ranges(f"sip:{caller}@127.0.0.1") == 486

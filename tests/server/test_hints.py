"""Hints in the service: sources of every kind, good and bad, are read once for a round, and never fail it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, START, Clock, Village, serving, settings_for

from hushcall.decoding.archive.learn import learn
from hushcall.decoding.archive.manifest import Address
from hushcall.decoding.backends import ProcessBackend
from hushcall.decoding.hints import RoundHints
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import archiving, hints
from hushcall.server.rounds.hints import Source, gather, read_numbers
from hushcall.server.service import Service, open_service
from hushcall.server.settings import HintSettings

OTHERS = [f"+1202555{place:04}" for place in range(200, 240)]
CLOSES = START + 1000
FTC = "Company_Phone_Number,Created_Date,City\n2025550143,2027-01-14 10:00:00,X\n,2027-01-15 01:00:00,\n"
TWO_TIERS = {"windows": [1, 2, 4], "tolerance": 3, "level": 1e-6, "warn_level": 1e-4}
Answers = dict[str, tuple[int, bytes, dict[str, str]]]


@contextmanager
def web(answers: Answers) -> Iterator[tuple[str, list[str]]]:
    """(address, the paths asked for) of a server on loopback."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, body, headers = answers.get(self.path, (404, b"", {}))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def gathered(*sources: str, **limits: Any) -> tuple[frozenset[str], list[Source]]:
    return gather(HintSettings(sources=list(sources), **limits), NANP, START, CLOSES)


class TestFormats:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"! Title: hushcall\n# a remark\n+12025550143\n(202) 555-0199  # a school\nnonsense\n\n", 2),
            (FTC.encode(), 1),
            (b"\xef\xbb\xbf" + FTC.replace("\n", "\r\n").encode(), 1),
            (b'{"numbers":[{"phone":"+12025550143","votes":10},{"phone":"+12025550199","votes":0}],"version":3}', 1),
            (b"", 0),
            (b"<html><body>not here</body></html>", 0),
        ],
    )
    def test_what_is_a_number_is_read_and_the_rest_is_skipped(self, data: bytes, expected: int) -> None:
        numbers, _ = read_numbers(data, NANP)
        assert len(numbers) == expected
        assert numbers <= {"+12025550143", "+12025550199"}

    def test_the_ftcs_files_say_how_old_they_are(self) -> None:
        assert read_numbers(FTC.encode(), NANP)[1] == 1_799_974_800  # 2027-01-15 01:00:00

    @pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"{", b'{"numbers":3}', b'{"numbers":[[]]}', b"{" * 10_000])
    def test_what_is_no_list_is_said_to_be_none(self, data: bytes) -> None:
        with pytest.raises(hints.Unusable, match="no list of numbers"):
            read_numbers(data, NANP)


class TestSources:
    def test_files_and_addresses_give_hints(self, tmp_path: Path) -> None:
        (tmp_path / "plain.txt").write_text("+12025550199\n")
        os.utime(tmp_path / "plain.txt", (START, START))
        with web({"/ftc-2027-01-14.csv": (200, FTC.encode(), {})}) as (address, asked):
            numbers, sources = gathered(str(tmp_path / "plain.txt"), f"{address}/ftc-{{date}}.csv")
        assert asked == ["/ftc-2027-01-14.csv"]
        assert numbers == {"+12025550143", "+12025550199"}
        assert [(source.numbers, source.problem) for source in sources] == [(1, ""), (1, "")]

    def test_a_pin_lets_only_its_content_through(self, tmp_path: Path) -> None:
        file = tmp_path / "pinned.txt"
        file.write_text("+12025550199\n")
        os.utime(file, (START, START))
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert gathered(f"{file}#sha256={digest.upper()}")[0] == {"+12025550199"}
        numbers, (source,) = gathered(f"{file}#sha256={'0' * 64}")
        assert (numbers, source.name) == (frozenset(), str(file))
        assert "another SHA-256" in source.problem

    def test_what_is_wrong_with_a_source_is_said_and_the_others_count(self, tmp_path: Path) -> None:
        good = tmp_path / "good.txt"
        good.write_text("+12025550143\n")
        (tmp_path / "many.txt").write_text("".join(f"{number}\n" for number in OTHERS))
        (tmp_path / "long.txt").write_bytes(b"#" * 3000)
        (tmp_path / "old.txt").write_text("+12025550143\n")
        for name, age_days in (("good", 0), ("many", 0), ("long", 0), ("old", 9)):
            os.utime(tmp_path / f"{name}.txt", (CLOSES - age_days * 86_400,) * 2)
        answers: Answers = {
            "/moved": (302, b"", {"Location": "/numbers"}),
            "/numbers": (200, b"+12025550199\n", {"Last-Modified": "Wed, 13 Jan 2027 10:00:00 GMT"}),
            "/stale": (200, b"+12025550177\n", {"Last-Modified": "Fri, 01 Jan 2027 10:00:00 GMT"}),
        }
        with web(answers) as (address, _):
            urls = [f"{address}/{name}" for name in ("moved", "numbers", "stale", "absent")]
            files = [str(tmp_path / f"{name}.txt") for name in ("good", "many", "long", "old", "none")]
            numbers, sources = gathered(*files, *urls, "http://127.0.0.1:1/", max_numbers=30, max_bytes=2000)
        assert numbers == {"+12025550143", "+12025550199"}
        assert [source.problem for source in sources] == [
            "",
            "it holds 40 numbers, more than max_numbers (30)",
            "it is larger than max_bytes (2000)",
            "it is 9.0 days old, more than max_age_days (4)",
            "it cannot be read (FileNotFoundError)",
            "its server answers with status 302",
            "",
            "it is 13.9 days old, more than max_age_days (4)",
            "its server answers with status 404",
            "it cannot be read (NewConnectionError)",
        ]

    def test_a_source_without_a_number_is_no_source(self, tmp_path: Path) -> None:
        (tmp_path / "empty.txt").write_text("# nobody\n")
        os.utime(tmp_path / "empty.txt", (START, START))
        _, (source,) = gathered(str(tmp_path / "empty.txt"))
        assert source.problem == "it holds no number of the plan nanp-2026"


def rows(service: Service, table: sa.Table) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in service.store.rows(sa.select(table))]


class TestRounds:
    """``cheapest`` is nearly noiseless: three phones of forty-three pass the rule for a hinted number, and no other."""

    def test_a_round_reads_its_sources_once_and_says_what_rested_on_a_hint(
        self, make_service: MakeService, database: str, clock: Clock
    ) -> None:
        with web({"/list": (200, f"{SPAM}\n".encode(), {})}) as (address, asked):
            service = make_service(
                database, seeded(b"hinted"), round=TWO_TIERS, hints={"sources": [f"{address}/list", f"{address}/gone"]}
            )
            village = Village(service, clock)
            village.to("closed", [SPAM] * 3 + OTHERS)
            assert asked == []
            clock.now += 1000
            service.rounds.learn(1)
            assert asked == ["/list", "/gone"]
            service.rounds.learn(1)
            service.rounds.publish(1, service.now)
        assert asked == ["/list", "/gone"]
        (recorded,) = rows(service, schema.hints)
        assert RoundHints.from_bytes(recorded["data"]) == RoundHints(frozenset({SPAM}))
        assert recorded["sha256"] == RoundHints(frozenset({SPAM})).digest
        assert [source["problem"] for source in json.loads(recorded["sources"])] == [
            "",
            "its server answers with status 404",
        ]
        (hitter,) = rows(service, schema.hitters)
        assert (hitter["number"], hitter["hinted"]) == (SPAM, 2)
        with service.store.read() as connection:
            made = newest_list(connection)
        assert made is not None
        assert [(entry.number, entry.block, entry.hinted) for entry in made.entries] == [(SPAM, False, True)]
        with serving(service) as server:
            late = server.get("/readyz").json()["late"]
            assert late[f"hints {address}/gone"] == "its server answers with status 404"
            assert "by a hint" in server.get("/list").text

    def test_the_same_reports_without_a_hint_list_nobody(
        self, make_service: MakeService, database: str, clock: Clock
    ) -> None:
        """The hint is what the listing above rested on. A hint alone, without reports, lists nobody either."""
        service = make_service(database, seeded(b"hinted"), round=TWO_TIERS)
        Village(service, clock).to("published", [SPAM] * 3 + OTHERS)
        assert rows(service, schema.hitters) == []
        assert RoundHints.from_bytes(rows(service, schema.hints)[0]["data"]) == RoundHints()

    def test_a_hint_alone_lists_nobody(
        self, make_service: MakeService, database: str, clock: Clock, tmp_path: Path
    ) -> None:
        """Nobody reports the victim, the whole area code is hinted, and what is no number is in the file too."""
        source = tmp_path / "everybody.txt"
        source.write_text("".join(f"+1202555{place:04}\n" for place in range(10_000)) + "x\n+1\n\x00\n" * 100)
        os.utime(source, (START, START))
        service = make_service(database, seeded(b"hinted"), round=TWO_TIERS, hints={"sources": [str(source)]})
        Village(service, clock).to("published", OTHERS)
        assert rows(service, schema.hitters) == []
        assert len(RoundHints.from_bytes(rows(service, schema.hints)[0]["data"]).hinted) == 10_000

    def test_the_list_is_a_hint_for_itself_but_not_what_a_hint_put_there(
        self, make_service: MakeService, clock: Clock, tmp_path: Path
    ) -> None:
        source, loud = tmp_path / "hint.txt", OTHERS[0]
        source.write_text(f"{SPAM}\n")
        os.utime(source, (START, START))
        service = make_service(round=TWO_TIERS, hints={"sources": [str(source)]})
        village = Village(service, clock)
        for _ in range(3):
            village.to("published", [SPAM] * 3 + [loud] * 20 + OTHERS[1:])
        _, second, third = (RoundHints.from_bytes(row["data"]) for row in rows(service, schema.hints))
        assert second == RoundHints(frozenset({SPAM}), {1: frozenset({loud})})
        found_by_two_rounds = frozenset({loud, SPAM})
        assert third == RoundHints(frozenset({SPAM}), {1: found_by_two_rounds, 2: frozenset({loud})})

    def test_an_archive_takes_the_hints_along(self, make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
        """What the server found, ``hushcall learn`` finds, and a server that imports the round."""
        source = tmp_path / "hint.txt"
        source.write_text(f"{SPAM}\n")
        os.utime(source, (START, START))
        section = {**TWO_TIERS, "keep_reports": True}
        service = make_service(rand=seeded(b"hinted"), round=section, hints={"sources": [str(source)]})
        Village(service, clock).to("published", [SPAM] * 3 + OTHERS)
        address = Address(str(tmp_path / "archive"))
        archived = archiving.export_round(service.store, 1, address, lambda *_: None)
        assert address.round(1) == archived
        (row,) = learn(address, archived, ProcessBackend(0)).listed
        (hitter,) = rows(service, schema.hitters)
        assert {name: hitter[name] for name in row} == row
        assert (row["number"], row["hinted"]) == (SPAM, 2)
        again = open_service(settings_for(tmp_path / "again"), seeded(b"again"), clock)
        archiving.import_round(again.store, address, archived, lambda *_: None)
        again.rounds.learn(1)
        assert rows(again, schema.hitters) == rows(service, schema.hitters)
        again.close()

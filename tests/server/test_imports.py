"""Imported complaints: a source of their own that warns, expires, is removed, and touches nothing that phones found."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.published import serving as addresses
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, START, Clock, Village, bearer, operator_token, serving

from hushcall.client.client import Client
from hushcall.client.screening.screen import Screen
from hushcall.client.storage.personal import Action
from hushcall.errors import InvalidParameter, NotFound, Refused
from hushcall.protocol import imported
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded, words
from hushcall.server import effective_settings
from hushcall.server.backup import back_up
from hushcall.server.db import schema
from hushcall.server.publishing import imports
from hushcall.server.service import Service, open_service
from hushcall.server.signing import signer

DAY = 86_400
HEADER = "Company_Phone_Number,Created_Date,Violation_Date,Consumer_City,Consumer_State,Consumer_Area_Code,Subject,"
HEADER += "Recorded_Message_Or_Robocall"
NAMED, RARE, OTHER = "+12025550199", "+12025550177", "+12025550166"


def ftc(path: Path, complaints: dict[str, int], at: int = START) -> Path:
    """A daily file of the FTC's, with the texts in place of numbers that theirs have."""
    day = iso(at).replace("T", " ").rstrip("Z")
    texts = [number.removeprefix("+1") for number, count in complaints.items() for _ in range(count)]
    texts += ["", "Unknown", "118000", "44207946000012"]
    rows = [f"{text},{day},{day},New York,New York,212,Dropped call or no message,N" for text in texts]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def found(service: Service) -> dict[str, list[Any]]:
    """All that rounds and phones made, to the byte."""
    tables = (schema.rounds, schema.tallies, schema.hitters, schema.versions, schema.entries, schema.changes)
    rows: dict[str, list[Any]] = {table.name: [*map(tuple, service.store.rows(sa.select(table)))] for table in tables}
    files = service.store.files()
    signed = {name: signer.place_of(info) for name, info in signer.target_infos(files).items()}
    rows["files"] = sorted((name, path, files[path]) for name, path in signed.items() if name != imported.TARGET)
    return rows


def listed(service: Service) -> dict[str, dict[str, int]]:
    """Number → source → complaints, as published."""
    files = service.store.files()
    path = signed_path(service)
    lines = files[path].splitlines()[1:] if path else []
    numbers = map(imported.Imported.from_line, lines)
    return {n.number: {name: count for name, (count, _) in n.sources.items()} for n in numbers}


def signed_path(service: Service) -> str:
    with service.store.read() as connection:
        published = imports.published(connection)
    return published.path if published else ""


def phone(folder: Path, address: str, clock: Clock) -> Client:
    client = Client.set_up(folder, address)
    client.clock = clock
    return client


def test_on_the_first_day_phones_warn_of_it_before_any_round(service: Service, clock: Clock, tmp_path: Path) -> None:
    result = service.imports.add(str(ftc(tmp_path / "a.csv", {NAMED: 3, RARE: 2})), service.now)
    assert (result.source, result.numbers, result.listed, result.least) == ("ftc", 2, 1, 3)
    with serving(service) as client, closing(phone(tmp_path / "phone", str(client.base_url), clock)) as owner:
        with pytest.raises(Refused, match="no list yet"):
            owner.sync()
        verdict = owner.check(NAMED)
        host = str(client.base_url.netloc.decode())
        assert (verdict.action, verdict.list, verdict.source) == (Action.WARN, host, "ftc")
        assert verdict.why == f"{host}: 3 complaints to ftc"
        assert owner.check(RARE).action is Action.ALLOW
        page = client.get("/list", params={"q": NAMED}).text
        assert "is named by others" in page
        assert "complaints to ftc" in page
        assert "ftc: 1 number" in client.get("/list").text
        assert "are needed to find a caller" in client.get("/").text
        assert client.get("/v1/lists/current/imported.jsonl").content.count(b"\n") == 2
        clock.now += 31 * DAY  # the server is gone, too: what is here expires by itself
        assert owner.check(NAMED).action is Action.ALLOW


def test_what_phones_found_is_the_same_to_the_byte_with_and_without_it(
    make_service: MakeService, database: str, clock: Clock, tmp_path: Path
) -> None:
    outcomes = []
    for importing in (False, True):
        clock.now = START
        service = make_service(
            database if importing else "", seeded(b"the same"), f"data {importing}", list={"exports": ["all"]}
        )
        village = Village(service, clock)
        for day in range(3):
            if importing:
                service.imports.add(str(ftc(tmp_path / f"{day}.csv", {SPAM: 5, NAMED: 9}, service.now)), service.now)
            village.to("published", [SPAM] * 12 + [OTHER] * 7)
            if importing:
                assert listed(service)[NAMED] == {"ftc": 9 * (day + 1)}  # also in a version that a round made
        outcomes.append(found(service))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["entries"]


def test_a_phones_verdict_comes_from_phones_first_and_imports_never_block(
    service: Service, village: Village, clock: Clock, tmp_path: Path
) -> None:
    service.imports.add(str(ftc(tmp_path / "a.csv", {SPAM: 50, NAMED: 50})), service.now, days=300)
    for _ in range(3):
        village.to("published", [SPAM] * 12)
    with serving(service) as client, closing(phone(tmp_path / "phone", str(client.base_url), clock)) as owner:
        owner.store.put("block_days", "1")  # blocks whatever phones found
        owner.sync()
        assert [owner.check(number).source for number in (SPAM, NAMED)] == ["phones", "ftc"]
        assert [owner.check(number).action for number in (SPAM, NAMED)] == [Action.BLOCK, Action.WARN]
        assert Screen(owner.store).blocked(service.now) == [SPAM]
        headers = bearer(operator_token(service))
        named = client.get(f"/v1/admin/numbers/{NAMED}", headers=headers).json()
        assert named["imported"]["ftc"]["complaints"] == 50
        assert named["seen"] == []
        client.post("/login", data={"token": operator_token(service)}, headers={"origin": str(client.base_url)})
        page = client.get(f"/numbers/{NAMED}").text
        assert "complaints to ftc" in page
        assert "never found by any round" in page
        for name in ("yacb.csv", "hushcall.txt", "blocklist.jsonl"):
            assert NAMED[1:].encode() not in client.get(f"/v1/lists/current/{name}").content


def test_complaints_of_days_add_up_and_expire_day_by_day(service: Service, clock: Clock, tmp_path: Path) -> None:
    for day in range(3):
        clock.now = START + day * DAY
        file = ftc(tmp_path / f"{day}.csv", {NAMED: 2, RARE: 1}, service.now)
        service.imports.add(str(file), service.now, days=5)
    assert listed(service) == {NAMED: {"ftc": 6}, RARE: {"ftc": 3}}
    again = service.imports.add(str(tmp_path / "2.csv"), service.now, days=5)
    assert (again.listed, listed(service)) == (2, {NAMED: {"ftc": 6}, RARE: {"ftc": 3}})
    clock.now = START + 5 * DAY
    service.imports.expire(service.now)
    assert listed(service) == {NAMED: {"ftc": 4}}
    clock.now = START + 7 * DAY
    service.imports.expire(service.now)
    assert listed(service) == {}
    assert signed_path(service) == ""
    assert not [row for table in (schema.imports, schema.imported) for row in service.store.rows(sa.select(table))]


def test_the_time_a_line_names_is_when_too_few_complaints_are_left(
    service: Service, clock: Clock, tmp_path: Path
) -> None:
    for day, count in enumerate((2, 2, 1)):
        clock.now = START + day * DAY
        service.imports.add(str(ftc(tmp_path / f"{day}.csv", {NAMED: count}, service.now)), service.now, days=10)
    line = service.store.files()[signed_path(service)].splitlines()[1]
    assert imported.Imported.from_line(line).sources == {"ftc": (5, START + 11 * DAY)}


def test_one_command_removes_a_source_and_leaves_the_others(service: Service, clock: Clock, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"# ours\n{NAMED}\n(202) 555-0177\nnothing\n")
    block = {"version": 1, "numbers": [{"phone": OTHER, "votes": 9}, {"phone": RARE, "votes": 4}]}
    (tmp_path / "pb.json").write_text(json.dumps(block))
    for name in ("list.txt", "pb.json"):
        os.utime(tmp_path / name, (START, START))
    service.imports.add(str(ftc(tmp_path / "a.csv", {NAMED: 3})), service.now)
    service.imports.add(str(tmp_path / "list.txt"), service.now, source="neighbours")
    assert service.imports.add(str(tmp_path / "pb.json"), service.now).least == 5
    everything = {NAMED: {"ftc": 3, "neighbours": 1}, RARE: {"neighbours": 1}, OTHER: {"phoneblock": 9}}
    assert listed(service) == everything
    (tmp_path / "list.txt").write_text(f"{NAMED}\n")
    os.utime(tmp_path / "list.txt", (START, START))
    service.imports.add(str(tmp_path / "list.txt"), service.now, source="neighbours")  # a list replaces the one before
    assert listed(service) == {NAMED: {"ftc": 3, "neighbours": 1}, OTHER: {"phoneblock": 9}}
    assert service.imports.remove("ftc", service.now) == 1
    assert listed(service) == {NAMED: {"neighbours": 1}, OTHER: {"phoneblock": 9}}
    with pytest.raises(NotFound, match="Nothing is imported of the source ftc"):
        service.imports.remove("ftc", service.now)


def test_appeals_the_allowlist_and_protected_codes_hold(service: Service, tmp_path: Path) -> None:
    emergency = "+19115550143"
    service.imports.add(str(ftc(tmp_path / "a.csv", {NAMED: 3, RARE: 3, emergency: 9})), service.now)
    assert set(listed(service)) == {NAMED, RARE}
    entry, changed = service.corrections.appeal(NAMED, "a school", "its head", service.now)
    assert (changed, set(listed(service))) == (True, {RARE})
    service.corrections.allow(RARE, "a clinic", "its head", service.now)
    assert listed(service) == {}
    service.imports.add(str(tmp_path / "a.csv"), service.now)
    assert listed(service) == {}
    service.corrections.close(entry, "it was none", service.now)
    service.corrections.disallow(RARE, service.now)
    assert set(listed(service)) == {NAMED, RARE}


def test_the_allow_file_holds_and_a_broken_one_lets_no_new_number_in(
    make_service: MakeService, database: str, tmp_path: Path
) -> None:
    allow = tmp_path / "allow.txt"
    allow.write_text(RARE)
    service = make_service(database, list={"allow_file": str(allow)})
    service.imports.add(str(ftc(tmp_path / "a.csv", {NAMED: 3, RARE: 3})), service.now)
    assert set(listed(service)) == {NAMED}
    allow.write_text("no number")
    service.imports.add(str(ftc(tmp_path / "b.csv", {NAMED: 1, OTHER: 3, RARE: 3})), service.now)
    assert listed(service) == {NAMED: {"ftc": 4}}


BAD = {
    "not there": (None, r"it cannot be read \(FileNotFoundError\)"),
    "empty": (b"", "it holds no number of the plan nanp-2026"),
    "bytes": (b"\xff\xfe\x00", "it is no list of numbers"),
    "a page": (b"<html>\n<p>moved</p>\n2025550143\n", "2 lines are none of nanp-2026"),
    "json of something": (b'{"rows": []}', "it is no list of numbers"),
    "cut json": (b'{"numbers": [{"phone": "+12025550143", "vo', "it is no list of numbers"),
    "old": (
        f"{HEADER}\n2025550143,2020-01-01 00:00:00,,,,,,\n".encode(),
        "newer than 30 days .* this is of 2020-01-01",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_of_a_bad_file_nothing_is_imported(name: str, lite: Service, tmp_path: Path) -> None:
    lite.imports.add(str(ftc(tmp_path / "good.csv", {NAMED: 3})), lite.now)
    before = [lite.store.rows(sa.select(table)) for table in (schema.imports, schema.imported, schema.files)]
    content, words_ = BAD[name]
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    with pytest.raises(InvalidParameter, match=words_):
        lite.imports.add(str(tmp_path / "bad"), lite.now)
    with pytest.raises(InvalidParameter, match="source must be at most 40"):
        lite.imports.add(str(tmp_path / "good.csv"), lite.now, source='"x",')
    assert before == [lite.store.rows(sa.select(table)) for table in (schema.imports, schema.imported, schema.files)]


def test_a_server_that_dies_in_the_middle_has_all_of_it_or_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service.imports.add(str(ftc(tmp_path / "a.csv", {NAMED: 3})), service.now)

    class Dies(Exception):
        pass

    def fault(step: str) -> None:
        if step == "import complaints: before commit":
            raise Dies

    dying = open_service(service.settings, clock=service.clock, fault=fault)
    with closing(dying), pytest.raises(Dies):
        dying.imports.add(str(ftc(tmp_path / "b.csv", {OTHER: 3})), service.now)
    assert listed(service) == {NAMED: {"ftc": 3}}
    assert len(service.imports.sources()) == 1


def test_a_daily_file_of_fourteen_thousand_complaints(service: Service, tmp_path: Path) -> None:
    draws = words(seeded(b"a day of complaints")(8 * 14_000))
    callers = [NANP.number(202, NANP.first_suffix + int(draw % 9000)) for draw in draws]
    complaints: dict[str, int] = {}
    for caller in map(str, callers):
        complaints[caller] = complaints.get(caller, 0) + 1
    file = ftc(tmp_path / "day.csv", complaints)
    assert file.stat().st_size > 1_300_000
    before = time.process_time()
    result = service.imports.add(str(file), service.now)
    assert time.process_time() - before < 10
    assert result.numbers == len(complaints)
    assert result.listed == sum(count >= 3 for count in complaints.values())


def test_a_backup_has_it_and_a_restored_server_goes_on(lite: Service, clock: Clock, tmp_path: Path) -> None:
    lite.imports.add(str(ftc(tmp_path / "a.csv", {NAMED: 3})), lite.now)
    back_up(lite, tmp_path / "backup")
    assert NAMED.encode() in (tmp_path / "backup").read_bytes()
    Village(lite, clock).to("published", [SPAM] * 12)
    lite.publisher.leap(lite.now, 1000)
    assert listed(lite) == {NAMED: {"ftc": 3}}


def test_by_the_address_of_yesterday(lite: Service, tmp_path: Path) -> None:
    data = ftc(tmp_path / "a.csv", {NAMED: 3}).read_bytes()
    with addresses({f"day-{iso(START - DAY)[:10]}.csv": data}) as server:
        pin = hashlib.sha256(data).hexdigest()
        result = lite.imports.add(f"{server.base}day-{{date}}.csv#sha256={pin}", lite.now)
        assert (result.source, result.listed) == ("ftc", 1)
        with pytest.raises(InvalidParameter, match="its server answers with status 404"):
            lite.imports.add(f"{server.base}none.csv", lite.now)
        with pytest.raises(InvalidParameter, match="another SHA-256"):
            lite.imports.add(f"{server.base}day-{{date}}.csv#sha256={'0' * 64}", lite.now)
    with pytest.raises(InvalidParameter, match="cannot be read"):
        lite.imports.add(f"{server.base}day-{{date}}.csv", lite.now)


def test_on_the_command_line(lite: Service, tmp_path: Path) -> None:
    def run(*arguments: object) -> Any:
        words = [*map(str, arguments), "--json", "--data", str(lite.settings.data)]
        command = [str(Path(sys.executable).with_name("hushcall")), "admin", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr

    effective_settings.record(lite.settings)
    file = ftc(tmp_path / "a.csv", {NAMED: 3, RARE: 2})
    result = run("import-complaints", file, "--complaints", 2, "--source", "the FTC", "--days", 3000)
    assert (result["source"], result["listed"], result["least"]) == ("the FTC", 2, 2)
    assert run("imports", "--remove", "the FTC") == {"removed": "the FTC", "files": 1}
    device, _ = lite.devices.enrol("open", lite.now)
    assert run("delete-device", device)["deleted"] == device
    assert "complaints must be a file or address that can be read" in run("import-complaints", tmp_path / "none")
    assert [row.what for row in lite.audit.entries(3)] == ["import", "delete device", "remove import"]

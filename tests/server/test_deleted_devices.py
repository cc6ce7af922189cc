"""A deleted device: no row and no file names it, here and in a backup made after, and rounds in progress stay sound."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import CLOSES, COLLECTS, SPAM, Clock, Village, bearer, newest, operator_token, serving, state

from hushcall.client.client import Client
from hushcall.client.reporting import ledger
from hushcall.client.reporting.consent import Limits
from hushcall.errors import InvalidParameter, NotFound
from hushcall.protocol.randomness import seeded
from hushcall.server.auth.devices import token_hash
from hushcall.server.backup import DUMP, back_up
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import Announce, Intake, Upload, ticket_for
from hushcall.server.problems import Problem
from hushcall.server.rounds import holding
from hushcall.server.service import Service

CALLERS = [SPAM] * 30
PHASES = ("announcing", "collecting", "closed", "decoded")


def varint(value: int) -> bytes:
    """How SQLite writes a row's number."""
    digits = [value & 127]
    while value := value >> 7:
        digits.append(value & 127 | 128)
    return bytes(reversed(digits))


def names_of(service: Service, device: int, token: str) -> list[bytes]:
    """What names a device: its number as text and as bytes, its token, their hash, its ticket in the open round."""
    ticket = ticket_for(bytes(newest(service).secret), device)
    hashes = [token_hash(token), ticket]
    numbers = [str(device).encode(), device.to_bytes(7, "big").lstrip(b"\0"), varint(device)]
    return [*numbers, token.encode(), *hashes, *(value.hex().encode() for value in hashes)]


def rows_with(service: Service, names: list[bytes]) -> list[str]:
    """The tables with a row that names it."""
    found = []
    for table in schema.metadata.sorted_tables:
        for row in service.store.rows(sa.select(table)):
            cells = [bytes(cell) if isinstance(cell, bytes | memoryview) else str(cell).encode() for cell in row]
            found += [table.name for cell in cells if any(name in cell for name in names)]
    return sorted(set(found))


def files_with(folder: Path, names: list[bytes]) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if any(name in path.read_bytes() for name in names)]


def someone(village: Village) -> tuple[int, str]:
    """One of the village's devices."""
    token = village.tokens[7]
    query = sa.select(schema.devices.c.id).where(schema.devices.c.token_hash == token_hash(token))
    return int(village.service.store.rows(query)[0].id), token


def mention(service: Service, device: int) -> None:
    """Rows that name a device beside those of its reports."""
    with service.store.write("test") as connection:
        for table, values in ((schema.issued, {"blinded": bytes(32)}), (schema.refusals, {"count": 3})):
            connection.execute(sa.insert(table).values(round=1, device=device, **values))
    with service.audit.act(0, "root", "revoke", f"device {device}"):
        service.devices.revoke(device, service.now)


@pytest.mark.parametrize("phase", PHASES)
def test_no_row_and_no_file_names_it_any_more(village: Village, phase: str, tmp_path: Path) -> None:
    service = village.service
    village.to(phase, CALLERS)
    device, token = someone(village)
    names = names_of(service, device, token) if phase != "decoded" else [str(device).encode(), token_hash(token)]
    mention(service, device)
    tables = rows_with(service, names)
    assert {"audit", "devices", "issued", "refusals"} <= set(tables)
    assert ("announcements" in tables) == (phase != "decoded")
    assert ("reports" in tables) == (phase in ("collecting", "closed"))
    assert bool(files_with(Path(service.settings.data), names)) != service.store.postgres
    with service.audit.act(0, "root", "delete device", f"device {device}"):
        service.devices.delete(device)
    assert rows_with(service, names) == []
    assert {"a deleted device"} == {row.about for row in service.store.rows(sa.select(schema.audit))}
    assert files_with(Path(service.settings.data), names) == []
    with pytest.raises(NotFound, match=f"There is no device {device}"):
        service.devices.delete(device)


@pytest.mark.parametrize("phase", PHASES[1:])
def test_a_backup_made_after_does_not_name_it(village: Village, phase: str, clients: None, tmp_path: Path) -> None:
    service = village.service
    village.to(phase, CALLERS)
    device, token = someone(village)
    names = names_of(service, device, token) if phase != "decoded" else [str(device).encode(), token_hash(token)]
    mention(service, device)

    def content(file: Path) -> bytes:
        back_up(service, file)
        with tarfile.open(file) as tar:
            tar.extractall(folder := tmp_path / f"of {file.name}", filter="data")
        data = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        if (dump := folder / DUMP).exists():
            data += subprocess.run(["pg_restore", "--file=-", dump], check=True, capture_output=True).stdout
        return data

    before = content(tmp_path / "before")
    assert any(name in before for name in names)
    service.devices.delete(device)
    after = content(tmp_path / "after")
    assert not [name for name in names if name in after]


@pytest.mark.parametrize("phase", PHASES[:3])
def test_the_round_in_progress_goes_on_without_it(village: Village, clock: Clock, phase: str) -> None:
    service = village.service
    village.to(phase, CALLERS)
    device, token = someone(village)
    ticket = ticket_for(bytes(newest(service).secret), device)
    service.devices.delete(device)
    late = Intake(service.store, "late").accept(
        [Announce(token_hash(token), 1, 202), Upload(token_hash(token), 1, ticket, bytes(3))]
    )
    assert [answer.name for answer in late if isinstance(answer, Problem)] == ["unknown-token", "unknown-token"]
    village.tokens.remove(token)
    others = CALLERS[:-1]
    if phase == "announcing":
        clock.now = COLLECTS
        service.rounds.start_collecting(1, service.now)
        village.report(others)
    if phase != "closed":
        clock.now = CLOSES
        service.rounds.close(1)
    service.rounds.learn(1)
    service.rounds.publish(1, service.now)
    assert state(service) == "published"
    ((count,),) = service.store.rows(sa.select(schema.tallies.c.count))
    assert count == len(others)
    assert [row.number for row in service.store.rows(sa.select(schema.hitters.c.number))] == [SPAM]


def test_held_rounds_and_reports_that_are_kept(make_service: MakeService, database: str, clock: Clock) -> None:
    service = make_service(database, round={"keep_reports": True})
    village = Village(service, clock)
    village.to("published", CALLERS)
    village.to("collecting", CALLERS)
    holding.hold(service.store, 2, "a test")
    device, token = someone(village)
    names = names_of(service, device, token)
    assert rows_with(service, names) == ["announcements", "devices", "reports"]
    service.devices.delete(device)
    assert rows_with(service, names) == []
    holding.release(service.store, 2)
    assert state(service, 2) == "collecting"


def test_a_phone_leaves_by_itself_and_stays_left(service: Service, clock: Clock, tmp_path: Path) -> None:
    service.rounds.open(service.now)
    with serving(service) as server:
        home, address = tmp_path / "phone", str(server.base_url)
        with closing(Client.set_up(home, address)) as phone:
            phone.clock, phone.rand = clock, seeded(b"a phone that leaves")
            Limits(mechanisms="subspace direct", report=Fraction(30), window=Fraction(300), by_name=True).save(
                phone.store
            )
            phone.report(skip_delays=True)
            token, device = phone.store.get("token"), int(phone.store.get("device"))
            names = names_of(service, device, token)
            assert "devices" in rows_with(service, names)
            spent = ledger.spent(phone.store)
            service.devices.delete(device)  # the answer to a request before was lost
            phone.leave()
            assert rows_with(service, names) == []
            assert (phone.store.get("token"), ledger.spent(phone.store)) == ("", spent)
            assert phone.report(skip_delays=True).action == "stopped"
            with pytest.raises(InvalidParameter, match="phone must be enrolled"):
                phone.leave()
        hushcall = str(Path(sys.executable).with_name("hushcall"))
        command = [hushcall, "phone", "init", "--policy", "warn", "--home", str(home), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert not json.loads(done.stdout)["enrolled"]  # a change of settings does not take part again
        done = subprocess.run([*command, "--server", address], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["enrolled"]
        done = subprocess.run(
            [hushcall, "phone", "leave", "--yes", "--home", str(home), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == {"left": address}
        assert not service.store.rows(sa.select(schema.devices))


def test_over_http_by_an_operator_by_its_token_and_on_the_pages(service: Service) -> None:
    with serving(service) as server:
        tokens = [server.post("/v1/devices").json() for _ in range(4)]
        operator = bearer(operator_token(service, "devices"))
        path = f"/v1/admin/devices/{tokens[0]['device']}/delete"
        assert server.post(path, headers=bearer(operator_token(service, "read"))).status_code == 403
        assert [server.post(path, headers=operator).status_code for _ in range(2)] == [204, 404]
        own = bearer(tokens[1]["token"])
        assert [server.delete("/v1/devices/self", headers=own).status_code for _ in range(2)] == [204, 401]
        assert server.delete("/v1/devices/self").status_code == 401
        assert 'href="/leave"' in server.get("/owner").text
        assert 'name="token"' in server.get("/leave").text
        refused = server.post("/leave", data={"token": "hcd_none"})
        assert (refused.status_code, "No device" in refused.text) == (401, True)
        left = server.post("/leave", data={"token": tokens[2]["token"]})
        assert (left.status_code, "is deleted" in left.text) == (200, True)
        _by_form(server, service, tokens[3]["device"])
        assert not service.store.rows(sa.select(schema.devices))


def _by_form(server: httpx.Client, service: Service, device: int) -> None:
    server.post("/login", data={"token": operator_token(service)}, headers={"origin": str(server.base_url)})
    page = server.get("/access").text
    assert 'action="/actions/delete-device"' in page
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    form = {"csrf": csrf, "device": str(device), "back": "/access"}
    asked = server.post("/actions/delete-device", data=form)
    assert "Delete a device" in asked.text
    done = server.post("/actions/delete-device", data={**form, "confirmed": "yes"}, follow_redirects=True)
    assert "Sealed tallies and earlier backups stay" in done.text

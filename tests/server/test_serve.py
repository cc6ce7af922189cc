"""``hushcall serve`` as an operator runs it: a process of its own, from an empty folder to a graceful end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from threading import Event

import httpx
import pytest
from tests.server.serving import SPAM, Handset, bearer, honest_report

from hushcall.cli import main
from hushcall.server.serve import _COMPILE
from hushcall.server.service import open_service
from hushcall.server.settings import load_settings
from hushcall_lab.usage import family

HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]
OTHER = "+12125550199"


@dataclass
class Process:
    """A server in a process of its own, and what it wrote."""

    popen: subprocess.Popen[bytes]
    folder: Path
    started: float

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text(encoding="utf-8")

    def address(self) -> str:
        """Where it listens, as its first line says."""
        while not (found := re.search(r"http://127\.0\.0\.1:[0-9]+", self.stdout)):
            self._patience("say where it listens")
        return found[0]

    def wait_until_alive(self) -> None:
        """Until the first answer."""
        address = self.address()
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{address}/healthz", timeout=60).status_code == 200:
                    return
            self._patience("answer")

    def wait_until_compiled(self) -> None:
        """Until it says that its decoders are ready."""
        while "decoders ready" not in self.stderr:
            self._patience("compile its decoders")

    def _patience(self, what: str) -> None:
        assert self.popen.poll() is None, self.stderr
        assert time.monotonic() - self.started < 120, f"the server did not {what}"
        time.sleep(0.02)

    def token(self) -> str:
        """The operator's token, which the first start shows once."""
        (found,) = re.findall(r"hca_[0-9a-f]{64}", self.stdout)
        return str(found)

    def stop(self) -> int:
        """Ask it to end, and wait for that."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(60)


@contextlib.contextmanager
def served(folder: Path, *options: str, **variables: str) -> Iterator[Process]:
    folder.mkdir(exist_ok=True)
    command = [*HUSHCALL, "serve", "--data", str(folder / "data"), "--port", "0", *options]
    environment = {**os.environ, "COLUMNS": "200", **variables}
    started = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        popen = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, env=environment)
    try:
        yield Process(popen, folder, started)
    finally:
        if popen.poll() is None:
            popen.kill()
            popen.wait(30)


def test_an_empty_folder_becomes_a_server_that_says_what_to_do_next(tmp_path: Path) -> None:
    with served(tmp_path, "--period", "700") as server:
        server.wait_until_alive()
        token, address = server.token(), server.address()
        for words in (f"{address}/docs", "phone init --server", "round status --data", "it is not shown again"):
            assert words in server.stdout
        with httpx.Client(base_url=address, timeout=60) as client:
            whoami = client.get("/v1/admin/whoami", headers=bearer(token)).json()
            assert whoami["scopes"] == ["devices", "lists", "read", "rounds"]
            assert client.get("/readyz").status_code == 200
        kept = tmp_path / "data" / "settings.json"
        assert (kept.stat().st_mode & 0o777, json.loads(kept.read_text())["settings"]["round"]["period"]) == (
            0o600,
            700,
        )
        assert "Decoders are compiled in the background" in server.stdout
        server.wait_until_compiled()
        server.stop()
        events = sorted(json.loads(line)["event"] for line in server.stderr.splitlines())
        assert events == ["decoders ready", "round opened"]
    with served(tmp_path) as server:
        server.wait_until_alive()
        assert "hca_" not in server.stdout
        with httpx.Client(base_url=server.address(), timeout=60) as client:
            assert client.get("/v1/admin/whoami", headers=bearer(token)).status_code == 200
            assert client.get("/v1/rounds/current").json()["round"] == 1


def test_what_was_acknowledged_before_a_sigterm_is_kept(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    enough = Event()

    def announce(address: str, tokens: list[str]) -> None:
        with httpx.Client(base_url=address, timeout=60) as client, contextlib.suppress(httpx.TransportError):
            for token in cycle(tokens):  # until nobody answers
                answer = Handset(client, token).announce()
                if answer.status_code == 201:
                    acknowledged.add(answer.json()["ticket"])
                if len(acknowledged) >= 50:
                    enough.set()

    with served(tmp_path, HUSHCALL_INTAKE__LINGER_MS="5") as server:
        server.wait_until_alive()
        address = server.address()
        headers = bearer(server.token())
        made = httpx.post(f"{address}/v1/admin/devices", json={"count": 2000}, headers=headers, timeout=60)
        tokens = [device["token"] for device in made.json()["devices"]]
        with ThreadPoolExecutor(4) as pool:
            for at in range(4):
                pool.submit(announce, address, tokens[at::4])
            assert enough.wait(120)
            code = server.stop()
        assert code in (0, -signal.SIGTERM)
        assert "error" not in server.stderr
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "hushcall.db")) as database:
        stored = {ticket.hex() for (ticket,) in database.execute("SELECT ticket FROM announcements")}
    assert len(acknowledged) >= 50
    assert acknowledged <= stored


def test_a_port_that_is_taken_is_a_clear_error_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(monkeypatch, capsys, "serve", "--data", str(tmp_path / "data"), "--port", str(port))
    assert said.startswith("hushcall: port must be free on 127.0.0.1 (Address already in use); try --port 0, got ")
    assert not (tmp_path / "data").exists()


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr of a command that fails."""
    monkeypatch.setattr(sys, "argv", ["hushcall", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[server]\nport = 70000",
            "server.port must be valid (input should be less than or equal to 65535), got 70000",
        ),
        ("[rounds]\nperiod = 1", "settings must hold names that exist ('hushcall config example'), got 'rounds'"),
        ("database = 'mysql://u@h/n'", "database must be SQLite or PostgreSQL, got 'mysql'"),
        ("database = 'nonsense'", "database must be a URL such as postgresql+psycopg://user@host/name, got 'nonsense'"),
        ("database = 'postgresql://u:secret@127.0.0.1:1/n'", "database must be one that opens (connection failed"),
        ("[list]\nallow_file = 'absent.txt'", "allow_file must be a readable text file (FileNotFoundError)"),
        ("nonsense", "settings must be a readable TOML file"),
    ],
)
def test_config_check_says_in_one_line_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hushcall.toml").write_text(text, encoding="utf-8")
    line = refused(monkeypatch, capsys, "config", "check")
    assert line.startswith(f"hushcall: {said}")
    assert "secret" not in line


def test_config_check_finds_a_database_that_is_none_or_too_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "hushcall-data"
    data.mkdir()
    (data / "hushcall.db").write_bytes(b"no database at all" * 100)
    said = refused(monkeypatch, capsys, "config", "check")
    assert "database must be whole: it is damaged (file is not a database)" in said
    (data / "hushcall.db").unlink()
    with contextlib.closing(sqlite3.connect(data / "hushcall.db")) as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
        database.commit()
    assert "database must have a schema that this release knows" in refused(monkeypatch, capsys, "config", "check")


def test_config_check_says_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "allow.txt").write_text("+12025550143\n", encoding="utf-8")
    (tmp_path / "hushcall.toml").write_text("[list]\nallow_file = 'allow.txt'\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["hushcall", "config", "check"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code
    said = capsys.readouterr().out
    for words in ("settings: ok", "database: none yet", "keys: none yet", "allowlist: ok, 1 number"):
        assert words in said
    open_service(load_settings()).close()
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code
    said = capsys.readouterr().out
    for words in ("settings: ok", "database: ok", "keys: ok", "allowlist: ok, 1 number"):
        assert words in said


def test_no_log_line_holds_a_number_a_token_a_ticket_or_an_address(tmp_path: Path) -> None:
    options = ("--profile", "cheapest", "--period", "100000", "--enrolment", "open")
    settings = {"SERVER__ACCESS_LOG": "true", "ROUND__DECODERS": "0", "ENROL__WORK": "0"}
    with served(tmp_path, *options, **{f"HUSHCALL_{name}": value for name, value in settings.items()}) as server:
        server.wait_until_alive()
        operator = server.token()
        with httpx.Client(base_url=server.address(), timeout=60) as client:
            secrets = a_round_with_mishaps(client, bearer(operator), tmp_path / "data" / "hushcall.db")
        server.stop()
    assert server.stdout.count(operator) == 1  # the banner of the first start, by design
    written = server.stderr + server.stdout.replace(operator, "")
    lines = [json.loads(line) for line in server.stderr.splitlines()]
    assert all(isinstance(line, dict) and {"at", "level", "event"} <= line.keys() for line in lines)
    asked = [line for line in lines if line["event"] == "request"]
    assert {200, 201, 400, 401, 404, 405, 409, 422, 500} <= {line["status"] for line in asked}
    assert {"method", "route", "status"} <= set.intersection(*(set(line) for line in asked))
    failed = [line for line in lines if line["event"] == "request failed"]
    assert {line["error"] for line in failed} == {"OperationalError"}
    assert [line["state"] for line in lines if line["event"] == "round moved"][-1] == "published"
    for secret in secrets:
        assert secret not in written
    logged = server.stderr
    assert not re.search(r"\(?[2-9]\d{2}\)?[ .-]?[2-9]\d{2}[ .-]?\d{4}(?!\d)", logged)
    assert not re.search(r"hc[adi]_[0-9a-f]|[0-9a-fA-F]{32}|127\.0\.0\.1|Bearer", logged)


def a_round_with_mishaps(client: httpx.Client, operator: dict[str, str], database: Path) -> set[str]:
    """A whole round, and everything that can go wrong around it; whatever must not be logged."""
    secrets = {operator["authorization"].removeprefix("Bearer ")}
    for number in (SPAM, OTHER):
        digits = number[2:]
        secrets |= {digits, digits[3:], f"{digits[:3]}-{digits[3:6]}-{digits[6:]}"}
    advance = ("/v1/admin/rounds/advance", {"force": "true"})
    phones = [Handset.enrolled(client) for _ in range(6)]
    tickets = [phone.ticket() for phone in phones]
    secrets |= {phone.token for phone in phones} | set(tickets)
    assert Handset(client, "hcd_" + "5e" * 32).announce().status_code == 401
    assert phones[0].announce(2025550143).status_code == 400
    assert client.post("/v1/devices", json={SPAM: OTHER}).status_code == 400
    assert client.post("/v1/devices", content=f'{{"invite": "{SPAM}').status_code == 400
    assert client.post(advance[0], params=advance[1], headers=operator).status_code == 200
    current = client.get("/v1/rounds/current").json()
    for phone, ticket in zip(phones, tickets, strict=True):
        assert phone.report(ticket, SPAM.encode()).status_code == 422
        assert phone.report(ticket, honest_report(current, ticket)).status_code == 201
        assert phone.report(ticket, OTHER.encode()).status_code == 409
    assert client.post(advance[0], params=advance[1], headers=operator).status_code == 200
    # Among strangers that chance may have listed, once in three thousand rounds: this process has the system's entropy.
    assert SPAM in [row["phone"] for row in client.get("/api/blocklist").json()["numbers"]]
    bad = {"number": "202555014", "why": f"call {OTHER}"}
    assert client.post("/v1/admin/appeals", json=bad, headers=operator).status_code == 422
    good = {"number": SPAM, "why": f"call {OTHER}", "who": OTHER}
    assert client.post("/v1/admin/appeals", json=good, headers=operator).status_code == 201
    assert client.get(f"/v1/admin/numbers/{SPAM}", headers=operator).status_code == 200
    assert client.get(f"/nothing/{SPAM}").status_code == 404
    assert client.delete("/v1/rounds/current", params={"of": SPAM}).status_code == 405
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:  # now whatever looks there fails
        connection.execute("DROP TABLE hitters")
        connection.execute("DROP TABLE announcements")
    assert client.get(f"/v1/admin/numbers/{SPAM}", headers=operator).status_code == 500
    assert phones[0].report(tickets[0], SPAM.encode()).status_code == 500
    with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as raw:
        raw.sendall(f"NONSENSE {SPAM}\r\nAuthorization: {phones[0].token}\r\n\r\n".encode())
        raw.recv(1000)
    return secrets


@pytest.mark.slow
def test_workers_survive_their_metrics_folder_and_end_with_their_supervisor(tmp_path: Path) -> None:
    with served(tmp_path, HUSHCALL_SERVER__WORKERS="2") as server:
        server.wait_until_alive()
        address, token = server.address(), server.token()
        folders = list((tmp_path / "data").glob("metrics-*"))
        assert len(folders) == 1
        if sys.platform == "linux":
            forks = [
                child for child in family(server.popen.pid) if len(family(child)) > 2 and child != server.popen.pid
            ]
            assert len(forks) == 1, "the server is imported once, and its workers are forks of that process"
        folders[0].rename(tmp_path / "gone")  # in one step: the workers write to it at any moment
        for place in range(20):  # a connection each: both workers are met
            assert httpx.get(f"{address}/never/met/{place}", timeout=60).status_code == 404
            assert httpx.get(f"{address}/metrics", headers=bearer(token), timeout=60).status_code == 200
        server.popen.kill()
        server.popen.wait(60)
        host, port = "127.0.0.1", int(address.rpartition(":")[2])
        for _ in range(300):
            with socket.socket() as found:
                if found.connect_ex((host, port)) != 0:
                    return
            time.sleep(0.1)
    raise AssertionError("nobody is left on the port")


def test_who_compiles_decoders_ends_with_whoever_started_it() -> None:
    work = "from hushcall.mechanisms.kernels.warm_up import main\nmain()\n"
    assert work in _COMPILE
    forever = _COMPILE.replace(work, "from time import sleep\nsleep(600)\n")
    child = subprocess.Popen([sys.executable, "-c", forever], stdin=subprocess.PIPE)
    assert child.stdin is not None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.2)
    child.stdin.close()  # as it is when the other process is gone
    assert child.wait(60) == 1


def test_a_worker_that_cannot_finish_leaves_the_port_when_its_supervisor_is_gone(tmp_path: Path) -> None:
    """One slow upload is enough: a server that starts again waits for the port as long."""
    (tmp_path / "supervisor.py").write_text(
        "import multiprocessing, os, signal, time\n"
        "def work():\n"
        "    from hushcall.server.serve import _end_with_the_supervisor\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    _end_with_the_supervisor()\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.get_context('spawn').Process(target=work).start()\n"
        "    time.sleep(600)\n"
    )
    supervisor = subprocess.Popen([sys.executable, str(tmp_path / "supervisor.py")], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    worker = int(supervisor.stdout.readline())
    supervisor.kill()
    supervisor.wait(60)
    try:
        for _ in range(300):
            os.kill(worker, 0)
            time.sleep(0.1)
    except ProcessLookupError:
        return
    os.kill(worker, signal.SIGKILL)
    raise AssertionError("it holds the port for as long as it likes")

"""What newcomers meet: a server without a list, an address where somebody else answers."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.client.conftest import Run
from tests.client.fake_server import FakeService
from tests.home.box import FritzBox, running

from hushcall.client.client import Client
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.screening.list_sync import NO_LIST, ListClient
from hushcall.client.storage.store import LISTS, Store
from hushcall.errors import Refused, WrongServer

CLOSES = "2030-01-01T22:48:00Z"


@pytest.fixture
def young(run: Run, url: str, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A phone whose server has ended no round yet."""
    service.changes["closes"] = CLOSES
    assert run("init", "--server", url).code == 0

    def none(*_: object) -> None:
        raise Refused(NO_LIST, 404, "the server has published no list yet.")

    monkeypatch.setattr(ListClient, "sync", none)
    return tmp_path / "home"


def test_before_the_first_list_nothing_is_wrong_and_nothing_goes_in_circles(run: Run, young: Path) -> None:
    assert "look list: this phone has no list yet" in run("status").text
    said = run("sync")
    assert (said.code, said.err) == (0, "")
    assert f"The first comes after round 7 has closed, at {CLOSES}: sync then." in said.text
    assert run("sync", "--json").json == {"version": None, "first_after": CLOSES}
    after = run("status").text
    assert "ok list: the server has none yet" in after
    assert "hushcall phone sync" not in after
    (young / LISTS).mkdir(exist_ok=True)
    (young / LISTS / "list.jsonl").write_text("rubbish")
    assert "look list: the list here cannot be read." in run("status").text


def test_once_there_is_a_list_that_is_forgotten(run: Run, young: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("sync")
    monkeypatch.setattr(ListClient, "sync", lambda *_: None)
    store = Store.open(young)
    Client(store, HttpTransport("http://127.0.0.1:9")).sync()
    assert store.get("sync.none") == ""
    store.close()


@contextmanager
def other_server(status: int, kind: str, body: bytes) -> Iterator[str]:
    """A web server of something else."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (501, "text/html; charset=utf-8", b"<html>Unsupported method</html>"),
        (404, "application/json", b'{"detail": "Not Found"}'),
        (200, "text/html", b"<html>Welcome to the hotel</html>"),
    ],
)
def test_another_web_server_is_called_that(run: Run, tmp_path: Path, status: int, kind: str, body: bytes) -> None:
    with other_server(status, kind, body) as url:
        said = run("init", "--server", url)
        assert said.code == 2
        words = f"there is no hushcall server at {url}: it answered {status} with {kind.partition(';')[0]}."
        assert said.err.startswith(f"hushcall: {words} Check the address and its port")
        assert run("init", "--server", url, "--token", "hcd_" + "0" * 64).code == 2  # no phone moves to a web page
        store = Store.open(tmp_path / "home")
        assert store.get("server") == ""
        store.put("server", url)  # an address that once was right
        store.close()
        told = run("status").text
        assert f"look server: there is none of hushcall at {url}: it answered {status}" in told
        assert told.count("Check the address") == 1
        store = Store.open(tmp_path / "home")
        waits = Client(store, HttpTransport(url)).report_patiently()  # a hotel's login page passes
        store.close()
        assert waits.action == "waiting"


def test_a_certificate_that_nobody_vouches_for_is_called_that(run: Run, tmp_path: Path) -> None:
    with running(FritzBox(lambda: 0), tls=tmp_path) as box:
        said = run("init", "--server", box.address)
    assert said.code == 2
    assert f"{box.address} answers, but not by TLS as it should (self-signed certificate)" in said.err


def test_the_error_survives_pickling() -> None:
    error = WrongServer("http://127.0.0.1:1", 501, "text/html")
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(twin), twin.url, twin.status, twin.kind) == (str(error), "http://127.0.0.1:1", 501, "text/html")

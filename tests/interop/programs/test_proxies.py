"""nginx and Caddy with our configuration, on loopback: they take it, and pass on what the server says."""

import json
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.interop.programs.programs import ROOT, eventually, free_port, process, program
from tests.interop.programs.serving import a_server
from tests.server.serving import SPAM

from hushcall.protocol.problems import PROBLEMS
from hushcall.server.problems import document

SLOW = b"POST /v1/rounds/1/announcements HTTP/1.1\r\nhost: calls.example.org\r\ncontent-length: 2\r\n\r\n{"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that nobody trusts, for TLS on loopback."""
    words = [program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "fullchain.pem")]
    words += ["-subj", "/CN=calls.example.org"]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return tmp_path


def fetch(url: str) -> bytes:
    headers = {"Host": "calls.example.org"} if url.startswith("https") else {}
    request, context = urllib.request.Request(url, headers=headers), ssl._create_unverified_context()
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return bytes(answer.read())


def answers(url: str) -> bool:
    try:
        return bool(fetch(url))
    except OSError:
        return False


@contextmanager
def nginx(server: str, certificate: Path, folder: Path) -> Iterator[str]:
    """nginx with our configuration before a server. Gives its address."""
    binary, port = program("nginx"), free_port()
    ours = (ROOT / "deploy" / "nginx.conf").read_text()
    ours = ours.replace("127.0.0.1:8750", server.removeprefix("http://"))
    ours = ours.replace("/etc/ssl/calls.example.org", str(certificate)).replace("/var/log/nginx", str(folder))
    ours = re.sub(r"listen \[::\]:[^;]*;.*", "", ours)
    ours = ours.replace("listen 443", f"listen 127.0.0.1:{port}")
    ours = ours.replace("listen 80", f"listen 127.0.0.1:{free_port()}")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    head = f"daemon off;\npid {folder}/pid;\nerror_log {folder}/error;\nevents {{}}\n"
    (folder / "nginx.conf").write_text(f"{head}http {{\n{paths}{ours}\n}}\n")
    words = [binary, "-c", str(folder / "nginx.conf")]
    done = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with process(words, folder / "log"):
        address = f"https://127.0.0.1:{port}"
        eventually(lambda: answers(f"{address}/healthz") or refused(f"{address}/healthz") is not None)
        yield address


@contextmanager
def caddy(server: str, folder: Path) -> Iterator[str]:
    """Caddy with our configuration before a server, without TLS. Gives its address."""
    binary, port = program("caddy"), free_port()
    source = ROOT / "deploy" / "Caddyfile"
    words = [binary, "validate", "--adapter", "caddyfile", "--config", str(source)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    ours = source.read_text().replace("127.0.0.1:8750", server.removeprefix("http://"))
    ours = ours.replace("calls.example.org {", f"http://127.0.0.1:{port} {{\n\tbind 127.0.0.1")
    (folder / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + ours)
    words = [binary, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]
    with process(words, folder / "log"):
        address = f"http://127.0.0.1:{port}"
        eventually(lambda: answers(f"{address}/healthz") or refused(f"{address}/healthz") is not None)
        yield address


def refused(url: str) -> tuple[int, str, bytes] | None:
    """Status, ``Retry-After`` and body of a refusal; None where there is no answer."""
    try:
        fetch(url)
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Retry-After", ""), error.read()
    except OSError:
        return None
    return None


def told_to_come_back(address: str) -> None:
    refusal = refused(f"{address}/healthz")
    assert refusal is not None
    status, retry_after, body = refusal
    expected = {**document(PROBLEMS["busy"]), "detail": "The server is away."}
    assert (status, retry_after, json.loads(body)) == (503, "30", expected)


def test_nginx_serves_the_list_and_the_address_book(certificate: Path, tmp_path: Path) -> None:
    with a_server(tmp_path / "server") as server, nginx(server.address, certificate, tmp_path) as address:
        server.village.to("published", [SPAM] * 6)
        assert SPAM.encode() in fetch(f"{address}/v1/lists/current/hushcall.txt")
        export = "/v1/lists/current/yacb.csv?limit=1"
        assert fetch(f"{address}{export}") == fetch(f"{server.address}{export}")


def test_slow_clients_of_nginx_take_no_connection_of_the_server(certificate: Path, tmp_path: Path) -> None:
    with (
        a_server(tmp_path / "server", connections=1) as server,
        nginx(server.address, certificate, tmp_path) as address,
        ExitStack() as stack,
    ):
        context, slow = ssl._create_unverified_context(), list[ssl.SSLSocket]()
        for _ in range(20):
            raw = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=60)
            slow.append(stack.enter_context(context.wrap_socket(raw)))
            slow[-1].sendall(SLOW)
        for client in slow:
            assert answers(f"{address}/healthz")
            client.sendall(b"}")
            assert client.recv(100).startswith(b"HTTP/1.1 401 "), "its request arrived as a whole"


def test_clients_of_nginx_are_told_to_come_back_while_the_server_is_away(certificate: Path, tmp_path: Path) -> None:
    with nginx(f"http://127.0.0.1:{free_port()}", certificate, tmp_path) as address:
        told_to_come_back(address)


def test_caddy_serves_the_list(tmp_path: Path) -> None:
    with a_server(tmp_path / "server") as server, caddy(server.address, tmp_path) as address:
        server.village.to("published", [SPAM] * 6)
        assert SPAM.encode() in fetch(f"{address}/v1/lists/current/hushcall.txt")


def test_clients_of_caddy_are_told_to_come_back_while_the_server_is_away(tmp_path: Path) -> None:
    with caddy(f"http://127.0.0.1:{free_port()}", tmp_path) as address:
        told_to_come_back(address)

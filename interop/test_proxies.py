"""nginx and Caddy with our configuration, on loopback: they take it, and pass on what the server says."""

import re
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.server.serving import SPAM

from interop.programs import ROOT, eventually, free_port, process, program
from interop.serving import a_server


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that nobody trusts, for TLS on loopback."""
    words = [program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "fullchain.pem")]
    words += ["-subj", "/CN=calls.example.org"]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return tmp_path


def fetch(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Host": "calls.example.org"})
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:
        return bytes(answer.read())


def answers(url: str) -> bool:
    try:
        return bool(fetch(url))
    except OSError:
        return False


def test_nginx_serves_the_list_and_the_address_book(certificate: Path, tmp_path: Path) -> None:
    binary, port = program("nginx"), free_port()
    with a_server(tmp_path / "server") as server:
        server.village.to("published", [SPAM] * 6)
        ours = (ROOT / "deploy" / "nginx.conf").read_text()
        ours = ours.replace("127.0.0.1:8750", server.address.removeprefix("http://"))
        ours = ours.replace("/etc/ssl/calls.example.org", str(certificate))
        ours = re.sub(r"/var/log/nginx", str(tmp_path), ours)
        ours = re.sub(r"listen \[::\]:[^;]*;.*", "", ours)
        ours = ours.replace("listen 443", f"listen 127.0.0.1:{port}").replace(
            "listen 80", f"listen 127.0.0.1:{free_port()}"
        )
        paths = "".join(
            f"{name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        whole = (
            f"daemon off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/error;\nevents {{}}\nhttp {{\n{paths}{ours}\n}}\n"
        )
        (tmp_path / "nginx.conf").write_text(whole)
        done = subprocess.run(
            [binary, "-t", "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        with process([binary, "-c", str(tmp_path / "nginx.conf")], tmp_path / "log"):
            address = f"https://127.0.0.1:{port}"
            eventually(lambda: answers(f"{address}/healthz"))
            assert SPAM.encode() in fetch(f"{address}/v1/lists/current/hushcall.txt")
            assert fetch(f"{address}/v1/lists/current/yacb.csv?limit=1") == fetch(
                f"{server.address}/v1/lists/current/yacb.csv?limit=1"
            )


def test_caddy_serves_the_list(tmp_path: Path) -> None:
    binary, port = program("caddy"), free_port()
    with a_server(tmp_path / "server") as server:
        server.village.to("published", [SPAM] * 6)
        ours = (ROOT / "deploy" / "Caddyfile").read_text()
        subprocess.run(
            [binary, "validate", "--adapter", "caddyfile", "--config", str(ROOT / "deploy" / "Caddyfile")],
            check=True,
            capture_output=True,
            timeout=60,
        )
        ours = ours.replace("127.0.0.1:8750", server.address.removeprefix("http://"))
        ours = ours.replace("calls.example.org {", f"http://127.0.0.1:{port} {{\n\tbind 127.0.0.1")
        (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https off\n}\n" + ours)
        words = [binary, "run", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
        with process(words, tmp_path / "log"):
            eventually(lambda: _plain(f"http://127.0.0.1:{port}/healthz"))
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/lists/current/hushcall.txt", timeout=10) as answer:
                assert SPAM.encode() in answer.read()


def _plain(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

"""A tracer that finds itself in the server's process is told nothing: not a ticket, not who calls."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TICKET = "5ec2e7" + "0" * 26
CHILD = """
import json, sys, urllib.error, urllib.request
from contextlib import suppress
from pathlib import Path
from opentelemetry import trace
from hushcall.server.http import app
from hushcall_lab.servers import running
from hushcall.server.service import open_service
from hushcall.server.settings import load_settings

told = []

class Span(trace.NonRecordingSpan):
    def is_recording(self):
        return True

    def set_attribute(self, key, value):
        told.append(f"{key}={value}")

    def set_attributes(self, attributes):
        told.extend(f"{key}={value}" for key, value in attributes.items())

class Tracer(trace.NoOpTracer):
    def start_span(self, name, *_, attributes=None, **__):
        told.extend([name, *(f"{key}={value}" for key, value in (attributes or {}).items())])
        return Span(trace.INVALID_SPAN_CONTEXT)

class Provider(trace.TracerProvider):
    def get_tracer(self, *_, **__):
        return Tracer()

trace.set_tracer_provider(Provider())
folder, ticket, traced = sys.argv[1:]
if traced == "traced":
    app._UNTRACED = None
service = open_service(load_settings(alone=True, data=Path(folder), round={"scheduler": False}))
with running(service) as address:
    for method, path in (("GET", "/healthz"), ("PUT", f"/v1/rounds/1/reports/{ticket}")):
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(urllib.request.Request(address + path, b"abc", method=method)).close()
print(json.dumps(told))
"""


def told(folder: Path, how: str) -> list[str]:
    command = [sys.executable, "-c", CHILD, str(folder), TICKET, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(find_spec("opentelemetry") is None, reason="this FastAPI knows no tracer")
def test_a_tracer_in_the_process_hears_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, "as it is") == []


@pytest.mark.slow
@pytest.mark.skipif(find_spec("fastapi.telemetry") is None, reason="this FastAPI tells tracers nothing")
def test_it_would_hear_tickets_and_addresses_otherwise(tmp_path: Path) -> None:
    """What the test above looks for is there to be found."""
    heard = " ".join(told(tmp_path, "traced"))
    assert TICKET in heard
    assert "127.0.0.1" in heard

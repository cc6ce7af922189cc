"""The files in ``deploy/`` say to a proxy what the service relies on."""

from __future__ import annotations

import re
from pathlib import Path

from hushcall.server.http.connection import KEEP_ALIVE_SECONDS

NGINX = (Path(__file__).parents[2] / "deploy" / "nginx.conf").read_text(encoding="utf-8")


def test_the_host_is_passed_on_with_its_port() -> None:
    assert "$host;" not in NGINX
    assert NGINX.count("proxy_set_header Host $http_host;") == 1, "for all locations"


def test_the_proxy_lets_go_of_a_connection_first() -> None:
    (seconds,) = re.findall(r"keepalive_timeout ([0-9]+)s;", NGINX)
    assert int(seconds) < KEEP_ALIVE_SECONDS


def test_the_service_learns_that_others_reach_it() -> None:
    assert NGINX.count("proxy_set_header X-Forwarded-Proto $scheme;") == 1, "for all locations"

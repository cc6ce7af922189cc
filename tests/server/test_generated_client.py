"""A client that is generated from the API's description takes part in a round of a running server."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import SPAM, Clock, Village, honest_report, newest, operator_token, serving

from hushcall.server.http.app import make_app
from hushcall.server.service import Service

SETTINGS = """
post_hooks: []
content_type_overrides:
  application/private-token-request: application/octet-stream
  application/private-token-response: application/octet-stream
  message/ohttp-req: application/octet-stream
  message/ohttp-res: application/octet-stream
"""


@pytest.fixture
def generated(lite: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The package's name. A warning of the generator is a failure."""
    (tmp_path / "openapi.json").write_text(json.dumps(make_app(lite).openapi()), encoding="utf-8")
    (tmp_path / "settings.yml").write_text(SETTINGS, encoding="utf-8")
    words = ["generate", "--path", "openapi.json", "--config", "settings.yml", "--meta", "none", "--fail-on-warning"]
    program = [sys.executable, "-m", "openapi_python_client"]
    done = subprocess.run(
        [*program, *words, "--output-path", "generated_client"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(tmp_path)
    return "generated_client"


def test_it_enrols_announces_and_reports(generated: str, lite: Service, clock: Clock) -> None:
    package: Any = import_module(generated)

    def ask(name: str, *arguments: object, **options: object) -> Any:
        return import_module(f"{generated}.api.{name}").sync_detailed(*arguments, **options)

    def model(name: str, **fields: object) -> Any:
        return getattr(import_module(f"{generated}.models"), name)(**fields)

    Village(lite, clock).to("announcing", [SPAM] * 5)
    with serving(lite) as plain:
        address = str(plain.base_url)
        anybody = package.Client(base_url=address)
        assert ask("probes.ready_readyz_get", client=anybody).parsed.status == "ready"
        enrolled = ask("phones.enrol_v1_devices_post", client=anybody, body=model("Enrolment")).parsed
        phone = package.AuthenticatedClient(base_url=address, token=enrolled.token)
        announcement = model("AnnounceV1RoundsNumberAnnouncementsPostAnnouncement", bucket=202)
        announced = ask("phones.announce_v1_rounds_number_announcements_post", 1, client=phone, body=announcement)
        assert (announced.status_code, announced.parsed.bucket) == (201, 202)
        clock.now = newest(lite).collects
        lite.rounds.advance(lite.now)
        current = ask("phones.current_v1_rounds_current_get", client=phone).parsed.to_dict()
        assert (current["round"], current["state"]) == (1, "collecting")
        report = honest_report(current, announced.parsed.ticket)
        file = import_module(f"{generated}.types").File(payload=BytesIO(report))
        ticket = announced.parsed.ticket
        sent = ask("phones.report_v1_rounds_number_reports_ticket_put", 1, ticket, client=phone, body=file)
        assert sent.status_code == 201
        refused = ask("phones.announce_v1_rounds_number_announcements_post", 9, client=phone, body=announcement)
        assert refused.parsed.type_ == "urn:hushcall:problem:future-round"
        operator = package.AuthenticatedClient(base_url=address, token=operator_token(lite, "read"))
        assert ask("operators.all_rounds_v1_admin_rounds_get", client=operator).status_code == 200

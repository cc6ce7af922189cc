"""Prometheus' own checker on our alert rules, and on what a running server says of itself."""

import subprocess
import urllib.request
from pathlib import Path

from tests.interop.programs.programs import ROOT, program
from tests.interop.programs.serving import a_server
from tests.server.serving import operator_token


def test_the_alert_rules_are_rules() -> None:
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(ROOT / "deploy" / "alerts.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_metrics_are_metrics(tmp_path: Path) -> None:
    binary = program("promtool")
    with a_server(tmp_path / "server") as server:
        token = operator_token(server.village.service)
        request = urllib.request.Request(f"{server.address}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
    done = subprocess.run([binary, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    # Status 3 is advice on names (a counter without _total); 1 is text that is no metric.
    assert done.returncode in (0, 3), done.stderr

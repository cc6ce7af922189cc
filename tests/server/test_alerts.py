"""The alert rules in ``deploy/``: over metrics that exist, and they fire when they should, by Prometheus' own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from tests.server.serving import bearer, operator_token

from hushcall.server.service import Service

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yml"
SERIES = Path(__file__).parent / "alerts_test.yml"


def test_every_metric_of_a_rule_is_one_that_the_service_has(lite: Service, client: httpx.Client) -> None:
    lite.rounds.open(lite.now)
    text = client.get("/metrics", headers=bearer(operator_token(lite, "read"))).text
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    known = families | {f"{name}_bucket" for name in families}
    rules = "\n".join(line for line in ALERTS.read_text(encoding="utf-8").splitlines() if "summary" not in line)
    assert set(re.findall(r"\bhushcall_[a-z_]+", rules)) <= known


def test_rules_fire_when_they_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool, which comes with Prometheus, is not here")
    made = tmp_path / "tests.yml"
    made.write_text(SERIES.read_text(encoding="utf-8").replace("ALERTS", str(ALERTS)), encoding="utf-8")
    found = subprocess.run([promtool, "test", "rules", str(made)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr

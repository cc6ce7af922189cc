"""An operator's own scheduler: settings, devices, and rounds that move when ``python night.py FOLDER`` runs."""

from __future__ import annotations

import sys
from pathlib import Path

from hushcall import PROFILES, Settings, open_service, outlook

settings = Settings.model_validate(
    {
        "data": Path(sys.argv[1]),
        "round": {"profile": "balanced", "period": 86_400, "decoders": 0, "scheduler": False},
        "enrol": {"mode": "operator"},
    }
)
expected = outlook(PROFILES["balanced"], users=1000, spam=150)
print(f"1,000 phones find a number from {expected.detectable} reports on, one of 150 with {expected.found:.0%}")
service = open_service(settings)
for step in service.rounds.advance(service.now):
    print(step)
for device, token in service.devices.enrol_many(3, service.now):
    print(f"device {device}: {token[:8]}…")
row = service.rounds.newest()
if row is not None:
    print(
        f"round {row.id} is {row.state}, {row.announced} devices so far; it collects in {row.collects - service.now} s"
    )
service.close()

"""A client inside an app: enrol, ingest, report, sync, check. ``python embedded.py FOLDER SERVER`` runs often."""

from __future__ import annotations

import sys
from pathlib import Path

from hushcall import Call, CallKind, Client, HushcallError, Refused

folder, server = Path(sys.argv[1]), sys.argv[2]
new = not folder.exists()
phone = Client.set_up(folder, server, limits={"report": 16}) if new else Client.open(folder)
phone.add_contacts(["(202) 555-0199"])
taken = phone.ingest(
    [Call("(202) 555-0143", phone.clock(), CallKind.MISSED), Call("(202) 555-0199", phone.clock(), CallKind.INCOMING)]
)
print(f"callers: {taken.callers}")
outcome = phone.report(skip_delays="--now" in sys.argv)  # in earnest, leave the moments to the client
print(f"report: {outcome.action}")
try:
    print(f"list: version {phone.sync().version}")
except Refused as refusal:
    print(f"list: {refusal.problem}")
except HushcallError as error:
    print(f"list: {error}")
for number in ("(202) 555-0143", "(202) 555-0199"):
    verdict = phone.check(number)
    print(f"{number}: {verdict.action.value} ({verdict.why})")
phone.close()

"""A study of one's own: what windows of several days find of numbers that ten phones report, or twenty."""

import sys
from pathlib import Path

from hushcall import PROFILES
from hushcall_lab import Setting, load, run_month, synthesise

calls = load([Path(sys.argv[1])]) if len(sys.argv) > 1 else synthesise(2016)  # complaints, or an invented month
print(f"{len(calls):,} calls on {calls.days} days")
for tau in (10, 20):
    for name in ("strong", "balanced", "sensitive"):
        for scan in (False, True):
            setting = Setting("subspace", PROFILES[name].epsilon, tau=tau, days=8, scan=scan)
            month = run_month(calls, setting, seed=1)
            evidence = "a week" if scan else "a day"
            print(f"above {tau}, {name}, {evidence}: F1 {month['f1']:.3f}, {month['never_reported']} wrong")

"""Starts the app: hushcall home init with its options where they are new, then hushcall home run."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(os.environ.get("HUSHCALL_DATA", "/data"))
RETRY_SECONDS = 300
INGRESS = "172.30.32.2"
"""Who asks for the page: Home Assistant, for a user who has logged in there."""


def main() -> None:
    """Ends only with the program itself. Options that cannot be used yet (a box that is off) are tried again."""
    text = (DATA / "options.json").read_text(encoding="utf-8")
    options, used = json.loads(text), DATA / "options.used"
    digest = hashlib.sha256(text.encode()).hexdigest()
    while not used.exists() or used.read_text() != digest:
        words = ["hushcall", "home", "init", "--page", "0.0.0.0:8470", "--page-only-from", INGRESS]
        for name in ("server", "invite", "root_sha256", "fritzbox", "fritzbox_user", "limit"):
            if options.get(name):
                words += [f"--{name.replace('_', '-')}", str(options[name])]
        password = {"HUSHCALL_FRITZBOX_PASSWORD": options.get("fritzbox_password", "")}
        if subprocess.run(words, env={**os.environ, **password}, check=False).returncode == 0:  # noqa: S603
            used.write_text(digest)
        else:
            print(f"Trying again in {RETRY_SECONDS} seconds; the options can be mended meanwhile.", flush=True)
            time.sleep(RETRY_SECONDS)
    os.execvp("hushcall", ["hushcall", "home", "run"])  # noqa: S606, S607


if __name__ == "__main__":
    sys.exit(main())

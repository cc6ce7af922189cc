"""A process of node that does what the packages from npm do: ``ask`` sends it one command and returns its answer."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOME = HERE.parents[1] / ".interop"
PACKAGES = ("@cloudflare/blindrsa-ts@0.4.4", "bhttp-js@0.2.1", "hpke-js@1.8.0", "axe-core@4.14.1")


def installed() -> bool:
    """Whether ``make interop`` has fetched the packages."""
    return shutil.which("node") is not None and (HOME / "node_modules" / "bhttp-js").exists()


def install() -> None:
    """Fetch the packages; nothing of them becomes part of hushcall."""
    HOME.mkdir(exist_ok=True)
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", *quiet, "--prefix", str(HOME), *PACKAGES], check=True)


class Peer:
    """The process. Everything in and out is JSON with bytes in hexadecimal."""

    def __init__(self) -> None:
        shutil.copy(HERE / "peer.mjs", HOME / "peer.mjs")
        self._process = subprocess.Popen(
            ["node", "peer.mjs"], cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, command: str, **values: Any) -> dict[str, Any]:
        """One command, one answer; an error over there is an error here."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"command": command, **values}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


if __name__ == "__main__":
    install()

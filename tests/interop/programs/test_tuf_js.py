"""tuf-js, an independent TUF client, fetches and verifies the list of a running server."""

import json
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.interop.programs.programs import program
from tests.interop.programs.serving import a_server
from tests.server.serving import SPAM

SCRIPT = """
const { Updater } = require('tuf-js');
const [url, folder] = process.argv.slice(2);
(async () => {
  const updater = new Updater({
    metadataBaseUrl: `${url}/v1/lists/metadata`, metadataDir: folder,
    targetBaseUrl: `${url}/v1/lists/targets`, targetDir: folder,
  });
  await updater.refresh();
  const info = await updater.getTargetInfo('blocklist.jsonl');
  console.log(await updater.downloadTarget(info));
})().catch((error) => { console.error(String(error)); process.exit(1); });
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tuf-js from the registry; without a registry the test is skipped, and says so."""
    npm, folder = program("npm"), tmp_path_factory.mktemp("node")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), "tuf-js@4"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        pytest.skip("tuf-js could not be installed")
    return folder


def test_the_list_is_fetched_and_verified(modules: Path, tmp_path: Path) -> None:
    with a_server(tmp_path / "server") as server:
        server.village.to("published", [SPAM] * 6)
        (modules / "fetch.js").write_text(SCRIPT)
        kept = tmp_path / "kept"
        kept.mkdir()
        with urllib.request.urlopen(f"{server.address}/v1/lists/root.json", timeout=10) as answer:
            (kept / "root.json").write_bytes(answer.read())
        words = [program("node"), str(modules / "fetch.js"), server.address, str(kept)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        lines = Path(done.stdout.strip()).read_text().splitlines()
        assert [json.loads(line)["number"] for line in lines[1:]] == [SPAM]

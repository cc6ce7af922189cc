"""vdirsyncer, Debian's CardDAV client, with the address book of a running server."""

import re
import subprocess
from pathlib import Path

from tests.interop.programs.programs import program
from tests.interop.programs.serving import a_server

FIRST, SECOND = "+12025550143", "+12025550199"
CONFIGURATION = """
[general]
status_path = "{folder}/status/"
[pair spam]
a = "server"
b = "here"
collections = null
conflict_resolution = "a wins"
[storage server]
type = "carddav"
url = "{url}"
read_only = true
[storage here]
type = "filesystem"
path = "{folder}/book/"
fileext = ".vcf"
"""


def sync(binary: str, folder: Path) -> str:
    words = [binary, "-c", str(folder / "config")]
    subprocess.run([*words, "discover", "spam"], check=True, capture_output=True, timeout=120, input=b"y\n" * 5)
    done = subprocess.run([*words, "sync"], check=True, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def kept(folder: Path) -> set[str]:
    return {n for card in (folder / "book").iterdir() for n in re.findall(r"TEL.*:(\+[0-9]+)", card.read_text())}


def test_the_book_is_fetched_and_only_changes_afterwards(tmp_path: Path) -> None:
    binary = program("vdirsyncer")
    (tmp_path / "book").mkdir()
    with a_server(tmp_path / "server") as server:
        server.village.to("published", [FIRST] * 6)
        (tmp_path / "config").write_text(CONFIGURATION.format(folder=tmp_path, url=f"{server.address}/dav/books/1000/"))
        sync(binary, tmp_path)
        assert kept(tmp_path) == {FIRST}
        assert "Copying" not in sync(binary, tmp_path)
        server.village.to("published", [SECOND] * 6)
        assert sync(binary, tmp_path).count("Copying") == 1  # the first number's contact is not fetched again
        assert kept(tmp_path) == {FIRST, SECOND}

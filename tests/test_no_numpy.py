"""The client runs without numpy, scipy and numba; the server's side says what is missing."""

import subprocess
import sys

import pytest

WITHOUT = "import sys\nfor name in ('numpy', 'scipy', 'numba'):\n    sys.modules[name] = None\n"

IMPORT_ALL = """
import importlib, pkgutil
import hushcall.cli.client, hushcall.client, hushcall.formats, hushcall.mechanisms, hushcall.protocol

def every(package):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield module.name

names = [name for package in (hushcall.cli.client, hushcall.client, hushcall.formats, hushcall.protocol)
         for name in every(package)]
names += [name for name in every(hushcall.mechanisms) if name.endswith(".client")]
names += ["hushcall.mechanisms." + name for name in ("parameters", "profiles", "registry")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

MAKE_A_REPORT_OF_EACH = """
from hushcall.mechanisms.local_hashing.client import LocalHashing
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.mechanisms.subspace.client import WholeNumber
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import os_entropy, seeded
from hushcall_lab.rivals.original_histogram.client import OriginalHistogram
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

mechanisms = [
    LocalHashing(3.0), Subspace(4.0, 8), WholeNumber(4.0, 8), OriginalHistogram(10.0, item_bits=24),
    SuccinctHistogram.with_budget("basic", 8.8, 3.0),
    SuccinctHistogram.with_budget("extended", 8.8, 3.0),
    SuccinctHistogram.with_budget("tuned", 8.8, 3.0, keep=1 << 63),
    PrefixExtending(4.0), TreeHistogram(4.0),
]
for mechanism in mechanisms:
    for item in (NANP.parse("(202) 555-0143").suffix, NANP.dummy(os_entropy).suffix):
        mechanism.parse(mechanism.privatise(item, bytes(32), seeded(b"coins")))
    print(mechanism.name)
"""

ASK_FOR_THE_SERVER = """
from hushcall.errors import MissingExtra
try:
    import hushcall.decoding.window
except MissingExtra as error:
    print(error.extra, "|", error)
"""


def run(code: str) -> str:
    """Standard output of a fresh interpreter that cannot import the heavy packages."""
    return subprocess.run([sys.executable, "-c", WITHOUT + code], check=True, capture_output=True, text=True).stdout


def test_the_block_works() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run("import numpy")


def test_every_module_of_the_client_is_imported_without_numpy() -> None:
    assert int(run(IMPORT_ALL)) > 80


def test_a_client_without_numpy_makes_a_report_of_every_mechanism() -> None:
    names = ["olh", "subspace", "whole-number", "sh-original", "sh-basic", "sh-extended", "sh-tuned"]
    names += ["pem", "treehist"]
    assert run(MAKE_A_REPORT_OF_EACH).split() == names


def test_the_server_without_numpy_names_the_extra_to_install() -> None:
    extra, message = run(ASK_FOR_THE_SERVER).strip().split(" | ")
    assert extra == "server"
    assert "hushcall[server]" in message

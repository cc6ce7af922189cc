"""The phone's half runs without numpy, scipy and numba; the server's half says what is missing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hushcall

PACKAGE = Path(hushcall.__file__).parent
HEAVY = {"numpy", "scipy", "numba"}
ROOMS = ("anonymity", "mechanisms", "numbers", "privacy", "protocol")
REPORT = sorted((PACKAGE / "report").glob("*.py"))
PHONE = [
    *REPORT,
    *(PACKAGE / name for name in ("errors.py", "checks.py", "profiles.py", "audit/enumeration.py")),
    *(path for room in ROOMS for path in (PACKAGE / room).glob("*.py")),
]

WITHOUT = "import sys\nfor name in ('numpy', 'scipy', 'numba'):\n    sys.modules[name] = None\n"

MAKE_A_REPORT_OF_EACH = """
import importlib, pkgutil
import hushcall.audit.enumeration, hushcall.privacy.coins, hushcall.profiles, hushcall.report
from hushcall.numbers import NANP
from hushcall.privacy.coins import os_entropy, seeded

for module in pkgutil.iter_modules(hushcall.report.__path__):
    importlib.import_module("hushcall.report." + module.name)

from hushcall.report.local_hashing import LocalHashing
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, WholeNumber
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram

mechanisms = [
    LocalHashing(3.0), Subspace(4.0, 8), WholeNumber(4.0, 8), OriginalHistogram(10.0, item_bits=24),
    SuccinctHistogram.with_budget("basic", 8.8, 3.0),
    SuccinctHistogram.with_budget("extended", 8.8, 3.0),
    SuccinctHistogram.with_budget("tuned", 8.8, 3.0, keep=1 << 63),
    PrefixExtending(4.0), TreeHistogram(4.0), Rappor(4.0),
]
for mechanism in mechanisms:
    for item in (NANP.parse("(202) 555-0143").suffix, NANP.dummy(os_entropy).suffix):
        mechanism.parse(mechanism.privatise(item, bytes(32), seeded(b"coins")))
    print(mechanism.name)
assert not any(sys.modules.get(name) for name in ("numpy", "scipy", "numba"))
"""

ASK_FOR_THE_SERVER = """
from hushcall.errors import MissingExtra
try:
    import hushcall.learn
except MissingExtra as error:
    print(error.extra, "|", error)
"""


def run(code: str) -> str:
    """Standard output of a fresh interpreter that cannot import the heavy packages."""
    return subprocess.run([sys.executable, "-c", WITHOUT + code], check=True, capture_output=True, text=True).stdout


def test_the_block_works() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run("import numpy")


def test_a_phone_without_numpy_makes_a_report_of_every_mechanism() -> None:
    names = ["olh", "subspace", "whole-number", "sh-original", "sh-basic", "sh-extended", "sh-tuned"]
    names += ["pem", "treehist", "rappor"]
    assert run(MAKE_A_REPORT_OF_EACH).split() == names


def test_the_server_without_numpy_names_the_extra_to_install() -> None:
    extra, message = run(ASK_FOR_THE_SERVER).strip().split(" | ")
    assert extra == "server"
    assert "hushcall[server]" in message


def imported(source: str) -> set[str]:
    """Every module that a source file imports, at any depth of nesting."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or ".")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_static_check_sees_imports_in_every_form() -> None:
    hidden = "def f():\n    import numpy.linalg as x\nfrom scipy import stats\nfrom hushcall import learn\n"
    assert imported(hidden) >= {"numpy.linalg", "scipy", "hushcall.learn"}


@pytest.mark.parametrize("path", PHONE, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_module_of_the_phone_imports_a_heavy_package_or_the_server(path: Path) -> None:
    assert len(REPORT) >= 9
    modules = imported(path.read_text())
    assert not {module for module in modules if module.split(".")[0] in HEAVY}
    assert not {module for module in modules if module.startswith("hushcall.learn")}

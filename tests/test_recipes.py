"""What a new mechanism or format needs beside its code (``CONTRIBUTING.md``, ``docs/architecture.md``), in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.formats.blocklists import readers, write_golden
from tests.formats.calls.test_reading import EXPECTED
from tests.fuzz.readers_of_files import LOGS
from tests.lists import sample
from tests.mechanisms.cases import CASES

from hushcall.formats.blocklists import WRITERS
from hushcall.formats.calls.reading import READERS
from hushcall.mechanisms.registry import MECHANISMS
from hushcall_lab.audit.examples import EXAMPLES
from hushcall_lab.audit.mutants import MUTANTS
from hushcall_lab.study.experiments import EXPERIMENTS

ROOT = Path(__file__).parent.parent
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
VECTORS = json.loads((ROOT / "tests" / "vectors" / "reports.json").read_text(encoding="ascii"))


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_has_all_that_its_recipe_asks_for(name: str) -> None:
    client = MECHANISMS[name].client
    assert name in EXAMPLES, f"add a small instance of {name} to EXAMPLES in hushcall_lab/audit/examples.py"
    families = tuple(type(make()).__mro__[1] for make in MUTANTS.values())
    of_its_channels = name == "sh-original"  # the channels are those of the other histograms, whose mutants are many
    assert issubclass(client, families) or of_its_channels, f"break {name} in MUTANTS of hushcall_lab/audit/mutants.py"
    cases = {case.name.partition(",")[0] for case in CASES}
    assert name in cases, f"add a Case of {name} to tests/mechanisms/cases.py"
    vectors = {vector["in"]["mechanism"]["name"] for vector in VECTORS}
    assert name in vectors, f"add reports of {name} to tests/vectors/inputs.py, and run tests/vectors/make.py"
    compared = {setting.mechanism for setting in EXPERIMENTS["compare"].settings(False)}
    assert name in compared, f"compare {name}: _compare_settings in hushcall_lab/study/experiments.py"


@pytest.mark.parametrize("name", READERS)
def test_a_call_log_format_has_all_that_its_recipe_asks_for(name: str) -> None:
    assert name in LOGS, f"name a sample of {name} in LOGS of tests/fuzz/readers_of_files.py"
    log = ROOT / "tests" / "formats" / "calls" / "samples" / LOGS[name]
    assert log.exists(), f"put {LOGS[name]} into tests/formats/calls/samples"
    assert LOGS[name] in EXPECTED, f"say in EXPECTED of tests/formats/calls/test_reading.py what {LOGS[name]} holds"
    assert f"`{name}`" in FORMATS, f"add a row for {name} to docs/formats.md"


@pytest.mark.parametrize("name", WRITERS)
def test_a_blocklist_format_has_all_that_its_recipe_asks_for(name: str) -> None:
    file = write_golden.GOLDEN / WRITERS[name].filename
    assert file.exists(), "write the golden file: python -m tests.formats.blocklists.write_golden"
    assert f"`{name}`" in FORMATS or f"--to {name}" in FORMATS, f"add a section for {name} to docs/formats.md"
    assert readers.read(name, WRITERS[name].write(sample())) is not None

"""Every vector against the library, and some of them against a stranger who has only read the README."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.vectors import make, operations

from hushcall import errors

FOLDER = Path(__file__).parent / "vectors"
FILES = {path.name: json.loads(path.read_text(encoding="ascii")) for path in sorted(FOLDER.glob("*.json"))}
VECTORS = [(file, vector) for file, vectors in FILES.items() for vector in vectors]
EACH = pytest.mark.parametrize(
    ("file", "vector"), VECTORS, ids=[f"{file.removesuffix('.json')}: {vector['name']}" for file, vector in VECTORS]
)


@EACH
def test_the_library_gives_what_the_vector_says(file: str, vector: dict[str, Any]) -> None:
    assert operations.answer(vector["op"], vector["in"]) == (vector["out"], vector["error"])


@EACH
def test_a_vector_has_an_answer_or_an_error_and_no_number_that_json_could_bend(
    file: str, vector: dict[str, Any]
) -> None:
    assert list(vector) == ["name", "op", "in", "out", "error"]
    assert (vector["out"] is None) == (vector["error"] is not None) == vector["name"].startswith("bad: ")
    if vector["error"]:
        assert issubclass(getattr(errors, vector["error"]), errors.HushcallError)
    numbers: list[int] = []
    json.loads(json.dumps(vector), parse_int=lambda text: numbers.append(int(text)))
    assert all(abs(number) <= 2**53 for number in numbers)


def test_there_are_enough_vectors_and_a_quarter_of_them_is_bad() -> None:
    bad = sum(vector["error"] is not None for _, vector in VECTORS)
    assert len(VECTORS) >= 60
    assert 4 * bad >= len(VECTORS)
    assert {vector["error"] for _, vector in VECTORS} >= {
        "InvalidParameter",
        "InvalidNumber",
        "WrongVersion",
        "WrongMechanism",
        "WrongLength",
        "WrongSymbol",
    }


def test_names_are_unique_within_a_file_and_every_operation_occurs() -> None:
    for vectors in FILES.values():
        assert max(Counter(vector["name"] for vector in vectors).values()) == 1
    assert {vector["op"] for _, vector in VECTORS} == set(operations.OPERATIONS)


@pytest.mark.parametrize("file", make.FILES)
def test_the_files_are_what_make_writes(file: str) -> None:
    assert (FOLDER / file).read_text(encoding="ascii") == make.contents(file)
    assert set(FILES) == set(make.FILES)


def test_check_tells_stale_files_from_fresh_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "HERE", tmp_path)
    assert make.main(["--check"]) == 1
    assert make.main([]) == 0
    assert make.main(["--check"]) == 0
    (tmp_path / "codes.json").write_text("[]", encoding="ascii")
    assert make.main(["--check"]) == 1
    assert make.main(["--typo"]) == 2


def test_the_readme_names_every_file_and_every_operation() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    missing = [name for name in (*FILES, *operations.OPERATIONS) if f"`{name}`" not in readme]
    assert missing == []


def stranger(vector: dict[str, Any]) -> str:
    """A subspace report in other words than the library's: the README, hashlib and the weights of a vector."""
    given, mechanism = vector["in"], vector["in"]["mechanism"]
    b, width = mechanism["bits"], 33 if mechanism["name"] == "whole-number" else 24
    stream = hashlib.shake_256(b"hushcall/1/rows" + bytes.fromhex(given["public"])).digest(5 * b)
    value = 0
    for i in range(b):
        row = int.from_bytes(stream[5 * i : 5 * i + 5], "big") % 2**width
        value += (bin(row & int(given["item"])).count("1") % 2) << i
    weights = operations.response_weights(str(mechanism["epsilon"]), 2**b)
    word, keep, other = int(given["coins"], 16), int(weights["keep"]), int(weights["other"])
    if word >= keep:
        lies = [y for y in range(2**b) if y != value]
        value = lies[(word - keep) // other]
    body = value.to_bytes((b + 7) // 8, "big")
    return (bytes([1, 5 if mechanism["name"] == "whole-number" else 4]) + body).hex()


def test_a_stranger_makes_the_same_subspace_reports() -> None:
    names = ("subspace", "whole-number")
    vectors = [v for v in FILES["reports.json"] if v["in"]["mechanism"]["name"] in names and not v["error"]]
    assert len(vectors) >= 6
    assert [stranger(vector) for vector in vectors] == [vector["out"]["report"] for vector in vectors]

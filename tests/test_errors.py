"""The error tree: who inherits from whom, what a message says, and that errors survive a process border."""

import copy
import pickle
import re
import tomllib
from pathlib import Path

import pytest

from hushcall import errors
from hushcall.errors import HushcallError, InvalidParameter, InvalidReport, MissingExtra
from hushcall.protocol.states import RoundState

ROOT = Path(__file__).parent.parent
VIOLATIONS = (
    errors.InvalidParameter,
    errors.InvalidNumber,
    errors.InvalidReport,
    errors.WrongVersion,
    errors.WrongMechanism,
    errors.WrongLength,
    errors.WrongSymbol,
    errors.InvalidToken,
    errors.InvalidMessage,
    errors.InvalidTally,
    errors.InvalidArchive,
    errors.InvalidData,
    errors.InvalidList,
)


def public_errors() -> set[type[BaseException]]:
    found = {value for name, value in vars(errors).items() if not name.startswith("_")}
    return {value for value in found if isinstance(value, type) and issubclass(value, BaseException)}


def test_catching_the_root_catches_every_error_of_ours() -> None:
    assert len(public_errors()) >= 10
    assert all(issubclass(kind, HushcallError) for kind in public_errors())


def test_the_tree_in_the_docstring_names_every_error() -> None:
    assert errors.__doc__ is not None
    tree = errors.__doc__.split(">>>")[0]
    assert all(kind.__name__ in tree for kind in public_errors())


def test_the_four_faults_of_a_report_are_reports_errors_and_nothing_else() -> None:
    faults = {errors.WrongVersion, errors.WrongMechanism, errors.WrongLength, errors.WrongSymbol}
    assert set(InvalidReport.__subclasses__()) == faults
    assert not issubclass(InvalidReport, InvalidParameter)


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_a_message_names_field_rule_and_value(kind: type[errors._Violation]) -> None:
    error = kind("epsilon", "be positive", -1.0)
    assert str(error) == "epsilon must be positive, got -1.0"
    assert (error.field, error.rule, error.value) == ("epsilon", "be positive", -1.0)


def test_a_long_value_is_cut_and_its_length_is_told() -> None:
    message = str(InvalidParameter("seed", "be exactly 32 bytes", bytes(1000)))
    assert len(message) < 150
    assert f"({len(repr(bytes(1000)))} characters)" in message


def test_a_value_of_eighty_characters_is_shown_whole_and_one_more_is_cut() -> None:
    assert "a" * 78 in str(InvalidParameter("x", "be short", "a" * 78))
    assert "a" * 79 not in str(InvalidParameter("x", "be short", "a" * 79))


def test_an_integer_too_long_for_python_to_print_still_makes_a_message() -> None:
    assert "tau must be small" in str(InvalidParameter("tau", "be small", 10**5000))


def test_one_of_an_enumeration_is_told_as_it_is_written() -> None:
    error = errors.InvalidParameter("round 1", "be announcing", RoundState.PUBLISHED)
    assert str(error) == "round 1 must be announcing, got 'published'"


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_a_violation_survives_pickling(kind: type[errors._Violation]) -> None:
    error = kind("tau", "be whole", 1.5)
    for twin in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):  # noqa: S301
        assert type(twin) is kind
        assert (str(twin), twin.field, twin.rule, twin.value) == (str(error), "tau", "be whole", 1.5)


def test_what_a_server_refused_says_why_and_what_to_do_and_survives_pickling() -> None:
    error = errors.Refused("wrong-phase", 409, "The round is closed.", "Wait.")
    assert str(error) == "the server refused (409, wrong-phase): The round is closed. Wait."
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(twin), twin.problem, twin.status, twin.detail, twin.todo) == (
        errors.Refused,
        "wrong-phase",
        409,
        "The round is closed.",
        "Wait.",
    )


def test_an_untrusted_list_says_why_and_survives_pickling() -> None:
    error = errors.UntrustedList("it is older than the one before")
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(twin), twin.why, str(twin)) == (errors.UntrustedList, error.why, str(error))


def test_every_violation_is_in_the_table() -> None:
    kinds = {kind for kind in public_errors() if issubclass(kind, errors._Violation)}
    assert kinds - {errors.NotFound} == set(VIOLATIONS)


def test_what_is_not_there_is_said_as_a_fact_and_survives_pickling() -> None:
    error = errors.NotFound("round", "be one of 1 and 2", 99, "There is no round 99; the newest is 2.")
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(twin), twin.field, twin.value) == ("There is no round 99; the newest is 2.", "round", 99)
    assert isinstance(twin, InvalidParameter)


def test_a_missing_extra_says_what_to_install_and_survives_pickling() -> None:
    error = MissingExtra("hushcall.learn", "server")
    assert "hushcall.learn" in str(error)
    assert "pip install 'hushcall[server]'" in str(error)
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(twin), twin.part, twin.extra, str(twin)) == (
        MissingExtra,
        "hushcall.learn",
        "server",
        str(error),
    )


def test_every_extra_that_an_error_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    raised = {
        extra
        for folder in ("src", "lab/src")
        for path in (ROOT / folder).rglob("*.py")
        for extra in re.findall(r'MissingExtra\([^()]*, "(\w+)"\)', path.read_text(encoding="utf-8"))
    }
    assert {"server", "scale", "gpu"} <= raised <= extras.keys()

"""Databases that are damaged, of another make, or that attack their reader."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.formats.calls.writers import write

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.ios import IOS

COLUMNS = "ZADDRESS, ZDATE, ZORIGINATED, ZANSWERED"


def database(*statements: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        return connection.serialize()


def records(*rows: str) -> bytes:
    """A database with these rows of SQL in its table."""
    inserts = ("INSERT INTO ZCALLRECORD VALUES " + row for row in rows)  # noqa: S608
    return database(f"CREATE TABLE ZCALLRECORD ({COLUMNS})", *inserts)


def test_an_older_version_without_names_is_read() -> None:
    data = records("('2025550143', 0.9, 0, 1)")
    assert IOS.read(data).calls == (Call("2025550143", 978_307_200, CallKind.INCOMING),)


def test_a_version_that_does_not_say_what_was_answered_is_read() -> None:
    make = "CREATE TABLE ZCALLRECORD (ZADDRESS, ZDATE, ZORIGINATED, ZNAME)"
    rows = ("('2025550143', 0, 0, NULL)", "('2025550144', 1, 1, 'Ann')")
    data = database(make, *("INSERT INTO ZCALLRECORD VALUES " + row for row in rows))  # noqa: S608
    assert IOS.read(data).calls == (
        Call("2025550143", 978_307_200, CallKind.INCOMING),
        Call("2025550144", 978_307_201, CallKind.OUTGOING, "Ann"),
    )


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE message (text)"],
        ["CREATE VIEW ZCALLRECORD AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"],
        ["CREATE VIRTUAL TABLE ZCALLRECORD USING fts5(ZADDRESS, ZDATE, ZORIGINATED, ZANSWERED)"],
    ],
    ids=["another database", "endless view", "virtual table"],
)
def test_what_is_no_plain_table_is_refused(statements: list[str]) -> None:
    try:
        data = database(*statements)
    except sqlite3.OperationalError as missing:
        pytest.skip(f"this SQLite cannot make it: {missing}")
    with pytest.raises(InvalidData, match="have a table ZCALLRECORD"):
        IOS.read(data)


def test_missing_columns_are_named() -> None:
    with pytest.raises(InvalidData, match="have the columns ZADDRESS, ZDATE, ZORIGINATED"):
        IOS.read(database("CREATE TABLE ZCALLRECORD (ZADDRESS, ZDATE)"))


def test_absurd_values_are_counted() -> None:
    values = ["'x'", "NULL", "9e999", "-9e999", "1e300", "9223372036854775807", "x'00ff'", "-978307201"]
    result = IOS.read(records(*(f"('2025550143', {value}, 0, 1)" for value in [*values, "0"])))
    assert (len(result.calls), result.malformed) == (1, len(values))


def test_bytes_that_are_no_text_do_not_stop_the_reading() -> None:
    result = IOS.read(records("(CAST(x'ff31' AS TEXT), 0, 0, 1)", "(x'ff', 0, 0, 1)", "('2025550143', 0, 0, 1)"))
    assert [call.number for call in result.calls] == ["\ufffd1", "\ufffd", "2025550143"]


def test_a_huge_value_is_refused_rather_than_loaded() -> None:
    with pytest.raises(InvalidData, match="undamaged SQLite database"):
        IOS.read(records("(zeroblob(2000000), 0, 0, 1)"))


def test_a_schema_that_is_no_text_is_damage() -> None:
    data = records("('2025550143', 0, 0, 1)")
    with pytest.raises(InvalidData, match="undamaged SQLite database"):
        IOS.read(data.replace(b"(ZADDRESS, ZDATE", b"\xc7ZADDRESS, ZDATE"))


def test_a_record_that_claims_an_absurd_size_is_damage() -> None:
    data = (Path(__file__).parent / "samples" / "CallHistory.storedata").read_bytes()
    size = data.index(b"tableZ_METADATA") - 9  # found by fuzzing: SQLite runs out of memory over this one
    with pytest.raises(InvalidData, match="undamaged SQLite database"):
        IOS.read(data[:size] + b"\xff" * 17 + data[size + 17 :])


@pytest.mark.parametrize("cut", [16, 20, 99, 100, 600, 5000])
def test_a_database_cut_off_is_an_error(cut: int) -> None:
    data = write("ios", [Call("2025550143", 1_709_287_860, CallKind.MISSED)])
    with pytest.raises(InvalidData, match="iOS call history"):
        IOS.read(data[:cut])

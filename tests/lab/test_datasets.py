"""Complaints as people publish them: every layout, every quirk, and what happens to bad ones."""

import datetime
import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from hushcall.errors import InvalidData, InvalidNumber, InvalidParameter
from hushcall.protocol.numbers import NANP
from hushcall_lab.data import datasets, tables
from hushcall_lab.data.datasets import Calls, load, save

HEADER = (
    "Company_Phone_Number,Created_Date,Violation_Date,Consumer_City,Consumer_State,"
    "Consumer_Area_Code,Subject,Recorded_Message_Or_Robocall"
)
# The FTC's habits: no number, commas in quotes, doubled blanks, empty cities, numbers too long, old violations.
FTC = f"""{HEADER}
2025550143,2022-08-19 00:04:54,2022-08-18 18:42:00,Anytown,Ohio,212,Dropped call or no message,N
,2022-08-19 00:05:44,2022-08-18 16:15:00,,Ohio,212,"Reducing your debt (credit cards, mortgage, loans)",Y
8005550199,2022-08-19 00:07:14,2019-01-01 10:22:00,"Springfield, West",Ohio,,"Energy, solar,  & utilities",
12025550143,2022-08-20 23:59:59,2022-08-20 10:22:00,,,999,Other,Y
202555014377,2022-08-20 01:00:00,2022-08-20 01:00:00,,Ohio,212,Other,Y
2021550143,2022-08-20 01:00:00,2022-08-20 01:00:00,,Ohio,212,Other,Y
1115550143,2022-08-20 01:00:00,2022-08-20 01:00:00,,Ohio,212,Other,Y
8005550199,2022-08-19 00:07:14,2019-01-01 10:22:00,"Springfield, West",Ohio,,"Energy, solar,  & utilities",
"""


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def sample() -> Calls:
    world = np.random.default_rng(3)
    size = 500
    day = np.sort(world.integers(0, 9, size))
    day[0] = 0
    reporter = world.choice([0, 212, 305], size)
    return Calls.of(
        datetime.date(2020, 2, 26),
        day,
        world.choice([202, 800], size),
        world.choice([5550143, 9999999], size),
        reporter,
    )


def same(left: Calls, right: Calls) -> bool:
    columns = ("day", "area", "suffix", "reporter")
    return left.first == right.first and all(np.array_equal(getattr(left, c), getattr(right, c)) for c in columns)


def test_ftc_file_with_its_quirks(tmp_path: Path) -> None:
    calls = load([write(tmp_path, "DNC_Complaint_Numbers_2022-08-22.csv", FTC)])
    assert (calls.first, calls.days, len(calls)) == (datetime.date(2022, 8, 19), 2, 4)
    assert calls.area.tolist() == [202, 800, 800, 202]
    assert calls.reporter.tolist() == [212, 0, 0, 0]  # empty, and 999, which nobody has
    assert dict(calls.problems) == {
        "no number": 1,
        "malformed number": 1,
        "impossible suffix": 1,
        "area code not in the plan": 1,
    }
    assert dict(calls.notes) == {"exact duplicate, kept": 1, "date out of order, sorted": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,  # as Excel saves it
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.upper().replace("Y\n", "y\n"),
        lambda text: text.replace("Anytown", "Ca\u00f1on").encode("latin-1"),
        lambda text: gzip.compress(text.encode(), mtime=0),
    ],
)
def test_the_same_file_in_other_clothes(tmp_path: Path, change: object) -> None:
    plain = load([write(tmp_path, "plain.csv", FTC)])
    other = load([write(tmp_path, "other.csv", change(FTC))])  # type: ignore[operator]
    assert same(plain, other)
    assert plain.problems == other.problems


def test_tables_with_and_without_the_consumer_in_any_order(tmp_path: Path) -> None:
    short = write(tmp_path, "a.csv", "date,caller\n2020-02-17,(202) 555-0143\n2020-02-18,+1 800.555.0199\n")
    long = write(tmp_path, "b.csv", "note,caller,consumer_area_code,date\nx,2025550143,212,2020-02-16\n")
    calls = load([short, long])
    assert calls.first == datetime.date(2020, 2, 16)
    assert calls.numbers.tolist() == [2025550143, 2025550143, 8005550199]
    assert calls.reporter.tolist() == [212, 0, 0]


def test_duplicates_in_a_table_are_no_news(tmp_path: Path) -> None:
    calls = load([write(tmp_path, "a.csv", "date,caller\n" + "2020-02-17,2025550143\n" * 3)])
    assert len(calls) == 3
    assert calls.notes == ()


def test_bad_rows_are_counted_by_reason(tmp_path: Path) -> None:
    rows = [
        "2020-02-17,2025550143,212",
        ",2025550143,212",
        "yesterday,2025550143,212",
        "0202-02-17,2025550143,212",
        "2020-02-30,2025550143,212",
        "2020-02-17",
        '2020-02-17,"2025550143,212',  # nobody closed the quote: one row lost, not the rest
        "2020-02-17,Anonymous,212",
        "2020-02-17,   ,212",
        "2020-02-17,٢٠٢٥٥٥٠١٤٣,212",  # digits, but none that a phone dials
        "2020-02-18,2025550144,",
    ]
    calls = load([write(tmp_path, "a.csv", "\n".join(["date,caller,consumer_area_code", *rows]))])
    assert calls.suffix.tolist() == [5550143, 5550144]
    assert dict(calls.problems) == {
        "no date": 1,
        "malformed date": 2,
        "date not in 2000 to 2099": 1,
        "row cut short": 1,
        "malformed number": 3,
        "no number": 1,
    }


def test_numbers_follow_the_plan() -> None:
    """The fast rules and the plan's parser agree on ten digits, whatever they are."""
    world = random.Random(5)
    for _ in range(3000):
        digits = f"{world.randrange(10**10):010d}"
        try:
            slow = int(NANP.parse("+1" + digits).digits)
        except InvalidNumber:
            slow = 0
        try:
            fast = datasets._number(digits)
        except ValueError:
            fast = 0
        assert fast == slow, digits


def test_a_folder_is_read_in_order_and_foreign_files_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "2.csv", "date,caller\n2020-02-18,2025550144\n")
    write(tmp_path, "1.csv.gz", gzip.compress(b"date,caller\n2020-02-17,2025550143\n", mtime=0))
    write(tmp_path, "README.md", "these are complaints")
    write(tmp_path, ".hidden.csv", b"\0\0")
    steps: list[tuple[int, int]] = []
    calls = load([tmp_path, tmp_path / "2.csv"], lambda done, total: steps.append((done, total)))
    assert calls.suffix.tolist() == [5550143, 5550144]  # 2.csv was named twice and is read once
    assert calls.notes == (("foreign file in a folder, passed over", 2),)
    assert steps == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "hold a header and rows, got 'an empty file'"),
        ("a.csv", b"\n\n", "start with a header"),
        ("a.csv", b"day,phone\n1,2\n", "date and caller, got 'day,phone'"),
        ("a.csv", b"date,number\n2020-02-17,2025550143\n", "Company_Phone_Number and Created_Date"),
        ("a.csv", bytes(range(256)) * 64, "got 'binary data'"),
        ("a.csv", random.Random(1).randbytes(9000), "must"),
        (
            "a.csv.gz",
            gzip.compress(b"date,caller\n2020-02-17,2025550143\n" * 99, mtime=0)[:-12],
            "be a whole gzip file",
        ),
        ("a.csv.gz", b"\x1f\x8b" + bytes(99), "be a whole gzip file"),
        ("a.csv", b"date,caller\n", "at least one call with a date and a valid number, got 'no rows'"),
        ("a.csv", b"date,caller\n2020-02-17,\n2020-02-17,123\n", "1 × no number, 1 × malformed number"),
    ],
)
def test_useless_files_are_one_clear_error(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(InvalidData) as error:
        load([write(tmp_path, name, content)])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="files or folders that exist"):
        load([tmp_path / "none.csv"])
    with pytest.raises(InvalidData, match=r"hold \.csv"):
        load([tmp_path])
    write(tmp_path, "ours.csv", "date,caller\n2020-02-17,2025550143\n")
    write(tmp_path, "theirs.csv", "a,b\n1,2\n")
    with pytest.raises(InvalidData, match=r"theirs\.csv"):  # a day that is silently missing would be worse
        load([tmp_path])


def test_a_million_malformed_rows_are_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "date,caller\n" + "2020-02-17,12\nx,2025550143\n" * 500_000)
    with pytest.raises(InvalidData, match="500000 × malformed number, 500000 × malformed date"):
        load([path])


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_what_is_saved_loads_again(tmp_path: Path, name: str) -> None:
    calls, path = sample(), tmp_path / name
    save(calls, path)
    first = path.read_bytes()
    assert same(load([path]), calls)
    save(calls, path)
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == [name]  # nothing half-written stays behind


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"end with \.csv"):
        save(sample(), tmp_path / "a.xlsx")
    with pytest.raises(InvalidParameter, match="folder that exists"):
        save(sample(), tmp_path / "none" / "a.csv")
    with pytest.raises(InvalidParameter, match="at least one"):
        save(sample().between(datetime.date(2030, 1, 1), datetime.date(2030, 1, 2)), tmp_path / "a.csv")
    (tmp_path / "taken.csv").mkdir()
    with pytest.raises(InvalidData, match="can be written"):
        save(sample(), tmp_path / "taken.csv")
    with pytest.raises(InvalidParameter, match=r"end with"):
        tables.check_path(tmp_path / "a")


def test_days_between_and_counts_agree() -> None:
    calls = sample()
    assert calls.per_day.sum() == len(calls)
    for day in range(calls.days):
        areas, suffixes, counts = calls.counts(day)
        area, suffix = calls.area[calls.day == day], calls.suffix[calls.day == day]
        assert counts.sum() == len(area) == len(suffix) == calls.per_day[day]
        for each in zip(areas, suffixes, counts, strict=True):
            assert ((area == each[0]) & (suffix == each[1])).sum() == each[2]
    middle = calls.between(calls.date(2), calls.date(5))
    assert (middle.first, middle.days) == (calls.date(2), 3)
    assert np.array_equal(middle.suffix[middle.day == 1], calls.suffix[calls.day == 3])
    assert same(calls.between(datetime.date(1999, 1, 1), datetime.date(2999, 1, 1)), calls)
    assert len(calls.counts(99)[0]) == 0
    nothing = calls.between(datetime.date(1999, 1, 1), datetime.date(1999, 2, 1))
    assert (len(nothing), nothing.days) == (0, 0)
    with pytest.raises(InvalidParameter, match="stop must be after"):
        calls.between(calls.date(2), calls.date(2))


def test_calls_cannot_be_built_wrong() -> None:
    first = datetime.date(2020, 1, 1)
    with pytest.raises(InvalidParameter, match="one length"):
        Calls.of(first, [0, 1], [202], [5550143], [0])
    with pytest.raises(InvalidParameter, match="sorted"):
        Calls.of(first, [1, 0], [202, 202], [5550143, 5550143], [0, 0])

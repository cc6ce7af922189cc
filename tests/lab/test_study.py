"""Metrics, months, the runner and whole studies: definitions, resuming, identical results, files that are whole."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushcall.errors import InvalidParameter
from hushcall.lab.data.datasets import Calls
from hushcall.lab.study import poisoning, result_figures, study
from hushcall.lab.study.experiments import EXPERIMENTS, Experiment, Statement
from hushcall.lab.study.metrics import Scores, blocking_rates, days_to_listing, relative_blocking
from hushcall.lab.study.months import Setting, run_month
from hushcall.lab.study.origin import CLAIMS, Origin, origin_of
from hushcall.lab.study.runner import run_all


def small(days: int = 9, heavy: int = 260) -> Calls:
    """A few days: one spammer in 202 every day, a smaller one on the first four, and single callers."""
    generator = np.random.default_rng(1)
    day, area, suffix = [], [], []
    for d in range(days):
        numbers = [(202, 5_550_143)] * heavy + ([(800, 5_550_199)] * 180 if d < 4 else [])
        numbers += [(202, int(s)) for s in generator.integers(2_000_000, 10_000_000, 200)]
        numbers += [(800, int(s)) for s in generator.integers(2_000_000, 10_000_000, 150)]
        day += [d] * len(numbers)
        area += [a for a, _ in numbers]
        suffix += [s for _, s in numbers]
    columns = (np.array(day, np.int32), np.array(area, np.int16), np.array(suffix, np.int32))
    return Calls(date(2016, 2, 17), *columns, np.zeros(len(day), np.int16), ())


def test_scores_are_the_papers() -> None:
    scores = Scores.of({1, 2, 3}, {2, 3, 4, 5})
    assert (scores.true, scores.false, scores.undetected) == (2, 1, 2)
    assert (scores.precision, scores.recall) == (2 / 3, 0.5)
    assert scores.f1 == pytest.approx(2 * (2 / 3 * 0.5) / (2 / 3 + 0.5))
    assert Scores.of(set(), set()).f1 == 0
    assert Scores.total([scores, scores]).f1 == scores.f1


def test_the_list_slides() -> None:
    """A number detected on day 0 blocks days 1 to 7 and is forgotten on day 8."""
    listed = [{7}] + [set[int]()] * 9
    rates = blocking_rates(listed, [{7: 1, 8: 1}] * 10, window=7)
    assert rates == [0.5, 0.0, 0.0]
    assert relative_blocking([0.1, 0.3, 0.2], [0.4, 0.4, 0.4]) == pytest.approx(0.5)
    assert relative_blocking([0.1], [0.0]) == 0


def test_days_to_listing() -> None:
    assert days_to_listing([set(), {1}, {1, 2}], [{1}, {1, 2}, {3}]) == [1, 1]


def test_a_month_without_privacy_is_perfect() -> None:
    result = run_month(small(), Setting("none", 1.0), 1)
    assert result["f1"] == 1.0
    assert result["true"] == 9 + 4
    assert result["never_reported"] == 0


@pytest.mark.parametrize("setting", [Setting("subspace", 4.0), Setting("sh-extended", 15.0), Setting("sh-tuned", 15.0)])
def test_a_private_month_finds_most_of_it(setting: Setting) -> None:
    result = run_month(small(), setting, 1)
    assert result["f1"] > 0.8
    assert result["never_reported"] == 0
    assert run_month(small(), setting, 1) == result
    assert run_month(small(), setting, 2) != result


def test_the_full_decoder_and_rivals_run_on_days() -> None:
    for setting in (Setting("subspace", 4.0, full=True, days=1), Setting("pem", 6.0, full=True, days=1)):
        result = run_month(small(), setting, 1)
        assert len(result["days"]) == 1
        assert result["true"] >= 1


def test_whole_numbers_and_the_original_run_without_buckets() -> None:
    assert run_month(small(), Setting("whole-number", 8.0), 1)["true"] >= 9
    assert run_month(small(), Setting("sh-original", 10.0), 1)["true"] <= 13


def test_windows_add_days_up() -> None:
    """40 a day are found together within a week, at a budget at which no single day shows them."""
    calls = small(heavy=45)
    daily = run_month(calls, Setting("subspace", 4.0, tau=20), 1)
    weekly = run_month(calls, Setting("subspace", 4.0, tau=20, window=7), 1)
    assert weekly["listed"] > daily["listed"]
    assert weekly["never_reported"] == 0


@pytest.mark.slow
def test_results_do_not_depend_on_workers_and_runs_resume(tmp_path: Path) -> None:
    settings = [Setting("sh-extended", 11.8), Setting("subspace", 3.0), Setting("none", 1.0)]
    alone = run_all(small(), settings, 2, seed=5, workers=1)
    seen: list[tuple[int, int]] = []
    together = run_all(small(), settings, 2, 5, tmp_path, workers=2, progress=lambda *step: seen.append(step))
    assert alone == together
    assert seen[0] == (0, 5)
    assert seen[-1] == (5, 5)
    again: list[tuple[int, int]] = []
    assert run_all(small(), settings, 2, 5, tmp_path, workers=2, progress=lambda *s: again.append(s)) == alone
    assert again == [(5, 5)]
    next(tmp_path.rglob("*.json")).write_text("{ torn", encoding="utf-8")
    assert run_all(small(), settings, 2, 5, tmp_path, workers=1) == alone


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["days", "month"])
def test_a_quick_study_of_everything(tmp_path: Path, whole: bool) -> None:
    options = study.Options(quick=True, cache=tmp_path / "cache", workers=None if whole else 1)
    calls = study.data_of(options) if whole else small(days=2, heavy=200)
    documents = []
    for name in ("data", "theory", "f1", "tau", "cbr", "rounds", "compare", "poisoning"):
        document = study.run(name, calls, options, lambda *_: None)
        assert document["rows"]
        assert document["run"]["seed"] == 1
        documents.append(document)
        figures = study.keep(document, calls, tmp_path)
        assert json.loads((tmp_path / f"{name}.json").read_text("utf-8"))["name"] == name
        assert (tmp_path / f"{name}.csv").read_text("utf-8").count("\n") == len(document["rows"]) + 1
        assert all(figure.with_suffix(".png").stat().st_size > 10_000 for figure in figures)
    page = study.write_page(tmp_path).read_text(encoding="utf-8")
    assert page.count("<svg") == 4 + 6
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    assert not list(tmp_path.rglob("*.part"))
    extended = next(r for r in documents[2]["rows"] if r["randomiser"] == "extended" and r["epsilon_hh"] == 12.0)
    basic = next(r for r in documents[2]["rows"] if r["randomiser"] == "basic" and r["epsilon_hh"] == 12.0)
    assert extended["f1"] > basic["f1"]


def test_unknown_experiments_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="experiment must be one of"):
        study.run("magic", small(), study.Options(), lambda *_: None)


def test_fakes_within_the_tolerance_never_list_their_victim() -> None:
    document = poisoning.document(quick=True)
    assert all(row["listed_at_tolerance"] == 0 for row in document["rows"])
    assert all(row["fakes_needed_sized"] > poisoning.TOLERANCE for row in document["rows"])
    assert all(row["influence"] < 3 for row in document["rows"])


def test_tables_stand_under_the_command_that_makes_them_again(tmp_path: Path) -> None:
    document = poisoning.document(quick=True) | {"name": "poisoning"}
    document["run"] = {"data": "x/c.csv.gz", "days": 1, "phones": 1, "repetitions": 3, "seed": 1, "cap": 3}
    options = study.Options("x/c.csv.gz", repetitions=3, cap=3)
    page = study.write_tables([document], "poisoning", options, tmp_path).read_text(encoding="utf-8")
    assert page.startswith("# Real complaints: poisoning, repeat filers capped\n")
    assert "`hushcall experiment poisoning --data c.csv.gz --cap 3 --repetitions 3`" in page
    assert (
        study.write_tables([document], "all", study.Options(quick=True), tmp_path)
        .read_text("utf-8")
        .startswith("# Results\n\nMade by `hushcall experiment all --quick`")
    )


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments on T and on real complaints, as small as they can be: one setting, no figure, one claim."""
    for name, title in (("rounds", "F1 against T (ε = 8.8)"), ("real", "Real complaints of 2020: so (θ = 10)")):
        made = Experiment(
            name,
            title,
            "the paper's remark",
            lambda _: [Setting("none", 1.0)],
            lambda results: [{"days seen": len(next(iter(results.values()))[0]["days"])}],
            lambda _: [Statement("so it is", "it is", agrees=True)],
        )
        monkeypatch.setitem(EXPERIMENTS, name, made)
        monkeypatch.setitem(result_figures.DRAWINGS, name, lambda _rows, _title, path: path.write_text("<svg></svg>"))


def experiment(name: str, calls: Calls, folder: Path, data: str = "synth", *, quick: bool = False) -> tuple[Any, str]:
    """One experiment in a folder, as the command runs it: its document and the folder's page."""
    chosen = study.Options(data, quick=quick, workers=1)
    document = study.run(name, calls, chosen, lambda *_: None)
    study.keep(document, calls, folder)
    study.write_tables([document], name, chosen, folder)
    return document, study.write_page(folder).read_text(encoding="utf-8")


@pytest.mark.usefixtures("plain")
def test_a_quick_page_says_so_and_how_many_days_it_saw(tmp_path: Path) -> None:
    document, page = experiment("rounds", small(days=12), tmp_path, quick=True)
    assert document["run"]["days"] == document["rows"][0]["days seen"] == 10
    assert "synth, 10 days" in page
    assert "12 days" not in page
    assert page.count("A quick run: few days") == 1
    assert "<title>hushcall: the paper reproduced, and beyond it (a quick look)</title>" in page
    assert "A quick run" in (tmp_path / "results.md").read_text("utf-8")
    document, page = experiment("rounds", small(days=12), tmp_path)
    assert "synth, 12 days" in page
    assert "quick" not in page.partition("</style>")[2]


@pytest.mark.usefixtures("plain")
def test_one_page_for_all_experiments_of_a_folder(tmp_path: Path) -> None:
    experiment("rounds", small(days=1), tmp_path, quick=True)
    (tmp_path / "f1.json").write_text("{ torn", encoding="utf-8")
    _, page = experiment("theory", small(days=1), tmp_path)
    assert page.index("<h2>What the paper computes</h2>") < page.index("<h2>F1 against T")
    assert (page.count("<h2>"), page.count("<svg"), page.count("A quick run")) == (2, 1, 1)
    _, again = experiment("rounds", small(days=2), tmp_path)  # run again, it takes its own place
    assert (again.count("<h2>"), again.count("A quick run")) == (2, 0)
    tables = (tmp_path / "results.md").read_text("utf-8")
    assert "Made by `hushcall experiment theory`, `hushcall experiment rounds` with" in tables
    assert "## F1 against T" in tables


@pytest.mark.usefixtures("plain")
def test_own_data_have_their_own_title_and_no_claims_of_others(tmp_path: Path) -> None:
    document, page = experiment("rounds", small(days=3), tmp_path, "x/mine.csv")
    assert document["title"] == "F1 against T (ε = 8.8), on mine.csv, 2016-02-17 to 2016-02-19"
    assert "<title>hushcall: experiments on mine.csv</title>" in page
    assert "agrees" not in page
    real, page = experiment("real", small(days=8), tmp_path, "x/mine.csv")
    assert real["title"] == "Daily and windowed decisions (θ = 10), on mine.csv, 2016-02-17 to 2016-02-24"
    assert "2020" not in page
    assert document["statements"] == real["statements"] == []
    assert experiment("theory", small(days=1), tmp_path, "x/mine.csv")[0]["statements"]  # these are about no data


def test_claims_are_judged_on_the_data_that_they_are_about() -> None:
    synthetic, theirs = small(days=3), small(days=30)
    assert origin_of("synth:7", synthetic) is Origin.PAPER
    assert origin_of("c.csv", replace(theirs, first=date(2020, 2, 17))) is Origin.COMPLAINTS
    assert origin_of("c.csv", theirs) is Origin.OWN
    assert "real" in CLAIMS[Origin.COMPLAINTS]
    assert "f1" not in CLAIMS[Origin.COMPLAINTS]  # the paper's month was another one

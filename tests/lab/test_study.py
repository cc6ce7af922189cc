"""Metrics, months, the runner and whole studies: definitions, identical results, files that are whole."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushcall.errors import InvalidParameter
from hushcall_lab.data.datasets import Calls
from hushcall_lab.study import study
from hushcall_lab.study.experiments import Experiment, Statement
from hushcall_lab.study.metrics import Scores, blocking_rates, relative_blocking
from hushcall_lab.study.months import Setting, run_month


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
def test_results_do_not_depend_on_workers() -> None:
    settings = [Setting("sh-extended", 11.8), Setting("subspace", 3.0), Setting("none", 1.0)]
    seen: list[tuple[int, int]] = []
    together = study.run_all(small(), settings, 2, 5, workers=2, progress=lambda *step: seen.append(step))
    assert study.run_all(small(), settings, 2, seed=5, workers=1) == together
    assert seen[0] == (0, 5)
    assert seen[-1] == (5, 5)


def test_a_comparison_at_ones_own_budget_and_threshold_judges_nothing() -> None:
    options = study.Options(quick=True, workers=1, tau=10, epsilons=(5.0,))
    document = study.run("compare", small(days=1), options, lambda *_: None)
    assert {row["epsilon"] for row in document["rows"] if row["mechanism"] != "none"} == {5.0}
    assert document["statements"] == []
    usual = study.run("compare", small(days=1), study.Options(quick=True, workers=1, epsilons=(5.0,)), lambda *_: None)
    assert document["rows"] != usual["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["days", "month"])
def test_a_quick_study_of_everything(tmp_path: Path, whole: bool) -> None:
    options = study.Options(quick=True, workers=None if whole else 1)
    calls = study.data_of(options) if whole else small(days=2, heavy=200)
    documents = []
    for name in ("theory", "optimality", "f1", "tau", "cbr", "rounds", "compare"):
        document = study.run(name, calls, options, lambda *_: None)
        assert document["rows"]
        assert document["run"]["seed"] == 1
        documents.append(document)
        figures = study.write(document, tmp_path)
        assert json.loads((tmp_path / f"{name}.json").read_text("utf-8"))["name"] == name
        assert (tmp_path / f"{name}.csv").read_text("utf-8").count("\n") == len(document["rows"]) + 1
        assert all(figure.with_suffix(".png").stat().st_size > 10_000 for figure in figures)
    assert not list(tmp_path.rglob("*.part"))
    extended = next(r for r in documents[2]["rows"] if r["randomiser"] == "extended" and r["epsilon_hh"] == 12.0)
    basic = next(r for r in documents[2]["rows"] if r["randomiser"] == "basic" and r["epsilon_hh"] == 12.0)
    assert extended["f1"] > basic["f1"]


def test_unknown_experiments_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="experiment must be one of"):
        study.run("magic", small(), study.Options(), lambda *_: None)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments on T and on real complaints, as small as they can be: one setting, one claim."""
    for name, title in (("rounds", "F1 against T (ε = 8.8)"), ("real", "Real complaints (θ = 10)")):
        made = Experiment(
            name,
            title,
            "the paper's remark",
            lambda _: [Setting("none", 1.0)],
            lambda results: [{"days seen": len(next(iter(results.values()))[0]["days"])}],
            lambda _: [Statement("so it is", "it is", agrees=True)],
        )
        monkeypatch.setitem(study.EXPERIMENTS, name, made)


def experiment(name: str, calls: Calls, data: str = "synth", *, quick: bool = False) -> Any:
    return study.run(name, calls, study.Options(data, quick=quick, workers=1), lambda *_: None)


@pytest.mark.usefixtures("plain")
def test_a_quick_run_covers_ten_days_and_says_so() -> None:
    document = experiment("rounds", small(days=12), quick=True)
    assert document["run"]["days"] == document["rows"][0]["days seen"] == 10
    assert document["run"]["quick"]
    document = experiment("rounds", small(days=12))
    assert document["run"]["days"] == document["rows"][0]["days seen"] == 12
    assert not document["run"]["quick"]


@pytest.mark.usefixtures("plain")
def test_own_data_have_their_own_title_and_no_claims_of_others() -> None:
    document = experiment("rounds", small(days=3), "x/mine.csv")
    assert document["title"] == "F1 against T (ε = 8.8), on mine.csv, 2016-02-17 to 2016-02-19"
    real = experiment("real", small(days=8), "x/mine.csv")
    assert real["title"] == "Real complaints (θ = 10), on mine.csv, 2016-02-17 to 2016-02-24"
    assert "claims are about" in real["about"]
    assert document["statements"] == real["statements"] == []
    assert experiment("theory", small(days=1), "x/mine.csv")["statements"]  # these are about no data


def test_claims_are_judged_on_the_data_that_they_are_about() -> None:
    synthetic, theirs = small(days=3), small(days=30)
    days_of_2020 = replace(theirs, first=date(2020, 2, 17))
    assert study.is_judged("f1", "synth:7", synthetic)
    assert study.is_judged("real", "c.csv", days_of_2020)
    assert not study.is_judged("real", "c.csv", theirs)
    assert not study.is_judged("real", "synth", days_of_2020)
    assert not study.is_judged("f1", "c.csv", days_of_2020)  # the paper's month was another one

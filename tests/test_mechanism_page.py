"""``docs/mechanism.md``: the tests that it names exist, and some of its statements hold to the last digit."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest

from hushcall.mechanisms.mechanism import RandomisedResponse
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber, linear_hash
from hushcall_lab.study import optimality

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "mechanism.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_named_test_exists(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_statement_has_a_proof_or_says_that_it_has_none_and_a_test() -> None:
    statements = re.split(r"\n(?=\*\*Statement \d+)", PAGE)[1:]
    assert [int(re.findall(r"Statement (\d+)", text)[0]) for text in statements] == list(range(1, 16))
    for text in statements:
        assert re.search(r"\*Checked\s+by\* `tests/", text), text[:60]
        assert "∎" in text or text.startswith("**Statement 3"), text[:60]


def test_a_stranger_supports_a_number_with_two_to_the_minus_b() -> None:
    """Statement 2 over all matrices, all words of a small response, and all pairs of three-bit numbers."""
    bits, width, odds = 2, 3, {0: Fraction(5, 8), 1: Fraction(1, 8), 2: Fraction(1, 8), 3: Fraction(1, 8)}
    matrices = list(product(range(1 << width), repeat=bits))
    for held, asked in product(range(1 << width), repeat=2):
        chance = sum(
            odds[linear_hash(rows, held) ^ linear_hash(rows, asked)] for rows in matrices
        ) / len(matrices)  # fmt: skip
        assert chance == (odds[0] if held == asked else Fraction(1, 1 << bits))


@pytest.mark.parametrize("mechanism", [Subspace(4.0, 5), WholeNumber(4.0, 5)])
def test_matrices_of_real_seeds_spread_every_difference_evenly(mechanism: Subspace) -> None:
    """What Statement 2 takes of the matrix: 5000 seeds. Drawn afresh, a limit would be missed once in 10⁵."""
    width = mechanism.item_bits
    for difference in (1, 1 << (width - 1), (1 << width) - 1, 0x5A_F00D, 2_025_550 ^ 9_999_999):
        seeds = (place.to_bytes(32, "big") for place in range(5000))
        counts = Counter(mechanism.hashed(difference, seed) for seed in seeds)
        expected = 5000 / mechanism.size
        assert sum((counts[value] - expected) ** 2 for value in range(mechanism.size)) / expected < 77


def test_lies_of_a_response_are_equally_likely_errors() -> None:
    """What Statement 2 takes of the response: given the truth, every error is as likely as another."""
    response = RandomisedResponse(4, (1 << 64) // 8)
    for truth in range(4):
        words = [(response.keep + place * response.other, response.other) for place in range(3)]
        errors = {response.draw(truth, first) ^ truth: count for first, count in words}
        assert errors == dict.fromkeys((1, 2, 3), response.other)
        assert {response.draw(truth, first + response.other - 1) ^ truth for first, _ in words} == {1, 2, 3}
        assert response.draw(truth, response.keep - 1) == truth


@pytest.mark.parametrize(("domain", "size"), [(6, 1), (6, 2), (7, 3)])
def test_subset_selection_has_the_odds_of_its_share(domain: int, size: int) -> None:
    """Statement 13, all sets of a size: 3 stands for e^ε."""
    ratio, sets = 3, [frozenset(chosen) for chosen in combinations(range(domain), size)]
    weights = {chosen: ratio if 0 in chosen else 1 for chosen in sets}
    total = sum(weights.values())
    share = Fraction(size, domain)
    holder = Fraction(sum(weight for chosen, weight in weights.items() if 0 in chosen), total)
    stranger = Fraction(sum(weight for chosen, weight in weights.items() if 1 in chosen), total)
    assert holder == ratio * share / (ratio * share + 1 - share)
    assert stranger == (size - holder) / (domain - 1)
    assert abs(stranger - share) <= Fraction(1, domain - 1)


def test_no_set_size_does_much_better_than_whole_bits() -> None:
    """Section 12: the table's corner, and the least variance of numbers without a holder."""
    bits = [step / optimality.STEPS for step in range(1, 16 * optimality.STEPS)]
    best = min(optimality.smallest(1000, 4.0, each) for each in bits)
    assert min(optimality.smallest(1000, 4.0, each) for each in range(1, 16)) <= best + 1
    assert optimality.smallest(1000, 4.0, 2) > 1.2 * best
    for epsilon in optimality.EPSILONS:
        least = 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2
        middle = math.log2(math.exp(epsilon) + 1)
        assert optimality.law(1, epsilon, middle).variance(0) == pytest.approx(least)
        assert min(optimality.law(1, epsilon, each).variance(0) for each in bits) >= least * (1 - 1e-12)
        assert min(optimality.law(1, epsilon, each).variance(0) for each in range(1, 24)) <= 1.03 * least
    losses = []
    for epsilon in (step / 100 for step in range(5, 1601)):
        least = 4 * math.exp(epsilon) / math.expm1(epsilon) ** 2
        losses.append(min(optimality.law(1, epsilon, each).variance(0) for each in range(1, 25)) / least)
    assert 1.07 < max(losses) < 1.08


def test_the_table_is_what_the_command_writes() -> None:
    """Some cells of it: ``hushcall-lab experiment optimality --page docs/mechanism.md`` writes them all."""
    table = PAGE.partition("<!-- figures: optimality -->")[2].partition("<!-- end -->")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line]
    head = next(line for line in lines if line[0] == "reports")
    row = next(line for line in lines if line[0] == "1000")
    for epsilon in (4.0, 8.0):
        bits = [round(epsilon / math.log(2)) + step / optimality.STEPS for step in range(-16, 17)]
        ours = min(optimality.smallest(1000, epsilon, each) for each in range(1, 20))
        ratio = ours / min(optimality.smallest(1000, epsilon, each) for each in bits)
        assert float(row[head.index(f"{epsilon:g}")]) == pytest.approx(ratio, abs=0.006)

"""Fake devices that aim at a victim's number: how many it takes to get it listed, and what the guard rails do.

A fake sends what supports the victim most, without noise: its hash under the report's own seed, its codeword's bits on
its channels. The server chooses seeds, so a fake cannot choose its hash; it adds one support for sure where an honest
holder adds p. One fake is worth (1 − q)/(p − q) honest reports, which is the bound that an operator can publish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hushcall.lab.figures import MARKERS, PALETTE, save, tidy
from hushcall.lab.study import bucket_model
from hushcall.lab.study.experiments import Statement
from hushcall.lab.study.months import Setting
from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.channels import decode_hard
from hushcall.learn.decision import Support
from hushcall.mechanisms import names
from hushcall.mechanisms.scheme import Family
from hushcall.mechanisms.schemes import scheme_of
from hushcall.numbers import NANP
from hushcall.protocol.seeds import SEED_BYTES

USERS = 1000
VICTIM = 5_550_143
RUNS = 200
TOLERANCE = 30
"""Fakes in a bucket that an operator wants to withstand."""


def influence(law: Support) -> float:
    """How many honest reports one fake is worth."""
    return (1 - law.q) / (law.p - law.q)


def tau_for(law: Support, tolerance: int) -> float:
    """The threshold that ``tolerance`` fakes do not reach in expectation, plus five standard errors of noise."""
    return float(tolerance * influence(law) + 5 * law.variance(0) ** 0.5)


def chance_listed(learner: Any, fakes: int, tau: float, runs: int = RUNS, seed: int = 1) -> float:
    """The share of rounds that list a victim whom nobody honest reports, with ``fakes`` of 1000 devices lying."""
    generator, hits = np.random.default_rng([seed, fakes]), 0
    for _ in range(runs):
        if scheme_of(learner.mechanism).family is Family.OURS:
            law = learner.law(USERS)
            least = learner.rule(tau).least(law)
            hits += fakes + generator.binomial(USERS - fakes, law.q) >= least
        else:
            hits += _histogram_lists(learner, fakes, tau, generator)
    return hits / runs


def _histogram_lists(learner: Any, fakes: int, tau: float, generator: np.random.Generator) -> bool:
    chosen = learner.mechanism
    phones = generator.integers(learner.domain.start, learner.domain.stop, USERS - fakes)
    spelled = False
    for function in chosen.hashes:
        bits = chosen.channels.bit_length() - 1
        hashed = phones.astype(np.uint64) * np.uint64(function.a) + np.uint64(function.b)
        channels = (hashed >> np.uint64(64 - bits)).astype(np.int64)
        sums = bucket_model.channel_sums(phones, channels, chosen.channels, chosen.randomiser, chosen.code, generator)
        word = chosen.code.encode(VICTIM)
        mine = sums[function.bits(VICTIM, bits)]
        for position in np.arange(fakes) % chosen.code.length:  # colluding fakes spread evenly over the positions
            mine[position] += -1 if word >> int(position) & 1 else 1
        spelled |= VICTIM in decode_hard(mine[None, :], chosen.code, chosen.item_bits, learner.domain)
    law = learner.law(USERS)
    return bool(spelled and fakes + generator.binomial(USERS - fakes, law.q) >= law.needed(tau))


def fakes_needed(learner: Any, tau: float, runs: int = RUNS) -> int:
    """The fewest fakes that get the victim listed in half of all rounds."""
    low, high = 0, USERS - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if chance_listed(learner, middle, tau, runs) >= 0.5 else (middle + 1, high)
    return low


def document(quick: bool) -> dict[str, Any]:
    """Rows for several mechanisms and budgets."""
    runs = 40 if quick else RUNS
    rows = []
    settings = [Setting(names.SUBSPACE, epsilon, tau=10) for epsilon in (2.0, 4.0, 6.0, 8.0)]
    settings += [Setting(kind, 11.8) for kind in (names.SH_EXTENDED, names.SH_TUNED)]
    for setting in settings:
        learner: Any = open_bucket(setting.profile(), NANP, USERS, bytes(SEED_BYTES))
        law = learner.law(USERS)
        sized = max(tau_for(law, TOLERANCE), setting.tau)
        row: dict[str, Any] = {"mechanism": setting.mechanism, "epsilon": setting.epsilon, "tau": setting.tau}
        row |= {"influence": influence(law), "fakes_needed": fakes_needed(learner, setting.tau, runs)}
        row |= {"tau_sized": sized, "fakes_needed_sized": fakes_needed(learner, sized, runs)}
        row["listed_at_tolerance"] = chance_listed(learner, TOLERANCE, sized, runs)
        rows.append(row)
    held = all(row["listed_at_tolerance"] == 0 for row in rows)
    worst = max(row["listed_at_tolerance"] for row in rows)
    bound = max(row["influence"] for row in rows)
    statements = [
        Statement(
            f"{TOLERANCE} fakes list no victim in {runs} rounds where τ is sized for them",
            f"{worst:.1%} of rounds",
            held,
        ),
        Statement("one fake is worth fewer than 3 honest reports", f"at most {bound:.1f}", bound < 3),
    ]
    return {
        "title": f"Fake devices needed to get a number listed ({USERS} devices in the bucket)",
        "about": "poisoning: fakes that all aim at one victim, with the default threshold and one sized by tolerance",
        "rows": rows,
        "statements": [asdict(one) for one in statements],
    }


def draw(rows: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    """Fakes needed against ε, with the default threshold and with one sized by tolerance."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(dict.fromkeys(row["mechanism"] for row in rows)):
        mine = [row for row in rows if row["mechanism"] == name]
        for key, style, label in (
            ("fakes_needed", "-", "default threshold"),
            ("fakes_needed_sized", "--", f"threshold sized for {TOLERANCE} fakes"),
        ):
            axes.plot(
                [row["epsilon"] for row in mine],
                [row[key] for row in mine],
                linestyle=style,
                marker=MARKERS[place],
                color=PALETTE[place],
                label=f"{name}, {label}",
            )
    axes.axhline(TOLERANCE, color="0.6", linewidth=1)
    axes.set_xlabel("ε of one report")
    axes.set_ylabel("fakes that list the victim in half of all rounds")
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.legend(frameon=False)
    tidy(axes)
    save(figure, path)

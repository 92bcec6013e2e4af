"""Counts, sums, means and histograms on a grid of users, ε and data: intervals hold the truth as
often as they say, and estimates have no bias.

`make coverage` measures the whole grid and prints a table; `make test-all` a small part of it.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import product

import numpy as np
import pytest
from answer_grid import DATA, EPSILONS, QUERIES, USERS, Case, Measured, measure

FULL = os.environ.get("SHUFFLEDP_COVERAGE") == "full"
RUNS = 400 if FULL else 1000
LEAST = 0.94
UNLUCKY = 4.0
"""Standard deviations that one case may be away by chance; it happens once in 30,000 cases."""
SHORT = [Case(query, 333, "1", data) for query in QUERIES for data in ("low", "spread")]
SHORT += [Case("count", 30, "0.2", "high"), Case("histogram", 30, "4", "one value")]
CASES = [Case(*case) for case in product(QUERIES, USERS, EPSILONS, DATA)] if FULL else SHORT


@cache
def measured(case: Case) -> Measured:
    found = measure(case, RUNS)
    if FULL:
        print(
            f"\n{case.query} {case.users} ε={case.epsilon} {case.data}: "
            f"coverage {found.coverage():.3f}, RMSE {found.rmse():.4g} of "
            f"{found.rmses.mean():.4g} said, bias {found.shift():+.1f} standard errors"
        )
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_intervals_hold_the_truth(case: Case) -> None:
    chance = UNLUCKY * (LEAST * (1 - LEAST) / RUNS) ** 0.5
    assert measured(case).coverage() >= LEAST - chance


@pytest.mark.parametrize("case", CASES, ids=str)
def test_estimates_have_no_bias(case: Case) -> None:
    """In the whole grid, a case beyond the bar gets ten times as many other runs: chance is gone
    by then, and a bias is beyond the bar by more than before."""
    shift = measured(case).shift()
    if FULL and abs(shift) >= UNLUCKY:
        print(f"{shift:+.1f} standard errors in {RUNS} runs; {10 * RUNS} other runs follow")
        shift = measure(case, 10 * RUNS, " again").shift()
    assert abs(shift) < UNLUCKY


@pytest.mark.parametrize("query", QUERIES)
def test_all_cases_of_a_query_together(query: str) -> None:
    """And a twin: intervals that are 20 % shorter are rejected."""
    found = [measured(case) for case in CASES if case.query == query]
    held = np.mean([one.coverage() for one in found])
    narrow = np.mean([one.narrowed_coverage() for one in found])
    if FULL:
        least = min(one.coverage() for one in found)
        print(f"\n{query}: {len(found)} cases, {RUNS} runs; coverage {held:.3f}, least {least:.3f}")
    chance = 3 * (LEAST * (1 - LEAST) / (RUNS * len(found))) ** 0.5
    assert narrow < LEAST - chance <= held


def test_twin_biased_estimates_are_rejected() -> None:
    found = measured(SHORT[0])
    beside = Measured(
        truth=found.truth + found.rmses.mean(),
        values=found.values,
        lows=found.lows,
        highs=found.highs,
        rmses=found.rmses,
    )
    assert abs(beside.shift()) > UNLUCKY

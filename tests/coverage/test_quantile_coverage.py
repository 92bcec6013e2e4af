"""Quantiles on a grid of users, ε, bins and data: intervals hold the truth as often as they say,
and the estimate errs no more than the former one, which took the first crossing.

`make coverage` measures the whole grid and prints a table; `make test` a small part of it.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import product

import numpy as np
import pytest
from quantile_grid import BINS, DATA, EPSILONS, USERS, Case, Measured, measure

FULL = os.environ.get("SHUFFLEDP_COVERAGE") == "full"
RUNS = 400 if FULL else 60
LEAST = 0.94
LEAST_OF_FEW_RUNS = 0.87
"""In 60 runs a coverage of 0.95 stays above this with a chance of 0.99."""
SHORT = (
    Case(30, "1", 16, "normal"),
    Case(30, "1", 16, "skewed"),
    Case(30, "4", 16, "lumpy"),
    Case(333, "1", 16, "uniform"),
    Case(333, "1", 64, "one bin"),
    Case(333, "4", 16, "integer"),
    Case(10_000, "1", 16, "skewed"),
)
CASES = [Case(*case) for case in product(USERS, EPSILONS, BINS, DATA)] if FULL else list(SHORT)
BADLY_COVERED = Case(30, "1", 64, "normal")
"""Where the former intervals missed the truth too often."""


@cache
def measured(case: Case) -> Measured:
    found = measure(case, RUNS)
    if FULL:
        print("\n" + table_line(case, found))
    return found


def table_line(case: Case, found: Measured) -> str:
    """bias, RMSE and coverage before → after, for every probability."""
    before, after = found.rmse(found.former), found.rmse(found.values)
    numbers = zip(
        found.bias(found.former),
        found.bias(found.values),
        before,
        found.former_rmse_both_ways(),
        after,
        found.former_coverage(),
        found.coverage(),
        strict=True,
    )
    cells = " | ".join(
        f"{a:+.3f}→{b:+.3f} {c:.3f}/{d:.3f}→{e:.3f} {f:.3f}→{g:.3f}"
        for a, b, c, d, e, f, g in numbers
    )
    return f"{case.users} ε={case.epsilon} bins={case.bins} {case.data}: {cells}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_intervals_hold_the_truth(case: Case) -> None:
    least = LEAST if FULL else LEAST_OF_FEW_RUNS
    assert (measured(case).coverage() >= least).all()


def test_all_cases_together_hold_it_as_often_as_they_say() -> None:
    assert np.mean([measured(case).coverage() for case in CASES]) >= LEAST + 0.01


@pytest.mark.parametrize("case", CASES, ids=str)
def test_errors_are_no_larger_than_before(case: Case) -> None:
    """Over data and its mirror image: the former estimator leaned to the lower bound, and so was
    right by luck where the data lie there. For the mean of two crossings this holds for any data
    (docs/mathematics.md §7): it guards the code and is no evidence that the estimate is good. On
    the data alone the former one errs less in about a fifth of the grid.
    """
    found = measured(case)
    assert (found.rmse(found.values) <= found.former_rmse_both_ways() + 1e-9).all()


def test_twin_former_intervals_are_rejected() -> None:
    found = measure(BADLY_COVERED, 200)
    assert (found.former_coverage() < LEAST).any()
    assert (found.coverage() >= LEAST).all()


def test_twin_narrow_intervals_are_rejected() -> None:
    narrow = [measured(case).narrowed_coverage() for case in CASES]
    assert np.mean(narrow) < LEAST


def test_the_lean_to_the_lower_bound_is_smaller() -> None:
    """Of values in the middle. Not so everywhere: where noise is large, the estimate is drawn to
    the middle of the bounds instead, and the bias of some cases is as large as before."""
    found = measured(BADLY_COVERED)
    former, now = found.bias(found.former), found.bias(found.values)
    assert np.abs(former).max() > 0.2
    assert np.abs(now).max() < 0.6 * np.abs(former).max()


def test_twin_the_former_estimator_errs_more_on_the_mirror_image() -> None:
    found = measured(BADLY_COVERED)
    assert (found.rmse(found.values) < 0.9 * found.former_rmse_both_ways()).any()

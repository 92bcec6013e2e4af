"""Quantiles on a grid of users, ε, bins and data: intervals hold the truth as often as they say,
noise does not shift the estimate to first order, and where it errs more than the former estimator,
which took the first crossing, that one leaned towards the data by luck.

`make coverage` measures the whole grid and prints a table; `make test-all` a small part of it.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import product

import numpy as np
import pytest
from quantile_grid import (
    BINS,
    DATA,
    EPSILONS,
    PROBABILITIES,
    USERS,
    WORSE,
    Case,
    Floats,
    Measured,
    measure,
)

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
ALLOWED = 1.06 if FULL else 1.12
"""How much more than the former one over data and mirror image: the estimate is no mean of the two,
so that it may err a little more than both where both err little; and few runs differ by chance."""
FEW_SHIFTS, SHIFT = 200, 0.27
"""In 200 runs a mean lies within this many standard deviations with a chance of 0.9998."""
BADLY_COVERED = Case(30, "1", 64, "normal")
"""Where the former intervals missed the truth too often."""

NOISY = Case(30, "0.2", 16, "normal")
"""Where noise is larger than the number of users."""


@cache
def measured(case: Case, runs: int = RUNS) -> Measured:
    found = measure(case, runs)
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
    """Over data and their mirror image: the former estimator leaned to the lower bound, so that it
    was right by luck where the data lie there. Where the estimate errs more than it, the former
    one therefore errs more on the mirror image."""
    found = measured(case)
    assert (found.rmse(found.values) <= ALLOWED * found.former_rmse_both_ways() + 1e-9).all()
    lucky = found.rmse(found.former_mirrored) > found.rmse(found.former)
    assert (lucky | ~found.worse_cells()).all()


def test_the_grid_in_numbers() -> None:
    """How many cells of the grid err more than with the former estimator, and by how much."""
    all_found = [measured(case) for case in CASES]
    worse = sum(int(found.worse_cells().sum()) for found in all_found)
    cells = sum(found.values.shape[1] for found in all_found)
    ratios = [found.rmse(found.values) / found.rmse(found.former) for found in all_found]
    biases = [[found.bias(found.former), found.bias(found.values)] for found in all_found]
    before, after = np.sqrt((np.array(biases) ** 2).mean(axis=(0, 2)))
    least = min(measured(case).coverage().min() for case in CASES)
    mean = np.mean([measured(case).coverage() for case in CASES])
    if FULL:
        print(f"\nquantiles: {cells} cells, {RUNS} runs; coverage {mean:.3f}, least {least:.3f}")
        print(f"RMSE more than 3 % above the former estimator's in {worse} cells, at most")
        print(f"{np.max(ratios):.1f} times; on average (geometric) {mean_ratio(ratios):.3f} times;")
        print(f"root mean squared bias {before:.3f} before, {after:.3f} now;")
        print(plain_line(all_found) + "; worse cells:")
        print("\n".join(line for case in CASES for line in worse_lines(case, measured(case))))
        assert after < before
    assert worse < cells / 3


def plain_line(all_found: list[Measured]) -> str:
    """The same numbers for the crossing itself, without the mean over a little more noise."""
    worse = sum(int(found.worse_cells(found.plain).sum()) for found in all_found)
    former = [found.rmse(found.plain) / found.rmse(found.former) for found in all_found]
    now = np.array([found.rmse(found.values) / found.rmse(found.plain) for found in all_found])
    bias = np.sqrt(np.mean([found.bias(found.plain) ** 2 for found in all_found]))
    before = np.mean([found.rmse(found.plain) for found in all_found])
    after = np.mean([found.rmse(found.values) for found in all_found])
    return (
        f"without smoothing {worse} cells, {mean_ratio(former):.3f} times, bias {bias:.3f}; "
        f"with it the mean RMSE is {after:.4f} instead of {before:.4f}, "
        f"in {(now > WORSE).sum()} cells more than 3 % larger (at most {now.max():.2f} times), "
        f"in {(now < 2 - WORSE).sum()} more than 3 % smaller"
    )


def worse_lines(case: Case, found: Measured) -> list[str]:
    """Where the former estimator erred less: its RMSE, in brackets that over data and mirror image,
    and the RMSE now."""
    numbers = zip(
        PROBABILITIES,
        found.worse_cells(),
        found.rmse(found.former),
        found.former_rmse_both_ways(),
        found.rmse(found.values),
        strict=True,
    )
    cells = [f"{p:g}: {a:.3f} ({b:.3f}) → {c:.3f}" for p, worse, a, b, c in numbers if worse]
    where = f"{case.users:,} | {case.epsilon} | {case.bins} | {case.data}"
    return [f"| {where} | {'; '.join(cells)} |"] if cells else []


def mean_ratio(ratios: list[Floats]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


@pytest.mark.parametrize("data", ["uniform", "normal"])
def test_noise_does_not_shift_the_estimate_to_first_order(data: str) -> None:
    """Where noise is small against the number of users in a bucket. A twin that lies half a
    standard deviation beside is rejected."""
    found = measured(Case(10_000, "1", 16, data), FEW_SHIFTS)
    assert np.abs(found.bias_of_noise(found.values)).max() < SHIFT
    beside = found.values + found.values.std(axis=0) / 2
    assert np.abs(found.bias_of_noise(beside)).min() > SHIFT


def test_large_noise_shifts_the_median_less_than_before() -> None:
    found = measured(BADLY_COVERED)
    now, before = found.bias_of_noise(found.values)[2], found.bias_of_noise(found.former)[2]
    assert abs(now) < 0.5 < abs(before)


def test_a_mean_over_a_little_more_noise_errs_less_where_noise_is_large() -> None:
    """And does not move what is known well: the same to a thousandth of a bucket."""
    noisy, clear = measured(NOISY), measured(Case(333, "4", 16, "integer"))
    assert noisy.rmse(noisy.values).mean() < 0.9 * noisy.rmse(noisy.plain).mean()
    assert np.median(np.abs(clear.values - clear.plain)) < 0.001 / 16


def test_twin_former_intervals_are_rejected() -> None:
    found = measure(BADLY_COVERED, 200)
    assert (found.former_coverage() < LEAST).any()
    assert (found.coverage() >= LEAST).all()


def test_twin_narrow_intervals_are_rejected() -> None:
    narrow = [measured(case).narrowed_coverage() for case in CASES]
    assert np.mean(narrow) < LEAST


def test_twin_the_former_estimator_errs_more_on_the_mirror_image() -> None:
    found = measured(BADLY_COVERED)
    assert (found.rmse(found.values) < 0.9 * found.former_rmse_both_ways()).any()

"""Where the former estimator of quantiles errs less than any estimator can that mirrors its answers
when the data are mirrored: both cannot be had.

`make coverage` looks for such cells on the grid and prints them; `make test-all` shows some.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from flint import arb
from quantile_bound import (
    Contradiction,
    Dataset,
    affinity,
    at_most,
    bucket_law,
    contradiction,
    mirror,
    of_grid,
    results,
    with_some_above,
)
from quantile_grid import DATA, PROBABILITIES, Case, plan_of, true_quantile

from shuffledp.cells.bounded.cell import BoundedCell

FULL = os.environ.get("SHUFFLEDP_COVERAGE") == "full"
RUNS = 400 if FULL else 60
NOISY = Case(30, "0.2", 64, "")
"""Where views on very different data look alike."""
NAMES = DATA if FULL else ("skewed",)
SKEWED = Case(30, "1", 64, "skewed")
MOVED = {0.75: 8, 0.95: 2}
"""How many of 30 users at the upper bound move a quantile there."""


def moved_above(case: Case, probability: float) -> Contradiction:
    data = of_grid(case.data, case.users)
    other = with_some_above(data, MOVED[probability])
    return contradiction(case, data, other, probability, RUNS)


@pytest.mark.parametrize(("data", "probability"), [("skewed", 0.95), ("one bin", 0.95)])
def test_few_users_decide_where_a_high_quantile_lies(data: str, probability: float) -> None:
    """And the view hardly shows whether they are there."""
    case = replace(SKEWED, data=data)
    found = moved_above(case, probability)
    if FULL:
        print("\n" + found.line(case))
    assert found.shown


def test_twin_nothing_is_shown_where_the_view_tells_them_apart() -> None:
    assert not moved_above(replace(SKEWED, epsilon="4"), 0.95).shown


def test_cells_of_the_grid() -> None:
    """Every pair of data of the grid; a line for the clearest pair of each cell."""
    data = [of_grid(name, NOISY.users) for name in NAMES]
    shown: dict[tuple[str, float], Contradiction] = {}
    for one, other, p in product(data, data, PROBABILITIES):
        found = contradiction(NOISY, one, mirror(other), p, RUNS)
        margin = found.least - found.former - found.former_of_mirrored
        known = shown.get((one.name, p))
        if found.shown and (
            known is None or margin > known.least - known.former - known.former_of_mirrored
        ):
            shown[one.name, p] = found
    if FULL:
        print("\n" + "\n".join(found.line(NOISY) for found in shown.values()))
    assert shown


def test_twin_the_estimate_of_now_keeps_the_bound() -> None:
    """It mirrors its answers, so that its errors add up to the bound at least."""
    data = of_grid("skewed", 30)
    other = with_some_above(data, MOVED[0.95])
    found = contradiction(SKEWED, data, other, 0.95, RUNS)
    errors = [
        at_most(np.array([result.quantile(p).value for result in results(SKEWED, one, RUNS)]), t)
        for one, p, t in (
            (data, 0.95, true_quantile(data.values, 0.95)),
            (mirror(other), 0.05, true_quantile(mirror(other).values, 0.05)),
        )
    ]
    assert sum(errors) >= found.least


def test_the_estimate_is_mirrored_with_the_view() -> None:
    """And the former one is not."""
    result = next(iter(results(SKEWED, Dataset("any", np.linspace(0, 0.6, 30)), 1)))
    reversed_weights = result.errors.weights[::-1]
    turned = replace(
        result,
        counts=result.counts[::-1],
        errors=replace(result.errors, weights=reversed_weights),
    )
    for p in (0.05, 0.25, 0.5, 0.75, 0.95):
        there, back = turned.quantile(1 - p), result.quantile(p)
        assert 1 - there.value == pytest.approx(back.value, abs=1e-6)


def test_laws_of_buckets() -> None:
    """Chances add up to 1, the affinity of a law with itself is 1, and of two laws less."""
    cell = plan_of(30, "1", 64, "bounded").protocol.levels[-1].cell  # type: ignore[attr-defined]
    assert isinstance(cell, BoundedCell)
    none, some = bucket_law(cell, 30, 0), bucket_law(cell, 30, 9)
    assert abs(float(sum(some, start=arb(0))) - 1) < 1e-12
    means = [
        float(sum((k * mass for k, mass in enumerate(law)), start=arb(0))) for law in (none, some)
    ]
    kept = float(cell.moments().kept)
    assert means[1] - means[0] == pytest.approx(9 * kept, rel=1e-9)
    assert float(affinity(none, none)) == pytest.approx(1, abs=1e-9)
    assert float(affinity(none, some)) < 0.9

"""The RMSE of a real sum at its estimate is what is measured; a mean's target is the mean's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from plan_parts import held as held_values

import shuffledp
from shuffledp import plan_real_sum
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate
from shuffledp.queries.real_sum.protocol import RealSumProtocol, likely_squares
from shuffledp.queries.real_sum.query import MeanQuery

USERS = 10_000
RUNS = 1000
"""The RMSE of so many runs errs by about 2.2 %."""


def values_of(data: str) -> NDArray[np.float64]:
    rng = np.random.default_rng(2)
    made = {
        "uniform": rng.random(USERS),
        "normal": rng.normal(0.5, 0.12, USERS),
        "skewed": rng.exponential(0.08, USERS),
    }
    return np.clip(made[data], 0.0, 1.0)


@cache
def plan(dither: int = 1) -> Plan[Estimate]:
    return plan_real_sum(USERS, 4, dither=dither, mse_overhead=8)


@cache
def measured(data: str, dither: int) -> tuple[float, float]:
    """(RMSE over runs, RMSE that results state)."""
    values, entropy, protocol = values_of(data), SeededEntropy(data), plan(dither).protocol
    assert isinstance(protocol, RealSumProtocol)
    errors, stated = [], []
    for number in range(RUNS):
        view = protocol.release(protocol.aggregate(values, entropy))
        sums = view.plus - view.minus
        totals = [
            float(cell.estimates(sums[place : place + 1], USERS)[0])
            for place, cell in enumerate(protocol.digits)
        ]
        units = np.dot(protocol.weights, totals) - protocol.shift(view)
        errors.append(units * float(protocol.step) - values.sum())
        if number % 100 == 0:
            stated.append(protocol.analyze(view).rmse)
    return float(np.sqrt(np.mean(np.square(errors)))), float(np.mean(stated))


def exact_rmse(data: str, dither: int = 1) -> float:
    """The RMSE at these very values: what rounding, muting and noise add up to."""
    protocol = plan(dither).protocol
    assert isinstance(protocol, RealSumProtocol)
    steps = values_of(data) * protocol.grid
    below = np.minimum(np.floor(steps).astype(np.int64), protocol.grid - 1)
    part = steps - below
    held = np.bincount(below, 1 - part, protocol.grid + 1)
    held += np.bincount(below + 1, part, protocol.grid + 1)
    k, codes = protocol.dither, np.arange(protocol.grid + 1) * protocol.dither
    b = k * part % 1
    held_digits = held_values(protocol, codes)
    mse = float(((k * k - 1) / 12 + b - b * b).sum()) / k**2
    for place, (cell, weight) in enumerate(zip(protocol.digits, protocol.weights, strict=True)):
        digits = held_digits[place]
        total, squares = float(held @ digits), float(held @ digits**2)
        mse += weight**2 * cell.variance_at(USERS, total, squares)
    return float(np.sqrt(mse)) * float(protocol.step)


@pytest.mark.parametrize(
    ("data", "dither"), [("uniform", 1), ("normal", 1), ("skewed", 1), ("skewed", 5)]
)
def test_the_stated_error_is_the_true_one(data: str, dither: int) -> None:
    actual, stated = measured(data, dither)
    assert actual == pytest.approx(exact_rmse(data, dither), rel=0.07)
    assert stated == pytest.approx(exact_rmse(data, dither), rel=0.03)
    assert stated == pytest.approx(actual, rel=0.08)


def test_twin_the_error_without_the_dither_is_not_the_one_with_it() -> None:
    """The same digits, their rounding not taken off: far beyond what the test above allows."""
    protocol = plan(5).protocol
    assert isinstance(protocol, RealSumProtocol)
    ignored = replace(protocol, dither=1).rmse(USERS, [0.0] * len(protocol.digits))
    assert ignored > 1.15 * protocol.rmse(USERS, [0.0] * len(protocol.digits))


def test_twin_the_worst_case_is_not_the_true_one() -> None:
    """The plan's forecast stays at the worst data, which is above what these data give."""
    assert plan().forecast.rmse > 1.06 * exact_rmse("uniform")


def test_values_close_together_err_less_than_stated_and_never_more() -> None:
    """Totals do not tell values in the middle from values spread around it."""
    coarse = plan_real_sum(333, 1)
    protocol = coarse.protocol
    assert isinstance(protocol, RealSumProtocol)
    stated = protocol.rmse(333, [333 * cell.largest / 2 for cell in protocol.digits])
    assert stated < coarse.forecast.rmse


def test_likely_squares() -> None:
    assert likely_squares(1.0, 2) == pytest.approx(5 / 3)
    assert likely_squares(0.0, 4) == 0 and likely_squares(4.0, 4) == 16
    assert likely_squares(0.3, 1) == pytest.approx(0.3)
    assert 0.5**2 < likely_squares(0.5, 4) < 0.5 * 4


def test_the_target_of_a_mean_is_the_means() -> None:
    values = np.random.default_rng(3).random(5000)
    found = shuffledp.mean(values, epsilon=1, bounds=(0, 1), rmse="0.005")
    assert 0.002 < found.rmse <= 0.005
    query = MeanQuery(epsilon=1, rmse="0.005", bounds=(0, 1))
    forecast = query.plan(5000).forecast.rmse
    assert 0.9 * 25 < forecast <= 25


def test_twin_the_same_number_for_a_sum_is_out_of_reach() -> None:
    values = np.random.default_rng(3).random(5000)
    with pytest.raises(PlanningError):
        shuffledp.real_sum(values, epsilon=1, bounds=(0, 1), rmse="0.005")


def test_confidences_are_bounded_before_a_ledger_is_charged(tmp_path: Path) -> None:
    ledger = shuffledp.Ledger.create(tmp_path / "ledger.json", budget=1)
    for wrong in (0.9999999999999999, 1, 0, "1e-400", 1 - 1e-10):
        with pytest.raises(ParameterError, match="confidence"):
            shuffledp.count([True] * 50, epsilon=1, confidence=wrong, ledger=ledger)
    assert ledger.remaining() == 1
    found = shuffledp.count([True] * 50, epsilon=1, confidence=1 - 1e-9, ledger=ledger)
    assert found.low <= 50 <= found.high and "99.9999999% interval" in str(found)
    assert "99.5% interval" in str(shuffledp.count([True] * 50, epsilon=1, confidence=0.995))

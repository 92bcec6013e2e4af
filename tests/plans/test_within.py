"""Targets as a sentence: within so much of the truth, so often."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp import Plan, SeededEntropy
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.plans.within import plan_within, reach

USERS = 2_000


def count(rmse: Fraction) -> Plan[Any]:
    return shuffledp.plan_count(USERS, 1, rmse=rmse, cell="bounded")


def histogram(rmse: Fraction) -> Plan[Any]:
    return shuffledp.plan_histogram(USERS, 1, 3, rmse=rmse, cell="bounded")


def quantiles(rmse: Fraction) -> Plan[Any]:
    return shuffledp.plan_quantiles(USERS, 1, (0, 1), bins=8, rmse=rmse, cell="bounded")


def real_sum(rmse: Fraction) -> Plan[Any]:
    return shuffledp.plan_real_sum(USERS, 1, bounds=(0, 4), rmse=rmse, cell="bounded")


@pytest.mark.parametrize(
    ("planner", "error", "confidence"),
    [
        (count, 5, "0.95"),
        (count, 30, "0.8"),
        (histogram, 12, "0.95"),
        (histogram, 60, "0.99"),
        (quantiles, 120, "0.9"),
        (real_sum, 60, "0.95"),
    ],
)
def test_a_plan_keeps_the_sentence_and_is_not_far_below(
    planner: Any, error: int, confidence: str
) -> None:
    plan = plan_within(planner, error, confidence)
    reached = reach(plan, float(confidence))
    assert 0.3 * error < reached <= error


def test_a_larger_error_costs_no_more() -> None:
    sizes = [plan_within(histogram, error).forecast.messages_per_user for error in (12, 30, 90)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]


def estimates(plan: Plan[Any], runs: int, seed: int) -> np.ndarray[Any, Any]:
    entropy, tally = SeededEntropy(seed), np.array([0, USERS])
    views = [plan.release(plan.protocol.aggregate_tally(tally, entropy)) for _ in range(runs)]
    return np.array([plan.analyze(view).value - USERS for view in views])


def test_errors_lie_within_as_often_as_said() -> None:
    """At the worst data; 0.9 of 800 seeded runs has a standard deviation of 0.0106."""
    plan = plan_within(count, 6, "0.9")
    errors = estimates(plan, 800, 18)
    assert np.mean(np.abs(errors) <= reach(plan, 0.9) + 1e-9) > 0.9 - 4 * 0.0106
    # the twin: the same test refuses a reach that is a third of it
    assert np.mean(np.abs(errors) <= reach(plan, 0.9) / 3) < 0.9 - 4 * 0.0106


def test_what_no_plan_keeps_is_refused() -> None:
    with pytest.raises(PlanningError, match=r"within 1 of the truth.*allow a larger error"):
        plan_within(count, 1)
    for error in (0, -3):
        with pytest.raises(ParameterError, match="greater than 0"):
            plan_within(count, error)
    for confidence in ("0.3", "1", "0"):
        with pytest.raises(ParameterError, match="confidence must"):
            plan_within(count, 5, confidence)


def test_an_error_slightly_above_the_least_one_is_kept() -> None:
    """A guess below every error that has a plan is followed by one above it."""

    def real_sum(rmse: Fraction) -> Plan[Any]:
        return shuffledp.plan_real_sum(1000, 1, bounds=(0, 100), rmse=rmse)

    found = plan_within(real_sum, 310)
    assert 0.95 * 310 <= reach(found, 0.95) <= 310


def test_the_forecast_of_every_protocol_is_its_error_range() -> None:
    for planner in (count, histogram, quantiles, real_sum):
        plan = plan_within(planner, 200)
        found = plan.protocol.error_range(plan.expected, 0.05)
        assert found == (plan.forecast.error_low, plan.forecast.error_high)

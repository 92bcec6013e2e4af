"""Sums and means without a target: the error of a rehearsal, at most 1,000 messages, and an RMSE
that is stated as it is."""

from __future__ import annotations

import numpy as np
import pytest

import shuffledp
from shuffledp import SeededEntropy
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate
from shuffledp.queries.real_sum.planner import MOST_DEFAULT_MESSAGES
from shuffledp.queries.real_sum.protocol import RealSumProtocol

USERS = 10_000


@pytest.fixture(scope="module", params=[1, 5])
def plan(request: pytest.FixtureRequest) -> Plan[Estimate]:
    return shuffledp.plan_real_sum(USERS, request.param, bounds=(0, 120))


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    skewed = np.clip(rng.gamma(2, 15, USERS), 0, 120)
    return {
        "even": rng.uniform(0, 120, USERS),
        "skewed": skewed,
        "whole": np.floor(skewed),
        "equal": np.full(USERS, 37.3),
        "ends": np.where(rng.random(USERS) < 0.3, 0.0, 120.0),
    }


def exact_rmse(protocol: RealSumProtocol, values: np.ndarray) -> tuple[float, list[float]]:
    """(the RMSE for these very values, the expected totals of the digits)."""
    k, grid_steps = protocol.dither, (values - float(protocol.low)) / float(protocol.step)
    inside = grid_steps * k % 1
    mse = float(((k * k - 1) / 12 + inside * (1 - inside)).sum()) / k**2
    below = np.floor(grid_steps).astype(int)
    chance, above = grid_steps - below, np.minimum(below + 1, protocol.grid)
    totals = []
    for weight, cell in zip(protocol.weights, protocol.digits, strict=True):
        first, second = (part // weight % (cell.largest + 1) for part in (below, above))
        total, squares = (
            float(((1 - chance) * first**power + chance * second**power).sum()) for power in (1, 2)
        )
        mse += weight**2 * cell.variance_at(USERS, total, squares)
        totals.append(total)
    joint = USERS * float(protocol._joint_variance())
    return float(np.sqrt(mse + joint)) * float(protocol.step), totals


def estimate(protocol: RealSumProtocol, values: np.ndarray, entropy: SeededEntropy) -> float:
    """The estimate of one run, without its interval."""
    view = protocol.release(protocol.aggregate(values, entropy))
    sums = (view.plus - view.minus)[: len(protocol.digits)]
    totals = [
        float(cell.estimates(sums[place : place + 1], USERS)[0])
        for place, cell in enumerate(protocol.digits)
    ]
    steps = float(np.dot(protocol.weights, totals)) - protocol.shift(view)
    return USERS * float(protocol.low) + steps * float(protocol.step)


def test_the_default_errs_at_most_one_and_a_half_times_the_central_mechanism(
    plan: Plan[Estimate],
) -> None:
    forecast = plan.forecast
    assert forecast.messages_per_user <= MOST_DEFAULT_MESSAGES
    assert forecast.rmse**2 <= 1.5 * forecast.central_rmse**2 * 1.001
    assert plan.target.mse_overhead is not None or plan.target.max_messages == 1000


def test_the_default_stays_within_a_thousand_messages_where_the_error_costs_more() -> None:
    plan = shuffledp.plan_real_sum(100, "1/4", bounds=(0, 1))
    assert plan.forecast.messages_per_user <= MOST_DEFAULT_MESSAGES
    if plan.target.max_messages is None:
        assert plan.forecast.rmse**2 <= 1.5 * plan.forecast.central_rmse**2 * 1.001
    else:
        assert "1000 messages" in str(plan.target).replace(",", "")


def test_the_stated_rmse_is_within_five_percent_of_the_exact_one(plan: Plan[Estimate]) -> None:
    protocol = plan.protocol
    assert isinstance(protocol, RealSumProtocol)
    for name, values in data().items():
        exact, totals = exact_rmse(protocol, values)
        assert abs(protocol.rmse(USERS, totals) / exact - 1) < 0.05, name


def test_the_exact_rmse_is_the_measured_one(plan: Plan[Estimate]) -> None:
    """Squared errors of 300 runs have the exact mean; the twin with half of it is rejected."""
    protocol = plan.protocol
    assert isinstance(protocol, RealSumProtocol)
    values, entropy = data()["skewed"], SeededEntropy(4)
    exact, _ = exact_rmse(protocol, values)
    found = [estimate(protocol, values, entropy) for _ in range(300)]
    squares = (np.array(found) - values.sum()) ** 2
    spread = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - exact**2) < 4.5 * spread
    assert abs(squares.mean() - (exact / 2) ** 2) > 4.5 * spread

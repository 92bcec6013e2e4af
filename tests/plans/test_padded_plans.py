"""Plans whose messages are counted after padding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from plan_parts import paper_cell

from shuffledp import plan_count, plan_histogram, plan_integer_sum, plan_quantiles, plan_real_sum
from shuffledp.cells.paper.flood import reserve
from shuffledp.cells.paper.search import Proposal, settle, spent
from shuffledp.cells.report_size import message_laws, reserve_size
from shuffledp.cells.search import CellTarget
from shuffledp.errors import PlanningError
from shuffledp.plans.certificate import certify
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import laplace_variance
from shuffledp.protocols.results import Result


@pytest.mark.parametrize(
    ("make", "arguments", "aim", "most"),
    [
        (plan_count, (10**4, 1), {"mse_overhead": 1}, 0.97),
        (plan_count, (10**4, 1), {"mse_overhead": 2}, 0.88),
        (plan_count, (10**4, 1), {"relative_error": "0.01"}, 0.96),
        (plan_count, (10**4, "0.1"), {}, 0.98),
        (plan_integer_sum, (10**4, 1, 10), {"mse_overhead": 3}, 0.8),
        (plan_histogram, (10**4, 1, 4), {"mse_overhead": 8}, 0.9),
        (plan_real_sum, (10**4, 1), {"mse_overhead": 8}, 0.62),
        (plan_real_sum, (10**6, 1), {"mse_overhead": 8}, 0.35),
        (plan_real_sum, (10**4, 1), {"relative_error": "0.01"}, 0.72),
    ],
)
def test_padded_reports_are_smaller_for_the_same_error(
    make: Callable[..., Plan[Result]], arguments: tuple[Any, ...], aim: dict[str, Any], most: float
) -> None:
    usual, padded = (make(*arguments, **aim, padded=way, cell="paper") for way in (False, True))
    assert padded.report_size <= most * usual.report_size
    assert padded.forecast.messages_per_user >= usual.forecast.messages_per_user
    if "relative_error" not in aim:
        assert padded.forecast.rmse <= usual.forecast.rmse * 1.001
    least = padded.forecast.limit_messages
    assert least is None or least <= padded.forecast.messages_per_user
    assert certify(padded.protocol).epsilon == usual.epsilon
    assert padded.to_dict()["target"]["padded"] is True
    assert "padded" not in usual.to_dict()["target"]


@pytest.mark.parametrize(
    ("make", "arguments", "aim"),
    [
        (plan_count, (10**4, 5), {"mse_overhead": "0.1"}),
        (plan_histogram, (10**9, 20, 10), {"rmse": 30}),
        (plan_histogram, (3, 5, 2), {"mse_overhead": 50}),
        (plan_quantiles, (10**4, 10, (0, 1)), {"rmse": 100}),
        (plan_real_sum, (100, 20), {"rmse": 3}),
        (plan_real_sum, (5, 5), {"relative_error": "0.3"}),
        (plan_real_sum, (100, 1), {"mse_overhead": 1}),
    ],
)
def test_padded_plans_are_never_larger(
    make: Callable[..., Plan[Result]], arguments: tuple[Any, ...], aim: dict[str, Any]
) -> None:
    """Where the estimate of the reserve misleads, at odd parameters, the usual plan is taken."""
    usual, padded = (make(*arguments, **aim, padded=way, cell="paper") for way in (False, True))
    assert padded.report_size <= usual.report_size


def test_quantiles_accept_padded() -> None:
    plans = [
        plan_quantiles(10**4, 1, (0, 8), bins=4, mse_overhead=20, padded=padded, cell="paper")
        for padded in (False, True)
    ]
    assert plans[1].report_size < plans[0].report_size


@pytest.mark.parametrize(
    ("make", "arguments", "messages"),
    [
        (plan_count, (10**4, 1), 90),
        (plan_count, (10**4, "0.01"), 6000),
        (plan_integer_sum, (10**4, 1, 2), 200),
        (plan_histogram, (10**4, 1, 3), 230),
        (plan_real_sum, (10**4, 1), 500),
    ],
)
def test_the_best_error_for_a_padded_size(
    make: Callable[..., Plan[Result]], arguments: tuple[Any, ...], messages: int
) -> None:
    plan = make(*arguments, max_messages=messages, padded=True, cell="paper")
    assert 0.97 * messages <= plan.report_size <= messages


def test_a_size_that_no_report_can_have() -> None:
    with pytest.raises(PlanningError, match="allow"):
        plan_count(10**4, 1, max_messages=20, padded=True, cell="paper")


@pytest.mark.parametrize("overhead", [Fraction(1, 2), Fraction(3)])
def test_no_other_pairs_and_noise_give_a_smaller_report(overhead: Fraction) -> None:
    """Against all of a coarse grid, each point settled and counted exactly."""
    one = Fraction(1)
    mse = (1 + overhead) * laplace_variance(one)
    task = CellTarget(users=1000, expected=1000, largest=1, up=one, down=one, mse=mse, padded=1)
    plan = plan_count(1000, 1, mse_overhead=overhead, padded=True, cell="paper")
    sizes = []
    for b in np.linspace(0.5, 0.98, 25):
        for pairs in range(5, 35, 2):
            try:
                sizes.append(
                    spent(
                        task,
                        settle(
                            task,
                            Proposal(messages=0.0, down_epsilon=float(b), pairs=pairs, flood=0.0),
                        ),
                    )
                )
            except PlanningError:
                continue
    assert len(sizes) > 60
    assert plan.report_size <= min(sizes)


@pytest.mark.parametrize(
    ("make", "arguments", "aim"),
    [
        (plan_count, (10**4, 1), {}),
        (plan_count, (10**3, "0.1"), {}),
        (plan_count, (10**6, 1), {"relative_error": "0.01"}),
        (plan_integer_sum, (10**4, 1, 10), {}),
        (plan_histogram, (10**4, 1, 100), {}),
    ],
    ids=["count", "small epsilon", "tolerance", "integers", "histogram"],
)
def test_the_estimate_of_the_reserve_is_near(
    make: Callable[..., Plan[Result]], arguments: tuple[Any, ...], aim: dict[str, Any]
) -> None:
    plan = make(*arguments, **aim, padded=True, cell="paper")
    (use,) = plan.protocol.members
    cell, users = paper_cell(plan), plan.users
    decay = float(min(cell.up_epsilon, cell.down_epsilon)) / cell.largest
    flood = use.copies * float(cell.flood_mean) / users
    estimate = float(reserve(np.array([decay]), np.array([flood]), use.copies, users)[0])
    groups = plan.protocol.cell_groups
    exact = reserve_size(groups, users) - message_laws(groups)[0]
    assert abs(estimate - exact) <= max(2, 0.02 * exact)

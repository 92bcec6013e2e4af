"""Plans for integer sums, and for every protocol that has one cell."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from shuffledp.cells.base import LARGEST_VALUE
from shuffledp.errors import PlanningError
from shuffledp.exact.numbers import ExactNumber, whole
from shuffledp.planning.checks import checked_epsilon, checked_size, checked_users
from shuffledp.planning.paper_messages import best_shape
from shuffledp.planning.paper_search import CellTask, cheapest_cell, free_flood
from shuffledp.planning.plan import Forecast, Plan
from shuffledp.planning.printed import printed_recipe
from shuffledp.planning.target import Target, laplace_variance
from shuffledp.privacy.certificate import certify
from shuffledp.protocols.integer_sum import IntegerSum
from shuffledp.protocols.results import Estimate


def plan_integer_sum(
    users: int,
    epsilon: ExactNumber,
    largest: int,
    *,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
) -> Plan[Estimate]:
    """The cheapest certified protocol that adds up values 0..largest, one per user."""
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    largest = whole(largest, "the largest value", most=LARGEST_VALUE)
    return plan_one_cell(IntegerSum, users, epsilon, largest, target, expected)


def plan_one_cell(
    protocol_class: type[IntegerSum],
    users: int,
    epsilon: ExactNumber,
    largest: int,
    target: Target,
    expected: int | None,
) -> Plan[Estimate]:
    """The plan of a protocol with one cell for the values 0..largest."""
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    checked_size(come * largest)
    task = CellTask(
        users=sure,
        expected=come,
        largest=largest,
        up=epsilon,
        down=epsilon,
        mse=Fraction(1),
        relative=target.relative_error,
        padded=1 if target.padded else 0,
    )
    central = laplace_variance(epsilon / largest)
    if target.max_messages is not None:
        task, cell = best_shape(task, float(target.max_messages))
    else:
        task = replace(task, mse=target.mse(central))
        cell = cheapest_cell(task)
    protocol = protocol_class(epsilon, cell)
    limit = free_flood(task, cell, 1)
    forecast = _forecast(protocol, come, math.sqrt(central), limit)
    printed = _printed(sure, epsilon, target) if largest == 1 else None
    return Plan(
        protocol=protocol,
        certificate=certify(protocol),
        target=target,
        expected=come,
        forecast=forecast,
        printed=printed,
    )


def _forecast(protocol: IntegerSum, users: int, central_rmse: float, limit: float) -> Forecast:
    messages = protocol.messages_per_user()
    checked_size(users * messages)
    low, high = protocol.cell.error_range(users, users * protocol.cell.largest, 0.05)
    return Forecast(
        messages_per_user=messages,
        limit_messages=limit,
        rmse=protocol.rmse(users),
        rmse_at_zero=protocol.rmse(users, 0),
        central_rmse=central_rmse,
        error_low=low,
        error_high=high,
    )


def _printed(users: int, epsilon: Fraction, target: Target) -> dict[str, Any] | None:
    """The paper's constants for the same task, or why there are none."""
    if target.mse_overhead is None:
        return None
    try:
        recipe = printed_recipe(users, epsilon, target.mse_overhead)
    except PlanningError as error:
        return {"refused": str(error)}
    return {
        "messages_per_user": recipe.messages_per_user,
        "rmse": recipe.rmse,
        "keeps_its_error": recipe.keeps_its_error,
    }

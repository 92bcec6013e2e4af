"""Plans for integer sums, and for every protocol that has one cell."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from shuffledp.cells.base import LARGEST_VALUE
from shuffledp.cells.bounded.choice import bounded_one
from shuffledp.cells.choice import BOUNDED, PAPER, Search, checked_cell_choice, choose
from shuffledp.cells.paper.choice import paper_one
from shuffledp.cells.paper.printed import printed_recipe
from shuffledp.cells.target import CellTarget
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import ExactNumber, whole
from shuffledp.plans.certificate import certify
from shuffledp.plans.checks import checked_epsilon, checked_size, checked_users
from shuffledp.plans.least_epsilon import least_epsilon_target, with_least_epsilon
from shuffledp.plans.plan import Forecast, Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.protocols.results import Estimate
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol


def plan_integer_sum(
    users: int,
    epsilon: ExactNumber | None,
    largest: int,
    *,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
    cell: str = "best",
) -> Plan[Estimate]:
    """The cheapest certified protocol that adds up values 0..largest, one per user.

    The arguments after `largest` are those of `plan_count`.

    >>> import shuffledp
    >>> plan = shuffledp.plan_integer_sum(1000, 1, 5, rmse=10)
    >>> plan.forecast.rmse <= 10
    True
    """
    if epsilon is None:
        least = least_epsilon_target(rmse, max_messages, (mse_overhead, relative_error), padded)
        return with_least_epsilon(
            lambda known, near: plan_integer_sum(
                users, known, largest, rmse=rmse, padded=padded, expected=expected, cell=cell
            ),
            least,
        )
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    largest = whole(largest, "the largest value", most=LARGEST_VALUE)
    return plan_one_cell(IntegerSumProtocol, users, epsilon, largest, target, expected, cell)


def plan_one_cell(
    protocol_class: type[IntegerSumProtocol],
    users: int,
    epsilon: ExactNumber,
    largest: int,
    target: Target,
    expected: int | None,
    cell: str,
) -> Plan[Estimate]:
    """The plan of a protocol with one cell for the values 0..largest."""
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    checked_size(come * largest)
    task = CellTarget(
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
    messages = None if target.max_messages is None else float(target.max_messages)
    if messages is None:
        task = replace(task, mse=target.mse(central))
    searches: dict[str, Search] = {
        BOUNDED: lambda baseline: bounded_one(task, messages),
        PAPER: lambda baseline: paper_one(task, messages, baseline),
    }
    choice = choose(checked_cell_choice(cell), searches, messages is not None)
    protocol = protocol_class(epsilon, choice.cell)
    forecast = _forecast(protocol, come, math.sqrt(central), choice.limit)
    printed = _printed(sure, epsilon, target) if largest == 1 else None
    return Plan(
        protocol=protocol,
        certificate=certify(protocol),
        target=target,
        expected=come,
        forecast=forecast,
        printed=printed,
    )


def _forecast(
    protocol: IntegerSumProtocol, users: int, central_rmse: float, limit: float
) -> Forecast:
    messages = protocol.messages_per_user()
    checked_size(users * messages)
    low, high = protocol.error_range(users, 0.05)
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

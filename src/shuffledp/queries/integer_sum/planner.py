"""Plans for integer sums, and for every protocol that has one cell."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Unpack

from shuffledp.cells.base import LARGEST_VALUE, independent_cell
from shuffledp.cells.paper.printed import printed_recipe
from shuffledp.cells.registry import search_cell
from shuffledp.cells.search import CellTarget
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import ExactNumber, whole
from shuffledp.plans.checks import checked_epsilon, checked_size, checked_users
from shuffledp.plans.least_epsilon import planner
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, TargetOptions, laplace_variance
from shuffledp.protocols.results import Estimate
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol


@planner()
def plan_integer_sum(
    users: int,
    epsilon: ExactNumber | None,
    largest: int,
    *,
    expected: int | None = None,
    cell: str = "best",
    **target: Unpack[TargetOptions],
) -> Plan[Estimate]:
    """The cheapest certified protocol that adds up values 0..largest, one per user.

    The arguments after `largest` are those of `plan_count`.

    >>> import shuffledp
    >>> plan = shuffledp.plan_integer_sum(1000, 1, 5, rmse=10)
    >>> plan.forecast.rmse <= 10
    True
    """
    largest = whole(largest, "the largest value", most=LARGEST_VALUE)
    return plan_one_cell(
        IntegerSumProtocol, users, epsilon, largest, Target.of(**target), expected, cell
    )


def plan_one_cell(
    protocol_class: type[IntegerSumProtocol],
    users: int,
    epsilon: ExactNumber | None,
    largest: int,
    target: Target,
    expected: int | None,
    cell: str,
) -> Plan[Estimate]:
    """The plan of a protocol with one cell for the values 0..largest."""
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    checked_size(come * largest)
    central = laplace_variance(epsilon / largest)
    wanted = CellTarget(
        users=sure,
        expected=come,
        largest=largest,
        up=epsilon,
        down=epsilon,
        mse=target.mse(central),
        relative=target.relative_error,
        padded=1 if target.padded else 0,
    )
    found = search_cell(cell, wanted, target.messages)
    return Plan.of(
        protocol_class(epsilon, independent_cell(found.cell)),
        target,
        come,
        central_rmse=math.sqrt(central),
        printed=_printed(sure, epsilon, target) if largest == 1 else None,
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

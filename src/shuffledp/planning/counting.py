"""Plans for counts and integer sums."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from shuffledp.accuracy.cell_error import error_range
from shuffledp.cells.paper import LARGEST, MOST_USERS, Cell
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.exact.numbers import ExactNumber, positive, show, to_float, whole
from shuffledp.planning.paper_search import (
    CellTask,
    cheapest_cell,
    error_left,
    least_rmse,
    limit_messages,
    propose,
    settle,
    spent,
    without_pairs,
)
from shuffledp.planning.plan import Forecast, Plan
from shuffledp.planning.printed import printed_recipe
from shuffledp.planning.target import Target, laplace_variance
from shuffledp.privacy.certificate import certify
from shuffledp.protocols.integer_sum import Counting, IntegerSum

SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 1000), Fraction(20)


def plan_count(
    users: int,
    epsilon: ExactNumber,
    *,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
) -> Plan:
    """The cheapest certified protocol that counts users with the value 1.

    `users` honest reports are sure to come (fewer are never released); the error is forecast for
    `expected` reports, which may be many more. With `padded`, what counts is not the average but
    K, the size of a report that is filled up so that its size says nothing, as the service does.
    """
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    return _plan(Counting, users, epsilon, 1, target, expected)


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
) -> Plan:
    """The cheapest certified protocol that adds up values 0..largest, one per user."""
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    largest = whole(largest, "the largest value", most=LARGEST)
    return _plan(IntegerSum, users, epsilon, largest, target, expected)


def checked_epsilon(epsilon: ExactNumber) -> Fraction:
    """ε as an exact number in the range that plans can be made for."""
    number = positive(epsilon, "epsilon")
    if not SMALLEST_EPSILON <= number <= LARGEST_EPSILON:
        raise ParameterError(
            f"epsilon must lie between {show(SMALLEST_EPSILON)} and {show(LARGEST_EPSILON)} "
            f"to be planned for; {show(number)} was given."
        )
    return number


def checked_users(users: object, expected: object | None) -> tuple[int, int]:
    """(sure to come, expected to come)."""
    sure = whole(users, "users", most=MOST_USERS)
    come = sure if expected is None else whole(expected, "expected", most=MOST_USERS)
    if come < sure:
        raise ParameterError(
            f"{sure:,} users are said to be sure to come but only {come:,} are expected; "
            "plan for fewer users."
        )
    return sure, come


def checked_size(messages: float) -> None:
    """Refuses so many messages in all that counts of 64 bits might not hold them."""
    if messages > 2**61:
        raise ParameterError(
            "So many messages in all overflow 64-bit counts; plan for fewer "
            "users, buckets or smaller values."
        )


def _plan(
    kind: type[IntegerSum],
    users: int,
    epsilon: ExactNumber,
    largest: int,
    target: Target,
    expected: int | None,
) -> Plan:
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    checked_size(come * largest)
    task = CellTask(
        sure,
        come,
        largest,
        epsilon,
        epsilon,
        Fraction(1),
        target.relative_error,
        padded=1 if target.padded else 0,
    )
    central = laplace_variance(epsilon / largest)
    if target.max_messages is not None:
        task, cell = _best_shape(task, float(target.max_messages))
    else:
        task = replace(task, mse=target.mse(central))
        cell = cheapest_cell(task)
    protocol = kind(epsilon, cell)
    forecast = _forecast(protocol, task, math.sqrt(central))
    printed = _printed(sure, epsilon, target) if largest == 1 else None
    return Plan(protocol, certify(protocol), target, come, forecast, printed)


def _forecast(protocol: IntegerSum, task: CellTask, central_rmse: float) -> Forecast:
    n, cell = task.expected, protocol.cell
    messages = protocol.messages_per_user()
    checked_size(n * messages)
    low, high = error_range(cell, n, n * cell.largest, 0.05)
    task = replace(task, stand_in=cell.stand_in)
    return Forecast(
        messages_per_user=messages,
        limit_messages=min(limit_messages(task), messages) if cell.input_pairs else messages,
        rmse=protocol.rmse(n),
        rmse_at_zero=protocol.rmse(n, 0),
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


def _best_shape(task: CellTask, messages: float) -> tuple[CellTask, Cell]:
    """The least error for so many messages, with or without a stand-in for muted users."""
    shapes = [task]
    if task.largest > 1:
        shapes.append(replace(task, stand_in=task.largest // 2))
        ends = Fraction(least_rmse(task)) ** 2, _thinning_error(task)
        rough = [_tightest_error(shape, ends, messages, None) or ends[1] for shape in shapes]
        shapes = [shapes[rough.index(min(rough))]]
    return best_for_messages(shapes[0], messages)


def best_for_messages(task: CellTask, messages: float) -> tuple[CellTask, Cell]:
    """The least error for which a cell costs at most so many messages, and that cell."""
    loosest = replace(task, mse=_thinning_error(task))
    thin = without_pairs(replace(loosest, stand_in=0))
    if thin is not None and spent(loosest, thin) > messages:
        raise PlanningError(
            f"No plan sends fewer than {spent(loosest, thin):.4g} messages per user "
            f"here; allow at least that."
        )
    wanted = messages
    for _ in range(8):
        found = _with_pairs(task, loosest.mse, wanted)
        if found is None:
            break
        cost = spent(*found)
        if cost <= messages:
            return found
        wanted -= 1.1 * (cost - messages)  # rounding to short decimals went over
    if thin is None:
        raise PlanningError("No plan is that cheap; allow more messages.")
    return loosest, thin


def _with_pairs(task: CellTask, most: Fraction, messages: float) -> tuple[CellTask, Cell] | None:
    """The least error up to `most` for which a proposal costs so many messages, and its cell."""
    least = Fraction(least_rmse(task)) ** 2
    found: tuple[CellTask, Cell] | None = None
    real = _tightest_error(task, (least, most), messages, None)
    if real is None:
        return None
    middle = int(propose(replace(task, mse=real)).pairs)
    for pairs in range(max(1, middle - 1), middle + 3):
        near = max(least, real * Fraction(98, 100)), min(real * 3, most)
        mse = _tightest_error(task, near, messages, pairs)
        if mse is not None and (found is None or mse < found[0].mse):
            better = replace(task, mse=mse)
            found = better, settle(better, propose(better, pairs))
    return found


def _thinning_error(task: CellTask) -> Fraction:
    """An error that thinning surely keeps, as the upper end of a search."""
    cell = without_pairs(replace(task, mse=Fraction(10) ** 60, stand_in=0))
    if cell is None:
        return Fraction(task.expected * task.largest) ** 2
    left = to_float(lambda: error_left(replace(task, mse=Fraction(0)), cell))
    return Fraction(-left * (1 + 1e-9))


def _tightest_error(
    task: CellTask, between: tuple[Fraction, Fraction], messages: float, pairs: int | None
) -> Fraction | None:
    """The least mse between two for which the proposal costs at most `messages`, within 0.01 % of
    what it exceeds the lower one by."""
    least, most = (float(end) for end in between)
    zooms = 5 if pairs else 3

    def fits(mse: float) -> bool:
        return propose(replace(task, mse=Fraction(mse)), pairs, zooms).messages <= messages * (
            1 - 1e-5
        )

    if most <= least or not fits(most):
        return None
    low, high = math.log(1e-9 * (most - least)), math.log(most - least)
    while high - low > 1e-4 if pairs else high - low > 0.05:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(least + math.exp(middle)) else (middle, high)
    return Fraction(min(least + math.exp(high), most))

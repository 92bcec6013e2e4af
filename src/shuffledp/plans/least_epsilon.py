"""ε as the unknown: the least ε for which an error and a number of messages are both kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import ExactNumber, show
from shuffledp.plans.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target
from shuffledp.protocols.base import R

SHORT_EPSILONS = [
    number
    for power in range(-6, 1)
    for digits in range(100, 1000)
    if SMALLEST_EPSILON <= (number := digits * Fraction(10) ** power) <= LARGEST_EPSILON
]
"""The decimals with three digits that plans can be made for, in order."""
FIRST_GUESS = Fraction(1)


def least_epsilon_target(
    rmse: ExactNumber | None,
    max_messages: ExactNumber | None,
    others: tuple[ExactNumber | None, ...],
    padded: bool,
) -> Target:
    """The target of a plan without an ε: both an rmse and a number of messages, and no other."""
    if rmse is None or max_messages is None or any(other is not None for other in others):
        raise ParameterError(
            "epsilon may be left out only where both rmse and max_messages, and no other target, "
            "are given: then the least epsilon that keeps both is found."
        )
    return Target.with_least_epsilon(rmse, max_messages, padded)


def with_least_epsilon(
    plan: Callable[[Fraction, Plan[R] | None], Plan[R]], target: Target
) -> Plan[R]:
    """The plan with the least ε, of three decimal digits, whose messages the target allows.

    `plan(ε, near)` gives the cheapest plan that keeps the target's error; where a plan for a larger
    ε is given as `near`, it may take over from it what saves time. Looked for by halving: more ε
    never costs more messages (but for rounding to whole messages).
    """
    messages, rmse = target.max_messages, target.rmse
    assert messages is not None and rmse is not None

    def fitting(number: int, near: Plan[R] | None) -> Plan[R] | None:
        try:
            found = plan(SHORT_EPSILONS[number], near)
        except PlanningError:
            return None
        sent = found.report_size if target.padded else found.forecast.messages_per_user
        return found if sent <= messages else None

    best = _least_fitting(fitting)
    if best is None:
        raise PlanningError(
            f"No epsilon up to {show(LARGEST_EPSILON)} keeps an RMSE of {show(rmse)} with "
            f"{show(messages)} messages per user; allow a larger error or more messages."
        )
    return replace(best, target=target)


def _least_fitting(fitting: Callable[[int, Plan[R] | None], Plan[R] | None]) -> Plan[R] | None:
    """The plan for the first of `SHORT_EPSILONS` that fits, as far as halving finds it: first with
    what the last fitting plan found, then without, from there downwards in growing steps."""
    low, high = -1, len(SHORT_EPSILONS)
    surely_low = low  # refused without any help
    best: Plan[R] | None = None
    middle = SHORT_EPSILONS.index(FIRST_GUESS)
    while high - low > 1:
        found = fitting(middle, best)
        if found is None:
            low, surely_low = middle, surely_low if best else middle
        else:
            high, best = middle, found
        middle = (low + high) // 2
    step, low = 1, surely_low
    while best is not None and high - low > 1:
        middle = max(high - step, (low + high) // 2)
        found = fitting(middle, None)
        if found is None:
            low = middle
        else:
            high, best, step = middle, found, 2 * step
    return best

"""Finds the least ε that meets both an error and a number of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, ParamSpec, cast

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import show
from shuffledp.plans.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, TargetOptions
from shuffledp.protocols.base import R

P = ParamSpec("P")
Reuse = Callable[[Plan[Any]], dict[str, Any]]
"""Options found by a plan for a larger ε; reusing them saves time."""

SHORT_EPSILONS = [
    number
    for power in range(7)
    for digits in range(100, 1000)
    if SMALLEST_EPSILON <= (number := Fraction(digits * 10**power, 10**6)) <= LARGEST_EPSILON
]
"""The decimals with three digits that plans can be made for, in order."""
FIRST_GUESS = Fraction(1)


def planner(reuse: Reuse | None = None) -> Callable[[Callable[P, Plan[R]]], Callable[P, Plan[R]]]:
    """Turns a function with the arguments `users`, `epsilon` and `**target` into a planner that
    finds the least ε if `epsilon` is None. Its signature names every keyword of `TargetOptions`."""

    def decorated(plan: Callable[P, Plan[R]]) -> Callable[P, Plan[R]]:
        known = _spelled_out(signature(plan))

        @wraps(plan)
        def planned(*args: P.args, **kwargs: P.kwargs) -> Plan[R]:
            try:
                asked = known.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise TypeError(f"{plan.__name__}() {error}") from None
            if asked.get("epsilon") is not None:
                return plan(*args, **kwargs)
            return _with_least_epsilon(cast(Callable[..., Plan[R]], plan), asked, reuse)

        planned.__signature__ = known  # type: ignore[attr-defined]
        return planned

    return decorated


def _spelled_out(plain: Signature) -> Signature:
    """A signature with every keyword of `TargetOptions` in place of `**target`."""
    known = [one for one in plain.parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    options = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=False if name == "padded" else None,
            annotation=hint.__forward_arg__,
        )
        for name, hint in TargetOptions.__annotations__.items()
    ]
    return plain.replace(parameters=[*known, *options])


def _checked_target(asked: Mapping[str, Any]) -> Target:
    """The target of a plan without an ε: both an rmse and a number of messages, and no other."""
    rmse, messages = asked.get("rmse"), asked.get("max_messages")
    others = asked.get("mse_overhead"), asked.get("relative_error")
    if rmse is None or messages is None or others != (None, None):
        raise ParameterError(
            "epsilon is missing (--epsilon). Leave it out only if you set both rmse and "
            "max_messages, and no other target: then the least epsilon that meets both is found."
        )
    return Target.of(
        rmse=rmse,
        max_messages=messages,
        padded=asked.get("padded", False),
        error_at=asked.get("error_at"),
        least_epsilon=True,
    )


def _with_least_epsilon(
    plan: Callable[..., Plan[R]], asked: dict[str, Any], reuse: Reuse | None
) -> Plan[R]:
    """The plan with the least ε, of three decimal digits, that meets the target's error and its
    number of messages. The search bisects, because a larger ε never costs more messages (except for
    rounding to whole messages)."""
    target = _checked_target(asked)
    messages, rmse = target.max_messages, target.rmse
    assert messages is not None and rmse is not None
    others = {"epsilon", "progress", *TargetOptions.__annotations__}
    known = {name: one for name, one in asked.items() if name not in others}

    def fitting(number: int, near: Plan[R] | None) -> Plan[R] | None:
        taken_over = {} if near is None or reuse is None else reuse(near)
        epsilon, arguments = SHORT_EPSILONS[number], {**known, **taken_over}
        try:
            found = plan(**arguments, epsilon=epsilon, rmse=rmse, padded=target.padded)
        except PlanningError:
            return None
        sent = found.report_size if target.padded else found.forecast.messages_per_user
        return found if sent <= messages else None

    best = _least_fitting(fitting)
    if best is None:
        raise PlanningError(
            f"No epsilon up to {show(LARGEST_EPSILON)} reaches an RMSE of {show(rmse)} with "
            f"{show(messages)} messages per user; allow a larger error or more messages."
        )
    return replace(best, target=target)


def _least_fitting(fitting: Callable[[int, Plan[R] | None], Plan[R] | None]) -> Plan[R] | None:
    """The plan for the first of `SHORT_EPSILONS` that fits, found by bisection: first with the
    results of the last fitting plan, then without them, downwards in growing steps."""
    low, high = -1, len(SHORT_EPSILONS)
    surely_low = low  # refused even without reuse
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

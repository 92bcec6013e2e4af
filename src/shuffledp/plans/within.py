"""Plans for a target such as "within 5 of the truth, with probability 0.95". Planners take a root
mean squared error; this finds the largest one whose plan meets the target."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import ExactNumber, positive_as_written, probability, round_to, show
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import R

MOST_PLANS = 6
"""The most steps of one search; each brings a plan's errors closer to what is allowed."""
CLOSE_ENOUGH = 0.96
"""The search stops at a plan whose errors use at least this share of what is allowed."""

AIM = 0.99
"""The share of the allowed error that the next plan aims for; slightly more would be refused."""
STEP_DOWN = 0.88
"""While no plan fits, each one aims for at most this share of the previous error. After an error
that has no plan, the next one is larger by as much."""


def plan_within(
    plan: Callable[[Fraction], Plan[R]], error: ExactNumber, confidence: ExactNumber = "0.95"
) -> Plan[R]:
    """The cheapest plan found whose error, at the worst data, is at most `error` with probability
    `confidence`; `plan` returns the cheapest plan for a root mean squared error.

    >>> import shuffledp
    >>> plan = plan_within(lambda rmse: shuffledp.plan_count(10_000, 1, rmse=rmse), 5)
    >>> reach(plan, 0.95) <= 5
    True
    """
    allowed = positive_as_written(error, "the error")
    sure = float(probability(confidence, "confidence"))
    if sure < 0.5:
        raise ParameterError("confidence must be at least 0.5 here, for example 0.95.")
    asked = float(allowed) / NormalDist().inv_cdf((1 + sure) / 2)
    best: Plan[R] | None = None
    refused, fits, fails = 0.0, 0.0, None
    for _ in range(MOST_PLANS):
        found = _planned(plan, asked)
        part = None if found is None else reach(found, sure) / float(allowed)
        if part is None:
            refused = asked
        elif part <= 1:
            best, fits = found, asked
        else:
            fails = asked
        close = part is not None and part >= CLOSE_ENOUGH
        if best is not None and (close or (fails and fits > CLOSE_ENOUGH * fails)):
            break
        asked = _next_guess(asked, part, max(refused, fits), fails)
    if best is None:
        raise PlanningError(
            f"No plan is within {show(allowed)} of the truth with probability {sure:g}; allow a "
            "larger error, a larger epsilon or more messages."
        )
    return best


def _planned(plan: Callable[[Fraction], Plan[R]], rmse: float) -> Plan[R] | None:
    try:
        return plan(round_to(rmse, 6, up=False))
    except PlanningError:
        return None


def _next_guess(asked: float, part: float | None, low: float, fails: float | None) -> float:
    """The next error to try: proportional to what the last plan reached, above every error that
    has no plan or fits, and below every error that is too large. The reach changes in steps, so a
    small change may find the same plan again."""
    if part is None:
        guess = asked / STEP_DOWN
    else:
        guess = AIM * asked / part
        if part > 1 and not low:
            return min(guess, STEP_DOWN * asked)
    return (
        guess if guess > low and (fails is None or guess < fails) else (low + (fails or asked)) / 2
    )


def reach(plan: Plan[R], confidence: float, people: int | None = None) -> float:
    """How far from the truth a plan's result is at most, with this probability and the worst data,
    if `people` people take part (by default, as many as planned): everyone's noise adds to the
    error."""
    more = 0 if people is None else people - plan.users
    return max(map(abs, plan.protocol.error_range(plan.expected + more, 1 - confidence)))

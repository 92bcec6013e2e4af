"""A target as a sentence: within so much of the truth, so often. Planners take a root mean squared
error; this finds the largest one whose plan keeps the sentence."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import ExactNumber, positive_as_written, probability, round_to, show
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import R

MOST_PLANS = 6
"""Of one search; each step brings the reach of a plan's errors nearer to what is allowed."""
CLOSE_ENOUGH = 0.96
"""A plan whose errors reach so much of what is allowed is not made cheaper any more."""

AIM = 0.99
"""Which part of what is allowed the next plan aims for: just above it would be refused again."""
STEP_DOWN = 0.88
"""As long as no plan fits, each is asked for at most so much of the error of the one before."""


def plan_within(
    plan: Callable[[Fraction], Plan[R]], error: ExactNumber, confidence: ExactNumber = "0.95"
) -> Plan[R]:
    """The cheapest plan found whose error, at the worst data, is at most `error` with probability
    `confidence`; `plan` gives the cheapest plan for a root mean squared error.

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
    fits, fails = 0.0, None
    for _ in range(MOST_PLANS):
        found = _planned(plan, asked)
        part = 1.25 if found is None else reach(found, sure) / float(allowed)
        if found is not None and part <= 1:
            best, fits = found, asked
        else:
            fails = asked
        if best is not None and (part >= CLOSE_ENOUGH or (fails and fits > CLOSE_ENOUGH * fails)):
            break
        asked = _next_guess(asked, part, fits, fails)
    if best is None:
        raise PlanningError(
            f"No plan lies within {show(allowed)} of the truth with probability {sure:g}; allow a "
            "larger error, a larger epsilon or more messages."
        )
    return best


def _planned(plan: Callable[[Fraction], Plan[R]], rmse: float) -> Plan[R] | None:
    try:
        return plan(round_to(rmse, 6, up=False))
    except PlanningError:
        return None


def _next_guess(asked: float, part: float, fits: float, fails: float | None) -> float:
    """Where to look next: in proportion to what the last plan reached, between the ends known. The
    reach moves in steps, so that a small step down may find the same plan again."""
    guess = AIM * asked / part
    if not fits:
        return min(guess, STEP_DOWN * asked)
    return guess if fails is None or fits < guess < fails else (fits + fails) / 2


def reach(plan: Plan[R], confidence: float, people: int | None = None) -> float:
    """How far from the truth a plan's result is at most, with this probability, at the worst data,
    if as many people take part as planned, or `people`: everybody's noise adds to the error."""
    more = 0 if people is None else people - plan.users
    return max(map(abs, plan.protocol.error_range(plan.expected + more, 1 - confidence)))

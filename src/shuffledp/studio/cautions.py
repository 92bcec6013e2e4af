"""Warnings about a plan that is hard to defend."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import show
from shuffledp.plans.checks import SMALLEST_EPSILON
from shuffledp.plans.plan import Plan
from shuffledp.plans.within import reach
from shuffledp.studio.fields import Form
from shuffledp.studio.questions import (
    best_plan,
    confidence_of,
    epsilon_of,
    error_of,
    question_of,
    reach_of,
    wanted_error,
)
from shuffledp.studio.words import short

LARGE_EPSILON = 4
"""Above this the guarantee says little about one person (docs/how-to/choose-epsilon.md)."""
MOST_STEPS, LONGEST_STEP = 6, 0.1
WORTH_SAYING = Fraction(9, 10)
"""A smaller ε is suggested if it is at most this share of the form's."""


def cautions(form: Form, plan: Plan[Any]) -> list[str]:
    """A sentence or two for each weakness of a plan."""
    found = []
    if plan.epsilon > LARGE_EPSILON:
        found.append(
            f"ε = {show(plan.epsilon)} is large: above {LARGE_EPSILON} the guarantee protects a "
            "single person little. Write down why it is needed, or ask for less accuracy."
        )
    error, most = reach_of(form, plan), question_of(form).span(form)
    if form["find"] != "error":
        error = max(error, float(wanted_error(form)))
    if 2 * error >= most:
        found.append(
            f"An error of {short(error)} is at least half of the largest possible answer "
            f"({short(most)}): a guess without any data would be as good. Ask more people, "
            "or ask for a smaller error."
        )
    return found


def smaller_epsilon(form: Form) -> Plan[Any] | None:
    """A plan that keeps the form's error with nearly the least ε, at any cost in messages; None if
    that is not clearly below the form's ε, or if the form does not give ε."""
    if form["find"] != "messages" or "epsilon" not in question_of(form).finds(form):
        return None
    allowed, often = float(error_of(form)), float(confidence_of(form))
    given = epsilon = epsilon_of(form)
    best: Plan[Any] | None = None
    for _ in range(MOST_STEPS):  # the error of the best plan is nearly proportional to 1/ε
        try:
            plan = best_plan(form, epsilon)
        except PlanningError:
            break
        part = reach(plan, often) / allowed
        if part <= 1 and (best is None or plan.epsilon < best.epsilon):
            best = plan
        if 0.97 <= part <= 1:
            break
        epsilon = max(_rounded_up(float(epsilon) * max(part, LONGEST_STEP)), SMALLEST_EPSILON)
    return best if best is not None and best.epsilon <= WORTH_SAYING * given else None


def _rounded_up(epsilon: float) -> Fraction:
    """An ε of two digits, as people write it, that is not below this one."""
    digits = f"{epsilon * 1.01:.1e}"
    found = Fraction(digits)
    step = Fraction(f"0.1e{digits.partition('e')[2]}")
    return found if found >= Fraction(epsilon) else found + step

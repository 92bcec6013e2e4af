"""The closest targets that can be reached, where the form's cannot; and a smaller ε, where one
keeps the form's error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import show
from shuffledp.plans.checks import SMALLEST_EPSILON
from shuffledp.plans.plan import Plan
from shuffledp.plans.within import reach
from shuffledp.studio.fields import Form, number
from shuffledp.studio.questions import (
    PERCENT,
    best_plan,
    confidence_of,
    epsilon_of,
    error_of,
    question_of,
    quick_plan,
    reach_of,
    users_of,
)
from shuffledp.studio.words import short

Item = dict[str, Any]
MOST_STEPS, MOST_STEPS_DOWN = 5, 6
LONGEST_STEP = 0.1
WORTH_SAYING = Fraction(9, 10)
"""A smaller ε is suggested if it is at most this share of the form's."""
LARGEST_EPSILON = 8
MOST_TIMES_AS_MANY = 1000
MORE = {"messages": "send {} messages", "epsilon": "use ε = {}", "users": "ask {} people"}
"""What helps where a number of messages is given that is too small: fields and their buttons."""
MARGIN = 1.02
"""The least error is found by a search, so that the target offered is a little above it."""


def suggestions(form: Form) -> Iterator[Item]:
    """Targets that can be reached, each as a button: what it says, and the fields that it sets."""
    if form.get("find") != "messages":
        yield from _more(form)
        return
    try:
        best = best_plan(form)
    except PlanningError:
        best = None
    if best is not None:
        yield _error(form, best)
    epsilon = _enough(form, "epsilon", LARGEST_EPSILON)
    if epsilon is not None:
        yield {"label": f"use ε = {show(epsilon)}", "set": {"epsilon": show(epsilon)}}
    if question_of(form).words.of_one != "sum" or form.get("error_unit") == PERCENT:
        people = _enough(form, "users", MOST_TIMES_AS_MANY * users_of(form))
        if people is not None:
            yield {"label": f"ask {int(people):,} people", "set": {"users": str(people)}}


def nearest_plan(form: Form) -> tuple[Plan[Any], str]:
    """(the plan for the form that is found fastest, ""); or, if its ε and number of people do not
    allow its error, (the plan with nearly the least error, a sentence that says so)."""
    try:
        return quick_plan(form), ""
    except PlanningError:
        if form["find"] == "error":
            raise
        plan = best_plan(form)
    return plan, (
        f"With {plan.users:,} people and ε = {show(plan.epsilon)} the error that you asked for "
        f"cannot be reached. This plan has nearly the least one, ±{short(reach_of(form, plan))}."
    )


def _more(form: Form) -> Iterator[Item]:
    """More messages, people or ε, where a number of messages is given that is too small."""
    if "messages" in question_of(form).finds(form):
        yield {"label": "let the studio choose the number of messages", "set": {"find": "messages"}}
        return
    for field, label in MORE.items():
        if (found := _doubled(form, field)) is not None:
            yield {"label": label.format(f"{found:,}"), "set": {field: str(found)}}


def _doubled(form: Form, field: str) -> int | None:
    """The first number, of those that double, with which there is a plan."""
    value = math.ceil(number(form, field))
    most = LARGEST_EPSILON if field == "epsilon" else MOST_TIMES_AS_MANY * value
    while (value := 2 * value) <= most:
        with suppress(PlanningError):
            quick_plan({**form, field: str(value)})
            return value
    return None


def _error(form: Form, best: Plan[Any]) -> Item:
    """The least error, in the unit of the form."""
    question, least = question_of(form), reach_of(form, best)
    if form.get("error_unit") == PERCENT and question.words.of_one == "sum":
        share = _up(100 * max(least, 1) * MARGIN / question.span(form))
        return {"label": f"use ±{share} %", "set": {"error": share}}
    found = str(math.ceil(least)) if question.words.whole else _up(least * MARGIN)
    return {"label": f"use ±{short(float(found))}", "set": {"error": found}}


def _up(value: float) -> str:
    """A number with two digits, rounded up."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step) * step:.10g}"


def _larger(value: float) -> Fraction:
    """A number of two digits a little above this one."""
    return Fraction(_up(value * MARGIN))


def _tried(form: Form) -> tuple[Plan[Any] | None, float]:
    """The best plan for a form, and its error as a share of what the form allows."""
    try:
        plan = best_plan(form)
    except PlanningError:
        return None, 1.5
    return plan, reach(plan, float(confidence_of(form))) / float(error_of(form))


def _enough(form: Form, field: str, most: Fraction | int) -> Fraction | None:
    """Nearly the least ε or number of people, up to `most`, with which the error is kept."""
    value = number(form, field)
    for _ in range(MOST_STEPS):
        _, part = _tried({**form, field: str(value)})
        if part <= 1:
            return value
        value = _larger(float(value) * part)
        value = Fraction(math.ceil(value)) if field == "users" else value
        if value > most:
            return None
    return None


def smaller_epsilon(form: Form) -> Plan[Any] | None:
    """A plan that keeps the form's error with nearly the least ε, at any cost in messages; None if
    that is not clearly below the form's ε, or if the form does not give ε."""
    if form["find"] != "messages" or "epsilon" not in question_of(form).finds(form):
        return None
    given = epsilon = epsilon_of(form)
    best: Plan[Any] | None = None
    for _ in range(MOST_STEPS_DOWN):  # the error of the best plan is nearly proportional to 1/ε
        plan, part = _tried({**form, "epsilon": str(epsilon)})
        if plan is None:
            break
        if part <= 1 and (best is None or plan.epsilon < best.epsilon):
            best = plan
        if 0.97 <= part <= 1:
            break
        epsilon = max(_larger(float(epsilon) * max(part, LONGEST_STEP)), SMALLEST_EPSILON)
    return best if best is not None and best.epsilon <= WORTH_SAYING * given else None

"""What can be asked in the studio: how the page's form becomes a plan and a query."""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.plans.plan import Plan
from shuffledp.plans.within import plan_within
from shuffledp.queries.base import Query, StudioWords
from shuffledp.queries.catalogue import CATALOGUE
from shuffledp.queries.options import Argument, arguments
from shuffledp.studio.fields import LABELS, Form, number, positive, whole_number

AnyPlan = Plan[Any]
OTHER_LABEL = "other"
FIXED = ("cell", "padded")
"""Targets that some planners do not take."""
OVERHEADS = tuple(map(Fraction, ("1/20", "1/2", "2", "8", "40", "200", "1000")))
"""By how much more than the least squared error plans may err that show what is possible."""
ROUNDING = Fraction(499, 1000)
"""Whole numbers of people are meant rounded: 3.4 is within 3 of 0."""
BOUNDS = ("low", "high")


def _labels(form: Form) -> list[str]:
    given = form.get("labels")
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        raise ParameterError("Give the answers that people can choose from, one on each line.")
    labels = [label.strip() for label in given if label.strip()]
    if len(labels) < 2:
        raise ParameterError("Give at least two answers to choose from, one on each line.")
    return labels


def bounds_of(form: Form) -> tuple[Fraction, Fraction]:
    """The smallest and the largest value that a person may have."""
    low, high = number(form, "low"), number(form, "high")
    if low >= high:
        raise ParameterError(f"{LABELS['low']}: it must be below the largest value.")
    return low, high


def _fields(argument: Argument) -> tuple[str, ...]:
    """The fields of the page that an argument is read from."""
    if argument.option.as_column:
        return ("labels",)
    return BOUNDS if argument.name == "bounds" else (argument.name,)


def _read(form: Form, argument: Argument) -> Any:
    """An argument of a query from the fields of a form."""
    (field, *_) = _fields(argument)
    if field == "labels":
        return _labels(form)
    if field in BOUNDS:
        return bounds_of(form)
    if argument.name == "other":
        return OTHER_LABEL if form.get("other") else None
    return whole_number(form, field, least=argument.option.least)


@dataclass(frozen=True)
class Question:
    """A query as the studio asks it: its words, its fields, its planner, made from the query's
    declaration."""

    asked: type[Query[Any]]

    @property
    def name(self) -> str:
        """As everywhere in the package."""
        return self.asked.name

    @property
    def words(self) -> StudioWords:
        """What the studio says about it."""
        assert self.asked.declaration.studio is not None
        return self.asked.declaration.studio

    @property
    def arguments(self) -> list[Argument]:
        """The arguments that the form asks for."""
        return [
            one
            for one in arguments(self.asked)
            if one.option.plans and one.name not in self.words.without
        ]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the form that it needs beyond the common ones."""
        return tuple(field for one in self.arguments for field in _fields(one))

    @property
    def curve(self) -> tuple[dict[str, Any], ...]:
        """Targets of plans that show what is possible, those with the least error first."""
        curve = self.words.curve or [{"mse_overhead": over} for over in OVERHEADS]
        return tuple(dict(targets) for targets in curve)

    @property
    def allows_publish_noise(self) -> bool:
        """Whether the analyzer can add noise before it publishes."""
        protocol = self.asked.declaration.protocol
        return protocol is not None and protocol.allows_top_up

    def given(self, form: Form) -> dict[str, Any]:
        """The query's own arguments in a form."""
        return {one.name: _read(form, one) for one in self.arguments}

    def make(self, form: Form, users: int, epsilon: Any, targets: dict[str, Any]) -> AnyPlan:
        """The plan for a form and a number of users."""
        planner = self.asked.declaration.planner
        assert planner is not None
        if "cell" not in inspect.signature(planner).parameters:  # it has one kind, always padded
            targets = {name: one for name, one in targets.items() if name not in FIXED}
        return planner(users, epsilon, **self.asked.plan_arguments(self.given(form)), **targets)

    def query(self, form: Form, epsilon: Any, **options: Any) -> Query[Any]:
        """The form's query about a column."""
        known = {one.name for one in arguments(self.asked)}
        beyond: dict[str, Any] = {
            "equals": form.get("equals") or None,
            "clamp": bool(form.get("clamp")),
            "points": False,  # as the page plans
        }
        rest = {name: value for name, value in beyond.items() if name in known}
        return self.asked(epsilon=epsilon, **self.given(form), **rest, **options)

    def each(self, form: Form) -> Fraction:
        """By how much one person can change the true answer at most."""
        return self.query(form, 1).step()

    def for_page(self) -> dict[str, Any]:
        """What the page needs to know of it."""
        return {
            "asks": self.words.asks,
            "about": self.words.about,
            "fields": self.fields,
            "finds": self.words.finds,
            "clamp": any(one.name == "clamp" for one in arguments(self.asked)),
            "noise": self.allows_publish_noise,
        }


QUESTIONS = {one.name: Question(one) for one in CATALOGUE if one.declaration.studio is not None}


def page_script() -> str:
    """The module that tells the page which queries there are, and the words for their fields."""
    known = {name: question.for_page() for name, question in QUESTIONS.items()}
    return (
        f"export const QUERIES = {json.dumps(known, ensure_ascii=False)};\n"
        f"export const LABELS = {json.dumps(LABELS, ensure_ascii=False)};\n"
    )


def question_of(form: Form) -> Question:
    """The question that a form asks."""
    found = QUESTIONS.get(str(form.get("question")))
    if found is None:
        raise ParameterError(f"The question must be one of {', '.join(QUESTIONS)}.")
    return found


def users_of(form: Form) -> int:
    """The number of participants to count on."""
    return whole_number(form, "users", least=2)


def noise_shares(form: Form, users: int) -> int:
    """The number of users whose noise the analyzer adds before it publishes."""
    wanted = form.get("publish_noise") and question_of(form).allows_publish_noise
    return users if wanted else 0


def error_of(form: Form) -> Fraction:
    """The error that the form allows; of whole numbers of people, after rounding."""
    error = positive(form, "error")
    return error // 1 + ROUNDING if question_of(form).words.whole else error


def confidence_of(form: Form) -> Fraction:
    """How often the error is kept: the form says it in times out of 100."""
    return number(form, "confidence") / 100


def plan_of(form: Form, cell: str = "best", users: int | None = None) -> AnyPlan:
    """The plan that a form asks for, for the service: messages are counted after padding, and the
    error is that of what the analyzer publishes."""
    question, n = question_of(form), users_of(form) if users is None else users
    find = str(form.get("find"))
    if find not in question.words.finds:
        raise ParameterError(
            f"For this question only {', '.join(question.words.finds)} can be found from the rest."
        )
    shares = noise_shares(form, n)
    common = {"padded": True, "cell": cell, "expected": n + shares}
    if find == "error":
        messages = whole_number(form, "messages")
        return question.make(form, n, epsilon_of(form), {**common, "max_messages": messages})
    if find == "epsilon":
        common["max_messages"] = whole_number(form, "messages")
    epsilon = None if find == "epsilon" else epsilon_of(form)
    return plan_within(
        lambda rmse: question.make(form, n, epsilon, {**common, "rmse": rmse}),
        error_of(form),
        confidence_of(form),
    )


def quick_plan(form: Form, users: int) -> AnyPlan:
    """The plan for a number of people that is found fastest."""
    try:
        return plan_of(form, "bounded", users)
    except PlanningError:
        return plan_of(form, "best", users)


def epsilon_of(form: Form) -> Fraction:
    """The ε that the form gives."""
    return positive(form, "epsilon")


def service_targets(form: Form, users: int, targets: dict[str, Any]) -> dict[str, Any]:
    """Targets of a plan for the service, with padding and the analyzer's noise: the noise of as
    many users again doubles the squared error, so that overheads are meant beyond that."""
    shares = noise_shares(form, users)
    if "mse_overhead" in targets and shares:
        targets = {"mse_overhead": (1 + targets["mse_overhead"]) * 2 - 1}
    return {"padded": True, "cell": "bounded", "expected": users + shares, **targets}


def best_plan(form: Form, epsilon: Fraction | None = None) -> AnyPlan:
    """The plan with nearly the least error that an ε (the form's) allows, whatever it costs."""
    question, n = question_of(form), users_of(form)
    epsilon = epsilon_of(form) if epsilon is None else epsilon
    for targets in question.curve:
        with suppress(PlanningError):
            return question.make(form, n, epsilon, service_targets(form, n, targets))
    raise PlanningError("With this epsilon no plan was found; choose a larger epsilon.")


def query_of(form: Form, epsilon: Fraction, **options: Any) -> Query[Any]:
    """The form's query about a column; `options` are those of every query."""
    return question_of(form).query(form, epsilon, **options)

"""What can be asked in the studio: how the page's form becomes a plan and a query."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.cells.search import BEST, BOUNDED, POOLED
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.plans.plan import Plan
from shuffledp.plans.within import plan_within, reach
from shuffledp.queries.base import Query, StudioWords
from shuffledp.queries.by_group.planner import plan_by_group
from shuffledp.queries.by_group.query import ByGroupQuery, GroupableQuery
from shuffledp.queries.catalogue import CATALOGUE
from shuffledp.queries.histogram.result import combined
from shuffledp.queries.options import Argument, arguments
from shuffledp.queries.quantiles.planner import checked_axis
from shuffledp.studio.fields import LABELS, Form, number, positive, whole_number

AnyPlan = Plan[Any]
OTHER_LABEL = "other"
VALUE, GROUP = "value", "group"
"""What the columns of a rehearsal are called."""
GROUP_FINDS = ("messages", "error")
FIXED = ("cell", "padded")
"""Targets that some planners do not take."""
OVERHEADS = tuple(map(Fraction, ("1/20", "1/2", "2", "8", "40", "200", "1000")))
"""By how much more than the least squared error plans may err that show what is possible."""
ROUNDING = Fraction(499, 1000)
"""Whole numbers of people are meant rounded: 3.4 is within 3 of 0."""
BOUNDS = ("low", "high")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
PERCENT = "percent"
BETWEEN = " × "
"""Between a group and an answer, as `combined` writes it."""


def _listed(form: Form, name: str, what: str) -> list[str]:
    given = form.get(name)
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        raise ParameterError(f"Give the {what}, one on each line.")
    labels = [label.strip() for label in given if label.strip()]
    if len(labels) < 2:
        raise ParameterError(f"Give at least two {what}, one on each line.")
    return labels


def groups_of(form: Form) -> list[str] | None:
    """The groups for each of which the form asks; None where it asks about all people together."""
    if not form.get("by_group") or not question_of(form).groupable:
        return None
    return _listed(form, "groups", "groups")


def bounds_of(form: Form) -> tuple[Fraction, Fraction]:
    """The smallest and the largest value that a person may have, as numbers."""
    if _are_dates(form):
        low, high, _ = checked_axis(axis_of(form))
        return low, high
    low, high = number(form, "low"), number(form, "high")
    if low >= high:
        raise ParameterError(f"{LABELS['low']}: it must be below the largest value.")
    return low, high


def _are_dates(form: Form) -> bool:
    return question_of(form).words.of_one == "value" and all(
        DATE.fullmatch(str(form.get(name) or "").strip()) for name in BOUNDS
    )


def axis_of(form: Form) -> Any:
    """The bounds as the query takes them: two dates as texts, or two numbers."""
    if _are_dates(form):
        return tuple(str(form[name]).strip() for name in BOUNDS)
    return bounds_of(form)


def _fields(argument: Argument) -> tuple[str, ...]:
    """The fields of the page that an argument is read from."""
    if argument.option.as_column:
        return ("labels",)
    return BOUNDS if argument.name == "bounds" else (argument.name,)


def _read(form: Form, argument: Argument) -> Any:
    """An argument of a query from the fields of a form."""
    (field, *_) = _fields(argument)
    if field == "labels":
        return _listed(form, "labels", "answers to choose from")
    if field in BOUNDS:
        return axis_of(form)
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
        return protocol is None or protocol.allows_top_up

    @property
    def groupable(self) -> bool:
        """Whether it can be asked for each group of people."""
        return any(one.name == "by" for one in arguments(self.asked))

    @property
    def reads_texts(self) -> bool:
        """Whether it is about texts, whatever they look like."""
        return "labels" in self.fields or self.words.finds_words

    def finds(self, form: Form) -> tuple[str, ...]:
        """Which of messages, error and ε can be found from the other two."""
        if groups_of(form) is None or "labels" in self.fields:
            return self.words.finds
        return GROUP_FINDS if "low" not in self.fields else GROUP_FINDS[:1]

    def given(self, form: Form) -> dict[str, Any]:
        """The query's own arguments in a form."""
        return {one.name: _read(form, one) for one in self.arguments}

    def make(self, form: Form, users: int, epsilon: Any, targets: dict[str, Any]) -> AnyPlan:
        """The plan for a form and a number of users."""
        groups, given = groups_of(form), self.given(form)
        if groups is not None and "labels" not in self.fields:
            return plan_by_group(users, epsilon, groups, answer=self.name, **given, **targets)
        if groups is not None:
            given = {"labels": self.combinations(form)}
        declared = (getattr(one, "declaration", None) for one in self.asked.__mro__)
        planner = next(one.planner for one in declared if one is not None and one.planner)
        taken = inspect.signature(planner).parameters  # some have one kind of cell, always padded
        targets = {name: one for name, one in targets.items() if name in taken or name not in FIXED}
        found: AnyPlan = planner(users, epsilon, **self.asked.plan_arguments(given), **targets)
        return found

    def query(self, form: Form, epsilon: Any, **options: Any) -> Query[Any]:
        """The form's query about a column."""
        known = {one.name for one in arguments(self.asked)}
        beyond: dict[str, Any] = {
            "equals": form.get("equals") or None,
            "clamp": bool(form.get("clamp")),
            "points": False,  # as the page plans
        }
        rest = {name: value for name, value in beyond.items() if name in known}
        groups, given = groups_of(form), {**self.given(form), **rest}
        if groups is None:
            return self.asked(epsilon=epsilon, **given, **options)
        if "labels" in self.fields:
            counted: dict[str, Any] = {"labels": self.combinations(form)}
            return self.asked(epsilon=epsilon, **counted, **options)
        grouped: dict[str, Any] = {"by": GROUP, "groups": groups}
        inner = self.asked(epsilon=epsilon, **given, **options, **grouped)
        asked = inner.user_groups()
        assert isinstance(inner, GroupableQuery) and asked is not None
        return ByGroupQuery.of(inner, asked)

    def answers(self, form: Form) -> list[str]:
        """The answers that are counted, with the one for all others."""
        given = self.given(form)
        named = given["labels"] if "labels" in given else given["candidates"]
        return [*named, *([given["other"]] if given.get("other") else [])]

    def combinations(self, form: Form) -> list[str]:
        """A label for each group and answer."""
        groups = groups_of(form)
        assert groups is not None
        return [str(one) for one in combined([groups, self.answers(form)])]

    def scale(self, form: Form, users: int) -> float:
        """What the protocol's error is multiplied by to give that of the answer: a mean is a sum
        divided by the number of people, and a quantile moves over the range with the number of
        people below it (for values that are spread evenly)."""
        if self.words.of_one == "value":
            low, high = bounds_of(form)
            return float(high - low) / users
        return 1 / users if self.words.of_one == "mean" and groups_of(form) is None else 1.0

    def span(self, form: Form) -> float:
        """The distance between the smallest and the largest possible answer."""
        if self.words.of_one != "sum":
            low, high = bounds_of(form)
            return float(high - low)
        return users_of(form) * float(self.asked(epsilon=1, **self.given(form)).step())

    def for_page(self) -> dict[str, Any]:
        """What the page needs to know of it."""
        return {
            "asks": self.words.asks,
            "about": self.words.about,
            "fields": self.fields,
            "finds": self.words.finds,
            "secret": self.words.secret,
            "percent": self.words.of_one == "sum",
            "texts": self.reads_texts,
            "groups": self.groupable,
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


def wanted_error(form: Form) -> Fraction:
    """The error that the form allows, in the unit of the answer."""
    question, error = question_of(form), positive(form, "error")
    if form.get("error_unit") == PERCENT and question.words.of_one == "sum":
        return error / 100 * Fraction(question.span(form))
    return error


def error_of(form: Form) -> Fraction:
    """The error that the form allows, of the protocol's sum; of whole numbers of people, after
    rounding."""
    question = question_of(form)
    error = wanted_error(form) / Fraction(question.scale(form, users_of(form)))
    return error // 1 + ROUNDING if question.words.whole else error


def reach_of(form: Form, plan: AnyPlan, people: int | None = None) -> float:
    """The largest distance of the published answer from the truth, as often as the form says, if as
    many people take part as planned, or `people`; whole numbers are rounded."""
    question, n = question_of(form), plan.users if people is None else people
    found = reach(plan, float(confidence_of(form)), people) * question.scale(form, n)
    return math.floor(found + 0.5) if question.words.whole else found


def confidence_of(form: Form) -> Fraction:
    """How often the error is kept: the form says it in times out of 100."""
    return number(form, "confidence") / 100


def plan_of(form: Form, cell: str = BEST) -> AnyPlan:
    """The plan that a form asks for, for the service: messages are counted after padding, and the
    error is that of what the analyzer publishes."""
    question, n = question_of(form), users_of(form)
    find = str(form.get("find"))
    finds = question.finds(form)
    if find not in finds:
        raise ParameterError(
            f"For this question only {', '.join(finds)} can be found from the rest."
        )
    shares = noise_shares(form, n)
    common = {"padded": True, "cell": cell, "expected": n + shares}
    if find == "error":
        messages = whole_number(form, "messages")
        return question.make(form, n, epsilon_of(form), {**common, "max_messages": messages})
    if find == "epsilon":
        common["max_messages"] = whole_number(form, "messages")
    epsilon = None if find == "epsilon" else epsilon_of(form)
    allowed, sure = error_of(form), confidence_of(form)
    try:
        return plan_within(
            lambda rmse: question.make(form, n, epsilon, {**common, "rmse": rmse}), allowed, sure
        )
    except PlanningError:  # a short search: near the least error it may miss what there is
        if epsilon is not None and cell in (BEST, pure_cell(form)):
            plan = best_plan(form)
            if reach(plan, float(sure)) <= allowed:
                return plan
        raise


def pure_cell(form: Form) -> str:
    """The kind of cell that is planned fastest among those whose reports have a largest size."""
    return POOLED if form.get("question") in ("histogram", "quantiles") else BOUNDED


def quick_plan(form: Form) -> AnyPlan:
    """The plan that is found fastest."""
    try:
        return plan_of(form, pure_cell(form))
    except PlanningError:
        if form.get("pure"):
            raise
        return plan_of(form)


def epsilon_of(form: Form) -> Fraction:
    """The ε that the form gives."""
    return positive(form, "epsilon")


def possible_plans(form: Form) -> Iterator[AnyPlan]:
    """Plans for the service that the form's ε allows, those with the least error first."""
    question, n = question_of(form), users_of(form)
    shares = noise_shares(form, n)
    for curve in question.curve:
        targets = {"padded": True, "cell": pure_cell(form), "expected": n + shares, **curve}
        if shares and "mse_overhead" in curve:
            # the noise of as many users again doubles the squared error; overheads are beyond that
            targets["mse_overhead"] = 2 * (1 + curve["mse_overhead"]) - 1
        try:
            plan = question.make(form, n, epsilon_of(form), targets)
        except PlanningError:
            continue
        yield plan


def best_plan(form: Form) -> AnyPlan:
    """The plan with nearly the least error that the form's ε allows, whatever it costs."""
    for plan in possible_plans(form):
        return plan
    raise PlanningError("With this epsilon no plan was found; choose a larger epsilon.")

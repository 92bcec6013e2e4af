"""What can be asked in the studio: how the page's form becomes a plan and a query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.plans.plan import Plan
from shuffledp.plans.within import plan_within
from shuffledp.protocols.registry import PROTOCOLS
from shuffledp.queries import questions as columns
from shuffledp.queries.base import Query
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.frequencies.planner import DEFAULT_SPREAD, plan_frequencies
from shuffledp.queries.frequencies.query import FrequenciesQuery
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.integer_sum.planner import plan_integer_sum
from shuffledp.queries.options import Options
from shuffledp.queries.quantiles.planner import plan_quantiles
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.real_sum.planner import plan_real_sum
from shuffledp.studio.fields import LABELS, Form, number, positive, whole_number

AnyPlan = Plan[Any]
OTHER_LABEL = "other"
FINDS = ("messages", "error", "epsilon")
"""Which of the three is found; the other two are given."""
OVERHEADS = tuple(map(Fraction, ("1/20", "1/2", "2", "8", "40", "200", "1000")))
"""By how much more than the least squared error plans may err that show what is possible."""
ROUNDING = Fraction(499, 1000)
"""Whole numbers of people are meant rounded: 3.4 is within 3 of 0."""


def _labels(form: Form) -> list[str]:
    given = form.get("labels")
    if not isinstance(given, list) or not all(isinstance(label, str) for label in given):
        raise ParameterError("Give the answers that people can choose from, one on each line.")
    labels = [label.strip() for label in given if label.strip()]
    if len(labels) < 2:
        raise ParameterError("Give at least two answers to choose from, one on each line.")
    return labels


def _other(form: Form) -> str | None:
    return OTHER_LABEL if form.get("other") else None


def bounds_of(form: Form) -> tuple[Fraction, Fraction]:
    """The least and the largest value that a person may hold."""
    low, high = number(form, "low"), number(form, "high")
    if low >= high:
        raise ParameterError(f"{LABELS['low']}: it must be below the largest value.")
    return low, high


@dataclass(frozen=True, kw_only=True)
class Question:
    """One kind of question: its words, its planner, and its query on a column."""

    name: str
    """As everywhere in the package."""
    asks: str
    """What it answers, in a few words."""
    about: str
    """What the error is the error of."""
    fields: tuple[str, ...]
    """The fields of the form that it needs beyond the common ones."""
    make: Callable[[Form, int, Any, dict[str, Any]], AnyPlan]
    """The plan for a form, so many users, ε, and targets."""
    query: Callable[[Form, Options, Any], Query[Any]]
    whole: bool = True
    """Whether the true answer is a whole number."""
    finds: tuple[str, ...] = FINDS
    condition: str = "whatever the data"
    """When the forecast error holds."""
    each: Callable[[Form], Fraction] = lambda form: Fraction(1)
    """By how much one person can move the true answer at most."""
    curve: tuple[dict[str, Any], ...] = tuple({"mse_overhead": over} for over in OVERHEADS)
    """Targets of plans that show what is possible, those with the least error first."""

    @property
    def allows_publish_noise(self) -> bool:
        """Whether the analyzer can add noise before it publishes."""
        return PROTOCOLS[self.name].allows_top_up


QUESTIONS = {
    question.name: question
    for question in (
        Question(
            name="count",
            asks="how many people hold it (yes or no)",
            about="the number of people",
            fields=(),
            make=lambda form, n, epsilon, targets: plan_count(n, epsilon, **targets),
            query=lambda form, how, epsilon: columns.CountQuery.of(
                how, epsilon, form.get("equals") or None
            ),
        ),
        Question(
            name="histogram",
            asks="how many people choose each answer",
            about="the number of people for each answer",
            fields=("labels", "other"),
            make=lambda form, n, epsilon, targets: plan_histogram(
                n, epsilon, _labels(form), other=_other(form), **targets
            ),
            query=lambda form, how, epsilon: columns.HistogramQuery.of(
                how,
                epsilon,
                _labels(form),
                _other(form),
            ),
        ),
        Question(
            name="frequencies",
            asks="how many people hold some of very many possible answers",
            about="the number of people for each answer looked for",
            fields=("labels",),
            make=lambda form, n, epsilon, targets: plan_frequencies(
                n, epsilon, candidates=_labels(form), **targets
            ),
            query=lambda form, how, epsilon: FrequenciesQuery.of(
                how, epsilon, _labels(form), DEFAULT_SPREAD
            ),
            finds=("messages", "error"),
            condition="where people's answers are spread over a thousand or more",
            curve=tuple({"max_messages": most} for most in (4000, 1000, 300, 100, 40)),
        ),
        Question(
            name="integer-sum",
            asks="the sum of whole numbers from 0 on",
            about="the sum",
            fields=("largest",),
            make=lambda form, n, epsilon, targets: plan_integer_sum(
                n, epsilon, whole_number(form, "largest"), **targets
            ),
            query=lambda form, how, epsilon: columns.IntegerSumQuery.of(
                how,
                epsilon,
                whole_number(form, "largest"),
                bool(form.get("clamp")),
            ),
            each=lambda form: Fraction(whole_number(form, "largest")),
        ),
        Question(
            name="real-sum",
            asks="the sum of any numbers within a range",
            about="the sum",
            fields=("low", "high"),
            make=lambda form, n, epsilon, targets: plan_real_sum(
                n, epsilon, bounds=bounds_of(form), **targets
            ),
            query=lambda form, how, epsilon: columns.RealSumQuery.of(
                how, epsilon, bounds_of(form), bool(form.get("clamp"))
            ),
            each=lambda form: bounds_of(form)[1] - bounds_of(form)[0],
            whole=False,
        ),
        Question(
            name="quantiles",
            asks="the median and other quantiles of numbers",
            about="the number of people below any value",
            fields=("low", "high", "bins"),
            make=lambda form, n, epsilon, targets: plan_quantiles(
                n, epsilon, bounds_of(form), bins=whole_number(form, "bins", least=2), **targets
            ),
            query=lambda form, how, epsilon: QuantilesQuery.of(
                how,
                epsilon,
                bounds_of(form),
                (0.25, 0.5, 0.75),
                whole_number(form, "bins", least=2),
                bool(form.get("clamp")),
            ),
            whole=False,
            finds=("messages",),
        ),
    )
}


def question_of(form: Form) -> Question:
    """The question that a form asks."""
    found = QUESTIONS.get(str(form.get("question")))
    if found is None:
        raise ParameterError(f"The question must be one of {', '.join(QUESTIONS)}.")
    return found


def users_of(form: Form) -> int:
    """How many people are sure to take part."""
    return whole_number(form, "users", least=2)


def noise_shares(form: Form, users: int) -> int:
    """Of how many users the analyzer adds the noise before it publishes."""
    wanted = form.get("publish_noise") and question_of(form).allows_publish_noise
    return users if wanted else 0


def error_of(form: Form) -> Fraction:
    """The error that the form allows; of whole numbers of people, after rounding."""
    error = positive(form, "error")
    return error // 1 + ROUNDING if question_of(form).whole else error


def confidence_of(form: Form) -> Fraction:
    """How often the error is kept: the form says it in times out of 100."""
    return number(form, "confidence") / 100


def plan_of(form: Form, cell: str = "best", users: int | None = None) -> AnyPlan:
    """The plan that a form asks for, for the service: messages are counted after padding, and the
    error is that of what the analyzer publishes."""
    question, n = question_of(form), users_of(form) if users is None else users
    find = str(form.get("find"))
    if find not in question.finds:
        raise ParameterError(
            f"For this question only {', '.join(question.finds)} can be found from the others."
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
    """The plan for so many people that is found fastest."""
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


def query_of(form: Form, options: Options, epsilon: Fraction) -> Query[Any]:
    """The form's question about a column."""
    return question_of(form).query(form, options, epsilon)

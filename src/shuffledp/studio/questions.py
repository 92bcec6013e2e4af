"""What can be asked in the studio: how the page's form becomes a plan and a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.exact.numbers import as_written, whole
from shuffledp.planning.counting import plan_count
from shuffledp.planning.frequencies import DEFAULT_SPREAD, plan_frequencies
from shuffledp.planning.histogram import plan_histogram
from shuffledp.planning.integer_sum import plan_integer_sum
from shuffledp.planning.plan import Plan
from shuffledp.planning.quantiles import plan_quantiles
from shuffledp.planning.real_sum import plan_real_sum
from shuffledp.planning.within import plan_within
from shuffledp.protocols import PROTOCOLS
from shuffledp.queries import questions as columns
from shuffledp.queries.frequency_question import Frequencies
from shuffledp.queries.options import Options
from shuffledp.queries.quantile_question import Quantiles
from shuffledp.queries.query import Query

AnyPlan = Plan[Any]
Form = Mapping[str, Any]
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


def _bounds(form: Form) -> tuple[Any, Any]:
    return _number(form, "low", "the least value"), _number(form, "high", "the largest value")


def _number(form: Form, name: str, words: str) -> Fraction:
    return as_written(_given(form, name, words), words)


def _given(form: Form, name: str, words: str) -> Any:
    found = form.get(name)
    if found is None or (isinstance(found, str) and not found.strip()):
        raise ParameterError(f"Say {words}: the field is empty.")
    return found


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
            query=lambda form, how, epsilon: columns.Count.of(
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
            query=lambda form, how, epsilon: columns.Histogram.of(
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
            query=lambda form, how, epsilon: Frequencies.of(
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
                n, epsilon, _given(form, "largest", "the largest value"), **targets
            ),
            query=lambda form, how, epsilon: columns.IntegerSum.of(
                how,
                epsilon,
                _given(form, "largest", "the largest value"),
                bool(form.get("clamp")),
            ),
        ),
        Question(
            name="real-sum",
            asks="the sum of any numbers within a range",
            about="the sum",
            fields=("low", "high"),
            make=lambda form, n, epsilon, targets: plan_real_sum(
                n, epsilon, bounds=_bounds(form), **targets
            ),
            query=lambda form, how, epsilon: columns.RealSum.of(
                how, epsilon, _bounds(form), bool(form.get("clamp"))
            ),
            whole=False,
        ),
        Question(
            name="quantiles",
            asks="the median and other quantiles of numbers",
            about="the number of people below any value",
            fields=("low", "high", "bins"),
            make=lambda form, n, epsilon, targets: plan_quantiles(
                n, epsilon, _bounds(form), bins=_given(form, "bins", "how many parts"), **targets
            ),
            query=lambda form, how, epsilon: Quantiles.of(
                how,
                epsilon,
                _bounds(form),
                (0.25, 0.5, 0.75),
                _given(form, "bins", "how many parts"),
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
    return whole(_given(form, "users", "how many people are sure to take part"), "users", least=2)


def noise_shares(form: Form, users: int) -> int:
    """Of how many users the analyzer adds the noise before it publishes."""
    wanted = form.get("publish_noise") and question_of(form).allows_publish_noise
    return users if wanted else 0


def error_of(form: Form) -> Fraction:
    """The error that the form allows; of whole numbers of people, after rounding."""
    error = _number(form, "error", "the error")
    if error <= 0:
        raise ParameterError("The error must be greater than 0.")
    return error // 1 + ROUNDING if question_of(form).whole else error


def confidence_of(form: Form) -> Fraction:
    """How often the error is kept: the form says it in times out of 100."""
    return _number(form, "confidence", "how often") / 100


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
        messages = _given(form, "messages", "how many messages")
        return question.make(form, n, epsilon_of(form), {**common, "max_messages": messages})
    if find == "epsilon":
        common["max_messages"] = _given(form, "messages", "how many messages")
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
    return _number(form, "epsilon", "ε")


def best_plan(form: Form) -> AnyPlan:
    """The plan with nearly the least error that the form's ε allows, whatever it costs."""
    question, n = question_of(form), users_of(form)
    shares = noise_shares(form, n)
    least = 2 if shares else 1  # the noise of as many users again doubles the squared error
    common = {"padded": True, "cell": "bounded", "expected": n + shares}
    for targets in question.curve:
        if "mse_overhead" in targets:
            targets = {"mse_overhead": (1 + targets["mse_overhead"]) * least - 1}
        with suppress(PlanningError):
            return question.make(form, n, epsilon_of(form), {**common, **targets})
    raise PlanningError("With this epsilon no plan was found; choose a larger epsilon.")


def query_of(form: Form, options: Options, epsilon: Fraction) -> Query[Any]:
    """The form's question about a column."""
    return question_of(form).query(form, options, epsilon)

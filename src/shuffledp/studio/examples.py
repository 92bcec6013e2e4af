"""Results in the words of the question: made-up ones with a plan's error, and published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shuffledp.plans.plan import Plan
from shuffledp.queries.quantiles.dates import DAY, date_text
from shuffledp.queries.quantiles.planner import checked_axis
from shuffledp.studio.fields import Form
from shuffledp.studio.questions import axis_of, bounds_of, groups_of, question_of, reach_of
from shuffledp.studio.words import short
from shuffledp.tasks.results import ResultLine, result_lines

SHARE = 0.413
"""Of the people, in the example."""
MOST_ROWS = 12
YES = "yes"
QUANTILES = {
    "quantile 0.25": "a quarter is below",
    "quantile 0.5": "the median",
    "quantile 0.75": "three quarters are below",
}
WORDS = ["the most frequent word", "the second", "the third", "the fourth"]


def example(form: Form, plan: Plan[Any]) -> dict[str, Any]:
    """A result as the page draws it: a headline, and each number with its error on a fixed
    scale."""
    question, error, users = question_of(form), reach_of(form, plan), plan.users
    groups = groups_of(form)
    if question.reads_texts:
        names = _names(form)
        rows = [(name, float(round(users * share))) for name, share in _shares(names[:MOST_ROWS])]
        return _drawn(rows, error, (0, users), headline=_of(rows[0][1], error, users, rows[0][0]))
    low, high = answer_range(form, users)
    if groups:
        part = 1 if question.words.of_one == "mean" else len(groups)
        rows = [
            (name, low + (high - low) / part * share)
            for name, share in zip(groups[:MOST_ROWS], _around(len(groups)), strict=False)
        ]
        return _drawn(rows, error, (low, high / part), headline=f"± {short(error)} in each group")
    value = low + SHARE * (high - low)
    if question.name == "count":
        return _drawn([(YES, float(round(value)))], error, (low, high), _of(value, error, users))
    name = "median" if question.words.of_one == "value" else question.words.of_one
    headline = f"{name}: {short(value)} ± {short(error)}"
    unit = checked_axis(axis_of(form))[2] if question.words.of_one == "value" else None
    if unit == DAY:
        headline = f"{name}: {date_text(value, unit)} ± {short(error)} days"
    return _drawn([(name, value)], error, (low, high), headline)


def _names(form: Form) -> list[str]:
    """What the numbers of the result are called."""
    question = question_of(form)
    if question.words.finds_words:
        return WORDS
    return question.combinations(form) if groups_of(form) else question.answers(form)


def _of(value: float, error: float, users: int, name: str = "") -> str:
    said = f"{name}: " if name else ""
    return (
        f"{said}{round(value):,} ± {short(error)} of {users:,} people ({100 * value / users:.1f} %)"
    )


def answer_range(form: Form, users: int) -> tuple[float, float]:
    """The smallest and the largest possible answer."""
    question, form = question_of(form), {**form, "users": str(users)}
    if "low" not in question.fields:
        return 0.0, question.span(form)
    low, high = map(float, bounds_of(form))
    return (low, high) if question.words.of_one != "sum" else (low * users, high * users)


def answer_lines(form: Form, published: Mapping[str, Any]) -> list[ResultLine]:
    """The numbers of a published batch as the question asks for them: a mean is a sum divided by
    the number of people, and a single number is called by what it is."""
    question, lines = question_of(form), result_lines(published["result"])
    if question.words.of_one == "value":
        return [line._replace(label=QUANTILES.get(line.label, line.label)) for line in lines]
    if len(lines) != 1 or groups_of(form):  # of words, none may be found
        return lines
    if question.words.of_one == "mean":
        (line,), scale = lines, question.scale(form, published["reports"])
        lines = [ResultLine(line.label, *(scale * one for one in line[1:]))]
    single = lines[0].label == published["result"]["query"]
    name = YES if question.name == "count" else question.words.about
    return [line._replace(label=name) for line in lines] if single else lines


def _shares(names: list[str]) -> list[tuple[str, float]]:
    """Shares that fall from one answer to the next and add up to 1."""
    weights = [0.75**place for place in range(len(names))]
    return [(name, weight / sum(weights)) for name, weight in zip(names, weights, strict=True)]


def _around(groups: int) -> list[float]:
    return [SHARE + (0.2 if place % 2 else -0.05) * (place % 3) / 2 for place in range(groups)]


def _drawn(
    rows: list[tuple[str, float]], error: float, scale: tuple[float, float], headline: str
) -> dict[str, Any]:
    return {
        "headline": headline,
        "scale": list(scale),
        "rows": [[name, value, value - error, value + error] for name, value in rows],
    }

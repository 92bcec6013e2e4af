"""Error against messages, point by point: shuffledp as a curve, baselines as points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shuffledp.baselines.base import Setting
from shuffledp.baselines.claim import BASES
from shuffledp.baselines.ours import PLANNERS
from shuffledp.baselines.registry import baselines_for
from shuffledp.baselines.table import Row, baseline_row
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.plots.frontier import MOST_MESSAGES
from shuffledp.studio.fields import LABELS, Form, number
from shuffledp.studio.questions import (
    bounds_of,
    epsilon_of,
    groups_of,
    possible_plans,
    question_of,
    users_of,
)

Item = dict[str, Any]


def frontier(form: Form) -> Iterator[Item]:
    """Our curve and, where the literature has some, the baselines, each as soon as it is known."""
    for plan in possible_plans(form):
        yield {"central": plan.forecast.central_rmse}
        yield {
            "ours": {
                "title": f"shuffledp: {plan.target}",
                "messages": plan.report_size,
                "error": plan.forecast.rmse,
                "kind": "pure",
                "why": "",
                "privacy": "pure",
                "trust": "shuffler",
                "drawn": True,
            }
        }
    question = question_of(form)
    whole = groups_of(form) is None or "labels" in question.fields  # else for each group
    if question.name in PLANNERS and whole:
        yield from _baselines(form)


def _baselines(form: Form) -> Iterator[Item]:
    query, setting, scale = question_of(form).name, _setting(form), _scale(form)
    central = baselines_for(query)[0].forecast(setting)[0].rmse
    for entry in baselines_for(query):
        if entry.name == "central" or not (entry.pure or setting.delta is not None):
            continue
        try:
            row = baseline_row(entry, setting, central)
        except (PlanningError, ParameterError) as error:
            yield {"missing": {"title": entry.title, "why": str(error)}}
            continue
        yield {"baseline": _point(row, scale)}


def _point(row: Row, scale: float) -> Item:
    claim, forecast = row.claim, row.forecast
    return {
        "title": row.title,
        "messages": forecast.messages_per_user,
        "error": forecast.rmse * scale,
        "kind": claim.kind if claim.holds else claim.basis,
        "why": "" if claim.holds else BASES[claim.basis],
        "privacy": row.privacy,
        "trust": claim.trust,
        "drawn": row.runnable and forecast.messages_per_user <= MOST_MESSAGES,
    }


def _setting(form: Form) -> Setting:
    question, buckets = question_of(form), None
    if "labels" in question.fields:
        answers = question.combinations(form) if groups_of(form) else question.answers(form)
        buckets = len(answers)
    delta = number(form, "delta") if form.get("delta") else None
    if delta is not None and not 0 < delta < 1:
        raise ParameterError(f"{LABELS['delta']}: write a number between 0 and 1, such as 1e-6.")
    return Setting.of(users_of(form), epsilon_of(form), delta, buckets)


def _scale(form: Form) -> float:
    """The unit of errors, for baselines that are computed for values in 0..1."""
    if question_of(form).name != "real-sum":
        return 1.0
    low, high = bounds_of(form)
    return float(high - low)

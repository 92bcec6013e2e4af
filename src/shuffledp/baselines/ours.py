"""shuffledp's own side of a comparison: its plans, and [GKM23] with the printed constants."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from shuffledp.baselines.base import BaselineForecast, QueryName, Setting
from shuffledp.cells.paper.printed import printed_recipe
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import HistogramResult, Result
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.real_sum.planner import plan_real_sum

PLANNERS: dict[QueryName, Callable[..., Plan[Any]]] = {
    "count": plan_count,
    "real-sum": plan_real_sum,
    "histogram": plan_histogram,
}
"""The queries for which there are baselines."""
PRINTED_FOR: tuple[QueryName, ...] = ("count", "histogram")
"""Those for which the paper prints constants."""
_FINE = (Fraction(1, 10), Fraction(1, 2), Fraction(2), Fraction(8))
OVERHEADS: dict[QueryName, tuple[Fraction, ...]] = {
    "count": _FINE,
    "real-sum": (Fraction(2), Fraction(8), Fraction(24)),
    "histogram": _FINE,
}
"""The error targets that tables show: the MSE over the central one, minus 1."""


@lru_cache(maxsize=256)
def our_plan(query: QueryName, setting: Setting, mse_overhead: Fraction) -> Plan[Result]:
    """shuffledp's plan for a setting at an error target (cached)."""
    buckets = (setting.required_buckets,) if query == "histogram" else ()
    return PLANNERS[query](setting.users, setting.epsilon, *buckets, mse_overhead=mse_overhead)


def sparse_plan(setting: Setting, messages: int) -> Plan[HistogramResult]:
    """The sparse histogram, whose cost does not depend on the domain, with the least error for a
    bucket of the setting's `error_at` users and at most this many messages."""
    return plan_histogram(
        setting.users,
        setting.epsilon,
        setting.required_buckets,
        max_messages=messages,
        padded=True,
        error_at=setting.error_at,
        cell="sparse",
    )


def printed(query: QueryName, setting: Setting, mse_overhead: Fraction) -> BaselineForecast:
    """Error and cost of [GKM23] with the printed constants at an error target; a histogram has one
    counter at ε/2 for every bucket. Requires: a query in `PRINTED_FOR`."""
    if query == "count":
        recipe = printed_recipe(setting.users, setting.epsilon, mse_overhead)
        messages, buckets = recipe.messages_per_user, 1
    else:
        recipe = printed_recipe(setting.users, setting.epsilon / 2, mse_overhead)
        buckets = setting.required_buckets
        messages = buckets * (recipe.messages_per_user - 1) + 1
    return BaselineForecast(
        rmse=recipe.rmse,
        messages_per_user=messages,
        bits_per_message=1 + (buckets - 1).bit_length(),
    )

"""shuffledp's own side of a comparison: its plans, and [GKM23] with the printed constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from shuffledp.planning.counting import plan_count
from shuffledp.planning.histogram import plan_histogram
from shuffledp.planning.plan import Plan
from shuffledp.planning.printed import printed_recipe
from shuffledp.planning.real_sum import plan_real_sum
from shuffledp.protocols.results import Estimate, HistogramResult, Result
from shuffledp.rivals.base import Query, RivalForecast, Task


@dataclass(frozen=True)
class OurSide:
    """What comparisons need to know of shuffledp's own answer to one query."""

    plan: Callable[[Task, Fraction], Plan[Result]]
    """Gives the plan for a task at an error target, the MSE over the central one less 1."""
    printed: Callable[[Task, Fraction], RivalForecast] | None
    """Gives error and cost of [GKM23] with the constants as printed, at an error target; None for
    real sums, for which no constants are printed."""
    overheads: tuple[Fraction, ...]
    """The error targets that tables show."""


def _plan_count(task: Task, mse_overhead: Fraction) -> Plan[Estimate]:
    return plan_count(task.users, task.epsilon, mse_overhead=mse_overhead)


def _plan_real_sum(task: Task, mse_overhead: Fraction) -> Plan[Estimate]:
    return plan_real_sum(task.users, task.epsilon, mse_overhead=mse_overhead)


def _plan_histogram(task: Task, mse_overhead: Fraction) -> Plan[HistogramResult]:
    buckets = task.required_buckets
    return plan_histogram(task.users, task.epsilon, buckets, mse_overhead=mse_overhead)


def _printed_count(task: Task, mse_overhead: Fraction) -> RivalForecast:
    recipe = printed_recipe(task.users, task.epsilon, mse_overhead)
    return RivalForecast(recipe.rmse, recipe.messages_per_user, 1)


def _printed_histogram(task: Task, mse_overhead: Fraction) -> RivalForecast:
    """Error and cost of one counter at ε/2 for every bucket."""
    recipe = printed_recipe(task.users, task.epsilon / 2, mse_overhead)
    buckets = task.required_buckets
    messages = buckets * (recipe.messages_per_user - 1) + 1
    return RivalForecast(recipe.rmse, messages, 1 + (buckets - 1).bit_length())


_FINE = (Fraction(1, 10), Fraction(1, 2), Fraction(2), Fraction(8))

OUR_SIDE: dict[Query, OurSide] = {
    "count": OurSide(_plan_count, _printed_count, _FINE),
    "real-sum": OurSide(_plan_real_sum, None, (Fraction(2), Fraction(8), Fraction(24))),
    "histogram": OurSide(_plan_histogram, _printed_histogram, _FINE),
}


@lru_cache(maxsize=256)
def our_plan(query: Query, task: Task, mse_overhead: Fraction) -> Plan[Result]:
    """shuffledp's plan for a task at an error target, kept for later calls."""
    return OUR_SIDE[query].plan(task, mse_overhead)

"""shuffledp's own side of a comparison: its plans, and [GKM23] with the printed constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from shuffledp.baselines.base import BaselineForecast, QueryName, Setting
from shuffledp.cells.paper.printed import printed_recipe
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate, HistogramResult, Result
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.real_sum.planner import plan_real_sum


@dataclass(frozen=True, kw_only=True)
class OurSide:
    """What comparisons need to know about shuffledp's answer to one query."""

    plan: Callable[[Setting, Fraction], Plan[Result]]
    """Returns the plan for a setting at an error target (the MSE over the central one, minus 1)."""
    printed: Callable[[Setting, Fraction], BaselineForecast] | None
    """Returns error and cost of [GKM23] with the printed constants at an error target; None for
    real sums, for which the paper prints none."""
    overheads: tuple[Fraction, ...]
    """The error targets that tables show."""
    any_domain: Callable[[Setting, int], Plan[Result]] | None = None
    """Returns the plan whose cost does not depend on the domain, with at most this many
    messages."""


def _plan_count(setting: Setting, mse_overhead: Fraction) -> Plan[Estimate]:
    return plan_count(setting.users, setting.epsilon, mse_overhead=mse_overhead)


def _plan_real_sum(setting: Setting, mse_overhead: Fraction) -> Plan[Estimate]:
    return plan_real_sum(setting.users, setting.epsilon, mse_overhead=mse_overhead)


def _plan_histogram(setting: Setting, mse_overhead: Fraction) -> Plan[HistogramResult]:
    buckets = setting.required_buckets
    return plan_histogram(setting.users, setting.epsilon, buckets, mse_overhead=mse_overhead)


def _printed_count(setting: Setting, mse_overhead: Fraction) -> BaselineForecast:
    recipe = printed_recipe(setting.users, setting.epsilon, mse_overhead)
    return BaselineForecast(
        rmse=recipe.rmse, messages_per_user=recipe.messages_per_user, bits_per_message=1
    )


def _printed_histogram(setting: Setting, mse_overhead: Fraction) -> BaselineForecast:
    """Error and cost of one counter at ε/2 for every bucket."""
    recipe = printed_recipe(setting.users, setting.epsilon / 2, mse_overhead)
    buckets = setting.required_buckets
    messages = buckets * (recipe.messages_per_user - 1) + 1
    return BaselineForecast(
        rmse=recipe.rmse,
        messages_per_user=messages,
        bits_per_message=1 + (buckets - 1).bit_length(),
    )


def _plan_sparse(setting: Setting, messages: int) -> Plan[HistogramResult]:
    """The sparse histogram with the least error for a bucket of the setting's `error_at` users."""
    return plan_histogram(
        setting.users,
        setting.epsilon,
        setting.required_buckets,
        max_messages=messages,
        padded=True,
        error_at=setting.error_at,
        cell="sparse",
    )


_FINE = (Fraction(1, 10), Fraction(1, 2), Fraction(2), Fraction(8))

OUR_SIDE: dict[QueryName, OurSide] = {
    "count": OurSide(plan=_plan_count, printed=_printed_count, overheads=_FINE),
    "real-sum": OurSide(
        plan=_plan_real_sum, printed=None, overheads=(Fraction(2), Fraction(8), Fraction(24))
    ),
    "histogram": OurSide(
        plan=_plan_histogram,
        printed=_printed_histogram,
        overheads=_FINE,
        any_domain=_plan_sparse,
    ),
}


@lru_cache(maxsize=256)
def our_plan(query: QueryName, setting: Setting, mse_overhead: Fraction) -> Plan[Result]:
    """shuffledp's plan for a setting at an error target (cached)."""
    return OUR_SIDE[query].plan(setting, mse_overhead)

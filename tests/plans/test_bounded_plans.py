"""Plans with the bounded cell and the choice between both kinds, for every query."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from plan_parts import bounded_cell, real_sum

from shuffledp import (
    certify,
    plan_count,
    plan_histogram,
    plan_integer_sum,
    plan_quantiles,
    plan_real_sum,
)
from shuffledp.cells.base import independent_cell
from shuffledp.cells.bounded.digit_search import search_digits
from shuffledp.cells.digit_search import SumTarget
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.laws import DiscreteLaplace
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result

F = Fraction
Planner = Callable[..., Plan[Result]]


def kind(plan: Plan[Result]) -> str:
    (found,) = plan.to_dict()["cells"]
    return str(found)


@pytest.mark.parametrize(
    ("epsilon", "overhead", "users", "most", "average"),
    [
        ("1", "0.5", 10**4, 27, 14),
        ("1", "0.5", 10**6, 37, 19),
        ("1", "0.1", 10**6, 41, 21),
        ("0.1", "0.5", 10**6, 367, 184),
        ("1", "0.5", 100, 17, 9),
        ("1", "0.5", 10**9, 53, 27),
    ],
)
def test_counts_to_reach(
    epsilon: str, overhead: str, users: int, most: int, average: float
) -> None:
    padded = plan_count(users, epsilon, mse_overhead=overhead, padded=True).to_dict()
    assert padded["report_size"] <= most and padded["padding"] == "exact"
    assert padded["privacy_of_padded_reports"].startswith("pure")
    plan = plan_count(users, epsilon, mse_overhead=overhead)
    assert plan.to_dict()["messages_per_user"] <= average
    allowed = (1 + float(overhead)) * float(DiscreteLaplace(F(epsilon)).variance())
    assert plan.forecast.rmse**2 <= allowed * (1 + 1e-12)
    assert plan.forecast.limit_messages is not None
    assert plan.forecast.limit_messages <= plan.forecast.messages_per_user


@pytest.mark.parametrize(
    ("users", "buckets", "most", "average"),
    [
        (10**4, 10, 283, 21.101),
        (10**4, 100, 2181, 21.02),
        (10**4, 1000, 21_085, 21.01),
        (10**6, 10, 391, 29.101),
        (10**6, 100, 3003, 29.02),
    ],
)
def test_buckets_to_reach(users: int, buckets: int, most: int, average: float) -> None:
    padded = plan_histogram(users, 1, buckets, padded=True)
    assert kind(padded) == "pooled" and padded.report_size <= most and padded.padding == "exact"
    plan = plan_histogram(users, 1, buckets)
    assert kind(plan) == "pooled" and plan.forecast.messages_per_user / buckets <= average
    assert plan.forecast.rmse**2 <= 1.5 * float(DiscreteLaplace(F(1, 2)).variance())
    assert plan.certificate.loss == 1


@pytest.mark.parametrize(
    ("users", "rmse", "most"), [(10**4, "4.07", 258), (10**4, "2.714", 432), (10**6, "4.07", 1318)]
)
def test_sums_to_reach(users: int, rmse: str, most: int) -> None:
    plan = plan_real_sum(users, 1, rmse=rmse, padded=True)
    assert plan.to_dict()["report_size"] <= most
    assert plan.forecast.rmse <= float(rmse) * (1 + 1e-12)
    assert plan.certificate.loss == 1 and certify(plan.protocol).loss == 1
    task = SumTarget(users=users, expected=users, epsilon=F(1), mse=F(rmse) ** 2, padded=True)
    separate = search_digits(task, None)  # digits that share nothing
    digits = sum(independent_cell(cell).most_messages or 0 for cell in separate.cells)
    assert plan.report_size <= digits + separate.dither - 1 == separate.cost <= most


def test_sums_that_count_the_average() -> None:
    """At many users bounded digits send fewer messages on average, at few the paper's do."""
    plans = {cell: plan_real_sum(10**6, 1, rmse="4.07", cell=cell) for cell in ("best", "paper")}
    assert kind(plans["best"]) == "bounded"
    best, paper = (plan.forecast.messages_per_user for plan in plans.values())
    assert best < 0.9 * paper
    assert best < plan_real_sum(10**6, 1, rmse="4.07", padded=True).forecast.messages_per_user
    assert kind(plan_real_sum(1000, 1, rmse="4.07")) == "paper"


def test_digits_that_are_given() -> None:
    plan = plan_real_sum(10**4, 1, rmse=5, radix=(5, 4), padded=True)
    assert real_sum(plan).radix == (5, 4) and kind(plan) == "shared"
    free = plan_real_sum(10**4, 1, rmse=5, padded=True)
    assert free.report_size <= plan.report_size


CHOICES: dict[str, tuple[Planner, tuple[Any, ...], dict[str, Any]]] = {
    "count": (plan_count, (10**4, 1), {}),
    "count, loose": (plan_count, (100, 1), {"mse_overhead": 20}),
    "count, relative": (plan_count, (10**6, 1), {"relative_error": "0.01"}),
    "integers": (plan_integer_sum, (10**4, 1, 5), {}),
    "integers, relative": (plan_integer_sum, (10**4, 1, 5), {"relative_error": "0.05"}),
    "histogram": (plan_histogram, (10**4, 1, 5), {}),
    "sum": (plan_real_sum, (10**3, 1), {}),
    "sum, relative": (plan_real_sum, (10**3, 1), {"relative_error": "0.05"}),
    "quantiles": (plan_quantiles, (10**4, 1, (0, 1)), {"bins": 8}),
}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", CHOICES)
def test_the_best_is_the_cheaper_of_both(name: str, padded: bool) -> None:
    make, arguments, aim = CHOICES[name]
    plans = {
        cell: make(*arguments, **aim, padded=padded, cell=cell)
        for cell in ("best", "bounded", "paper")
    }

    def cost(plan: Plan[Result]) -> float:
        return plan.report_size if padded else plan.forecast.messages_per_user

    cheaper = min(cost(plans["bounded"]), cost(plans["paper"]))
    assert cost(plans["best"]) <= 1.001 * cheaper
    assert kind(plans["bounded"]) == "bounded" and kind(plans["paper"]) == "paper"
    if "relative" in name and not padded:
        assert kind(plans["best"]) == "paper"


@pytest.mark.parametrize(
    ("make", "arguments", "messages"),
    [
        (plan_count, (10**4, 1), 12),
        (plan_integer_sum, (10**4, 1, 3), 60),
        (plan_histogram, (10**4, 1, 4), 100),
        (plan_real_sum, (10**4, 1), 300),
    ],
)
@pytest.mark.parametrize("padded", [False, True])
def test_the_least_error_for_a_number_of_messages(
    make: Planner, arguments: tuple[Any, ...], messages: int, padded: bool
) -> None:
    messages = 2 * messages if padded else messages
    plan = make(*arguments, max_messages=messages, padded=padded, cell="bounded")
    cost = plan.report_size if padded else plan.forecast.messages_per_user
    assert 0.85 * messages < cost <= messages
    more = make(*arguments, max_messages=2 * messages, padded=padded, cell="bounded")
    assert more.forecast.rmse < plan.forecast.rmse


def test_few_messages_are_for_the_papers_cell() -> None:
    """Thinning: no bounded cell sends less than one message on average."""
    assert kind(plan_count(10**4, 1, max_messages=1)) == "paper"
    with pytest.raises(PlanningError, match="allow"):
        plan_count(10**4, 1, max_messages="0.01", cell="bounded")
    with pytest.raises(ParameterError, match="best, bounded, paper"):
        plan_count(10**4, 1, cell="other")


@pytest.mark.parametrize(
    ("make", "arguments", "aim"),
    [
        (plan_count, (10**6, None), {"rmse": 2, "max_messages": 41, "padded": True}),
        (plan_count, (10**6, None), {"rmse": 2, "max_messages": 20}),
        (plan_integer_sum, (10**4, None, 4), {"rmse": 10, "max_messages": 80}),
        (plan_histogram, (10**4, None, 3), {"rmse": 5, "max_messages": 80}),
    ],
)
def test_the_least_epsilon(make: Planner, arguments: tuple[Any, ...], aim: dict[str, Any]) -> None:
    plan = make(*arguments, **aim)
    padded = bool(aim.get("padded"))

    def sent(plan: Plan[Result]) -> float:
        return plan.report_size if padded else plan.forecast.messages_per_user

    assert plan.forecast.rmse <= aim["rmse"] and sent(plan) <= aim["max_messages"]
    digits = plan.epsilon * 1000 / F(10) ** math.floor(math.log10(plan.epsilon) + 1)
    assert digits.denominator == 1  # a decimal with three digits
    assert Plan.from_dict(plan.to_dict()).target == plan.target
    less = plan.epsilon * F(995, 1000)  # the twin: with less, one of both is missed
    users, _, *rest = arguments
    try:
        below = make(users, less, *rest, rmse=aim["rmse"], padded=padded)
    except PlanningError:
        return
    assert sent(below) > aim["max_messages"]


def test_the_least_epsilon_of_a_sum() -> None:
    plan = plan_real_sum(1000, rmse=5, max_messages=150, padded=True)
    assert plan.forecast.rmse <= 5 and plan.report_size <= 150
    below = plan_real_sum(1000, plan.epsilon * F(98, 100), rmse=5, padded=True)
    assert below.report_size > 150


@pytest.mark.parametrize(
    "aim",
    [
        {},
        {"rmse": 2},
        {"max_messages": 50},
        {"mse_overhead": 1},
        {"rmse": 2, "max_messages": 50, "relative_error": "0.1"},
    ],
)
def test_without_an_epsilon_both_targets_are_needed(aim: dict[str, Any]) -> None:
    for make, rest in (
        (plan_count, ()),
        (plan_integer_sum, (3,)),
        (plan_histogram, (3,)),
        (plan_real_sum, ()),
    ):
        with pytest.raises(ParameterError, match="both rmse and max_messages"):
            make(1000, None, *rest, **aim)
    with pytest.raises(PlanningError, match="No epsilon"):
        plan_count(1000, rmse="0.001", max_messages=1)


def test_a_bounded_plan_is_read_back() -> None:
    for plan in (plan_count(1000, 1), plan_real_sum(1000, 1, padded=True)):
        again = Plan.from_dict(plan.to_dict())
        assert again.protocol == plan.protocol and again.report_size == plan.report_size
    assert bounded_cell(plan_count(1000, 1)).up.epsilon == 1

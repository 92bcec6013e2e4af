"""Plans for frequencies: the reach, the choice between groups and a histogram, refusals."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from shuffledp import Plan, SeededEntropy, plan_frequencies
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.plans.text import describe_plan
from shuffledp.queries.frequencies.group_search import SHORT_GROUP_CHANCE, users_of_group
from shuffledp.queries.frequencies.planner import others_of
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol

MILLION = 10**6


def groups_of(plan: Plan[Any]) -> FrequenciesProtocol:
    assert isinstance(plan.protocol, FrequenciesProtocol)
    return plan.protocol


@pytest.mark.parametrize(("messages", "most"), [(45, 1_200), (1_300, 420)])
def test_the_reach_at_a_million_users(messages: int, most: float) -> None:
    """Values uniform over 1,000 of 2⁶⁴: the error is measured within 5 % of the forecast."""
    plan = plan_frequencies(MILLION, 1, spread=1_000, max_messages=messages, padded=True)
    assert plan.report_size <= messages and plan.forecast.rmse <= most
    rng = np.random.default_rng(messages)
    labels = rng.integers(0, 2**64, 1_000, np.uint64)
    assert len(np.unique(labels)) == 1_000
    errors = []
    for run in range(2):
        entropy = SeededEntropy(run)
        what = groups_of(plan).renewed(entropy)
        view = what.release(what.aggregate(np.repeat(labels, 1_000), entropy))
        errors.append(what.counts(view).estimates(labels.tolist()) - 1_000)
    measured = math.sqrt(np.mean(np.square(errors)))
    assert abs(measured / plan.forecast.rmse - 1) < 0.05


def test_an_error_is_kept_with_fewer_messages_the_larger_it_is() -> None:
    plans = [plan_frequencies(10**5, 1, rmse=rmse) for rmse in (150, 250, 450, 2_000)]
    costs = [plan.forecast.messages_per_user for plan in plans]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) == 4
    assert all(
        plan.forecast.rmse <= rmse for plan, rmse in zip(plans, (150, 250, 450, 2_000), strict=True)
    )


def test_few_candidates_are_counted_by_a_histogram_where_that_is_better() -> None:
    few = plan_frequencies(10**5, 1, candidates=["a", "b"])
    assert few.protocol.query == "histogram"
    assert few.protocol.to_dict()["labels"] == ["a", "b", "all others"]
    assert few.forecast.messages_per_user <= 1_000 and few.forecast.rmse < 10
    many = plan_frequencies(10**5, 1, candidates=range(500))
    assert many.protocol.query == "frequencies"
    assert plan_frequencies(10**5, 1, domain=8).protocol.query == "histogram"
    assert plan_frequencies(10**5, 1, domain=2**64).protocol.query == "frequencies"
    assert others_of(("all others", 3)) == "all others "


def test_the_papers_cell_can_be_asked_for() -> None:
    plan = plan_frequencies(5_000, 1, rmse=300, cell="paper")
    assert groups_of(plan).cell.kind == "paper" and plan.forecast.rmse <= 300


def test_groups_are_all_but_sure_to_be_large_enough() -> None:
    for users, groups in ((10_000, 50), (MILLION, 4_000)):
        need = users_of_group(users, groups)
        draws = np.random.default_rng(1).binomial(users, 1 / groups, 10**6)
        assert draws.min() >= need - 1
        # neither far too cautious nor too bold: about as many deviations as the normal law says
        far = (users / groups - need) / math.sqrt(users / groups)
        normal = -NormalDist().inv_cdf(SHORT_GROUP_CHANCE / groups)
        assert 0.9 * normal < far < 1.1 * normal


def test_a_plan_says_what_its_error_assumes() -> None:
    plan = plan_frequencies(10**5, 1, max_messages=40, padded=True)
    assert "as over 100 labels" in str(plan)
    assert any("in each of" in name for name, _ in describe_plan(plan, verbose=True))
    assert Plan.from_dict(plan.to_dict()).protocol == plan.protocol


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"users": 50}, "too few"),
        ({"rmse": 1}, "No groups"),
        ({"max_messages": 1}, "allow more messages"),
    ],
)
def test_what_cannot_be_planned_says_why(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PlanningError, match=sentence):
        plan_frequencies(**{"users": 10_000, "epsilon": 1, **asked})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"spread": 0}, "spread"),
        ({"spread": "1/2"}, "spread"),
        ({"domain": 1}, "domain"),
        ({"domain": 2**65}, "domain"),
        ({"epsilon": 0}, "epsilon"),
        ({"rmse": 5, "max_messages": 5}, "together"),
        ({"cell": "other"}, "cell"),
        ({"candidates": "abc"}, "candidates"),
        ({"candidates": [1, "a"]}, "Candidates"),
        ({"candidates": ["a", "a"]}, "the same"),
    ],
)
def test_bad_arguments_get_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        plan_frequencies(**{"users": 10_000, "epsilon": 1, **asked})

"""Plans for frequencies: the reach, the choice between a histogram and a table, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from shuffledp import Plan, plan_frequencies
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.queries.frequencies.hashing import power_of_two_near
from shuffledp.queries.frequencies.planner import MOST_LISTED, others_of

MILLION = 10**6


def test_the_reach_at_a_million_users() -> None:
    """The error follows the count; `tests/coverage/test_labels.py` measures it."""
    plan = plan_frequencies(MILLION, 1)
    assert plan.report_size <= 25 and plan.forecast.messages_per_user < 1.5
    what: Any = plan.protocol
    assert what.rmse(MILLION, 0) <= 6 and what.rmse(MILLION, 1_000) <= 42
    assert plan.forecast.rmse_at == what.rmse(MILLION, 100) <= 14


def test_candidates_are_counted_by_a_histogram_also_a_single_one() -> None:
    for names in (["a"], ["a", "b"], range(MOST_LISTED)):
        plan = plan_frequencies(10**5, 1, candidates=names)
        assert plan.protocol.query == "histogram" and plan.report_size <= 25
        assert plan.protocol.to_dict()["labels"] == [*names, "all others"]
        assert plan.forecast.rmse_at is not None and plan.forecast.rmse_at < 13
    assert others_of(("all others", 3)) == "all others "


def test_without_a_list_or_with_a_long_one_labels_are_hashed() -> None:
    assert plan_frequencies(10**4, 1).protocol.query == "frequencies"
    many = plan_frequencies(10**4, 1, candidates=range(MOST_LISTED + 1))
    assert many.protocol.query == "frequencies"
    large = plan_frequencies(10**4, 1, candidates=[2**64 - 1])  # no bucket of a histogram
    assert large.protocol.query == "frequencies"


def test_the_table_has_about_as_many_buckets_as_users() -> None:
    assert [power_of_two_near(n) for n in (1, 100, 1_000, 1_500, 10**6, 10**9)] == [
        64, 128, 1_024, 2_048, 1 << 20, 1 << 23,
    ]  # fmt: skip
    plan = plan_frequencies(1_000, 1, expected=4_000)
    assert plan.protocol.to_dict()["cell"]["buckets"] == 4_096 and plan.users == 1_000


def test_error_at_moves_the_error_to_where_it_is_asked_for() -> None:
    few, many = (plan_frequencies(10**5, 1, error_at=count) for count in (0, 10_000))
    rare: Any = few.protocol
    common: Any = many.protocol
    assert rare.rmse(10**5, 0) < common.rmse(10**5, 0)
    assert common.rmse(10**5, 10_000) < rare.rmse(10**5, 10_000)


def test_a_plan_says_what_its_error_assumes() -> None:
    plan = plan_frequencies(10**5, 1)
    assert "share a bucket" in str(plan) and "at a bucket of 100 users" in str(plan)
    assert Plan.from_dict(plan.to_dict()).protocol == plan.protocol


def test_fewer_messages_cost_accuracy() -> None:
    plans = [plan_frequencies(10**5, 1, max_messages=most) for most in (1, 5, 25)]
    assert [plan.report_size for plan in plans] == [1, 5, 25]
    errors = [plan.forecast.rmse_at or 0.0 for plan in plans]
    assert errors == sorted(errors, reverse=True) and errors[0] > 5 * errors[2]


def test_an_error_is_kept_with_the_fewest_messages() -> None:
    for names in ((), ["a", "b"]):
        plan = plan_frequencies(10**5, 1, candidates=names, rmse=20)
        assert plan.forecast.rmse_at is not None and plan.forecast.rmse_at <= 20
        fewer = plan_frequencies(10**5, 1, candidates=names, max_messages=plan.report_size - 1)
        assert plan.report_size < 25 and (fewer.forecast.rmse_at or 0) > 20
    with pytest.raises(PlanningError, match="allow a larger error"):
        plan_frequencies(10**5, 1, rmse=5)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"users": 0}, "users"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": "many"}, "max_messages"),
        ({"error_at": -1}, "error_at"),
        ({"candidates": "abc"}, "candidates"),
        ({"candidates": [1, "a"]}, "Candidates"),
        ({"candidates": ["a", "a"]}, "the same"),
    ],
)
def test_bad_arguments_get_one_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        plan_frequencies(**{"users": 10_000, "epsilon": 1, **asked})

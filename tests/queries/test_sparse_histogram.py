"""Histograms on sparse cells: plans, answers, results of many buckets, top-ups and plausibility."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from message_masses import token_masses

import shuffledp
from shuffledp import Plan, SeededEntropy, histogram, plan_histogram
from shuffledp.cells.sparse.cell import SparseCell
from shuffledp.errors import ParameterError, PlanningError, ShortBatchError
from shuffledp.protocols.results import HistogramResult
from shuffledp_check.certificate import check

F = Fraction


@pytest.fixture(scope="module")
def plan() -> Plan[HistogramResult]:
    return plan_histogram(2000, 1, 300, error_at=100, max_messages=20, padded=True)


def test_a_plan_for_the_error_at_a_count_is_sparse_and_says_three_errors(
    plan: Plan[HistogramResult],
) -> None:
    data = plan.to_dict()
    assert data["cells"] == ["sparse"] and data["report_size"] <= 20
    assert data["padding"] == "exact"
    assert data["rmse_at_zero"] < data["rmse_at"] < data["rmse"]
    assert data["target"] == {"max_messages": "20", "error_at": "100", "padded": True}
    assert f"{data['rmse_at']:.3g} at a bucket of 100 users" in str(plan)
    assert check(json.loads(json.dumps(data))) == 1
    again = Plan.from_dict(json.loads(json.dumps(data)))
    assert again.forecast == plan.forecast and again.target == plan.target
    assert again.protocol == plan.protocol


def test_error_at_alone_asks_for_25_messages() -> None:
    found = plan_histogram(10**4, 1, 1000, error_at=100)
    assert found.report_size <= 25 and found.target.padded
    assert found.target.max_messages == 25


def test_an_error_at_a_count_is_kept_with_few_messages() -> None:
    short = plan_histogram(10**5, 1, 5000, error_at=100, rmse=14, padded=True)
    exact = plan_histogram(10**5, 1, 5000, error_at=100, rmse=25, padded=True)
    assert short.forecast.rmse_at is not None and short.forecast.rmse_at <= 14
    assert exact.forecast.rmse_at is not None and exact.forecast.rmse_at <= 25
    assert exact.report_size < short.report_size < 40


def test_the_kinds_are_compared_by_what_is_asked() -> None:
    # worst case, few labels: exact cells; the same at a count: sparse ones
    assert plan_histogram(1000, 1, 4).to_dict()["cells"] == ["pooled"]
    many = plan_histogram(10**4, 1, 1000, max_messages=30, padded=True)
    assert many.to_dict()["cells"] == ["sparse"]  # no other kind has so few messages
    two = plan_histogram(10**4, 1, 2, error_at=5000, max_messages=200, padded=True)
    assert two.to_dict()["cells"] == ["bounded"]  # 200 messages are enough for exact cells
    asked = plan_histogram(10**4, 1, 2, error_at=5000, max_messages=200, padded=True, cell="sparse")
    assert asked.to_dict()["cells"] == ["sparse"]
    assert asked.forecast.rmse_at is not None and two.forecast.rmse_at is not None
    assert asked.forecast.rmse_at > two.forecast.rmse_at


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"error_at": -1}, ParameterError, "error_at must be a whole number"),
        (
            {"error_at": 10, "mse_overhead": 1},
            ParameterError,
            "error_at can be combined with max_messages",
        ),
        (
            {"error_at": 10, "relative_error": 1},
            ParameterError,
            "error_at can be combined with max_messages",
        ),
        (
            {"cell": "dense"},
            ParameterError,
            "cell must be one of best, bounded, paper, pooled, sparse",
        ),
        ({"cell": "sparse", "rmse": 1}, PlanningError, "allow a larger one"),
    ],
)
def test_bad_requests_get_one_sentence(
    options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        plan_histogram(1000, 1, 20, **options)


def test_answers_have_the_forecast_error_and_cover_the_truth() -> None:
    values = np.concatenate([np.zeros(1500, int), np.ones(300, int), np.arange(200)])
    truth = np.bincount(values, minlength=300)
    runs = [
        histogram(values, epsilon=1, labels=300, error_at=100, cell="sparse", seed=run)
        for run in range(60)
    ]
    plan = plan_histogram(2000, 1, 300, error_at=100)
    errors = np.array([run.values - truth for run in runs])
    for bucket in (0, 1, 5, 250):
        spread = plan.protocol.rmse_at(2000, F(int(truth[bucket])))
        assert abs(errors[:, bucket].mean()) < 4.5 * spread / math.sqrt(60)
    rest = math.sqrt((errors[:, 200:] ** 2).mean())
    assert abs(rest / plan.forecast.rmse_at_zero - 1) < 0.15
    inside = np.array([(run.low <= truth) & (truth <= run.high) for run in runs])
    assert inside.mean() > 0.945 and inside[:, :2].mean() > 0.85
    jointly = [((run.joint_low <= truth) & (truth <= run.joint_high)).all() for run in runs]
    assert np.mean(jointly) > 0.85
    narrow = [((run.low <= truth) & (truth <= run.high)).all() for run in runs]
    assert np.mean(narrow) < 0.5  # each on its own does not hold for all


def test_per_user_and_aggregated_answers_agree() -> None:
    values = np.arange(2000) % 7
    for per_user in (False, True):
        found = histogram(
            values, epsilon=4, labels=300, error_at=100, cell="sparse", per_user=per_user, seed=3
        )
        assert abs(found.values[:7].sum() - 2000) < 6 * found.rmse * math.sqrt(7)


def test_a_million_buckets_stay_readable() -> None:
    values = np.repeat([3, 999_999, 17], [600, 300, 100])
    found = histogram(values, epsilon=2, labels=10**6, error_at=100, seed=1)
    shown = str(found)
    assert len(shown.splitlines()) == 22
    assert shown.splitlines()[-1] == "the 20 largest of 1,000,000 buckets"
    assert "1,000,000 numbers" in repr(found)
    assert found._repr_html_().count("<tr>") == 21
    assert [label for label, *_ in found.top(2)] == ["3", "999999"]
    estimate, low, high = found[999_999]
    rmse = plan_histogram(1000, 2, 10**6, error_at=100).protocol.rmse_at(1000, Fraction(300))
    assert low <= 300 <= high and abs(estimate - 300) < 4 * rmse < 400
    with pytest.raises(ParameterError, match="not one of the labels"):
        found["3"]
    assert len(json.dumps(found.certificate)) < 3000  # labels 0, 1, … are written as their number


def test_text_labels_and_crosstabs_work_too() -> None:
    found = histogram(
        ["a", "b", "b", "?"] * 100, epsilon=4, labels=["a", "b"], other="else", cell="sparse",
        error_at=100, seed=2,
    )  # fmt: skip
    assert found.labels == ("a", "b", "else")
    assert found["b"][1] <= 200 <= found["b"][2]


def batch(plan: Plan[HistogramResult], seed: int = 1) -> Any:
    return plan.aggregate(np.arange(2000) % 40, SeededEntropy(seed))


def test_top_ups_are_users_without_a_value(plan: Plan[HistogramResult]) -> None:
    protocol, entropy = plan.protocol, SeededEntropy(9)
    there = protocol.aggregate(np.arange(1500) % 40, entropy)
    with pytest.raises(ShortBatchError):
        protocol.release(there)
    filled = there + protocol.top_up(500, entropy)
    result = protocol.analyze(protocol.release(filled))
    assert abs(result.values.sum() - 1500) < 400
    assert (result.joint_low <= np.where(np.arange(300) < 40, 38, 0)).all()
    sizes = [int(protocol.top_up(500, SeededEntropy(seed)).plus.sum()) for seed in range(50)]
    assert max(sizes) <= 500 * protocol.report_size(2000)


def test_honest_batches_are_plausible(plan: Plan[HistogramResult]) -> None:
    assert max(abs(plan.protocol.anomaly(batch(plan, seed))) for seed in range(20)) < 5


SPOILT: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "everything doubled": lambda plus: plus * 2,
    "half is missing": lambda plus: plus // 2,
    "a bucket of more than everybody": lambda plus: plus + 4000 * (np.arange(300) == 7),
}


@pytest.mark.parametrize("name", SPOILT)
def test_implausible_batches_are_marked(plan: Plan[HistogramResult], name: str) -> None:
    honest = batch(plan)
    assert abs(plan.protocol.anomaly(replace(honest, plus=SPOILT[name](honest.plus)))) > 6


def test_the_moments_of_all_tokens_are_those_of_the_law(plan: Plan[HistogramResult]) -> None:
    (group,) = plan.protocol.cell_groups
    cell = group.members[0].cell
    assert isinstance(cell, SparseCell)
    theta = np.array([-0.3, 0.2])
    masses = np.array([float(mass) for mass in token_masses(cell)])
    known = group.log_total_moment(theta, 100, 0)
    exact = 100 * np.log((np.exp(np.outer(theta, np.arange(len(masses)))) * masses).sum(axis=1))
    assert known is not None
    assert np.allclose(known, exact - theta * 100 * float(cell.moments.tokens))


def test_the_least_epsilon_at_a_count_is_found() -> None:
    found = shuffledp.plan_histogram(
        10**4, None, 500, rmse=20, max_messages=20, padded=True, error_at=100, cell="sparse"
    )
    assert found.forecast.rmse_at is not None and found.forecast.rmse_at <= 20
    assert found.report_size <= 20 and found.target.error_at == 100

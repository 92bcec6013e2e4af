"""Baselines from the front door: the result says what it is and under which promise."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shuffledp.baselines import run
from shuffledp.errors import ParameterError, PlanningError, ShortBatchError, ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy

BITS = np.arange(5000) % 4 == 0


def test_an_approximate_count_runs_and_says_so() -> None:
    result = run("count", "gkmp20", BITS, 1, "1e-6", entropy=SeededEntropy(1))
    assert abs(result.value - 1250) < 20
    assert result.low <= result.value <= result.high
    assert result.claim.kind == "approximate"
    assert result.interval_kind == "exact"
    assert "(ε, δ) = (1, 1e-06), trusting the shuffler" in str(result)
    assert "seeded" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["claim"]["kind"] == "approximate"


def test_without_delta_an_approximate_baseline_is_refused() -> None:
    with pytest.raises(ParameterError, match="pass delta"):
        run("count", "gkmp20", BITS, 1)


def test_a_local_histogram_needs_nobody() -> None:
    values = np.arange(5000) % 3
    result = run("histogram", "local-hadamard", values, 3, buckets=4, entropy=SeededEntropy(2))
    assert result.values.shape == (4,)
    assert result.claim.trust == "local"
    assert result.claim.kind == "pure"
    assert result.interval_kind == "normal approximation"
    assert (np.abs(result.values - [1667, 1667, 1666, 0]) < 6 * result.rmse).all()
    assert "trusting nobody" in str(result)
    assert not hasattr(result, "value")  # a histogram has one value per bucket


def test_a_sum_in_any_range() -> None:
    values = np.linspace(-20, 60, 4000)
    result = run(
        "real-sum", "bbgn20", values, 1, "1e-6", bounds=(-20, 60), entropy=SeededEntropy(3)
    )
    assert result.rmse == pytest.approx(80 * 1.5, rel=0.1)
    assert abs(result.value - values.sum()) < 6 * result.rmse


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_intervals_cover_as_often_as_they_say(confidence: float) -> None:
    entropy, hits, runs = SeededEntropy("cover"), 0, 400
    for _ in range(runs):
        result = run("count", "csuzz19", BITS, 1, "1e-3", entropy=entropy, confidence=confidence)
        hits += result.low <= 1250 <= result.high
    assert abs(hits / runs - confidence) < 4.5 * (confidence * (1 - confidence) / runs) ** 0.5


def test_exact_intervals_cover_at_least_as_often() -> None:
    entropy = SeededEntropy("exact")
    results = [run("count", "central", BITS, 1, entropy=entropy) for _ in range(400)]
    hits = sum(result.low <= 1250 <= result.high for result in results)
    assert hits / 400 > 0.95 - 4.5 * (0.95 * 0.05 / 400) ** 0.5
    assert results[0].high - results[0].low <= 8  # and not by being wide


def test_fewer_users_than_promised_release_nothing() -> None:
    with pytest.raises(ShortBatchError):
        run("count", "thinning", BITS, 1, users=6000)


def test_more_users_than_promised_add_noise_in_proportion() -> None:
    few = run("count", "gkmp20", BITS, 1, "1e-6", users=1000, entropy=SeededEntropy(4))
    all_ = run("count", "gkmp20", BITS, 1, "1e-6", entropy=SeededEntropy(4))
    assert few.rmse == pytest.approx(all_.rmse * 5**0.5)
    with pytest.raises(ParameterError, match="wrap around"):
        run("count", "bbgn20", BITS, 1, "1e-6", users=1000)


def test_what_cannot_be_run_says_why() -> None:
    with pytest.raises(PlanningError, match="Only the cost and the error"):
        run("count", "cy22", BITS, 1)
    with pytest.raises(ParameterError, match="choose from"):
        run("count", "nonsense", BITS, 1)
    with pytest.raises(ParameterError, match="confidence"):
        run("count", "local", BITS, 1, confidence=1.0)


def test_values_out_of_range_are_refused_unnamed() -> None:
    with pytest.raises(ValueOutOfRange) as refused:
        run("count", "local", np.array([0, 1, 77]), 1)
    assert "77" not in str(refused.value)
    with pytest.raises(ValueOutOfRange):
        run("real-sum", "local", np.array([0.5, float("nan")]), 1)

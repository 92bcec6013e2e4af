"""How many bins quantiles have, how fast they are planned, and which error is stated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp import SeededEntropy
from shuffledp.queries.quantiles import planner
from shuffledp.queries.quantiles.protocol import combine, worst_range_variance
from shuffledp.queries.quantiles.query import QuantilesQuery

SHARES = (0.25, 0.5, 0.75)


@pytest.mark.parametrize(
    ("buckets", "variances"),
    [((64,), [3.0]), ((4, 64), [2.0, 3.0]), ((3, 12, 48), [1.0, 2.0, 5.0]), ((2, 6), [9.0, 1.0])],
)
def test_the_worst_range_is_that_of_the_least_squares_fit(
    buckets: tuple[int, ...], variances: list[float]
) -> None:
    covariance, _ = combine(buckets, variances)
    edges = np.diag(np.cumsum(np.cumsum(covariance, axis=0), axis=1))
    assert worst_range_variance(buckets, variances) == pytest.approx(edges.max(), rel=1e-6)
    assert worst_range_variance(buckets[-1:], variances[-1:]) >= edges.max() * (1 - 1e-6)


def test_no_matrix_is_inverted_while_levels_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 bins once took half a minute to plan."""

    def refused(*_: Any) -> None:
        raise AssertionError("a plan must not invert matrices")

    monkeypatch.setattr(np.linalg, "inv", refused)
    levels = planner.best_levels(512, Fraction(1))
    assert levels[-1] == 512 and len(levels) > 1


def test_bins_follow_from_the_rows_and_epsilon() -> None:
    numbers = [planner.default_bins(users, Fraction(1)) for users in (10, 2_000, 10_000, 200_000)]
    assert numbers == [32, 64, 256, 512]
    assert planner.default_bins(10_000, Fraction(1, 10)) == 32
    query = QuantilesQuery(epsilon=1, bounds=(0, 100))
    assert query.plan(2_000).protocol.cells and len(query.plan(500).protocol.axis.edges) == 33  # type: ignore[attr-defined]
    dice = QuantilesQuery(epsilon=1, bounds=(1, 6), points=True)
    assert dice.plan(2_000).protocol.axis.bins == 6  # type: ignore[attr-defined]


def skewed(users: int) -> np.ndarray:
    """Prices between 0 and 20,000, most of them low."""
    return np.clip(np.exp(np.random.default_rng(2).normal(8, 1, users)), 0, 20_000)


def measured_and_stated(values: np.ndarray, runs: int, **more: Any) -> tuple[Any, Any]:
    """(RMSE over the runs, RMSE that the results state) of three quantiles."""
    query = QuantilesQuery(epsilon=1, bounds=(0, 20_000), **more)
    plan = query.plan(len(values))
    tally = plan.protocol.tally(plan.protocol.encode(values))
    entropy, truth = SeededEntropy(1), np.quantile(values, SHARES, method="inverted_cdf")
    found = []
    for _ in range(runs):
        batch = plan.protocol.aggregate_tally(tally, entropy)
        shown = plan.protocol.analyze(plan.protocol.release(batch)).quantiles(SHARES)
        found.append([[one.value - truth[place], one.rmse] for place, one in enumerate(shown)])
    squares = np.mean(np.square(found), axis=0)
    return np.sqrt(squares[:, 0]), np.sqrt(squares[:, 1])


def test_more_rows_are_answered_more_finely_and_the_error_is_stated() -> None:
    """Averaged over quartiles: which one lies how in its bin is chance. 64 bins with values spread
    evenly inside them once erred by 58; ranks err by about 20 users, hence quartiles by 1 to 2."""
    values = skewed(200_000)
    error, stated = measured_and_stated(values, 20)
    coarse, _ = measured_and_stated(values, 20, bins=64)
    assert np.linalg.norm(error) < np.linalg.norm(coarse) / 1.2  # 1.58 over 40 runs
    assert error.max() < 2.5  # 1.74 for the third quartile, where users are sparse
    assert stated.max() < 20_000 / 512 / np.sqrt(12) / 2  # far below what a whole bin would say


def test_quantiles_of_moments_with_a_time_zone() -> None:
    import pandas as pd

    days = pd.Series(pd.date_range("2024-05-01", periods=2_000, freq="h", tz="Europe/Berlin"))
    asked: dict[str, Any] = {"epsilon": 8, "bins": 128, "probabilities": [0.5]}
    for bounds in (
        ("2024-04-30T22:00", "2024-07-24T00:00"),
        ("2024-05-01T00:00+02:00", "2024-07-24T02:00+02:00"),
    ):
        found = shuffledp.quantiles(days, bounds=bounds, **asked)
        (row,) = found.to_dict()["quantiles"]
        assert abs(pd.Timestamp(row["date"]) - pd.Timestamp("2024-06-11T13:00")) < pd.Timedelta(
            "1D"
        )
    naive = days.dt.tz_localize(None)
    with pytest.raises(shuffledp.ValueOutOfRange, match="time zone"):
        shuffledp.quantiles(naive, bounds=("2024-05-01T00:00Z", "2024-07-24T02:00Z"), **asked)
    frame = found.to_frame("pandas")
    assert list(frame) == [
        "probability",
        "estimate",
        "low",
        "high",
        "rmse",
        "date",
        "date_low",
        "date_high",
    ]

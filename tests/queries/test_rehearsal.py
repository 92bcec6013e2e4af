"""Rehearsals: many runs beside the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shuffledp.engines.rehearsal import Comparison, Rehearsal
from shuffledp.errors import DataError, ParameterError, ShortBatchError, ValueOutOfRange
from shuffledp.queries.base import Query
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.count.query import CountQuery
from shuffledp.queries.frequencies.query import FrequenciesQuery
from shuffledp.queries.histogram.query import HistogramQuery
from shuffledp.queries.integer_sum.query import IntegerSumQuery
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.real_sum.query import MeanQuery, RealSumQuery

N = 600
WAYS = np.array(["walk", "bike", "bus"] * (N // 3), object)
NUMBERS = np.arange(N) % 7
REALS = np.linspace(0, 3, N)
CASES: list[tuple[Query[Any], Any, list[float]]] = [
    (CountQuery(epsilon=1), NUMBERS % 2, [float((NUMBERS % 2).sum())]),
    (CountQuery(epsilon=1, equals="bike"), WAYS, [200.0]),
    (IntegerSumQuery(epsilon=1, largest=6), NUMBERS, [float(NUMBERS.sum())]),
    (RealSumQuery(epsilon=1, bounds=(0, 3)), REALS, [900.0]),
    (MeanQuery(epsilon=1, bounds=(0, 3)), REALS, [1.5]),
    (HistogramQuery(epsilon=1, labels=["bus", "walk"], other="else"), WAYS, [200.0, 200.0, 200.0]),
    (FrequenciesQuery(epsilon=1, candidates=["bike", "tram"]), WAYS, [200.0, 0.0]),
    (
        QuantilesQuery(epsilon=8, bounds=(0, 3), probabilities=(0.5,), bins=6, points=False),
        REALS,
        [REALS[299]],
    ),
]


def seeded(query: Query[Any]) -> Query[Any]:
    return replace(query, seed=18)


@pytest.mark.parametrize(("query", "values", "expected"), CASES, ids=lambda one: str(one)[:30])
def test_every_query_is_rehearsed_beside_its_truth(
    query: Query[Any], values: Any, expected: list[float]
) -> None:
    setup = Rehearsal(seeded(query), values)
    found = Comparison.of([setup.run() for _ in range(20)], setup.truth)
    assert setup.truth.tolist() == pytest.approx(expected)
    assert found.estimates.shape == (20, len(expected)) == found.held.shape
    # unbiased: the mean of 20 runs is within 5 of its standard deviations (quantiles: within a bin)
    spread = found.estimates.std(axis=0) / 20**0.5 + 0.5 * (query.name == "quantiles")
    assert (np.abs(found.errors.mean(axis=0)) <= 5 * spread + 1e-9).all()
    assert found.held.mean() >= 0.7


def test_noise_that_the_analyzer_adds_widens_errors_and_intervals_alike() -> None:
    """150 seeded runs: coverage within 4 standard deviations of 0.95 or above, bias within 4."""
    query = HistogramQuery(epsilon=1, labels=["bus", "walk"], other="else")
    plain, noisy = (Rehearsal(seeded(query), WAYS, noise_shares=n) for n in (0, N))
    results = [Comparison.of([one.run() for _ in range(150)], one.truth) for one in (plain, noisy)]
    without, added = results
    assert 1.2 < added.rmse.mean() / without.rmse.mean() < 1.65
    for found in results:
        assert found.held.mean() > 0.95 - 4 * (0.95 * 0.05 / 450) ** 0.5
        assert (np.abs(found.errors.mean(axis=0)) < 4 * found.rmse / 150**0.5).all()
    # the twin: intervals of the smaller noise do not hold for the larger one
    half = (without.high - without.low).mean() / 2
    assert added.within(half) < 0.95 - 4 * (0.95 * 0.05 / 450) ** 0.5


def test_a_given_plan_is_used_and_a_short_column_refused() -> None:
    query, plan = CountQuery(epsilon=1), plan_count(500, 1)
    setup = Rehearsal(seeded(query), NUMBERS % 2, plan=plan)
    assert setup.plan is plan and setup.run().users == N
    with pytest.raises(ShortBatchError):
        Rehearsal(seeded(query), [1, 0], plan=plan)


def test_what_cannot_be_rehearsed_is_refused() -> None:
    with pytest.raises(ParameterError, match="all users together"):
        Rehearsal(CountQuery(epsilon=1, by=["a", "b"] * (N // 2), groups=["a", "b"]), NUMBERS % 2)
    both = HistogramQuery(epsilon=1, by=["x", "y"], domains={"x": [0, 1], "y": [0, 1]})
    with pytest.raises(ParameterError, match="cannot be computed here"):
        Rehearsal(both, pd.DataFrame({"x": NUMBERS % 2, "y": NUMBERS // 2 % 2}))
    query = CountQuery(epsilon=1)
    with pytest.raises(ValueOutOfRange):
        Rehearsal(seeded(query), NUMBERS)
    with pytest.raises(ValueOutOfRange):
        Rehearsal(seeded(query), WAYS)
    with pytest.raises(DataError):
        Rehearsal(seeded(query), [1.0, None])
    with pytest.raises(ParameterError, match="every row as one user"):
        Rehearsal(replace(query, user="id"), NUMBERS % 2)

    class Unknown(Query[Any]):
        name = "unknown"

        def make_plan(self, users: int) -> Any:
            raise NotImplementedError

    with pytest.raises(ParameterError, match="true answer to unknown"):
        Unknown(epsilon=query.epsilon).truth(NUMBERS)

"""Rehearsals: many runs beside the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shuffledp.engines.rehearsal import Comparison, Rehearsal
from shuffledp.errors import DataError, ParameterError, ShortBatchError, ValueOutOfRange
from shuffledp.queries import questions
from shuffledp.queries.base import Query
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.frequencies.query import FrequenciesQuery
from shuffledp.queries.options import Options
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.truth import truth

SEEDED = Options.checked({"seed": 18})
PLAIN = Options.checked({})
N = 600
WAYS = np.array(["walk", "bike", "bus"] * (N // 3), object)
NUMBERS = np.arange(N) % 7
REALS = np.linspace(0, 3, N)
CASES: list[tuple[Query[Any], Any, list[float]]] = [
    (questions.CountQuery.of(PLAIN, 1), NUMBERS % 2, [float((NUMBERS % 2).sum())]),
    (questions.CountQuery.of(PLAIN, 1, "bike"), WAYS, [200.0]),
    (questions.IntegerSumQuery.of(PLAIN, 1, 6, False), NUMBERS, [float(NUMBERS.sum())]),
    (questions.RealSumQuery.of(PLAIN, 1, (0, 3), False), REALS, [900.0]),
    (questions.MeanQuery.of(PLAIN, 1, (0, 3), False), REALS, [1.5]),
    (questions.HistogramQuery.of(PLAIN, 1, ["bus", "walk"], "else"), WAYS, [200.0, 200.0, 200.0]),
    (FrequenciesQuery.of(PLAIN, 1, ["bike", "tram"], 1000), WAYS, [200.0, 0.0]),
    (QuantilesQuery.of(PLAIN, 8, (0, 3), (0.5,), 6, False), REALS, [REALS[299]]),
]


@pytest.mark.parametrize(("query", "values", "expected"), CASES, ids=lambda one: str(one)[:30])
def test_every_query_is_rehearsed_beside_its_truth(
    query: Query[Any], values: Any, expected: list[float]
) -> None:
    setup = Rehearsal(query, values, SEEDED)
    found = Comparison.of([setup.run() for _ in range(20)], setup.truth)
    assert setup.truth.tolist() == pytest.approx(expected)
    assert found.estimates.shape == (20, len(expected)) == found.held.shape
    # unbiased: the mean of 20 runs is within 5 of its standard deviations (quantiles: within a bin)
    spread = found.estimates.std(axis=0) / 20**0.5 + 0.5 * (query.name == "quantiles")
    assert (np.abs(found.errors.mean(axis=0)) <= 5 * spread + 1e-9).all()
    assert found.held.mean() >= 0.7


def test_noise_that_the_analyzer_adds_widens_errors_and_intervals_alike() -> None:
    """150 seeded runs: coverage within 4 standard deviations of 0.95 or above, bias within 4."""
    query = questions.HistogramQuery.of(PLAIN, 1, ["bus", "walk"], "else")
    plain, noisy = (Rehearsal(query, WAYS, SEEDED, noise_shares=n) for n in (0, N))
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
    query, plan = questions.CountQuery.of(PLAIN, 1), plan_count(500, 1)
    setup = Rehearsal(query, NUMBERS % 2, SEEDED, plan=plan)
    assert setup.plan is plan and setup.run().users == N
    with pytest.raises(ShortBatchError):
        Rehearsal(query, [1, 0], SEEDED, plan=plan)


def test_what_cannot_be_rehearsed_is_refused() -> None:
    query = questions.CountQuery.of(PLAIN, 1)
    with pytest.raises(ValueOutOfRange):
        Rehearsal(query, NUMBERS, SEEDED)
    with pytest.raises(ValueOutOfRange):
        Rehearsal(query, WAYS, SEEDED)
    with pytest.raises(DataError):
        Rehearsal(query, [1.0, None], SEEDED)
    with pytest.raises(ParameterError, match="every row for one user"):
        Rehearsal(query, NUMBERS % 2, Options.checked({"user": "id"}))

    class Unknown(Query[Any]):
        name = "unknown"

        def make_plan(self, users: int) -> Any:
            raise NotImplementedError

    with pytest.raises(ParameterError, match="true answer to unknown"):
        truth(Unknown(epsilon=query.epsilon), NUMBERS)

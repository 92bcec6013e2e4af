"""Intervals of every kind of answer hold the truth on three real tables, as often as they say.

The tables come with statsmodels: a survey on marriages (6,366 rows), the RAND health insurance
experiment (20,190) and the American election study of 1996 (944).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from shuffledp import SeededEntropy
from shuffledp.engines.rehearsal import Comparison, Rehearsal
from shuffledp.queries.base import Query
from shuffledp.queries.count.query import CountQuery
from shuffledp.queries.histogram.query import HistogramQuery
from shuffledp.queries.integer_sum.query import IntegerSumQuery
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.real_sum.query import MeanQuery

RUNS, CONFIDENCE, DEVIATIONS = 100, 0.9, 4.5


def asked(table: str) -> list[tuple[str, Query[Any]]]:
    """Queries about a table, each with the column that it is about."""
    common: dict[str, Any] = {"epsilon": 1, "confidence": CONFIDENCE, "entropy": SeededEntropy(7)}
    flag, wanted, whole, largest, label, labels, real, bounds = {
        "fair": ("children", 0.0, "educ", 20, "religious", 5, "affairs", (0, 60)),
        "randhie": ("hlthp", 1.0, "mdvis", 80, "mdvis", 80, "lncoins", (0, 5)),
        "anes96": ("vote", 1.0, "TVnews", 7, "PID", 7, "age", (18, 95)),
    }[table]
    return [
        (flag, CountQuery(equals=wanted, **common)),
        (whole, IntegerSumQuery(largest=largest, clamp=True, **common)),
        (label, HistogramQuery(labels=labels, **common)),
        (real, MeanQuery(bounds=bounds, clamp=True, mse_overhead=8, **common)),
        (real, QuantilesQuery(bounds=bounds, clamp=True, bins=32, points=False, **common)),
    ]


def column_of(table: str, name: str, query: Query[Any]) -> Any:
    from statsmodels import datasets

    values: pd.Series[Any] = getattr(datasets, table).load_pandas().data[name]
    if query.name == "histogram":
        return (values - (1 if table == "fair" else 0)).clip(0, 79).astype(int)
    return values.astype(int) if query.name == "integer-sum" else values


@pytest.mark.parametrize("number", range(5), ids=["count", "sum", "histogram", "mean", "quantiles"])
@pytest.mark.parametrize("table", ["fair", "randhie", "anes96"])
def test_intervals_hold_the_truth_on_real_tables(table: str, number: int) -> None:
    name, query = asked(table)[number]
    rehearsal = Rehearsal(query, column_of(table, name, query))
    found = Comparison.of([rehearsal.run() for _ in range(RUNS)], rehearsal.truth)
    least = CONFIDENCE - DEVIATIONS * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / RUNS)
    rates = found.held.mean(axis=0)
    print(f"{query.name} of {table}.{name}: the truth is held in {rates.mean():.0%} of {RUNS} runs")
    assert rates.min() >= least
    if query.name in ("count", "mean"):  # the twin: shifted intervals are found out
        away = 3 * found.rmse
        shifted = (found.low + away <= found.truth) & (found.truth <= found.high + away)
        assert shifted.mean(axis=0).max() < least

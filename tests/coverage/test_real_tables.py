"""Intervals of every kind of answer hold the truth on three real tables, as often as they say.

The tables come with statsmodels: a survey on marriages (6,366 rows), the RAND health insurance
experiment (20,190) and the American election study of 1996 (944). All queries have the default
options, and each is planned once for each table.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from shuffledp import SeededEntropy
from shuffledp.engines.rehearsal import Comparison, Rehearsal
from shuffledp.queries.base import Query
from shuffledp.queries.count.query import CountQuery
from shuffledp.queries.histogram.query import HistogramQuery
from shuffledp.queries.integer_sum.query import IntegerSumQuery
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.real_sum.query import MeanQuery, RealSumQuery

QUERIES: dict[str, Callable[..., Query[Any]]] = {
    "count": CountQuery,
    "integer sum": IntegerSumQuery,
    "histogram": HistogramQuery,
    "real sum": RealSumQuery,
    "mean": MeanQuery,
    "quantiles": QuantilesQuery,
}
TABLES: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "fair": {
        "count": ("children", {"equals": 0.0}),
        "integer sum": ("educ", {"largest": 20}),
        "histogram": ("religious", {"labels": [1, 2, 3, 4]}),
        "real sum": ("affairs", {"bounds": (0, 60)}),
        "mean": ("affairs", {"bounds": (0, 60)}),
        "quantiles": ("affairs", {"bounds": (0, 60)}),
    },
    "randhie": {
        "count": ("hlthp", {"equals": 1}),
        "integer sum": ("mdvis", {"largest": 80}),
        "histogram": ("mdvis", {"labels": 80}),
        "real sum": ("lncoins", {"bounds": (0, 5)}),
        "mean": ("lncoins", {"bounds": (0, 5)}),
        "quantiles": ("lncoins", {"bounds": (0, 5)}),
    },
    "anes96": {
        "count": ("vote", {"equals": 1}),
        "integer sum": ("TVnews", {"largest": 7}),
        "histogram": ("PID", {"labels": 7}),
        "real sum": ("age", {"bounds": (18, 95)}),
        "mean": ("age", {"bounds": (18, 95)}),
        "quantiles": ("age", {"bounds": (18, 95)}),
    },
}
"""For each table and query a column, and the arguments that have no default."""
CONFIDENCE = Fraction(19, 20)
UNLUCKY = Fraction(1, 10_000)
"""How rarely exact intervals may fail a test by chance."""
SHORTENED = 0.4
"""How long the twin's intervals are, as a part of the real ones."""


def column_of(table: str, name: str) -> pd.Series[Any]:
    """A column; statsmodels has whole numbers as floats, too."""
    from statsmodels import datasets

    values: pd.Series[Any] = getattr(datasets, table).load_pandas().data[name]
    return values.astype(int) if (values % 1 == 0).all() else values


def holds_too_rarely(held: NDArray[np.bool_]) -> bool:
    """Whether some number's intervals (a column; a row for each run) hold the truth less often than
    chance explains."""
    runs, numbers = held.shape
    least = int(held.sum(axis=0).min())
    chance = sum(
        comb(runs, hits) * CONFIDENCE**hits * (1 - CONFIDENCE) ** (runs - hits)
        for hits in range(least + 1)
    )
    return bool(chance < UNLUCKY / numbers)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("table", TABLES)
def test_intervals_hold_the_truth_on_real_tables(table: str, query: str) -> None:
    """And a twin: intervals of 40 % of their length are rejected.

    Of the quantiles, only those of ages show that noise is covered: all others have intervals of
    one or two bins, with many equal values at an edge that every shorter interval misses.
    """
    name, needed = TABLES[table][query]
    entropy = SeededEntropy(list(QUERIES).index(query))
    asked = QUERIES[query](epsilon=1, entropy=entropy, **needed)
    rehearsal = Rehearsal(asked, column_of(table, name))
    runs = 60 if query == "quantiles" else 300
    found = Comparison.of([rehearsal.run() for _ in range(runs)], rehearsal.truth)
    print(f"{query} of {table}.{name}: the truth is held in {found.held.mean():.1%} of {runs} runs")
    assert not holds_too_rarely(found.held)
    low, high = (
        found.estimates + SHORTENED * (end - found.estimates) for end in (found.low, found.high)
    )
    assert holds_too_rarely((low <= found.truth) & (found.truth <= high))

"""All queries. To add one, add a folder next to this file and a line here."""

from __future__ import annotations

from typing import Any

from shuffledp.protocols.registry import register
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.query import ByGroupQuery
from shuffledp.queries.count.query import CountQuery, count
from shuffledp.queries.frequencies.query import FrequenciesQuery, frequencies
from shuffledp.queries.heavy_hitters.query import HeavyHittersQuery, heavy_hitters
from shuffledp.queries.histogram.query import HistogramQuery, histogram
from shuffledp.queries.integer_sum.query import IntegerSumQuery, integer_sum
from shuffledp.queries.quantiles.query import QuantilesQuery, quantiles
from shuffledp.queries.real_sum.query import MeanQuery, RealSumQuery, mean, real_sum

__all__ = [
    "count",
    "frequencies",
    "heavy_hitters",
    "histogram",
    "integer_sum",
    "mean",
    "quantiles",
    "real_sum",
]

CATALOGUE: tuple[type[Query[Any]], ...] = (
    CountQuery,
    IntegerSumQuery,
    RealSumQuery,
    MeanQuery,
    HistogramQuery,
    FrequenciesQuery,
    HeavyHittersQuery,
    ByGroupQuery,
    QuantilesQuery,
)

QUERIES = {one.name: one for one in CATALOGUE}
"""Every query by its name."""
CALLED = {name: one for name, one in QUERIES.items() if one.declaration.example}
"""Those with a Python call and a command; `by` turns another query into one by group."""

for _one in CATALOGUE:
    _said = _one.declaration
    if _said.protocol is not None and _said.protocol_json is not None:
        register(_said.protocol, _said.protocol_json)

"""The true answers to queries, computed from the values themselves. They are not private: only a
rehearsal, whose caller holds all values, shows them."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

from shuffledp.data.arrays import Values
from shuffledp.errors import ParameterError
from shuffledp.queries.base import Query
from shuffledp.queries.frequencies.query import FrequenciesQuery
from shuffledp.queries.histogram.protocol import encode_labels
from shuffledp.queries.quantiles.dates import date_numbers
from shuffledp.queries.quantiles.planner import checked_axis
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.questions import (
    CountQuery,
    HistogramQuery,
    IntegerSumQuery,
    MeanQuery,
    RealSumQuery,
)


@singledispatch
def truth(query: Query[Any], values: Values) -> list[float]:
    """The true answers, one for each row of the query's result, from all its prepared values; a new
    query registers its own with `truth.register`."""
    raise ParameterError(f"The true answer to {query.name} is not known here; rehearse another.")


@truth.register(CountQuery)
@truth.register(IntegerSumQuery)
@truth.register(RealSumQuery)
def true_sum(query: Query[Any], values: Values) -> list[float]:
    """The sum of all values, correctly rounded."""
    return [math.fsum(values.tolist())]


@truth.register(MeanQuery)
def true_mean(query: MeanQuery, values: Values) -> list[float]:
    """The mean of all values."""
    return [math.fsum(values.tolist()) / len(values)]


@truth.register(HistogramQuery)
def true_counts(query: HistogramQuery, values: Values) -> list[float]:
    """How many values each label has."""
    plain = query.for_planning()
    numbers = encode_labels(values, plain.labels, plain.other)
    return [float(count) for count in np.bincount(numbers, minlength=len(plain.labels))]


@truth.register(FrequenciesQuery)
def true_frequencies(query: FrequenciesQuery, values: Values) -> list[float]:
    """How many values each candidate has."""
    return [float(np.count_nonzero(values == label)) for label in query.candidates]


@truth.register(QuantilesQuery)
def true_quantiles(query: QuantilesQuery, values: Values) -> list[float]:
    """The least values that so many of all values do not exceed."""
    unit = checked_axis(query.bounds)[2]
    numbers = date_numbers(values, unit) if unit else values
    found = np.quantile(numbers, query.probabilities, method="inverted_cdf")
    return [float(number) for number in found]

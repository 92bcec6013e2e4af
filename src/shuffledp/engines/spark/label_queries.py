"""The queries of `shuffledp` about labels, words and quantiles on a column of a Spark DataFrame;
`queries.py` has counts, sums and means.

**Each row is one user.** The options `protocol`, `delta` and `progress` are refused, because they
work on one machine only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from shuffledp.engines.label_calls import QUARTILES
from shuffledp.engines.spark.columns import column_type, values_of
from shuffledp.engines.spark.executor import run
from shuffledp.numbers.exact import ExactNumber, truth
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.frequencies.planner import DEFAULT_SPREAD
from shuffledp.queries.frequencies.query import FrequenciesQuery
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.heavy_hitters.planner import DEFAULT_LENGTH, DEFAULT_TREE_SPREAD, LETTERS
from shuffledp.queries.heavy_hitters.query import HeavyHittersQuery
from shuffledp.queries.histogram.crosstab import histogram_question
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Options, QueryOptions, with_options
from shuffledp.queries.quantiles.query import AxisBounds, QuantilesQuery
from shuffledp.queries.quantiles.result import QuantilesResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@with_options
def histogram(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    labels: int | Iterable[Label] | None = None,
    other: Label | None = None,
    by: Sequence[str] | None = None,
    domains: Mapping[str, Iterable[Label]] | None = None,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> HistogramResult:
    """How many rows of a column hold each label.

    `shuffledp.histogram` on a Spark DataFrame: in one Spark job for labels 0, 1, …, B−1.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        labels: The texts, whole numbers or true/false to count, or B for the labels 0, 1, …, B−1.
                They must be known without the data: reading them off it would tell who is there.
        other: The label under which all unknown labels are counted (added if it is not among
                `labels`); without it they are refused.
        by: Instead of `labels`: several columns, of which combinations are counted.
        domains: With `by`: the labels of each column.
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(2000).selectExpr("id % 2 as bucket")
    >>> spark.histogram(rows, epsilon=8, labels=2).values.round(-2).tolist()
    [1000.0, 1000.0]
    """
    how = Options.checked({**options, "protocol": protocol})
    return run(histogram_question(how, epsilon, (labels, other), (by, domains)), data, how)


@with_options
def frequencies(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    candidates: Iterable[Label] = (),
    spread: ExactNumber = DEFAULT_SPREAD,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> HistogramResult:
    """How many rows of a column hold each candidate, whatever other values there are.

    `shuffledp.frequencies` on a Spark DataFrame.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        candidates: The labels to show, all texts or all whole numbers, known without the data;
                at most 100,000. The result can be asked about others, at no cost in ε.
        spread: What the error is planned for: as if values were spread evenly over so many labels
                (1 over the chance that two rows hold the same).
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(20_000).selectExpr("id % 4 as number")
    >>> spark.frequencies(rows, epsilon=8, candidates=[1, 2]).values.round(-3).tolist()
    [5000.0, 5000.0]
    """
    how = Options.checked({**options, "protocol": protocol})
    return run(FrequenciesQuery.of(how, epsilon, candidates, spread), data, how)


@with_options
def heavy_hitters(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    alphabet: str = LETTERS,
    length: int = DEFAULT_LENGTH,
    spread: ExactNumber = DEFAULT_TREE_SPREAD,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> FrequenciesResult:
    """The frequent words of a column of texts, found without a list of candidates.

    `shuffledp.heavy_hitters` on a Spark DataFrame.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        alphabet: The characters that are told apart, small letters unless said.
        length: How many characters of a word are found.
        spread: What the error is planned for: as if prefixes were spread evenly over so many.
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(40_000).selectExpr("if(id % 4 = 0, 'of', 'the') as word")
    >>> spark.heavy_hitters(rows, epsilon=8, length=4, max_messages=200).labels[0]
    'the'
    """
    how = Options.checked({**options, "protocol": protocol})
    return run(HeavyHittersQuery.of(how, epsilon, alphabet, length, spread), data, how)


@with_options
def quantiles(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    bounds: AxisBounds,
    probabilities: ExactNumber | Iterable[ExactNumber] = QUARTILES,
    bins: int = 64,
    points: bool | None = None,
    clamp: bool = False,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> QuantilesResult:
    """Quantiles of a column of numbers or dates, and how many rows lie in any range.

    `shuffledp.quantiles` on a Spark DataFrame.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data.
        probabilities: The quantiles to show, each strictly between 0 and 1.
        bins: Into how many equal parts `bounds` is divided: no answer is finer than one part.
        points: Whether values are whole numbers; unless it is said, the column's type decides.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(10_000).selectExpr("id % 100 as age")
    >>> found = spark.quantiles(rows, epsilon=8, bounds=(0, 100), bins=10)
    >>> round(found.quantile(0.5).value, -1)
    50.0
    """
    how = Options.checked({**options, "protocol": protocol})
    said = points is not None and truth(points, "points")
    checked = QuantilesQuery.of(how, epsilon, bounds, probabilities, bins, clamp, said)
    if points is None and checked.may_be_points:
        whole = column_type(values_of(data, how.column)) == "whole"
        checked = replace(checked, points=whole)
    return run(checked, data, how)

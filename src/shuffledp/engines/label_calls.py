"""One call on a column of labels, or for quantiles; `calls.py` has counts, sums and means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from shuffledp.engines import local
from shuffledp.numbers.exact import ExactNumber, truth
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.frequencies.planner import DEFAULT_SPREAD
from shuffledp.queries.frequencies.query import FrequenciesQuery
from shuffledp.queries.histogram.crosstab import histogram_question
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Options, QueryOptions, with_options
from shuffledp.queries.quantiles.query import AxisBounds, QuantilesQuery
from shuffledp.queries.quantiles.result import QuantilesResult

QUARTILES = (0.25, 0.5, 0.75)


@with_options
def histogram(
    data: object,
    *,
    epsilon: ExactNumber,
    labels: int | Iterable[Label] | None = None,
    other: Label | None = None,
    by: Sequence[str] | None = None,
    domains: Mapping[str, Iterable[Label]] | None = None,
    protocol: str | None = None,
    **options: Unpack[QueryOptions],
) -> HistogramResult:
    """How many rows of a column hold each label, or of several columns each combination.

    Each row is one user with one label. All estimates are unbiased, and together they are
    ε-differentially private in the shuffle model, proved by the certificate that they carry. Small
    or empty buckets may come out below 0, because noise is not cut off.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        labels: The texts, whole numbers or true/false to count, or B for the labels 0, 1, …, B−1.
                They must be known without the data: reading them off it would tell who is there.
        other: The label under which all unknown labels are counted (added if it is not among
                `labels`); without it they are refused.
        by: Instead of `labels`: several columns, of which combinations are counted.
        domains: With `by`: the labels of each column.
        options: those of every query (`QueryOptions`).

    Returns:
        A `HistogramResult` (with `by` a `CrosstabResult`, which has `marginal` and `shares`):
        `labels`, `values`, an interval `low` … `high` for each and
        `joint_low` … `joint_high` for all at once, `rmse` of a bucket, `certificate`,
        `to_frame()`, `plot()`, `to_dict()`. With `protocol`, it
        also carries that protocol's own privacy claim.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.

    >>> import shuffledp
    >>> ways = ["walk", "bike", "bike", "car"] * 500
    >>> found = shuffledp.histogram(ways, epsilon=8, labels=["walk", "bike"], other="else")
    >>> found.labels
    ('walk', 'bike', 'else')
    >>> found.values.round(-2).tolist()
    [500.0, 1000.0, 500.0]
    """
    how = Options.checked({**options, "protocol": protocol})
    return local.answer(histogram_question(how, epsilon, (labels, other), (by, domains)), data, how)


@with_options
def frequencies(
    data: object,
    *,
    epsilon: ExactNumber,
    candidates: Iterable[Label] = (),
    spread: ExactNumber = DEFAULT_SPREAD,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> HistogramResult:
    """How many rows of a column hold each candidate, whatever other values there are.

    Each row is one user. Unlike a histogram, this costs the same for any domain: users are counted
    in groups by a public hash of their value. Estimates are unbiased and ε-differentially private
    in the shuffle model; they err more than a histogram's, which is taken where it is better.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        candidates: The labels to show, all texts or all whole numbers, known without the data;
                at most 100,000. The result can be asked about others, at no cost in ε.
        spread: What the error is planned for: as if values were spread evenly over so many labels
                (1 over the chance that two rows hold the same).
        options: those of every query (`QueryOptions`).

    Returns:
        A `HistogramResult`: `labels`, `values`, an interval `low` … `high` for each and
        `joint_low` … `joint_high` for all at once, `rmse`, `certificate`, `to_frame()`, `plot()`,
        `to_dict()`; where groups were counted, also `frequency(label)` and `showing(labels)`.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ParameterError: also for `protocol`, `mse_overhead` and `relative_error`.

    >>> import shuffledp
    >>> words = ["the", "of", "and", "of"] * 5_000
    >>> found = shuffledp.frequencies(words, epsilon=8, candidates=["of", "to"])
    >>> abs(found.values).round(-3).tolist()
    [10000.0, 0.0]
    """
    how = Options.checked({**options, "protocol": protocol})
    return local.answer(FrequenciesQuery.of(how, epsilon, candidates, spread), data, how)


@with_options
def quantiles(
    data: object,
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

    Each row is one user. The column is counted in `bins` equal parts of `bounds`, on several levels
    where that errs less; every further quantile or range of the result costs no privacy.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data;
                for dates two texts like "2013-01-31" (days) or "2013-01-31T08:30" (seconds).
        probabilities: The quantiles to show, each strictly between 0 and 1.
        bins: Into how many equal parts `bounds` is divided: no answer is finer than one part.
        points: True counts every whole number (of groups of equally many, if there are more than
                `bins`) and answers whole numbers; False takes values for measured ones. Unless it
                is said, the type of the column decides, which is taken for public.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        options: those of every query (`QueryOptions`).

    Returns:
        A `QuantilesResult`: `quantile(p)`, `between(low, high)`, `shown()`, `certificate`,
        `plot()`, `to_dict()`.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ParameterError: also for `protocol` and `max_messages`, which quantiles do not have.

    >>> import shuffledp
    >>> ages = list(range(100)) * 100
    >>> found = shuffledp.quantiles(ages, epsilon=8, bounds=(0, 100), bins=10)
    >>> round(found.quantile(0.5).value, -1)
    50.0
    >>> round(found.between(0, 20).value, -3)
    2000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    said = points is not None and truth(points, "points")
    checked = QuantilesQuery.of(how, epsilon, bounds, probabilities, bins, clamp, said)
    if points is None and how.protocol is None and checked.may_be_points:
        holds = local.read_column(checked, data, how).holds
        checked = replace(checked, points=holds == "whole")
    return local.answer(checked, data, how)

"""One call on a column: plan, randomize, shuffle, analyze.

**Each row is one user.** Whoever already holds all raw values and is trusted with them gets the
same answer more cheaply from the central mechanism. These calls are for rehearsing a deployment on
real data, for rows that other parties will randomize, and for research.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, Unpack

from shuffledp.exact.numbers import ExactNumber, truth
from shuffledp.planning.frequencies import DEFAULT_SPREAD
from shuffledp.protocols.histogram import Label
from shuffledp.protocols.quantiles_result import QuantilesResult
from shuffledp.protocols.results import Estimate, HistogramResult, Result
from shuffledp.queries import local, questions
from shuffledp.queries.crosstab_question import histogram_question
from shuffledp.queries.frequency_question import Frequencies
from shuffledp.queries.options import Options, QueryOptions, with_options
from shuffledp.queries.quantile_question import AxisBounds, Quantiles
from shuffledp.queries.query import Query
from shuffledp.queries.questions import Bounds

R = TypeVar("R", bound=Result)
QUARTILES = (0.25, 0.5, 0.75)


@with_options
def count(
    data: object,
    *,
    epsilon: ExactNumber,
    equals: object = None,
    protocol: str | None = None,
    **options: Unpack[QueryOptions],
) -> Estimate:
    """How many rows of a column are true (or 1), or equal to a value.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        equals: Count the rows with this value; without it the column must hold true/false or 0/1.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`. With `protocol`, it
        also carries that protocol's own privacy claim.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.

    >>> import shuffledp
    >>> found = shuffledp.count([True, False, False, False] * 500, epsilon=8)
    >>> round(found.value, -2), found.users
    (500.0, 2000)
    >>> round(shuffledp.count(["walk", "bike"] * 1000, equals="bike", epsilon=8).value, -2)
    1000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    return _run(questions.Count.of(how, epsilon, equals), data, how)


@with_options
def integer_sum(
    data: object,
    *,
    epsilon: ExactNumber,
    largest: int,
    clamp: bool = False,
    protocol: str | None = None,
    **options: Unpack[QueryOptions],
) -> Estimate:
    """The sum of a column of whole numbers 0, 1, …, `largest`.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        largest: The largest value that a row may hold.
        clamp: True moves values outside 0..`largest` to the nearer end; otherwise they are refused.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`. With `protocol`, it
        also carries that protocol's own privacy claim.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.

    >>> import shuffledp
    >>> visits = [0, 1, 2, 3] * 500
    >>> round(shuffledp.integer_sum(visits, epsilon=8, largest=3).value, -3)
    3000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    return _run(questions.IntegerSum.of(how, epsilon, largest, clamp), data, how)


@with_options
def real_sum(
    data: object,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = False,
    protocol: str | None = None,
    **options: Unpack[QueryOptions],
) -> Estimate:
    """The sum of a column of real values within `bounds`.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`. With `protocol`, it
        also carries that protocol's own privacy claim.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.

    >>> import shuffledp
    >>> hours = [0.5, 1.5, 2.5, 3.5] * 500
    >>> round(shuffledp.real_sum(hours, epsilon=8, bounds=(0, 4)).value, -3)
    4000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    return _run(questions.RealSum.of(how, epsilon, bounds, clamp), data, how)


@with_options
def mean(
    data: object,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = False,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> Estimate:
    """The mean of a column of real values within `bounds`.

    Each row is one user, and the number of rows is public: the mean is `real_sum` divided by it.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ParameterError: also for `protocol`, because other protocols give sums, not means.

    >>> import shuffledp
    >>> hours = [0.5, 1.5, 2.5, 3.5] * 500
    >>> round(shuffledp.mean(hours, epsilon=8, bounds=(0, 4)).value)
    2
    """
    how = Options.checked({**options, "protocol": protocol})
    return _run(questions.Mean.of(how, epsilon, bounds, clamp), data, how)


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
    return _run(histogram_question(how, epsilon, (labels, other), (by, domains)), data, how)


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
    return _run(Frequencies.of(how, epsilon, candidates, spread), data, how)


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
    checked = Quantiles.of(how, epsilon, bounds, probabilities, bins, clamp, said)
    if points is None and how.protocol is None and checked.may_be_points:
        holds = local.read_column(checked, data, how).holds
        checked = replace(checked, points=holds == "whole")
    return _run(checked, data, how)


def _run(query: Query[R], data: object, how: Options) -> R:
    return (local.run if how.protocol is None else local.run_rival)(query, data, how)

"""The queries of `shuffledp` on a column of a Spark DataFrame: the same names, arguments and
results.

**Each row is one user.** The options `protocol`, `delta` and `progress` are refused, because they
work on one machine only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack, overload

from shuffledp.engines.spark import grouped
from shuffledp.engines.spark.executor import run
from shuffledp.numbers.exact import ExactNumber
from shuffledp.protocols.results import Estimate
from shuffledp.queries import questions
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import Groups, GroupsBy, groups_of
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Options, QueryOptions, with_options
from shuffledp.queries.questions import Bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@overload
def count(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    equals: object = ...,
    by: None = ...,
    groups: None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> Estimate: ...
@overload
def count(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    equals: object = ...,
    by: GroupsBy,
    groups: int | Iterable[Label] | None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> GroupsResult: ...
@with_options
def count(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    equals: object = None,
    by: GroupsBy | None = None,
    groups: int | Iterable[Label] | None = None,
    groups_public: bool = False,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> Estimate | GroupsResult:
    """How many rows of a column are true (or 1), or equal to a value.

    `shuffledp.count` on a Spark DataFrame, in one Spark job.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        equals: Count the rows with this value; without it the column must hold true/false or 0/1.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(2000).selectExpr("id % 4 = 0 as bikes")
    >>> round(spark.count(rows, column="bikes", epsilon=8).value, -2)
    500.0
    """
    how = Options.checked({**options, "protocol": protocol})
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.CountQuery.of(how, epsilon, equals), data, how, groups_given)


@overload
def integer_sum(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    largest: int,
    clamp: bool = ...,
    by: None = ...,
    groups: None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> Estimate: ...
@overload
def integer_sum(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    largest: int,
    clamp: bool = ...,
    by: GroupsBy,
    groups: int | Iterable[Label] | None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> GroupsResult: ...
@with_options
def integer_sum(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    largest: int,
    clamp: bool = False,
    by: GroupsBy | None = None,
    groups: int | Iterable[Label] | None = None,
    groups_public: bool = False,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> Estimate | GroupsResult:
    """The sum of a column of whole numbers 0, 1, …, `largest`.

    `shuffledp.integer_sum` on a Spark DataFrame, in one Spark job.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        largest: The largest value that a row may hold.
        clamp: True moves values outside 0..`largest` to the nearer end; otherwise they are refused.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(2000).selectExpr("id % 4 as visits")
    >>> round(spark.integer_sum(rows, epsilon=8, largest=3).value, -3)
    3000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.IntegerSumQuery.of(how, epsilon, largest, clamp), data, how, groups_given)


@overload
def real_sum(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = ...,
    by: None = ...,
    groups: None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> Estimate: ...
@overload
def real_sum(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = ...,
    by: GroupsBy,
    groups: int | Iterable[Label] | None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> GroupsResult: ...
@with_options
def real_sum(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = False,
    by: GroupsBy | None = None,
    groups: int | Iterable[Label] | None = None,
    groups_public: bool = False,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> Estimate | GroupsResult:
    """The sum of a column of real values within `bounds`.

    `shuffledp.real_sum` on a Spark DataFrame.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(2000).selectExpr("id % 4 + 0.5 as hours")
    >>> round(spark.real_sum(rows, epsilon=8, bounds=(0, 4)).value, -3)
    4000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.RealSumQuery.of(how, epsilon, bounds, clamp), data, how, groups_given)


@overload
def mean(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = ...,
    by: None = ...,
    groups: None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> Estimate: ...
@overload
def mean(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = ...,
    by: GroupsBy,
    groups: int | Iterable[Label] | None = ...,
    groups_public: bool = ...,
    protocol: None = ...,
    **options: Unpack[QueryOptions],
) -> GroupsResult: ...
@with_options
def mean(
    data: DataFrame,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = False,
    by: GroupsBy | None = None,
    groups: int | Iterable[Label] | None = None,
    groups_public: bool = False,
    protocol: None = None,
    **options: Unpack[QueryOptions],
) -> Estimate | GroupsResult:
    """The mean of a column of real values within `bounds`.

    `shuffledp.mean` on a Spark DataFrame.

    Args:
        data: A Spark DataFrame.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ClusterError: Spark did not finish; nothing was released.

    >>> from shuffledp import spark
    >>> rows = session.range(2000).selectExpr("id % 4 + 0.5 as hours")
    >>> round(spark.mean(rows, epsilon=8, bounds=(0, 4)).value)
    2
    """
    how = Options.checked({**options, "protocol": protocol})
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.MeanQuery.of(how, epsilon, bounds, clamp), data, how, groups_given)


def _ask(
    query: Query[Estimate], data: DataFrame, how: Options, groups: Groups | None
) -> Estimate | GroupsResult:
    return run(query, data, how) if groups is None else grouped.answer(query, data, how, groups)

"""One call on a column: plan, randomize, shuffle, analyze.

**Each row is one user.** Whoever already holds all raw values and is trusted with them gets the
same answer more cheaply from the central mechanism. These calls are for rehearsing a deployment on
real data, for rows that other parties will randomize, and for research.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack, overload

from shuffledp.engines import grouped as grouped_rows
from shuffledp.engines import local
from shuffledp.numbers.exact import ExactNumber
from shuffledp.protocols.results import Estimate
from shuffledp.queries import questions
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import Groups, GroupsBy, groups_of
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Options, QueryOptions, with_options
from shuffledp.queries.questions import Bounds


@overload
def count(
    data: object,
    *,
    epsilon: ExactNumber,
    equals: object = ...,
    by: None = ...,
    groups: None = ...,
    groups_public: bool = ...,
    protocol: str | None = ...,
    **options: Unpack[QueryOptions],
) -> Estimate: ...
@overload
def count(
    data: object,
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
    data: object,
    *,
    epsilon: ExactNumber,
    equals: object = None,
    by: GroupsBy | None = None,
    groups: int | Iterable[Label] | None = None,
    groups_public: bool = False,
    protocol: str | None = None,
    **options: Unpack[QueryOptions],
) -> Estimate | GroupsResult:
    """How many rows of a column are true (or 1), or equal to a value.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        equals: Count the rows with this value; without it the column must hold true/false or 0/1.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group. With `protocol`, it
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
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.CountQuery.of(how, epsilon, equals), data, how, groups_given)


@overload
def integer_sum(
    data: object,
    *,
    epsilon: ExactNumber,
    largest: int,
    clamp: bool = ...,
    by: None = ...,
    groups: None = ...,
    groups_public: bool = ...,
    protocol: str | None = ...,
    **options: Unpack[QueryOptions],
) -> Estimate: ...
@overload
def integer_sum(
    data: object,
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
    data: object,
    *,
    epsilon: ExactNumber,
    largest: int,
    clamp: bool = False,
    by: GroupsBy | None = None,
    groups: int | Iterable[Label] | None = None,
    groups_public: bool = False,
    protocol: str | None = None,
    **options: Unpack[QueryOptions],
) -> Estimate | GroupsResult:
    """The sum of a column of whole numbers 0, 1, …, `largest`.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        largest: The largest value that a row may hold.
        clamp: True moves values outside 0..`largest` to the nearer end; otherwise they are refused.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group. With `protocol`, it
        also carries that protocol's own privacy claim.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.

    >>> import shuffledp
    >>> visits = [0, 1, 2, 3] * 500
    >>> round(shuffledp.integer_sum(visits, epsilon=8, largest=3).value, -3)
    3000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.IntegerSumQuery.of(how, epsilon, largest, clamp), data, how, groups_given)


@overload
def real_sum(
    data: object,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = ...,
    by: None = ...,
    groups: None = ...,
    groups_public: bool = ...,
    protocol: str | None = ...,
    **options: Unpack[QueryOptions],
) -> Estimate: ...
@overload
def real_sum(
    data: object,
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
    data: object,
    *,
    epsilon: ExactNumber,
    bounds: Bounds,
    clamp: bool = False,
    by: GroupsBy | None = None,
    groups: int | Iterable[Label] | None = None,
    groups_public: bool = False,
    protocol: str | None = None,
    **options: Unpack[QueryOptions],
) -> Estimate | GroupsResult:
    """The sum of a column of real values within `bounds`.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group. With `protocol`, it
        also carries that protocol's own privacy claim.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.

    >>> import shuffledp
    >>> hours = [0.5, 1.5, 2.5, 3.5] * 500
    >>> round(shuffledp.real_sum(hours, epsilon=8, bounds=(0, 4)).value, -3)
    4000.0
    """
    how = Options.checked({**options, "protocol": protocol})
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.RealSumQuery.of(how, epsilon, bounds, clamp), data, how, groups_given)


@overload
def mean(
    data: object,
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
    data: object,
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
    data: object,
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

    Each row is one user, and the number of rows is public: the mean is `real_sum` divided by it.

    Args:
        data: A list, NumPy array, Series, DataFrame, or the path of a CSV or Parquet file.
        epsilon: The privacy loss allowed; 0.1 is taken for exactly 1/10.
        bounds: The least and the largest value that a row may hold, known without the data.
        clamp: True moves values outside `bounds` to the nearer one; otherwise they are refused.
        by: The column (or a list) that says which group each user is in: one answer per group.
        groups: With `by`: the labels of all groups, known without the data.
        groups_public: With `by`: True where everybody may know who is in which group; each group is
                then a release of its own for the whole `epsilon`, and `groups` may be left out.
        options: those of every query (`QueryOptions`).

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group.

    Raises:
        ShuffleDPError: see `shuffledp.errors`.
        ParameterError: also for `protocol`, because other protocols give sums, not means.

    >>> import shuffledp
    >>> hours = [0.5, 1.5, 2.5, 3.5] * 500
    >>> round(shuffledp.mean(hours, epsilon=8, bounds=(0, 4)).value)
    2
    """
    how = Options.checked({**options, "protocol": protocol})
    groups_given = groups_of(by, groups, groups_public)
    return _ask(questions.MeanQuery.of(how, epsilon, bounds, clamp), data, how, groups_given)


def _ask(
    query: Query[Estimate], data: object, how: Options, groups: Groups | None
) -> Estimate | GroupsResult:
    if groups is None:
        return local.answer(query, data, how)
    return grouped_rows.answer(query, data, how, groups)

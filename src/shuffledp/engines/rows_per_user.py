"""Several rows of one user: at most k of them are kept, or all are added up, before anything is
randomized, so that ε is per user (docs/mathematics.md §14).

With `rows_per_user=k` every row is randomized for ε/k, and a user has at most k. Without it, sums
add up a user's rows and clip the total to the bounds: one value for each user.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.arrow import text_numbers
from shuffledp.data.columns import Column
from shuffledp.errors import DataError, ParameterError
from shuffledp.numbers.entropy import Entropy
from shuffledp.protocols.results import Result
from shuffledp.queries.base import Query

R = TypeVar("R", bound=Result)
MISSING_IDS = "The column of user ids has missing values; every row needs the id of its user."
ID_TYPES: tuple[ColumnType, ...] = ("text", "whole")
LARGEST_SUM = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class RowsPerUser:
    """Which rows belong to which user, and what becomes of several rows of one user."""

    user: Any
    """The name of the column with the users' ids, or the ids themselves."""
    rows: int | None
    """How many random rows of a user are kept; None adds them up."""
    people: int = 0
    """How many users there are, once their rows are read."""

    def ask(self, query: Query[R]) -> Query[R]:
        """The query for the remaining rows: each gets its share of ε or, if rows are added up,
        totals are clipped to the bounds."""
        if self.rows is not None:
            return replace(query, epsilon=query.exact_epsilon / self.rows)
        return query.of_sums()

    def finish(self, result: R) -> R:
        """The result with the guarantee and the count for users instead of rows."""
        return replace(
            result,
            epsilon=result.epsilon * self.times,
            neighbours=self.neighbours,
            users=self.people,
            rows_kept=None if self.rows is None else result.users,
        )

    @property
    def times(self) -> int:
        """The cost for a user, as a multiple of the cost of a row."""
        return 1 if self.rows is None else self.rows

    @property
    def neighbours(self) -> str:
        """The neighbouring relation, in words."""
        if self.rows is None:
            return "replace all rows of one user, which were added up; how many users is public"
        return (
            f"replace the values of all rows of one user, of which at most {self.rows:,} were "
            "kept; how many users and how many kept rows there are is public"
        )


def check_ids(holds: ColumnType) -> None:
    """Refuses ids that are not texts or whole numbers."""
    if holds not in ID_TYPES:
        raise DataError("The ids of users must be texts or whole numbers; convert them first.")


def numbered(ids: Column) -> NDArray[np.int64]:
    """A number for each row, equal for rows of the same user; raises `DataError` if an id is
    missing."""
    if ids.chunks is not None and ids.holds == "text":  # without an object for each text
        return text_numbers(list(ids.chunks()))
    values = ids.values()
    if values.dtype.kind in "iu":
        return np.asarray(np.unique(values, return_inverse=True)[1], np.int64)
    known: dict[Any, int] = {}
    found = (known.setdefault(one, len(known)) for one in values.tolist())
    return np.fromiter(found, np.int64, len(values))


def kept(users: Values, values: Values, rows: int, entropy: Entropy) -> Values:
    """At most `rows` rows of each numbered user, chosen uniformly at random."""
    order = entropy.words(len(users), np.uint64)
    places = np.lexsort((order, users))
    sorted_users = users[places]
    begins = np.searchsorted(sorted_users, sorted_users)  # where each row's user begins
    return values[np.sort(places[np.arange(len(places)) - begins < rows])]


def summed(users: Values, values: Values) -> Values:
    """The sum of each numbered user's rows; real numbers are added in order of size, so that the
    order of rows does not matter."""
    places = np.lexsort((values, users))
    begins = np.flatnonzero(np.diff(users[places], prepend=-1))
    ordered = values[places]
    if ordered.dtype.kind in "biu":
        largest = max(abs(int(values.min())), abs(int(values.max())))
        check_sums(largest, int(np.diff(np.append(begins, len(ordered))).max()))
        ordered = ordered.astype(np.int64)
    else:  # single precision would lose what is small
        ordered = ordered.astype(np.float64)
    return np.asarray(np.add.reduceat(ordered, begins))


def check_sums(largest: float, rows: int) -> None:
    """Refuses whole numbers of at most this size if as many of them may add up to more than 64
    bits."""
    if largest * rows > LARGEST_SUM:
        raise DataError(
            "A user's whole numbers add up to more than 64 bits; use smaller ones, or make them "
            "real numbers."
        )


def _asked(query: Query[Any]) -> str:
    """What was asked, in words: queries by group and means with `where` are run as by-group."""
    if query.grouped is None:
        return query.name
    asked = query.of_each_group.name
    return f"{asked} with by" if query.grouped.by is not None else f"{asked} with where"


def rows_per_user(query: Query[R]) -> RowsPerUser | None:
    """The options `user` and `rows_per_user`; None if every row is one user."""
    if query.user is None:
        if query.rows_per_user is not None:
            raise ParameterError(
                "rows_per_user needs user=, the name of the column that says whose row it is."
            )
        return None
    if query.rows_per_user is None and not query.adds_up:
        raise ParameterError(
            f"For {_asked(query)}, say how many rows of each user are kept: rows_per_user=1, for "
            "example. Only sums and means of all rows may add up a user's rows instead."
        )
    return RowsPerUser(user=query.user, rows=query.rows_per_user)

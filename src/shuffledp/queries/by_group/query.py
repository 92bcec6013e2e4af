"""Queries by group: a count, sum or mean for each label of a column that says which group a user is
in. Groups are private unless they are declared public."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import CELL_EPSILON
from shuffledp.cells.registry import CELL
from shuffledp.data.arrays import ColumnType, Values
from shuffledp.documents.schema import Flag, Listing, OneOf, Real, Record, Text
from shuffledp.errors import ParameterError
from shuffledp.plans.certificate import SENTENCE
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import MOST_DIGITS
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import Grouping, Query, query
from shuffledp.queries.by_group.groups import Groups, GroupsBy, groups_of
from shuffledp.queries.by_group.planner import plan_by_group
from shuffledp.queries.by_group.protocol import MOST_COUNTED_GROUPS, PAIR, ByGroupProtocol
from shuffledp.queries.by_group.result import ANSWERS, MEAN, GroupsResult
from shuffledp.queries.histogram.protocol import LONGEST_LABEL, Label
from shuffledp.queries.options import Option
from shuffledp.queries.records import BOUND, BUCKET, LABEL, protocol_record
from shuffledp.queries.texts import LIST_WRITTEN, listed_typed, two_bounds

GROUPS = Option(
    "With `by`: the labels of all groups, known without the data.",
    "L,L,…",
    read=listed_typed,
    written=LIST_WRITTEN,
)
ERROR_AT = Option(
    "Target of counts by private group: the error at a group of this many users, instead of the "
    "worst case. Alone, it asks for the smallest with 25 messages in a report; `max_messages` and "
    "`rmse` change that.",
    "F",
)
KEPT, FILTERED, LEAST_WHOLE = "kept", "(filtered out)", -(2**63)
"""Labels of the rows that `where` keeps, and of those that it excludes."""
DIRECTED = Record({"cell": CELL, "down": CELL_EPSILON})


@dataclass(frozen=True, kw_only=True)
class GroupableQuery(Query[Estimate]):
    """A query with one number as its answer, which can also be asked for each group of users."""

    by: Annotated[
        GroupsBy | None,
        Option("The column (or list) of the users' groups: one answer for each group.", "C"),
    ] = field(default=None, compare=False)
    groups: Annotated[int | Iterable[Label] | None, GROUPS] = field(default=None, compare=False)
    groups_public: Annotated[
        bool,
        Option(
            "With `by`: anyone may know who is in which group. Each group is then a separate "
            "release with the whole ε, and `groups` is not needed."
        ),
    ] = field(default=False, compare=False)

    def user_groups(self) -> Groups | None:
        return groups_of(self.by, self.groups, self.groups_public)

    @abstractmethod
    def for_groups(self) -> dict[str, Any]:
        """The arguments of `plan_by_group` that say what is answered for each group."""

    def of_all_users(self) -> Self:
        """The same query without groups."""
        return self.changed(by=None, groups=None, groups_public=False)

    def without_run_options(self) -> Self:
        return super().without_run_options().changed(by=None, groups=None, groups_public=False)

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        return np.where(kept, values, self.filtered_value)

    @property
    def filtered_value(self) -> int:
        return 0

    def truth(self, values: Values) -> list[float]:
        return [math.fsum(values.tolist())]


@dataclass(frozen=True, kw_only=True)
class SumQuery(GroupableQuery):
    """A query that adds up values within bounds."""

    clamp: bool = False
    """Whether values outside the bounds are clipped, not refused."""

    def for_planning(self) -> Self:
        return super().for_planning().changed(clamp=False)

    @property
    def adds_up(self) -> bool:
        return True

    @property
    def adds_rows(self) -> bool:
        """Whether rows are still to be added up for each user: the bounds are those of the sums."""
        return self.user is not None and self.rows_per_user is None

    def of_sums(self) -> Self:
        return self.changed(clamp=True, user=None)


@query(
    "by-group",
    planner=plan_by_group,
    finds_epsilon=False,
    plan_example="--groups may,june,july --answer mean --bounds 0,120",
    plan_options={
        "groups": replace(GROUPS, meaning="The labels of all groups, known without the data."),
        "answer": Option("What is answered for each group.", choices=ANSWERS),
        "largest": Option("The largest value of an integer-sum.", "D"),
        "bounds": Option("The range of a real-sum or mean.", "LOW,HIGH", read=two_bounds),
        "error_at": ERROR_AT,
    },
    protocol=ByGroupProtocol,
    protocol_json=protocol_record(
        "by-group",
        {
            "answer": OneOf(ANSWERS),
            "labels": Listing(LABEL, 2, MOST_COUNTED_GROUPS),
            "low": BOUND,
            "high": BOUND,
            "digits": Listing(DIRECTED, 1, MOST_DIGITS),
        },
        {"sizes": DIRECTED},
    ),
    result_json={
        "answer": OneOf(ANSWERS),
        "by": Text(LONGEST_LABEL),
        "groups_public": Flag(),
        "groups": Listing(Record(BUCKET.fields, {"size": Real()}), 2, MOST_COUNTED_GROUPS),
        "about": SENTENCE,
    },
)
class ByGroupQuery(Query[GroupsResult]):
    """A count, sum or mean for each of some private groups."""

    planned_for: ClassVar[tuple[str, ...]] = ("mse_overhead", "rmse", "max_messages", "expected")
    inner: GroupableQuery
    """The query for each group."""
    labels: tuple[Label, ...]
    said: Groups | None = field(default=None, compare=False)
    """The caller's groups."""

    @classmethod
    def of(cls, inner: GroupableQuery, groups: Groups) -> ByGroupQuery:
        """The query for the declared private groups."""
        assert groups.labels is not None
        if inner.relative_error is not None:
            raise ParameterError(
                "relative_error is not available by group; use rmse or mse_overhead."
            )
        if inner.protocol is not None:
            raise ParameterError("No other protocol answers by group; leave protocol out.")
        labels = groups.labels
        if inner.where is not None:
            labels = (*labels, filtered_label(labels))
        return cls(**inner.options(), inner=inner.of_all_users(), labels=labels, said=groups)

    @property
    def grouped(self) -> Groups | None:
        return self.said

    @property
    def of_each_group(self) -> Query[Estimate]:
        return self.inner

    def make_plan(self, users: int) -> Plan[GroupsResult]:
        asked = {**self.inner.for_groups(), **self.targets()}
        return plan_by_group(users, self.epsilon, self.labels, answer=self.inner.name, **asked)

    def for_planning(self) -> Self:
        return super().for_planning().changed(inner=self.inner.for_planning(), said=None)

    def pairs(
        self, labels: Values | None, values: Values, kept: NDArray[np.bool_] | None = None
    ) -> Values:
        found = np.zeros(len(values), PAIR)
        assert self.said is not None and self.said.labels is not None
        if labels is not None:
            found["group"] = labels
        found["value"] = values
        if kept is not None:  # excluded rows form a separate group
            found[~kept] = (len(self.labels) - 1, self.least_value)
        return found

    @property
    def least_value(self) -> float:
        return self.inner.least_value

    def grouping(self, holds: ColumnType) -> Grouping | None:
        return None if "bounds" in self.inner.for_groups() else Grouping(few_values=False)

    def truth(self, values: Values) -> list[float]:
        """The true answer in each group; the least value for a mean without users."""
        many = len(self.labels)
        sums = np.bincount(values["group"], weights=values["value"], minlength=many)
        if self.inner.name == MEAN:
            sizes = np.bincount(values["group"], minlength=many)
            sums = np.where(sizes > 0, sums / np.maximum(sizes, 1), self.least_value)
        return [float(one) for one in sums]

    def finish(self, result: GroupsResult) -> GroupsResult:
        assert self.said is not None and self.said.labels is not None
        shown = result.first(len(self.said.labels))
        clamped = isinstance(self.inner, SumQuery) and self.inner.clamp
        return replace(shown, by=self.said.name, clamped=clamped)


def filtered_label(labels: tuple[Label, ...]) -> Label:
    """An unused label of the same type, for the rows that `where` excludes."""
    if isinstance(labels[0], str):
        return next(name for name in (FILTERED, f"{FILTERED} ") if name not in labels)
    return LEAST_WHOLE


def check_public(query: GroupableQuery) -> None:
    """Refuses options that cannot be combined with public groups."""
    query.refuse(("protocol", "delta"), "no other protocol answers by group; leave it out.")
    query.refuse(("users", "expected"), "the size of every public group is known; leave it out.")
    query.refuse(
        ("user", "rows_per_user"),
        "public groups compose in parallel only if every user is in one of them, with one row; "
        "keep one row of each user first, or make the groups private.",
    )

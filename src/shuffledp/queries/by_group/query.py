"""Questions by group: a count, sum or mean for each label of a column that says which group a user
is in. Groups are private unless they are declared public."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import Grouping, Query
from shuffledp.queries.by_group.groups import Groups
from shuffledp.queries.by_group.planner import plan_by_group
from shuffledp.queries.by_group.protocol import PAIR, UNKNOWN_GROUP
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.histogram.protocol import Label, encode_labels
from shuffledp.queries.options import Options


@dataclass(frozen=True, kw_only=True)
class ByGroupQuery(Query[GroupsResult]):
    """A count, sum or mean for each of some private groups."""

    name: ClassVar[str] = "by-group"
    inner: Query[Estimate]
    """What is asked about each group."""
    labels: tuple[Label, ...]
    groups: Groups | None = field(default=None, compare=False)

    @classmethod
    def of(cls, options: Options, inner: Query[Estimate], groups: Groups) -> ByGroupQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        assert groups.labels is not None
        if options.relative_error is not None:
            raise ParameterError(
                "relative_error cannot be asked for by group; give rmse or mse_overhead."
            )
        if options.protocol is not None:
            raise ParameterError("No other protocol answers by group; leave protocol out.")
        return cls(
            epsilon=inner.epsilon,
            targets=options.targets,
            inner=inner,
            labels=groups.labels,
            groups=groups,
        )

    @property
    def grouped(self) -> Groups | None:
        return self.groups

    @property
    def of_each_group(self) -> Query[Estimate]:
        return self.inner

    def make_plan(self, users: int) -> Plan[GroupsResult]:
        asked, targets = self.inner.for_groups(), self.targets
        return plan_by_group(
            users,
            self.epsilon,
            self.labels,
            answer=asked.answer,
            largest=asked.largest,
            bounds=asked.bounds,
            mse_overhead=targets.mse_overhead,
            rmse=targets.rmse,
            max_messages=targets.max_messages,
            expected=targets.expected,
        )

    def for_planning(self) -> ByGroupQuery:
        return replace(self, inner=self.inner.for_planning(), groups=None)

    def pairs(self, labels: Values, values: Values) -> Values:
        """Each row's group by its number, beside its prepared value."""
        found = np.zeros(len(values), PAIR)
        try:
            found["group"] = encode_labels(labels, self.labels, None)
        except ValueOutOfRange:
            raise ValueOutOfRange(UNKNOWN_GROUP) from None
        found["value"] = values
        return found

    def grouping(self, holds: ColumnType) -> Grouping | None:
        return Grouping(few_values=False) if self.inner.for_groups().bounds is None else None

    def finish(self, result: GroupsResult) -> GroupsResult:
        assert self.groups is not None
        clamped = self.inner.for_groups().clamp
        return replace(result, by=self.groups.name, clamped=clamped)


def check_public(options: Options) -> None:
    """Refuses options that public groups do not go with."""
    options.refuse(("protocol", "delta"), "no other protocol answers by group; leave it out.")
    options.refuse(("users", "expected"), "the size of every public group is known; leave it out.")
    options.refuse(
        ("user", "rows_per_user"),
        "public groups compose in parallel only if every user is in one of them, with one row; "
        "keep one row of each user first, or make the groups private.",
    )

"""The count query: how many rows are true, or equal to a value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import NOT_A_TRUTH, comparable, zeros_and_ones
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import whole
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import (
    BaselineArguments,
    Grouping,
    StudioWords,
    query,
)
from shuffledp.queries.by_group.groups import GroupsBy
from shuffledp.queries.by_group.query import ERROR_AT, GroupableQuery
from shuffledp.queries.calls import call_by_group
from shuffledp.queries.checks import NUMBERS
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.options import Option
from shuffledp.queries.records import ESTIMATE, one_cell


@query(
    "count",
    example="--column bikes",
    planner=plan_count,
    protocol=CountProtocol,
    protocol_json=one_cell("count"),
    result_json=ESTIMATE,
    studio=StudioWords(
        asks="how many people say yes", about="the number of people", secret="you said yes"
    ),
)
class CountQuery(GroupableQuery):
    """How many rows of a column are true (or 1), or equal to a value.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group. With `protocol`, it
        also carries that protocol's own privacy claim.

    >>> import shuffledp
    >>> found = shuffledp.count([True, False, False, False] * 500, epsilon=8)
    >>> round(found.value, -2), found.users
    (500.0, 2000)
    >>> round(shuffledp.count(["walk", "bike"] * 1000, equals="bike", epsilon=8).value, -2)
    1000.0
    """

    equals: Annotated[
        object | None,
        Option(
            "Count the rows with this value. Without it, the column must be true/false or 0/1.",
            "VALUE",
        ),
    ] = field(default=None, compare=False)
    error_at: Annotated[int | None, ERROR_AT] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.error_at is not None:
            self._store(error_at=whole(self.error_at, "error_at", least=0))

    def make_plan(self, users: int) -> Plan[Estimate]:
        if self.error_at is not None:
            raise ParameterError(
                "error_at is for counts by private group; give by and groups too, or leave it out."
            )
        return plan_count(users, self.epsilon, **self.targets())

    @property
    def compared_with(self) -> object | None:
        return self.equals

    def prepare(self, values: Values) -> Values:
        return zeros_and_ones(values)

    def of_filtered(self) -> CountQuery:
        return self.changed(where=None, equals=None)

    @property
    def reads_texts(self) -> bool:
        # 007 is a text: as a number it would also match 7
        return isinstance(self.equals, str) and re.match(r"[+-]?0\d", self.equals) is not None

    def check_column(self, holds: ColumnType) -> None:
        if self.equals is not None:
            comparable(self.equals, holds)
        elif holds not in NUMBERS:
            raise ValueOutOfRange(NOT_A_TRUTH)

    def grouping(self, holds: ColumnType) -> Grouping:
        if holds not in NUMBERS:
            raise ValueOutOfRange(NOT_A_TRUTH)
        return Grouping(largest=None if holds == "truth" else 1)

    def for_baseline(self) -> BaselineArguments:
        return BaselineArguments(query="count", prepare=self.prepare)

    def for_groups(self) -> dict[str, Any]:
        return {"error_at": self.error_at}


@dataclass(frozen=True, kw_only=True)
class _ByGroup(CountQuery):
    by: GroupsBy


count = call_by_group(CountQuery, _ByGroup)

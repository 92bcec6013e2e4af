"""The query for the sum of whole numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import WORDS, clamped
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.exact import truth, whole
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import (
    BaselineArguments,
    Grouping,
    StudioWords,
    query,
)
from shuffledp.queries.by_group.groups import GroupsBy
from shuffledp.queries.by_group.query import SumQuery
from shuffledp.queries.calls import call_by_group
from shuffledp.queries.integer_sum.planner import plan_integer_sum
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol
from shuffledp.queries.options import Option
from shuffledp.queries.records import ESTIMATE, one_cell


@query(
    "integer-sum",
    example="--column bikes --largest 1",
    planner=plan_integer_sum,
    plan_example="--largest 10",
    protocol=IntegerSumProtocol,
    protocol_json=one_cell("integer-sum"),
    result_json=ESTIMATE,
    studio=StudioWords(
        asks="the sum of whole numbers",
        about="the sum",
        secret="you have a particular number",
    ),
)
class IntegerSumQuery(SumQuery):
    """The sum of a column of whole numbers 0, 1, …, `largest`.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group. With `protocol`, it
        also carries that protocol's own privacy claim.

    >>> import shuffledp
    >>> visits = [0, 1, 2, 3] * 500
    >>> round(shuffledp.integer_sum(visits, epsilon=8, largest=3).value, -3)
    3000.0
    """

    largest: Annotated[
        int,
        Option(
            "The largest possible value of a row.",
            "D",
            plans=True,
            form="Largest number that a person may have",
        ),
    ]
    clamp: Annotated[
        bool, Option("Clip values to 0..`largest`; without it, values outside are refused.")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store(
            largest=whole(self.largest, "the largest value"), clamp=truth(self.clamp, "clamp")
        )

    def make_plan(self, users: int) -> Plan[Estimate]:
        return plan_integer_sum(users, self.epsilon, self.largest, **self.targets())

    def prepare(self, values: Values) -> Values:
        if not self.clamp or self.adds_rows:
            return values
        return clamped(values, Fraction(0), Fraction(self.largest), whole_numbers=True)

    def check_column(self, holds: ColumnType) -> None:
        if holds not in ("truth", "whole"):
            raise ValueOutOfRange(
                f"Values must be whole numbers in 0..{self.largest}; the column has "
                f"{WORDS[holds]}: round or encode them first."
            )

    def grouping(self, holds: ColumnType) -> Grouping:
        self.check_column(holds)
        if holds == "truth":
            return Grouping()
        return Grouping(largest=self.largest, clamp=self.clamp)

    def finish(self, result: Estimate) -> Estimate:
        # another protocol calls it a real sum
        return replace(result, query=self.name, clamped=self.clamp)

    def step(self) -> Fraction:
        return Fraction(self.largest)

    def for_baseline(self) -> BaselineArguments:
        bounds = Fraction(0), Fraction(self.largest)
        return BaselineArguments(query="real-sum", prepare=self.prepare, bounds=bounds)

    def for_groups(self) -> dict[str, Any]:
        return {"largest": self.largest}


@dataclass(frozen=True, kw_only=True)
class _ByGroup(IntegerSumQuery):
    by: GroupsBy


integer_sum = call_by_group(IntegerSumQuery, _ByGroup)

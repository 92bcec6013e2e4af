"""The queries for the sum and the mean of real values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.registry import CELL
from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import clamped
from shuffledp.documents.schema import Listing, Whole
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ExactNumber, truth
from shuffledp.numbers.rounding import MOST_DITHER
from shuffledp.plans.checks import checked_bounds
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import MOST_DIGITS
from shuffledp.protocols.bounds import reals_within
from shuffledp.protocols.results import ErrorLaw, Estimate, Result
from shuffledp.queries.base import (
    BaselineArguments,
    KeptBounds,
    Query,
    StudioWords,
    query,
)
from shuffledp.queries.by_group.groups import Groups, GroupsBy
from shuffledp.queries.by_group.query import KEPT, ByGroupQuery, SumQuery
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.calls import call_by_group
from shuffledp.queries.checks import check_numbers
from shuffledp.queries.options import Option
from shuffledp.queries.real_sum.planner import plan_real_sum
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp.queries.records import BOUND, ESTIMATE, protocol_record
from shuffledp.queries.texts import between_commas, two_bounds

Bounds = tuple[ExactNumber, ExactNumber]


@query(
    "real-sum",
    example="--column minutes --bounds 0,120",
    planner=plan_real_sum,
    plan_example="--bounds 0,120 --rmse 400",
    plan_defaults={"bounds": "0,1"},
    plan_options={
        "radix": Option("Fix the bases of the digits, e.g. 2,2,2,2.", "C,C,…", read=between_commas),
        "dither": Option("Fix how many values the public dither has; 1: no dither.", "K"),
    },
    protocol=RealSumProtocol,
    protocol_json=protocol_record(
        "real-sum",
        {"low": BOUND, "high": BOUND, "digits": Listing(CELL, 1, MOST_DIGITS)},
        {"dither": Whole(2, MOST_DITHER)},
    ),
    result_json=ESTIMATE,
    studio=StudioWords(
        asks="the sum of any numbers within a range",
        about="the sum",
        whole=False,
        secret="you have a particular number",
    ),
)
class RealSumQuery(SumQuery):
    """The sum of a column of real values within `bounds`.

    Each row is one user. The estimate is unbiased and ε-differentially private in the shuffle
    model, proved by the certificate that it carries.

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group. With `protocol`, it
        also carries that protocol's own privacy claim.

    >>> import shuffledp
    >>> hours = [0.5, 1.5, 2.5, 3.5] * 500
    >>> round(shuffledp.real_sum(hours, epsilon=8, bounds=(0, 4)).value, -3)
    4000.0
    """

    bounds: Annotated[
        Bounds,
        Option(
            "The smallest and the largest possible value, known without the data.",
            "LOW,HIGH",
            read=two_bounds,
            plans=True,
        ),
    ]
    clamp: Annotated[
        bool, Option("Clip values to `bounds`; without it, values outside are refused.")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store(bounds=checked_bounds(self.bounds), clamp=truth(self.clamp, "clamp"))

    @property
    def exact_bounds(self) -> tuple[Fraction, Fraction]:
        """The bounds, exactly."""
        return cast("tuple[Fraction, Fraction]", self.bounds)

    def make_plan(self, users: int) -> Plan[Estimate]:
        return plan_real_sum(users, self.epsilon, bounds=self.bounds, **self.targets())

    def check_column(self, holds: ColumnType) -> None:
        check_numbers(holds)

    def finish(self, result: Estimate) -> Estimate:
        return replace(result, clamped=self.clamp)

    def prepare(self, values: Values) -> Values:
        if not self.clamp or self.adds_rows:
            return values
        return clamped(values, *self.exact_bounds, whole_numbers=False)

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        if not self.adds_rows:
            reals_within(values[kept], *self.exact_bounds)  # of_filtered may have wider bounds
        return super().filtered(values, kept)

    @property
    def kept_bounds(self) -> KeptBounds | None:
        if self.adds_rows:
            return None
        low, high = self.exact_bounds
        return KeptBounds(float(low), float(high), clamp=self.clamp)

    def of_filtered(self) -> RealSumQuery:
        """Excluded rows count as 0, which must be within the bounds."""
        low, high = self.exact_bounds
        return self.changed(where=None, bounds=(min(low, 0), max(high, 0)))

    def step(self) -> Fraction:
        low, high = self.exact_bounds
        return high - low

    def for_baseline(self) -> BaselineArguments:
        return BaselineArguments(query="real-sum", prepare=self.prepare, bounds=self.exact_bounds)

    def for_groups(self) -> dict[str, Any]:
        return {"bounds": self.exact_bounds}

    @property
    def least_value(self) -> float:
        return float(self.exact_bounds[0])


@query(
    "mean",
    example="--column minutes --bounds 0,120",
    studio=StudioWords(
        asks="the mean of any numbers within a range",
        about="the mean",
        whole=False,
        secret="you have a particular number",
        of_one="mean",
    ),
)
class MeanQuery(RealSumQuery):
    """The mean of a column of real values within `bounds`.

    Each row is one user, and the number of rows is public: the mean is `real_sum` divided by it.

    Returns:
        An `Estimate`: `value`, its interval `low` … `high`, `rmse`, `certificate`, `plot()`,
        `to_dict()`; with `by` a `GroupsResult`, which has these for each group.

    >>> import shuffledp
    >>> hours = [0.5, 1.5, 2.5, 3.5] * 500
    >>> round(shuffledp.mean(hours, epsilon=8, bounds=(0, 4)).value)
    2
    """

    @property
    def adds_up(self) -> bool:
        return False  # a mean of rows is not a mean of users' sums

    def as_asked(self) -> Query[Any]:
        """With `where`, the mean of a private group of rows, whose number is private."""
        if self.where is None or self.by is not None:
            return self
        return MeanWhereQuery.of_mean(self)

    def make_plan(self, users: int) -> Plan[Estimate]:
        """The plan of the sum: the requested RMSE is the mean's, so the sum's is n times as
        large."""
        targets = self.targets()
        if self.rmse is not None:
            targets["rmse"] = targets["rmse"] * (self.expected or users)
        return plan_real_sum(users, self.epsilon, bounds=self.bounds, **targets)

    def finish(self, result: Estimate) -> Estimate:
        n, law = result.users, result.errors
        return replace(
            result,
            query=self.name,
            value=result.value / n,
            low=result.low / n,
            high=result.high / n,
            possible=(float(self.exact_bounds[0]), float(self.exact_bounds[1])),
            rmse=result.rmse / n,
            clamped=self.clamp,
            errors=None if law is None else partial(_divided, law, n),
        )

    def truth(self, values: Values) -> list[float]:
        return [math.fsum(values.tolist()) / len(values)]

    def for_baseline(self) -> BaselineArguments:
        raise ParameterError(
            "Other protocols compute sums, not means; use real_sum and divide by the public "
            "number of rows."
        )


class MeanWhereQuery(ByGroupQuery):
    """The mean of the rows that match a condition: one of two private groups; the other is not
    shown."""

    @classmethod
    def of_mean(cls, asked: MeanQuery) -> MeanWhereQuery:
        """The query for a mean with `where`."""
        groups = Groups(by=None, labels=(KEPT,), public=False)
        return cast("MeanWhereQuery", cls.of(asked, groups))

    def finish(self, result: GroupsResult) -> GroupsResult:
        """The mean of the first group."""
        one = super().finish(result)
        ((_, value, low, high),) = one.rows()
        found = Estimate(
            **one.fields_of(Result),
            query=MeanQuery.name,
            value=value,
            low=low,
            high=high,
            possible=one.possible,
        )
        return cast("GroupsResult", found)  # the caller gets the result of a mean


def _divided(law: Callable[[], ErrorLaw], n: int) -> ErrorLaw:
    """The law of an error divided by n."""
    errors, chances = law()
    return errors / n, chances


@dataclass(frozen=True, kw_only=True)
class _SumByGroup(RealSumQuery):
    by: GroupsBy


@dataclass(frozen=True, kw_only=True)
class _MeanByGroup(MeanQuery):
    by: GroupsBy


real_sum = call_by_group(RealSumQuery, _SumByGroup)
mean = call_by_group(MeanQuery, _MeanByGroup)

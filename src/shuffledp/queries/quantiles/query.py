"""The question for quantiles and range counts of numbers or dates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import ClassVar

import numpy as np

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import WORDS, clamped
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, positive_as_written, truth, whole
from shuffledp.plans.plan import Plan
from shuffledp.queries.base import Query
from shuffledp.queries.checks import check_numbers, checked_probabilities
from shuffledp.queries.options import Options
from shuffledp.queries.quantiles.dates import DTYPES, date_numbers
from shuffledp.queries.quantiles.planner import checked_axis, plan_quantiles
from shuffledp.queries.quantiles.result import QuantilesResult

AxisBounds = tuple[ExactNumber | date, ExactNumber | date]
"""Bounds of quantiles: two numbers or two dates."""


@dataclass(frozen=True, kw_only=True)
class QuantilesQuery(Query[QuantilesResult]):
    """Quantiles and range counts, from a histogram over equal parts of the bounds, or over whole
    numbers or dates."""

    name: ClassVar[str] = "quantiles"
    bounds: AxisBounds
    probabilities: tuple[float, ...]
    bins: int
    points: bool = False
    clamp: bool = False

    @classmethod
    def of(
        cls,
        options: Options,
        epsilon: ExactNumber,
        bounds: AxisBounds,
        probabilities: ExactNumber | Iterable[ExactNumber],
        bins: int,
        clamp: bool,
        points: bool = False,
    ) -> QuantilesQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        options.refuse(
            ("max_messages",), "quantiles are planned for an error; give mse_overhead or rmse."
        )
        low, high, unit = checked_axis(bounds)
        if points and (low.denominator, high.denominator) != (1, 1):
            raise ParameterError("With points, both bounds must be whole numbers.")
        return cls(
            epsilon=positive_as_written(epsilon, "epsilon"),
            targets=options.targets,
            bounds=(bounds[0], bounds[1]) if unit else (low, high),
            probabilities=checked_probabilities(probabilities),
            bins=whole(bins, "bins"),
            points=points or bool(unit),
            clamp=truth(clamp, "clamp"),
        )

    @property
    def may_be_points(self) -> bool:
        """Whether it is open if values are whole numbers: the bounds are, and nothing was said."""
        low, high, unit = checked_axis(self.bounds)
        return not unit and (low.denominator, high.denominator) == (1, 1)

    def make_plan(self, users: int) -> Plan[QuantilesResult]:
        return plan_quantiles(
            users,
            self.epsilon,
            self.bounds,
            bins=self.bins,
            points=self.points,
            **self.targets.of_error(),
        )

    def for_planning(self) -> QuantilesQuery:
        return replace(self, clamp=False, probabilities=(0.5,))

    def check_column(self, holds: ColumnType) -> None:
        if not checked_axis(self.bounds)[2]:
            check_numbers(holds)
        elif holds not in ("date", "time"):
            raise ValueOutOfRange(
                f"The bounds are dates, but the column holds {WORDS[holds]}: convert them first."
            )

    def prepare(self, values: Values) -> Values:
        low, high, unit = checked_axis(self.bounds)
        if not self.clamp:
            return values
        if unit:
            return np.clip(date_numbers(values, unit), int(low), int(high)).astype(DTYPES[unit])
        return clamped(values, low, high, whole_numbers=self.points)

    def finish(self, result: QuantilesResult) -> QuantilesResult:
        return replace(result.showing(self.probabilities), clamped=self.clamp)

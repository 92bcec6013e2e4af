"""The query for quantiles and range counts of numbers or dates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from typing import Annotated, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import CELL_EPSILON
from shuffledp.cells.registry import CELL
from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import WORDS, clamped
from shuffledp.documents.schema import Flag, Listing, OneOf, Real, Record, Text, Whole
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, truth, whole
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import MOST_BUCKETS
from shuffledp.protocols.bounds import outermost_floats, reals_within
from shuffledp.queries.base import Query, StudioWords, query
from shuffledp.queries.calls import call
from shuffledp.queries.checks import check_numbers, checked_probabilities
from shuffledp.queries.options import Option
from shuffledp.queries.quantiles import protocol as protocols
from shuffledp.queries.quantiles.axis import Axis
from shuffledp.queries.quantiles.dates import (
    DTYPES,
    UNITS,
    date_number,
    date_numbers,
    date_text,
    has_zone,
)
from shuffledp.queries.quantiles.planner import checked_axis, default_bins, plan_quantiles
from shuffledp.queries.quantiles.result import KeptQuantilesResult, QuantilesResult
from shuffledp.queries.records import BOUND, INTERVAL, protocol_record
from shuffledp.queries.texts import between_commas, two_bounds

AxisBounds = tuple[ExactNumber | date, ExactNumber | date]
"""Bounds of quantiles: two numbers or two dates."""
LEVEL = Record({"buckets": Whole(2, protocols.MOST_BUCKETS), "cell": CELL, "down": CELL_EPSILON})
SHORT = Text(100)
LAST_DATE = datetime.max
QUANTILE = Record(
    {"probability": Real(), "estimate": Real(), "interval": INTERVAL, "rmse": Real()},
    {"date": SHORT, "date_interval": Listing(SHORT, 2, 2)},
)
BIN = Record({"from": Real(), "to": Real(), "estimate": Real(), "rmse": Real()})


@query(
    "quantiles",
    example="--column minutes --bounds 0,120",
    planner=plan_quantiles,
    finds_epsilon=False,
    plan_example="--bounds 0,120",
    plan_defaults={"bounds": "0,1"},
    protocol=protocols.QuantilesProtocol,
    protocol_json=protocol_record(
        "quantiles",
        {
            "low": BOUND,
            "high": BOUND,
            "levels": Listing(LEVEL, 1, protocols.MOST_BUCKETS.bit_length()),
        },
        {"points": Flag(), "unit": OneOf(tuple(UNITS))},
    ),
    result_json={
        "quantiles": Listing(QUANTILE, 1, 100),
        "buckets": Listing(BIN, 2, MOST_BUCKETS),
        "rank_rmse": Real(),
    },
    result_json_optional={"unit": SHORT},
    studio=StudioWords(
        asks="the median and other quantiles",
        about="the median",
        whole=False,
        condition="if values are spread evenly over the range (closer where they are denser)",
        secret="you have a particular value",
        of_one="value",
        finds=("messages",),
        without=("points",),
    ),
)
class QuantilesQuery(Query[QuantilesResult]):
    """Quantiles of a column of numbers or dates, and the number of rows in any range.

    Each row is one user. The column is counted in equal bins of `bounds`, on several levels if that
    reduces the error. Every further quantile or range of the result costs no privacy.

    Returns:
        A `QuantilesResult`: `quantile(p)`, `between(low, high)`, `shown()`, `certificate`,
        `plot()`, `to_dict()`.

    >>> import shuffledp
    >>> ages = list(range(100)) * 100
    >>> found = shuffledp.quantiles(ages, epsilon=8, bounds=(0, 100), bins=10)
    >>> round(found.quantile(0.5).value, -1)
    50.0
    >>> round(found.between(0, 20).value, -3)
    2000.0
    """

    planned_for: ClassVar[tuple[str, ...]] = ("mse_overhead", "rmse", "relative_error", "expected")
    bounds: Annotated[
        AxisBounds,
        Option(
            "The smallest and the largest possible value, known without the data; for dates two "
            'texts like "2013-01-31" (days) or "2013-01-31T08:30" (seconds). For a column with a '
            "time zone, bounds without one and all answers are in UTC.",
            "LOW,HIGH",
            read=two_bounds,
            plans=True,
        ),
    ]
    probabilities: Annotated[
        ExactNumber | Iterable[ExactNumber],
        Option(
            "The quantiles to show, each strictly between 0 and 1.",
            "P,P,…",
            flag="at",
            read=between_commas,
        ),
    ] = (0.25, 0.5, 0.75)
    bins: Annotated[
        int | None,
        Option(
            "The number of bins; default 32 to 512, depending on the number of rows and ε; 64 in a "
            "plan for devices, which send messages for each bin.",
            "N",
            plans=True,
            form="Number of bins",
            least=2,
        ),
    ] = None
    points: Annotated[
        bool | None,
        Option(
            "Values are whole numbers: count each of them (in equal groups if there are more than "
            "`bins`) and answer with whole numbers. By default the type of the column decides, "
            "which is treated as public.",
            plans=True,
        ),
    ] = None
    clamp: Annotated[
        bool, Option("Clip values to `bounds`; without it, values outside are refused.")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        points = None if self.points is None else truth(self.points, "points")
        low, high, unit = checked_axis(self.bounds)
        whole_bounds = (low.denominator, high.denominator) == (1, 1)
        if points and not whole_bounds:
            raise ParameterError("With points, both bounds must be whole numbers.")
        self._store(
            bounds=(self.bounds[0], self.bounds[1]) if unit else (low, high),
            probabilities=checked_probabilities(self.probabilities),
            bins=None if self.bins is None else whole(self.bins, "bins"),
            points=True if unit else points if whole_bounds else False,
            clamp=truth(self.clamp, "clamp"),
        )

    def of_column(self, holds: ColumnType) -> Self:
        return self.changed(points=holds == "whole") if self.points is None else self

    @cached_property
    def axis_bounds(self) -> tuple[Fraction, Fraction, str]:
        """(low, high, unit): the bounds as exact numbers; of dates, in units since 1970."""
        return checked_axis(self.bounds)

    @property
    def shown(self) -> tuple[float, ...]:
        """The probabilities of the quantiles to show."""
        return cast("tuple[float, ...]", self.probabilities)

    def bins_for(self, users: int) -> int:
        """The requested number of bins, or the default."""
        return default_bins(users, self.exact_epsilon) if self.bins is None else self.bins

    def make_plan(self, users: int) -> Plan[QuantilesResult]:
        return plan_quantiles(
            users,
            self.epsilon,
            self.bounds,
            bins=self.bins_for(users),
            points=bool(self.points),
            **self.targets(),
        )

    def for_planning(self) -> Self:
        plain = super().for_planning()
        return plain.changed(clamp=False, probabilities=(0.5,), points=bool(self.points))

    def check_column(self, holds: ColumnType) -> None:
        if not self.axis_bounds[2]:
            check_numbers(holds)
        elif holds not in ("date", "time", "instant"):
            raise ValueOutOfRange(
                f"The bounds are dates, but the column has {WORDS[holds]}: convert them first."
            )
        elif holds != "instant" and any(has_zone(bound) for bound in self.bounds):
            raise ValueOutOfRange(
                f"The bounds have a time zone, but the column has {WORDS[holds]}; use bounds "
                "without one."
            )

    def prepare(self, values: Values) -> Values:
        low, high, unit = self.axis_bounds
        if not self.clamp:
            return values
        if unit:
            return np.clip(date_numbers(values, unit), int(low), int(high)).astype(DTYPES[unit])
        return clamped(values, low, high, whole_numbers=bool(self.points))

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        unit = self.axis_bounds[2]
        outside, held = self._outside, self.within_bounds(values[kept])
        if unit:
            numbers = np.where(kept, date_numbers(values, unit), outside)
            return numbers.astype(np.int64).astype(DTYPES[unit])
        found = np.where(kept, values, np.asarray(outside))
        found[kept] = held
        return found

    def within_bounds(self, values: Values) -> Values:
        """The values as a query without `where` counts them; raises `ValueOutOfRange` if one is
        not within the bounds."""
        low, high, unit = self.axis_bounds
        if not self.points:
            return reals_within(values, low, high)
        Axis(low=low, high=high, bins=2, points=True, unit=unit).bins_of(values)
        return values

    @property
    def _outside(self) -> int | float:
        """The value of excluded rows: far enough above the bounds to be in another bin; for dates,
        in units since 1970."""
        low, high, unit = self.axis_bounds
        if self.points:
            above = int(high + math.ceil((high - low + 1) / 7))
            if unit and above >= date_number(LAST_DATE, unit):
                raise ParameterError(
                    "With where, a seventh of the range is added above the bounds, which would be "
                    "after the year 9999; use an earlier upper bound."
                )
            return above
        return outermost_floats(low, low + (high - low) * Fraction(8, 7))[1]

    @property
    def filtered_value(self) -> float | datetime:
        return self._moment_or_number(self._outside)

    @property
    def above_filtered(self) -> float | datetime:
        return self._moment_or_number(self._outside + 1 if self.points else math.inf)

    def _moment_or_number(self, number: int | float) -> float | datetime:
        unit = self.axis_bounds[2]
        return datetime.fromisoformat(date_text(number, unit)) if unit else number

    def of_filtered(self) -> FilteredQuantilesQuery:
        """The query with bounds that include the excluded rows, which are above the original
        ones."""
        low, _, unit = self.axis_bounds
        high = Fraction(self._outside)
        wider = (date_text(int(low), unit), date_text(int(high), unit)) if unit else (low, high)
        return FilteredQuantilesQuery(
            **{**self.options(), "where": None},
            bounds=wider,
            probabilities=self.probabilities,
            bins=self.bins,
            points=self.points,
            kept=self.without_run_options(),
        )

    def truth(self, values: Values) -> list[float]:
        """The smallest values that these fractions of all values do not exceed."""
        unit = self.axis_bounds[2]
        numbers = date_numbers(values, unit) if unit else values
        found = np.quantile(numbers, self.shown, method="inverted_cdf")
        return [float(number) for number in found]

    def finish(self, result: QuantilesResult) -> QuantilesResult:
        return replace(result.showing(self.shown), clamped=self.clamp)


@dataclass(frozen=True, kw_only=True)
class FilteredQuantilesQuery(QuantilesQuery):
    """Quantiles of the rows that `where` keeps. The other rows are in the last bin; their number is
    private."""

    kept: QuantilesQuery | None
    """The query about the kept rows; None if only the plan matters."""

    def bins_for(self, users: int) -> int:
        """The number of bins; the last eighth is above the bounds of the kept rows."""
        bins = super().bins_for(users)
        return bins if self.bins is None else max(16, 8 * math.ceil(bins / 7))

    def for_planning(self) -> Self:
        return super().for_planning().changed(kept=None)

    def prepare(self, values: Values) -> Values:
        """Refuses or clips kept values outside their bounds."""
        assert self.kept is not None
        unit = self.axis_bounds[2]
        if unit:
            values = date_numbers(values, unit).astype(DTYPES[unit])
        inside = (values.astype(np.int64) if unit else values) != self._top
        found = values.astype(np.float64) if values.dtype.kind in "f" else values.copy()
        found[inside] = self.kept.within_bounds(self.kept.prepare(values[inside]))
        return found

    @property
    def _top(self) -> int | float:
        high = self.axis_bounds[1]
        return int(high) if self.points else float(high)

    def truth(self, values: Values) -> list[float]:
        assert self.kept is not None
        unit = self.axis_bounds[2]
        numbers = date_numbers(values, unit) if unit else values
        held = numbers[numbers != self._top]
        return [float(one) for one in np.quantile(held, self.shown, method="inverted_cdf")]

    def finish(self, result: QuantilesResult) -> QuantilesResult:
        assert self.kept is not None
        high = self.kept.axis_bounds[1]
        found = KeptQuantilesResult.of(result, high).showing(self.shown)
        return replace(found, clamped=self.kept.clamp)


quantiles = call(QuantilesQuery)

"""The six questions, each written once; `calls.py` and `spark/queries.py` only ask them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, cast

import numpy as np

from shuffledp.data.arrays import ColumnType, Values, as_label
from shuffledp.data.filling import BUCKET, MISSING_LABEL
from shuffledp.data.values import NOT_A_TRUTH, WORDS, clamped, comparable, zeros_and_ones
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, positive_as_written, truth, whole
from shuffledp.plans.checks import checked_bounds
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import ErrorLaw, Estimate, HistogramResult
from shuffledp.queries.base import BaselineQuestion, Grouping, GroupQuestion, Query
from shuffledp.queries.checks import (
    NUMBERS,
    check_numbers,
    histogram_labels,
    looks_typed,
    truth_as_text,
)
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.histogram.protocol import Label, encode_labels
from shuffledp.queries.integer_sum.planner import plan_integer_sum
from shuffledp.queries.options import Options
from shuffledp.queries.real_sum.planner import plan_real_sum

Bounds = tuple[ExactNumber, ExactNumber]


@dataclass(frozen=True, kw_only=True)
class CountQuery(Query[Estimate]):
    """How many rows are true (or 1), or equal to a value."""

    name: ClassVar[str] = "count"
    equals: object | None = field(default=None, compare=False)

    @classmethod
    def of(cls, options: Options, epsilon: ExactNumber, equals: object | None = None) -> CountQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        epsilon = positive_as_written(epsilon, "epsilon")
        return cls(epsilon=epsilon, targets=options.targets, equals=equals)

    def make_plan(self, users: int) -> Plan[Estimate]:
        return plan_count(users, self.epsilon, **self.targets.all())

    @property
    def compared_with(self) -> object | None:
        return self.equals

    def prepare(self, values: Values) -> Values:
        return zeros_and_ones(values)

    @property
    def reads_texts(self) -> bool:
        # 007 is a text: as a number it would also count 7
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

    def for_baseline(self) -> BaselineQuestion:
        return BaselineQuestion(query="count", prepare=self.prepare)

    def for_groups(self) -> GroupQuestion:
        return GroupQuestion(answer=self.name)


@dataclass(frozen=True, kw_only=True)
class IntegerSumQuery(Query[Estimate]):
    """The sum of a column of whole numbers 0..largest."""

    name: ClassVar[str] = "integer-sum"
    largest: int
    clamp: bool = False

    @classmethod
    def of(
        cls, options: Options, epsilon: ExactNumber, largest: int, clamp: bool
    ) -> IntegerSumQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        return cls(
            epsilon=positive_as_written(epsilon, "epsilon"),
            targets=options.targets,
            largest=whole(largest, "the largest value"),
            clamp=truth(clamp, "clamp"),
        )

    def make_plan(self, users: int) -> Plan[Estimate]:
        return plan_integer_sum(users, self.epsilon, self.largest, **self.targets.all())

    def prepare(self, values: Values) -> Values:
        if not self.clamp:
            return values
        return clamped(values, Fraction(0), Fraction(self.largest), whole_numbers=True)

    def for_planning(self) -> IntegerSumQuery:
        return replace(self, clamp=False)

    @property
    def adds_up(self) -> bool:
        return True

    def of_sums(self) -> IntegerSumQuery:
        return replace(self, clamp=True)

    def check_column(self, holds: ColumnType) -> None:
        if holds not in ("truth", "whole"):
            raise ValueOutOfRange(
                f"Values must be whole numbers in 0..{self.largest}; the column holds "
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

    def for_baseline(self) -> BaselineQuestion:
        bounds = Fraction(0), Fraction(self.largest)
        return BaselineQuestion(query="real-sum", prepare=self.prepare, bounds=bounds)

    def for_groups(self) -> GroupQuestion:
        return GroupQuestion(answer=self.name, largest=self.largest, clamp=self.clamp)


@dataclass(frozen=True, kw_only=True)
class RealSumQuery(Query[Estimate]):
    """The sum of a column of real values within bounds."""

    name: ClassVar[str] = "real-sum"
    low: Fraction
    high: Fraction
    clamp: bool = False

    @classmethod
    def of(
        cls, options: Options, epsilon: ExactNumber, bounds: Bounds, clamp: bool
    ) -> RealSumQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        epsilon = positive_as_written(epsilon, "epsilon")
        low, high = checked_bounds(bounds)
        clamp = truth(clamp, "clamp")
        return cls(epsilon=epsilon, targets=options.targets, low=low, high=high, clamp=clamp)

    def make_plan(self, users: int) -> Plan[Estimate]:
        bounds = self.low, self.high
        return plan_real_sum(users, self.epsilon, bounds=bounds, **self.targets.all())

    def for_planning(self) -> RealSumQuery:
        return replace(self, clamp=False)

    @property
    def adds_up(self) -> bool:
        return True

    def of_sums(self) -> RealSumQuery:
        return replace(self, clamp=True)

    def check_column(self, holds: ColumnType) -> None:
        check_numbers(holds)

    def finish(self, result: Estimate) -> Estimate:
        return replace(result, clamped=self.clamp)

    def prepare(self, values: Values) -> Values:
        if not self.clamp:
            return values
        return clamped(values, self.low, self.high, whole_numbers=False)

    def for_baseline(self) -> BaselineQuestion:
        return BaselineQuestion(
            query="real-sum", prepare=self.prepare, bounds=(self.low, self.high)
        )

    def for_groups(self) -> GroupQuestion:
        return GroupQuestion(answer=self.name, bounds=(self.low, self.high), clamp=self.clamp)


@dataclass(frozen=True, kw_only=True)
class MeanQuery(RealSumQuery):
    """The mean of real values within bounds: their sum over the public number of rows."""

    name: ClassVar[str] = "mean"

    @property
    def adds_up(self) -> bool:
        return False  # a mean of rows is not a mean of users' sums

    def make_plan(self, users: int) -> Plan[Estimate]:
        """The plan of the sum: the RMSE asked for is the mean's, so the sum's is n times that."""
        targets = self.targets.all()
        if self.targets.rmse is not None:
            targets["rmse"] = self.targets.rmse * (self.targets.expected or users)
        return plan_real_sum(users, self.epsilon, bounds=(self.low, self.high), **targets)

    def finish(self, result: Estimate) -> Estimate:
        n, law = result.users, result.errors
        return replace(
            result,
            query=self.name,
            value=result.value / n,
            low=result.low / n,
            high=result.high / n,
            rmse=result.rmse / n,
            clamped=self.clamp,
            errors=None if law is None else partial(_divided, law, n),
        )

    def for_baseline(self) -> BaselineQuestion:
        raise ParameterError(
            "Other protocols give sums, not means; ask for real_sum and divide by the public "
            "number of rows."
        )


@dataclass(frozen=True, kw_only=True)
class HistogramQuery(Query[HistogramResult]):
    """How many rows of a column hold each label."""

    name: ClassVar[str] = "histogram"
    labels: tuple[Label, ...]
    other: Label | None = None

    @classmethod
    def of(
        cls,
        options: Options,
        epsilon: ExactNumber,
        labels: int | Iterable[Label],
        other: Label | None,
    ) -> HistogramQuery:
        """The question that a call asks, made of its arguments after they were checked; `other` is
        added to the labels if it is not among them."""
        other = cast("Label | None", as_label(other))
        names = histogram_labels(labels, other)
        if options.missing == BUCKET and MISSING_LABEL not in names:
            names = histogram_labels([*names, MISSING_LABEL], other)
        return cls(
            epsilon=positive_as_written(epsilon, "epsilon"),
            targets=options.targets,
            labels=names,
            other=other,
        )

    def make_plan(self, users: int) -> Plan[HistogramResult]:
        return plan_histogram(
            users, self.epsilon, self.labels, other=self.other, **self.targets.all()
        )

    def for_planning(self) -> HistogramQuery:
        labels = tuple(truth_as_text(label) for label in self.labels)
        other = None if self.other is None else truth_as_text(self.other)
        return replace(self, labels=labels, other=other)

    def prepare(self, values: Values) -> Values:
        # protocols have texts for true and false, because True and 1 are the same to Python
        if values.dtype != np.bool_:
            return values
        texts = np.array([truth_as_text(False), truth_as_text(True)], object)
        return np.asarray(texts[values.astype(int)])

    def finish(self, result: HistogramResult) -> HistogramResult:
        return replace(result, labels=self.labels)

    @property
    def missing_label(self) -> Label:
        return MISSING_LABEL

    @property
    def reads_texts(self) -> bool:
        named = [name for name in self.labels if name != self.other]
        return any(isinstance(name, str) and looks_typed(name) for name in named)

    def _label_types(self) -> set[ColumnType]:
        """What the labels are, without the one for all others."""
        types: dict[type, ColumnType] = {str: "text", bool: "truth", int: "whole"}
        return {types[type(name)] for name in self.labels if name != self.other} or {"text"}

    def check_column(self, holds: ColumnType) -> None:
        if holds not in ("text", "whole", "truth"):
            raise ValueOutOfRange(
                f"Labels must be texts, whole numbers or true/false; the column holds "
                f"{WORDS[holds]}."
            )
        if holds not in self._label_types():
            raise ValueOutOfRange(
                f"The column holds {WORDS[holds]}, and no label is one; give labels of the "
                "column's type."
            )

    def grouping(self, holds: ColumnType) -> Grouping:
        self.check_column(holds)
        if holds == "truth":
            return Grouping()
        named = self.labels[:-1] if self.labels[-1] == self.other else self.labels
        if holds == "whole" and named == tuple(range(len(named))):
            return Grouping(largest=len(named) - 1)
        return Grouping(few_values=False)

    def for_baseline(self) -> BaselineQuestion:
        plain = self.for_planning()
        return BaselineQuestion(
            query="histogram",
            prepare=lambda values: encode_labels(self.prepare(values), plain.labels, plain.other),
            buckets=plain.labels,
        )


def _divided(law: Callable[[], ErrorLaw], n: int) -> ErrorLaw:
    """The law of an error that is divided by n."""
    errors, chances = law()
    return errors / n, chances

"""The question how many rows hold each combination of labels of several columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from shuffledp.cells import cell_from_dict
from shuffledp.data.arrays import ColumnType, Values, as_labels
from shuffledp.data.filling import BUCKET, MISSING_LABEL
from shuffledp.data.values import WORDS
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, positive_as_written
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import MOST_BUCKETS
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.base import Grouping, Query
from shuffledp.queries.checks import looks_typed
from shuffledp.queries.histogram.crosstab_result import of_histogram
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.histogram.protocol import Label, checked_labels, encode_labels
from shuffledp.queries.options import Options
from shuffledp.queries.questions import HistogramQuery

LABEL_TYPES: dict[type, ColumnType] = {str: "text", int: "whole"}


@dataclass(frozen=True, kw_only=True)
class CrosstabQuery(Query[HistogramResult]):
    """How many rows hold each combination of the labels of several columns."""

    name: ClassVar[str] = "histogram"
    columns: tuple[str, ...]
    domains: tuple[tuple[Label, ...], ...]

    @classmethod
    def of(
        cls, options: Options, epsilon: ExactNumber, by: object, domains: object
    ) -> CrosstabQuery:
        """The question that a call asks, made of its arguments after they were checked."""
        columns = _checked_columns(by)
        if options.column is not None:
            raise ParameterError("by names the columns; leave column out.")
        if not isinstance(domains, Mapping) or set(domains) != set(columns):
            raise ParameterError(
                "domains must give the labels of every column in by, and of no other; they must be "
                "known without the data."
            )
        found = tuple(_checked_domain(domains[name], options.missing) for name in columns)
        if prod(len(labels) for labels in found) > MOST_BUCKETS:
            raise ParameterError(
                f"All combinations together are more than {MOST_BUCKETS:,}; give fewer labels."
            )
        return cls(
            epsilon=positive_as_written(epsilon, "epsilon"),
            targets=options.targets,
            columns=columns,
            domains=found,
        )

    @property
    def by(self) -> tuple[str, ...]:
        return self.columns

    @property
    def label_lists(self) -> tuple[tuple[Label, ...], ...]:
        return self.domains

    @property
    def combinations(self) -> int:
        """How many combinations of labels there are."""
        return prod(len(labels) for labels in self.domains)

    def make_plan(self, users: int) -> Plan[HistogramResult]:
        return plan_histogram(users, self.epsilon, self.combinations, **self.targets.all())

    @property
    def missing_label(self) -> Label:
        return MISSING_LABEL

    def reads_text_in(self, place: int) -> bool:
        """Whether a column's values are meant as texts, also if they look like numbers."""
        return any(isinstance(one, str) and looks_typed(one) for one in self.domains[place])

    def check_columns(self, holds: Sequence[ColumnType]) -> None:
        """Refuses columns that hold no labels of the declared type."""
        for name, labels, found in zip(self.columns, self.domains, holds, strict=True):
            wanted = LABEL_TYPES[type(labels[0])]
            if found != wanted:
                raise ValueOutOfRange(
                    f"The labels of the column {name!r} are {WORDS[wanted]}, but it holds "
                    f"{WORDS[found]}; give labels of the column's type."
                )

    def codes(self, columns: Iterable[Values]) -> Values:
        """The number of each row's combination, in the order of the product."""
        total: Any = 0
        for values, labels in zip(columns, self.domains, strict=True):
            numbers = encode_labels(values, labels, None)
            total = total * len(labels) + np.asarray(numbers, np.int64)
        return np.asarray(total, np.int64)

    def grouping(self, holds: ColumnType) -> Grouping:
        return Grouping(largest=self.combinations - 1)

    def finish(self, result: HistogramResult) -> HistogramResult:
        assert result.certificate is not None
        cell = cell_from_dict(result.certificate["protocol"]["cell"])
        zero, one = (cell.variance_at(1, value, value) for value in (0, 1))
        held = np.clip(result.values, 0, result.users)
        variances = result.users * zero + held * (one - zero)
        return of_histogram(result, self.columns, self.domains, variances)


def _checked_columns(by: object) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ParameterError("by must be a list of columns' names.")
    if len(set(names)) < len(names):
        raise ParameterError("by names a column twice; name each once.")
    return names


def _checked_domain(labels: object, missing: object) -> tuple[Label, ...]:
    if not isinstance(labels, str) and isinstance(labels, Iterable):
        labels = as_labels(labels)
        if missing == BUCKET and MISSING_LABEL not in labels:
            labels = [*labels, MISSING_LABEL]
    names = checked_labels(labels)
    if len({type(name) for name in names}) > 1:
        raise ParameterError("The labels of a column must all be texts, or all whole numbers.")
    return names


def histogram_question(
    options: Options,
    epsilon: ExactNumber,
    one: tuple[Any, Label | None],
    several: tuple[object, object],
) -> Query[HistogramResult]:
    """The question about one column, by (labels, other), or about several, by (by, domains)."""
    labels, other = one
    by, domains = several
    if by is None and domains is None:
        if labels is None:
            raise ParameterError("Give labels for one column, or by and domains for several.")
        return HistogramQuery.of(options, epsilon, labels, other)
    if labels is not None or other is not None or by is None or domains is None:
        raise ParameterError(
            "For several columns give by and domains, and neither labels nor other."
        )
    return CrosstabQuery.of(options, epsilon, by, domains)

"""The histogram query: how many rows have each label, or each combination of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.registry import CELL, cell_from_dict
from shuffledp.cells.search import CELL_CHOICES, checked_cell_choice
from shuffledp.data.arrays import ColumnType, Values, as_label
from shuffledp.data.filling import BUCKET, MISSING_LABEL
from shuffledp.data.values import WORDS
from shuffledp.documents.schema import Either, Listing, Nothing, Record, Whole
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import whole
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import MOST_BUCKETS
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.base import BaselineArguments, Grouping, Query, StudioWords, query
from shuffledp.queries.by_group.query import FILTERED, filtered_label
from shuffledp.queries.calls import call
from shuffledp.queries.checks import (
    histogram_labels,
    label_list,
    labels_of_type,
    looks_typed,
    truth_as_text,
    with_other,
)
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.histogram.protocol import (
    HistogramProtocol,
    Label,
    checked_heavy,
    checked_labels,
    encode_labels,
)
from shuffledp.queries.histogram.result import TIMES, combined, of_histogram
from shuffledp.queries.options import Option
from shuffledp.queries.records import BUCKET as BUCKET_JSON
from shuffledp.queries.records import LABEL, protocol_record
from shuffledp.queries.texts import (
    LIST_WRITTEN,
    between_commas,
    labels_by_column,
    labels_or_number,
    listed,
)

RESERVED = f"the label {FILTERED}, which marks the rows that where excludes"
LABEL_TYPES: dict[type, ColumnType] = {str: "text", bool: "truth", int: "whole"}


@query(
    "histogram",
    example="--column way --labels walk,bike,bus,train,car",
    planner=plan_histogram,
    plan_example="--labels walk,bike,bus",
    protocol=HistogramProtocol,
    protocol_json=protocol_record(
        "histogram",
        {
            "cell": CELL,
            "labels": Either((Whole(2, MOST_BUCKETS), Listing(LABEL, 2, MOST_BUCKETS))),
            "other": Either((Nothing(), *LABEL.schemas)),
        },
        {"heavy": Record({"labels": Listing(LABEL, 1, MOST_BUCKETS), "cell": CELL})},
    ),
    result_json={"buckets": Listing(BUCKET_JSON, 2, MOST_BUCKETS)},
    studio=StudioWords(
        asks="how many choose each answer",
        about="the number of people for each answer",
        without=("domains", "error_at", "heavy"),
    ),
)
class HistogramQuery(Query[HistogramResult]):
    """How many rows of a column have each label, or each combination of several columns.

    Each row is one user with one label. All estimates are unbiased, and together they are
    ε-differentially private in the shuffle model, proved by the certificate that they carry. Small
    or empty buckets may come out below 0, because estimates are not clipped.

    Returns:
        A `HistogramResult` (with `by` a `CrosstabResult`, which has `marginal` and `shares`):
        `labels`, `values`, an interval `low` … `high` for each and `joint_low` … `joint_high` for
        all at once, `rmse` of a bucket, `certificate`, `to_frame()`, `plot()`, `to_dict()`. With
        `protocol`, it also carries that protocol's own privacy claim.

    >>> import shuffledp
    >>> ways = ["walk", "bike", "bike", "car"] * 500
    >>> found = shuffledp.histogram(ways, epsilon=8, labels=["walk", "bike"], other="else")
    >>> found.labels
    ('walk', 'bike', 'else')
    >>> found.values.round(-2).tolist()
    [500.0, 1000.0, 500.0]
    """

    labels: Annotated[
        int | Iterable[Label] | None,
        Option(
            "The texts, whole numbers or true/false to count, or B for the labels 0, 1, …, B−1. "
            "They must be known without the data.",
            "L,L,…",
            read=labels_or_number,
            written=LIST_WRITTEN,
            one_by_one="label",
            as_column=True,
            plans=True,
        ),
    ] = None
    other: Annotated[
        Label | None,
        Option(
            "The label under which all other values are counted; without it they are refused.",
            "LABEL",
            plans=True,
        ),
    ] = None
    error_at: Annotated[
        int | None,
        Option(
            "Target: the error at a bucket of this many users, instead of the worst case. Alone, "
            "it asks for the smallest with 25 messages in a report; `max_messages` and `rmse` "
            "change that.",
            "F",
            plans=True,
        ),
    ] = None
    heavy: Annotated[
        Iterable[Label],
        Option(
            "Frequent labels, known without the data, that get an exact cell each; all others "
            "share a sparse part. `max_messages` then limits the whole report.",
            "L,L,…",
            read=listed,
            written=LIST_WRITTEN,
            as_column=True,
            plans=True,
        ),
    ] = ()
    cell: Annotated[
        str,
        Option(
            "The kind of cell: the cheapest one (best), or the one named (pooled: shorter reports "
            "for the same error; sparse: few messages for any number of labels).",
            "KIND",
            choices=CELL_CHOICES,
        ),
    ] = "best"
    by: Annotated[
        Sequence[str] | None,
        Option(
            "Instead of `labels`: the columns whose combinations are counted.",
            "C,C,…",
            read=between_commas,
        ),
    ] = None
    domains: Annotated[
        Mapping[str, Iterable[Label]] | None,
        Option(
            "With `by`: the labels of each column.",
            "C=L,L,…",
            written=f"One option for each column. {LIST_WRITTEN}",
            flag="domain",
            repeated=True,
            read=labels_by_column,
            plans=True,
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store(cell=checked_cell_choice(self.cell))
        if self.error_at is not None:
            self._store(error_at=whole(self.error_at, "error_at", least=0))
        if self.by is not None or self.domains is not None:
            several = self.by is not None and self.domains is not None
            if not several or self.labels is not None or self.other is not None or self.heavy:
                raise ParameterError(
                    "For several columns, pass by and domains without labels, other or heavy."
                )
            return
        if self.labels is None:
            raise ParameterError(
                "A histogram needs its labels: list them with labels=[…] (--labels), or pass by "
                "and domains for several columns. If you do not know them, use heavy_hitters."
            )
        other = cast("Label | None", as_label(self.other))
        names = histogram_labels(self.labels, other)
        if self.missing == BUCKET:
            _check_missing_label((*names, other))
            histogram_labels([*names, MISSING_LABEL], other)
        self._store(labels=names, other=other)
        self._store(heavy=checked_heavy(label_list(self.heavy), self.buckets))

    def as_asked(self) -> Query[HistogramResult]:
        return self if self.by is None else CrosstabQuery.of(self)

    @classmethod
    def plan_arguments(cls, given: dict[str, Any]) -> dict[str, Any]:
        labels, domains = given.pop("labels", None), given.pop("domains", None)
        if (labels is None) == (domains is None) or (domains and given.get("other") is not None):
            raise ParameterError(
                "Use --labels (or --label) for one column, or a --domain for each of several "
                "columns."
            )
        if domains is not None:
            labels = combined([checked_labels(one) for one in domains.values()])
        if isinstance(labels, int) and "heavy" in given:
            given["heavy"] = labels_of_type(given["heavy"], "whole", None)
        return {**given, "buckets": labels}

    @property
    def buckets(self) -> tuple[Label, ...]:
        """All labels, with `other`."""
        return with_other(self._named, self.other)

    @property
    def filtered_value(self) -> Label:
        return filtered_label(tuple(truth_as_text(label) for label in self._named))

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        label = self.filtered_value
        if (values == label).any():
            raise ValueOutOfRange(f"Some values are {RESERVED}; rename them.")
        signed = isinstance(label, int) and values.dtype != np.uint64  # the label is below 0
        found = values.astype(np.int64 if signed else object)
        found[~kept] = label
        return found

    def of_filtered(self) -> Query[HistogramResult]:
        named = tuple(truth_as_text(label) for label in self._named)
        labels = (*named, self.filtered_value)
        return FilteredHistogramQuery(
            **{**self.options(), "where": None, "missing": None},
            labels=labels,
            other=self.other,
            heavy=tuple(truth_as_text(label) for label in self.heavy),
            error_at=self.error_at,
            cell=self.cell,
            shown=self.buckets,
        )

    @property
    def _named(self) -> tuple[Label, ...]:
        """The labels without `other`, with the one for missing values."""
        labels = cast("tuple[Label, ...]", self.labels)
        return (*labels, MISSING_LABEL) if self.missing == BUCKET else labels

    def targets(self) -> dict[str, Any]:
        asked = {**super().targets(), "error_at": self.error_at, "cell": self.cell}
        return {**asked, "heavy": self.heavy} if self.heavy else asked

    def make_plan(self, users: int) -> Plan[HistogramResult]:
        return plan_histogram(users, self.epsilon, self.buckets, other=self.other, **self.targets())

    def for_planning(self) -> Self:
        labels, heavy = (
            tuple(truth_as_text(label) for label in some) for some in (self._named, self.heavy)
        )
        other = None if self.other is None else truth_as_text(self.other)
        plain = super().for_planning()
        return plain.changed(labels=labels, other=other, heavy=heavy, missing=None)

    def prepare(self, values: Values) -> Values:
        # protocols use texts for true and false, because True equals 1 in Python
        if values.dtype != np.bool_:
            return values
        texts = np.array([truth_as_text(False), truth_as_text(True)], object)
        return np.asarray(texts[values.astype(int)])

    def finish(self, result: HistogramResult) -> HistogramResult:
        return replace(result, labels=self.buckets)

    @property
    def missing_label(self) -> Label:
        return MISSING_LABEL

    @property
    def label_lists(self) -> tuple[tuple[Label, ...], ...]:
        return (cast("tuple[Label, ...]", self.labels),)

    @property
    def reads_texts(self) -> bool:
        return any(isinstance(name, str) and looks_typed(name) for name in self._named)

    def _label_types(self) -> set[ColumnType]:
        """The type of the labels, without the one for all others."""
        return {LABEL_TYPES[type(name)] for name in self._named}

    def check_column(self, holds: ColumnType) -> None:
        if holds not in ("text", "whole", "truth"):
            raise ValueOutOfRange(
                f"Labels must be texts, whole numbers or true/false; the column has {WORDS[holds]}."
            )
        if holds not in self._label_types():
            raise ValueOutOfRange(
                f"The column has {WORDS[holds]}, but no label does; use labels of the "
                "column's type."
            )

    def grouping(self, holds: ColumnType) -> Grouping:
        self.check_column(holds)
        if holds == "truth":
            return Grouping()
        named = self._named
        if holds == "whole" and named == tuple(range(len(named))):
            return Grouping(largest=len(named) - 1)
        return Grouping(few_values=False)

    def truth(self, values: Values) -> list[float]:
        plain = self.for_planning()
        numbers = encode_labels(values, plain.buckets, plain.other)
        return [float(count) for count in np.bincount(numbers, minlength=len(plain.buckets))]

    def for_baseline(self) -> BaselineArguments:
        plain = self.for_planning()
        return BaselineArguments(
            query="histogram",
            prepare=lambda values: encode_labels(self.prepare(values), plain.buckets, plain.other),
            buckets=plain.buckets,
        )


@dataclass(frozen=True, kw_only=True)
class FilteredHistogramQuery(HistogramQuery):
    """A histogram of the rows that `where` keeps; the others are in a bucket that is not shown."""

    shown: tuple[Label, ...]

    def for_planning(self) -> Self:
        return super().for_planning().changed(shown=())

    def finish(self, result: HistogramResult) -> HistogramResult:
        kept = np.delete(np.arange(result.size), len(self._named) - 1)
        return result.at(kept, labels=self.shown)


@dataclass(frozen=True, kw_only=True)
class CrosstabQuery(Query[HistogramResult]):
    """How many rows have each combination of the labels of several columns."""

    name: ClassVar[str] = "histogram"
    columns: tuple[str, ...]
    domains: tuple[tuple[Label, ...], ...]
    one_more: bool = False
    """Whether one more bucket, which is not shown, has the rows that `where` excludes."""
    error_at: int | None = None
    cell: str = "best"

    @classmethod
    def of(cls, asked: HistogramQuery) -> CrosstabQuery:
        """The crosstab that a histogram with `by` and `domains` asks for."""
        columns = _checked_columns(asked.by)
        if asked.column is not None:
            raise ParameterError("by names the columns; leave column out.")
        domains = asked.domains
        if not isinstance(domains, Mapping) or set(domains) != set(columns):
            raise ParameterError(
                "domains must list the labels of exactly the columns in by; they must be "
                "known without the data."
            )
        found = tuple(_checked_domain(domains[name], asked.missing) for name in columns)
        if prod(len(labels) for labels in found) > MOST_BUCKETS:
            raise ParameterError(
                f"There are more than {MOST_BUCKETS:,} combinations; use fewer labels."
            )
        if len(found) > 1 and any(TIMES in str(label) for labels in found for label in labels):
            names = combined(found)
            if len(set(names)) < len(names):
                raise ParameterError(
                    "Two combinations have the same label; use labels without “ × ”."
                )
        return cls(
            **asked.options(),
            columns=columns,
            domains=found,
            error_at=asked.error_at,
            cell=asked.cell,
        )

    @property
    def columns_together(self) -> tuple[str, ...]:
        return self.columns

    @property
    def label_lists(self) -> tuple[tuple[Label, ...], ...]:
        return self.domains

    @property
    def combinations(self) -> int:
        """How many combinations of labels there are."""
        return prod(len(labels) for labels in self.domains)

    def targets(self) -> dict[str, Any]:
        return {**super().targets(), "error_at": self.error_at, "cell": self.cell}

    def make_plan(self, users: int) -> Plan[HistogramResult]:
        return plan_histogram(users, self.epsilon, self.buckets, **self.targets())

    @property
    def missing_label(self) -> Label:
        return MISSING_LABEL

    def reads_text_in(self, column: int) -> bool:
        """Whether a column's values are texts even if they look like numbers."""
        return any(isinstance(one, str) and looks_typed(one) for one in self.domains[column])

    def check_columns(self, holds: Sequence[ColumnType]) -> None:
        """Refuses columns without labels of the declared type."""
        for name, labels, found in zip(self.columns, self.domains, holds, strict=True):
            wanted = LABEL_TYPES[type(labels[0])]
            if found != wanted:
                raise ValueOutOfRange(
                    f"The labels of the column {name!r} are {WORDS[wanted]}, but it has "
                    f"{WORDS[found]}; use labels of the column's type."
                )

    def codes(self, columns: Iterable[Values]) -> Values:
        """The number of each row's combination, in the order of the product."""
        total: Any = 0
        for values, labels in zip(columns, self.domains, strict=True):
            numbers = encode_labels(values, labels, None)
            total = total * len(labels) + np.asarray(numbers, np.int64)
        return np.asarray(total, np.int64)

    def grouping(self, holds: ColumnType) -> Grouping:
        return Grouping(largest=self.buckets - 1)

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        return np.where(kept, values, self.combinations)

    @property
    def filtered_value(self) -> int:
        return self.combinations

    def of_filtered(self) -> CrosstabQuery:
        return self.changed(where=None, one_more=True)

    @property
    def buckets(self) -> int:
        """How many buckets the histogram of the combinations has."""
        return self.combinations + self.one_more

    def finish(self, result: HistogramResult) -> HistogramResult:
        if self.one_more:
            result = result.at(np.arange(self.combinations))
        assert result.certificate is not None
        cell = cell_from_dict(result.certificate["protocol"]["cell"])
        zero, one = (cell.variance_at(1, value, value) for value in (0, 1))
        held = np.clip(result.values, 0, result.users)
        variances = result.users * zero + held * (one - zero)
        return of_histogram(result, self.columns, self.domains, variances, cell)


def _checked_columns(by: object) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ParameterError("by must be a list of column names.")
    if len(set(names)) < len(names):
        raise ParameterError("by names a column twice; name each once.")
    return names


def _check_missing_label(labels: Iterable[object]) -> None:
    """Refuses a label that would be mixed with the bucket for missing values."""
    if MISSING_LABEL in labels:
        raise ParameterError(
            f'missing="bucket" adds a label "{MISSING_LABEL}", but you declared it, too; rename '
            "yours, or pass another label as missing."
        )


def _checked_domain(labels: object, missing: object) -> tuple[Label, ...]:
    labels = label_list(labels)
    if missing == BUCKET and isinstance(labels, list):
        _check_missing_label(labels)
        labels = [*labels, MISSING_LABEL]
    names = checked_labels(labels)
    if len({type(name) for name in names}) > 1:
        raise ParameterError("The labels of a column must all be texts, or all whole numbers.")
    return names


histogram = call(HistogramQuery)

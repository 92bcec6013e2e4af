"""The frequencies query: how many rows have each of some labels, with values of any domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.registry import CELL
from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import WORDS
from shuffledp.documents.schema import Either, Listing, Pattern, Schema, Text, Whole
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.exact import whole
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.base import Query, StudioWords, query
from shuffledp.queries.calls import call
from shuffledp.queries.checks import label_list, looks_typed
from shuffledp.queries.frequencies.hashing import (
    LARGEST_CANDIDATE,
    MOST_CANDIDATES,
    SEED_BYTES,
    checked_candidates,
)
from shuffledp.queries.frequencies.planner import DEFAULT_COUNT, plan_frequencies
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.histogram.protocol import LARGEST_LABEL, LONGEST_LABEL, Label
from shuffledp.queries.options import Option
from shuffledp.queries.records import BUCKET, protocol_record
from shuffledp.queries.texts import LIST_WRITTEN, listed

CANDIDATE = Either((Text(LONGEST_LABEL), Whole(-LARGEST_LABEL - 1, LARGEST_CANDIDATE)))
HASHED: dict[str, Schema] = {
    "cell": CELL,
    "hash_seed": Text(2 * SEED_BYTES, 2 * SEED_BYTES, Pattern("[0-9a-f]*", "hexadecimal digits")),
}
"""The JSON schema of a protocol with hashed labels."""


@query(
    "frequencies",
    example="--column way --candidates walk,bike",
    planner=plan_frequencies,
    finds_epsilon=False,
    plan_example="--candidates walk,bike",
    protocol=FrequenciesProtocol,
    protocol_json=protocol_record(
        "frequencies", {**HASHED, "candidates": Listing(CANDIDATE, 0, MOST_CANDIDATES)}
    ),
    result_json={"buckets": Listing(BUCKET, 0, MOST_CANDIDATES)},
    studio=StudioWords(
        asks="how many people give certain answers",
        about="the number of people for each answer looked for",
        finds=("messages", "error"),
        condition="unless a frequent answer shares its buckets",
        curve=tuple({"max_messages": most} for most in (100, 50, 25, 13)),
        without=("error_at",),
    ),
)
class FrequenciesQuery(Query[HistogramResult]):
    """How many rows of a column equal each candidate, among values of any domain.

    Each row is one user. Up to 10,000 candidates are counted by a histogram, with all other values
    in one more bucket. Without candidates, values are hashed to a table of about as many buckets as
    there are rows, at the same cost for any domain; you can then look up any label in the result.
    Both are ε-differentially private in the shuffle model, proved by the certificate. The error
    follows the count: it is small for rare labels.

    Returns:
        A `HistogramResult`: `labels`, `values`, an interval `low` … `high` for each and
        `joint_low` … `joint_high` for all at once, `rmse`, `certificate`, `to_frame()`, `plot()`,
        `to_dict()`; from a table also `frequency(label)` and `showing(labels)`. Intervals of a
        table include what other labels in the same bucket add.

    >>> import shuffledp
    >>> words = ["the", "of", "and", "of"] * 5_000
    >>> found = shuffledp.frequencies(words, epsilon=8, candidates=["of", "to"])
    >>> abs(found.values).round(-3).tolist()
    [10000.0, 0.0]
    """

    planned_for: ClassVar[tuple[str, ...]] = ("rmse", "max_messages", "expected")
    candidates: Annotated[
        Iterable[Label],
        Option(
            "The labels to show, all texts or all whole numbers, known without the data; at most "
            "100,000. Without them, ask the result about labels at no further cost in ε.",
            "L,L,…",
            read=listed,
            written=LIST_WRITTEN,
            as_column=True,
            plans=True,
        ),
    ] = ()
    error_at: Annotated[
        int,
        Option("Minimise the error for a label that this many users have.", "F", plans=True),
    ] = DEFAULT_COUNT

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store(
            candidates=checked_candidates(label_list(self.candidates)),
            error_at=whole(self.error_at, "error_at", least=0),
        )

    @property
    def shown(self) -> tuple[Label, ...]:
        """The candidates, checked."""
        return cast("tuple[Label, ...]", self.candidates)

    def make_plan(self, users: int) -> Plan[HistogramResult]:
        return plan_frequencies(
            users,
            self.epsilon,
            candidates=self.shown,
            error_at=self.error_at,
            **self.targets(),
        )

    @property
    def label_lists(self) -> tuple[tuple[Label, ...], ...]:
        return (self.shown,)

    @property
    def reads_texts(self) -> bool:
        return any(isinstance(name, str) and looks_typed(name) for name in self.shown)

    def check_column(self, holds: ColumnType) -> None:
        if holds not in ("text", "whole"):
            raise ValueOutOfRange(
                f"Values must be texts or whole numbers; the column has {WORDS[holds]}: convert "
                "them first."
            )
        wanted: ColumnType = "whole" if isinstance(next(iter(self.shown), ""), int) else "text"
        if self.shown and holds != wanted:
            raise ValueOutOfRange(
                f"The column has {WORDS[holds]}, but no candidate does; use candidates of the "
                "column's type."
            )

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        """Excluded rows get labels of 62 random bits, which match no candidate; what they add to a
        candidate's estimate has mean 0."""
        numbers = self.entropy.words(int((~kept).sum()), np.uint64) >> np.uint64(2)
        if values.dtype.kind not in "iu":
            found, others = values.copy(), numbers.astype(str).astype(object)
        else:  # narrower numbers would cut off most of the random bits
            found = values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)
            others = numbers
        found[~kept] = others
        return found

    def truth(self, values: Values) -> list[float]:
        return [float(np.count_nonzero(values == label)) for label in self.shown]

    def finish(self, result: HistogramResult) -> HistogramResult:
        """Only the candidates: a histogram also counts all other labels."""
        known = set(self.shown)
        kept = [at for at, label in enumerate(result.labels) if label in known]
        return result.at(np.array(kept, np.int64), query=self.name)


frequencies = call(FrequenciesQuery)

"""The query how many rows hold each of some labels, among values of any domain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import MOST_USERS
from shuffledp.cells.registry import CELL
from shuffledp.data.arrays import ColumnType, Values, as_labels
from shuffledp.data.values import WORDS
from shuffledp.documents.schema import (
    Either,
    Listing,
    Pattern,
    Rational,
    Schema,
    Text,
    Whole,
)
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, positive_as_written
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.base import Query, StudioWords, query
from shuffledp.queries.calls import call
from shuffledp.queries.checks import looks_typed
from shuffledp.queries.frequencies.hashing import MOST_CANDIDATES, SEED_BYTES, checked_candidates
from shuffledp.queries.frequencies.planner import DEFAULT_SPREAD, plan_frequencies
from shuffledp.queries.frequencies.protocol import (
    MOST_CELLS_PER_GROUP,
    MOST_GROUPS,
    FrequenciesProtocol,
)
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Option
from shuffledp.queries.records import (
    BUCKET,
    LARGEST_LABEL,
    LONGEST_LABEL,
    protocol_record,
)
from shuffledp.queries.texts import LIST_WRITTEN, listed, power

CANDIDATE = Either((Text(LONGEST_LABEL), Whole(-LARGEST_LABEL - 1, 2**64 - 1)))
HASHED_GROUPS: dict[str, Schema] = {
    "users": Whole(1, MOST_USERS),
    "groups": Whole(1, MOST_GROUPS),
    "cells_per_group": Whole(2, MOST_CELLS_PER_GROUP),
    "cell": CELL,
    "spread": Rational(Fraction(1), Fraction(MOST_USERS)),
    "hash_seed": Text(2 * SEED_BYTES, 2 * SEED_BYTES, Pattern("[0-9a-f]*", "hexadecimal digits")),
    "candidates": Listing(CANDIDATE, 0, MOST_CANDIDATES),
}
"""What the JSON of a protocol with hashed groups of users holds."""


@query(
    "frequencies",
    example="--column way --candidates walk,bike",
    planner=plan_frequencies,
    finds_epsilon=False,
    plan_example="--domain 2^64",
    plan_options={
        "domain": Option(
            "Values are whole numbers below this, e.g. 1e6 or 2^64; default any value.",
            "D",
            read=power,
        )
    },
    protocol=FrequenciesProtocol,
    protocol_json=protocol_record("frequencies", HASHED_GROUPS),
    result_json={"buckets": Listing(BUCKET, 0, MOST_CANDIDATES)},
    studio=StudioWords(
        asks="how many people give some of very many possible answers",
        about="the number of people for each answer looked for",
        finds=("messages", "error"),
        condition="where people's answers are spread over a thousand or more",
        curve=tuple({"max_messages": most} for most in (4000, 1000, 300, 100, 40)),
        without=("spread",),
    ),
)
class FrequenciesQuery(Query[HistogramResult]):
    """How many rows of a column hold each candidate, whatever other values there are.

    Each row is one user. Unlike a histogram, this costs the same for any domain: users are counted
    in groups by a public hash of their value. Estimates are unbiased and ε-differentially private
    in the shuffle model. Their error is larger than a histogram's, which is used where it is
    better.

    Returns:
        A `HistogramResult`: `labels`, `values`, an interval `low` … `high` for each and
        `joint_low` … `joint_high` for all at once, `rmse`, `certificate`, `to_frame()`, `plot()`,
        `to_dict()`; where groups were counted, also `frequency(label)` and `showing(labels)`.

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
            "100,000. The result can be asked about others at no cost in ε.",
            "L,L,…",
            read=listed,
            written=LIST_WRITTEN,
            as_column=True,
            plans=True,
        ),
    ] = ()
    spread: Annotated[
        ExactNumber,
        Option(
            "Plan the error as if values were spread evenly over this many labels: 1 over the "
            "probability that two rows hold the same.",
            "S",
            plans=True,
        ),
    ] = DEFAULT_SPREAD

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.candidates
        if not isinstance(names, str) and isinstance(names, Iterable):
            names = as_labels(names)
        self._store(
            candidates=checked_candidates(names),
            spread=positive_as_written(self.spread, "spread"),
        )

    @property
    def shown(self) -> tuple[Label, ...]:
        """The candidates, checked."""
        return cast("tuple[Label, ...]", self.candidates)

    def make_plan(self, users: int) -> Plan[HistogramResult]:
        return plan_frequencies(
            users, self.epsilon, candidates=self.shown, spread=self.spread, **self.targets()
        )

    @property
    def reads_texts(self) -> bool:
        return any(isinstance(name, str) and looks_typed(name) for name in self.shown)

    def check_column(self, holds: ColumnType) -> None:
        if holds not in ("text", "whole"):
            raise ValueOutOfRange(
                f"Values must be texts or whole numbers; the column holds {WORDS[holds]}: convert "
                "them first."
            )
        wanted: ColumnType = "whole" if isinstance(next(iter(self.shown), ""), int) else "text"
        if self.shown and holds != wanted:
            raise ValueOutOfRange(
                f"The column holds {WORDS[holds]}, and no candidate is one; give candidates of the "
                "column's type."
            )

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        """Rows that are not kept hold labels of 62 random bits, which no candidate is: what they
        add to the estimate of a candidate has the mean 0."""
        numbers = self.entropy.words(int((~kept).sum()), np.uint64) >> np.uint64(2)
        found = values.copy()
        found[~kept] = numbers if values.dtype.kind in "iu" else numbers.astype(str).astype(object)
        return found

    def truth(self, values: Values) -> list[float]:
        return [float(np.count_nonzero(values == label)) for label in self.shown]

    def finish(self, result: HistogramResult) -> HistogramResult:
        """The candidates alone: a histogram also counted all others."""
        known = set(self.shown)
        kept = [at for at, label in enumerate(result.labels) if label in known]
        names = ("values", "low", "high", "joint_low", "joint_high")
        return replace(
            result,
            query=self.name,
            labels=tuple(result.labels[at] for at in kept),
            **{name: getattr(result, name)[np.array(kept, np.int64)] for name in names},
        )


frequencies = call(FrequenciesQuery)

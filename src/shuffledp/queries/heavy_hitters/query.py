"""The query which words of a column are frequent, without a list of candidates."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import WORDS
from shuffledp.documents.schema import Rational, Text, Whole
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, positive_as_written, whole
from shuffledp.plans.plan import Plan
from shuffledp.queries.base import Query, query
from shuffledp.queries.calls import call
from shuffledp.queries.frequencies.query import HASHED_GROUPS
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.heavy_hitters.planner import (
    DEFAULT_LENGTH,
    DEFAULT_TREE_SPREAD,
    LETTERS,
    plan_heavy_hitters,
)
from shuffledp.queries.heavy_hitters.protocol import HeavyHittersProtocol
from shuffledp.queries.options import Option
from shuffledp.queries.records import protocol_record

LONGEST_WORD = 64


@query(
    "heavy-hitters",
    example="--column way --length 4",
    planner=plan_heavy_hitters,
    finds_epsilon=False,
    plan_example="--length 4",
    protocol=HeavyHittersProtocol,
    protocol_json=protocol_record(
        "heavy-hitters",
        {
            **HASHED_GROUPS,
            "alphabet": Text(1_000, 1),
            "step": Whole(1, 4),
            "levels": Whole(1, LONGEST_WORD),
            "threshold": Rational(Fraction(0), Fraction(1)),
        },
    ),
)
class HeavyHittersQuery(Query[FrequenciesResult]):
    """The frequent words of a column of texts, found without a list of candidates.

    Each row is one user with one word. Users are split over the levels of a tree of prefixes, so
    that one release answers all levels; the plan says how likely words of each frequency are found.
    Words are shown because they came out large, so the smallest ones tend to be overestimated; the
    lower ends of the intervals account for that.

    Returns:
        A `FrequenciesResult`: `labels`, the most frequent first, `values`, intervals,
        `certificate`, `to_frame()`, `plot()`, `to_dict()`.

    >>> import shuffledp
    >>> words = ["the", "of", "and", "of"] * 10_000
    >>> found = shuffledp.heavy_hitters(words, epsilon=8, length=4, max_messages=200)
    >>> found.labels[0]
    'of'
    """

    planned_for: ClassVar[tuple[str, ...]] = ("rmse", "max_messages", "expected")
    alphabet: Annotated[
        str,
        Option(
            "The characters that are told apart. All others count as one, which is shown as a "
            "replacement character.",
            "A…",
            plans=True,
        ),
    ] = LETTERS
    length: Annotated[
        int,
        Option(
            "How many characters of a word are found; longer words are found by their beginning, "
            "followed by … .",
            "N",
            plans=True,
        ),
    ] = DEFAULT_LENGTH
    spread: Annotated[
        ExactNumber,
        Option("Plan the error as if prefixes were spread evenly over this many.", "S", plans=True),
    ] = DEFAULT_TREE_SPREAD

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.alphabet, str):
            raise ParameterError("alphabet must be a text of different characters.")
        self._store(
            length=whole(self.length, "length", most=LONGEST_WORD),
            spread=positive_as_written(self.spread, "spread"),
        )

    def make_plan(self, users: int) -> Plan[FrequenciesResult]:
        return plan_heavy_hitters(
            users,
            self.epsilon,
            alphabet=self.alphabet,
            length=self.length,
            spread=self.spread,
            **self.targets(),
        )

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        """Rows that are not kept hold random words of the full length: too many different ones for
        any of them to be found."""
        letters = np.array(list(self.alphabet))
        drawn = self.entropy.words(int((~kept).sum()) * self.length, np.uint64)
        words = letters[drawn % np.uint64(len(letters))].reshape(-1, self.length)
        found = values.astype(object)
        found[~kept] = ["".join(word) for word in words]
        return found

    @property
    def reads_texts(self) -> bool:
        return True

    def check_column(self, holds: ColumnType) -> None:
        if holds != "text":
            raise ValueOutOfRange(
                f"Words must be texts; the column holds {WORDS[holds]}: convert them first."
            )


heavy_hitters = call(HeavyHittersQuery)

"""The query which words of a column are frequent, without a list of candidates."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import WORDS
from shuffledp.documents.schema import Listing, Record, Text, Whole
from shuffledp.errors import ValueOutOfRange
from shuffledp.plans.plan import Plan
from shuffledp.queries.base import Query, query
from shuffledp.queries.calls import call
from shuffledp.queries.frequencies.query import HASHED, most_messages
from shuffledp.queries.heavy_hitters.planner import plan_heavy_hitters
from shuffledp.queries.heavy_hitters.protocol import (
    LEAST_ID_BITS,
    MOST_ID_BITS,
    HeavyHittersProtocol,
)
from shuffledp.queries.heavy_hitters.result import HeavyHittersResult
from shuffledp.queries.records import ESTIMATE, INTERVAL, protocol_record

LONGEST_WORD, MOST_WORDS = 10**6, 10**6
"""In a published result."""
WORD = Record({"label": Text(LONGEST_WORD), **ESTIMATE, "joint_interval": INTERVAL})


RANDOM_LETTERS = 24
"""Of the words of rows that `where` leaves out: 96 random bits."""


@query(
    "heavy-hitters",
    example="--column way",
    planner=plan_heavy_hitters,
    finds_epsilon=False,
    protocol=HeavyHittersProtocol,
    protocol_json=protocol_record(
        "heavy-hitters", {**HASHED, "id_bits": Whole(LEAST_ID_BITS, MOST_ID_BITS)}
    ),
    result_json={"buckets": Listing(WORD, 0, MOST_WORDS)},
)
class HeavyHittersQuery(Query[HeavyHittersResult]):
    """The frequent words of a column of texts, found without a list of candidates.

    Each row is one user with one word: any characters, any length. The plan says from how many
    users on words of several lengths are found; rarer ones are found sometimes, or not at all. Each
    word is listed once, and fewer than 0.02 words that nobody holds are expected in a result.

    Returns:
        A `HeavyHittersResult`: `labels`, the most frequent first, `values`, an interval `low` …
        `high` for each and `joint_low` … `joint_high` for all at once, `certificate`,
        `to_frame()`, `plot()`, `to_dict()`.

    >>> import shuffledp
    >>> words = ["the", "of", "and", "of"] * 10_000
    >>> shuffledp.heavy_hitters(words, epsilon=8).labels[0]
    'of'
    """

    planned_for: ClassVar[tuple[str, ...]] = ("max_messages", "expected")

    def make_plan(self, users: int) -> Plan[HeavyHittersResult]:
        return plan_heavy_hitters(
            users,
            self.epsilon,
            max_messages=most_messages(self.max_messages),
            expected=self.expected,
        )

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        """Rows that are not kept hold long random words: too many different ones for any of them
        to be found."""
        letters = np.array(list("abcdefghijklmnop"))
        drawn = self.entropy.words(int((~kept).sum()) * RANDOM_LETTERS, np.uint8)
        words = letters[drawn % np.uint8(len(letters))].reshape(-1, RANDOM_LETTERS)
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

"""The heavy-hitters query: which words of a column are frequent, without a list of candidates."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.data.values import WORDS
from shuffledp.documents.schema import Listing, Record, Text, Whole
from shuffledp.errors import ValueOutOfRange
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import NUMBERS
from shuffledp.queries.base import Query, StudioWords, query
from shuffledp.queries.calls import call
from shuffledp.queries.frequencies.query import HASHED
from shuffledp.queries.heavy_hitters.planner import plan_heavy_hitters
from shuffledp.queries.heavy_hitters.protocol import (
    LEAST_ID_BITS,
    MOST_ID_BITS,
    HeavyHittersProtocol,
)
from shuffledp.queries.heavy_hitters.result import HeavyHittersResult
from shuffledp.queries.records import ESTIMATE, INTERVAL, protocol_record

LONGEST_WORD, MOST_WORDS = 10**6, 10**6
"""The most words in a published result."""
WORD = Record({"label": Text(LONGEST_WORD), **ESTIMATE, "joint_interval": INTERVAL})


MOST_TRUE_WORDS = 12
"""Words that a rehearsal compares with the truth: the most frequent ones."""
RANDOM_LETTERS = 24
"""Random bits of the words of rows that `where` excludes."""


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
    studio=StudioWords(
        asks="the most frequent words",
        about="the number of people for each word found",
        finds=("error",),
        condition="for a five-letter word that everybody gives (closer for rarer words)",
        curve=tuple({"max_messages": most} for most in (100, 50, 25)),
        secret="you gave a particular word",
        finds_words=True,
    ),
)
class HeavyHittersQuery(Query[HeavyHittersResult]):
    """The frequent words of a column of texts, found without a list of candidates.

    Each row is one user with one word: any characters, any length. The plan says how many users
    words of several lengths need to be found; rarer words are found only sometimes, or not at all.
    Each word is listed once, and fewer than 0.02 words that nobody has are expected in a result.

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
            **self.targets(),
        )

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        """Excluded rows get long random words: too many different ones for any of them to be
        found."""
        letters = np.array(list("abcdefghijklmnop"))
        drawn = self.entropy.words(int((~kept).sum()) * RANDOM_LETTERS, np.uint8)
        words = letters[drawn % np.uint8(len(letters))].reshape(-1, RANDOM_LETTERS)
        found = values.astype(object)
        found[~kept] = ["".join(word) for word in words]
        return found

    def truth(self, values: Values) -> list[float]:
        return [float(count) for _, count in _most_frequent(values)]

    def beside_truth(self, result: HeavyHittersResult, values: Values) -> HeavyHittersResult:
        """The most frequent words of the users, whether they were found or not."""
        words = [word for word, _ in _most_frequent(values)]
        found = {word: at for at, word in enumerate(result.labels)}
        places = np.array([found.get(word, len(found)) for word in words], np.int64)
        rows: dict[str, Any] = {
            name: np.append(getattr(result, name), np.nan)[places] for name in NUMBERS
        }
        return replace(result, labels=tuple(words), **rows)

    @property
    def reads_texts(self) -> bool:
        return True

    def check_column(self, holds: ColumnType) -> None:
        if holds != "text":
            raise ValueOutOfRange(
                f"Words must be texts; the column has {WORDS[holds]}: convert them first."
            )


def _most_frequent(values: Values) -> list[tuple[str, int]]:
    """The most frequent words of users, with their numbers of users."""
    return Counter(values.tolist()).most_common(MOST_TRUE_WORDS)


heavy_hitters = call(HeavyHittersQuery)

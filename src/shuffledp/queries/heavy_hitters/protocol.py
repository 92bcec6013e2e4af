"""Frequent words of an unknown domain: rows of hashed words in one sparse histogram (MATH §19).

A word is a sequence of units (`units.py`). A user draws one row of its word and sends to the bucket
of that row and its unit. The analyzer reconstructs the words (`decoder.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from shuffledp.cells.base import Counts, Floats, Values
from shuffledp.cells.sparse.error import laws
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.exact import whole
from shuffledp.protocols.report import View
from shuffledp.queries.frequencies.hashing import Coder, HashedProtocol, sparse_cell
from shuffledp.queries.frequencies.tails import Background
from shuffledp.queries.heavy_hitters.decoder import FALSE_WORDS, Decoder
from shuffledp.queries.heavy_hitters.estimates import estimated
from shuffledp.queries.heavy_hitters.forecast import Finding
from shuffledp.queries.heavy_hitters.result import HeavyHittersResult
from shuffledp.queries.heavy_hitters.units import Layout, Words

LEAST_ID_BITS, MOST_ID_BITS = 8, 22
FORECAST_CHARACTERS = (3, 5, 7, 10, 30)
"""Lengths of words for which the plan says how many users they need."""
USUAL_ROWS = 5
"""Rows of the words for which the error is forecast."""
MOST_TOKENS = 1 << 12
"""The law of an empty bucket is computed up to here."""


@dataclass(frozen=True, kw_only=True)
class HeavyHittersProtocol(HashedProtocol[HeavyHittersResult]):
    """Which words are frequent, without a list of candidates."""

    id_bits: int
    """Bits of a word's number, which determines where its rows are."""
    query: ClassVar[str] = "heavy-hitters"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.id_bits, "id_bits", least=LEAST_ID_BITS, most=MOST_ID_BITS)

    @cached_property
    def layout(self) -> Layout:
        """Where the rows of words are."""
        return Layout(self.seed, self.cell.buckets, self.id_bits)

    # Values

    def coder(self, labels: list[Any]) -> Coder:
        """A user draws one row of its word."""
        if not all(type(word) is str for word in labels):
            raise ValueOutOfRange(
                "Words must be texts; nothing was randomized: convert the values first."
            )
        ids = self.layout.ids(labels)  # refuses halves of surrogate pairs
        known = Words.of(labels)
        lengths = known.rows

        def code(places: Counts, entropy: Entropy) -> Counts:
            rows = uniform_below(lengths[places], len(places), entropy)
            return self.layout.buckets_of(ids[places], rows, known.symbols(places, rows))

        return code

    def parse(self, text: str) -> str:
        return text

    def sample_values(self, size: int) -> Values:
        return np.resize(np.array(["walk", "bike", "train", "bus", "car"], object), size)

    # The analyzer

    def empty_law(self, users: int) -> Floats:
        """P(an empty bucket gets v tokens) for v = 0, 1, …"""
        known = laws(self.cell.bucket_law, users, np.zeros(1, np.int64))
        tokens = (known.first[0] + np.arange(known.masses.shape[1])) * known.step
        inside = (tokens >= 0) & (tokens < MOST_TOKENS)
        masses = np.maximum(known.masses[0][inside], 0.0)
        return np.bincount(tokens[inside], masses).astype(np.float64)

    def result_of(self, view: View, confidence: float) -> HeavyHittersResult:
        """The words that were found, the most frequent first."""
        tail = np.cumsum(self.empty_law(view.users)[::-1])[::-1]
        decoder = Decoder(layout=self.layout, tokens=view.plus, empty_tail=tail)
        words = decoder.decode()
        background = Background.of_counts(view.plus[~decoder.explained])
        found = estimated(words, view.plus, background, float(self.cell.data), 1 - confidence)
        largest = max(float(found["values"].max(initial=0)), 0.0)
        return HeavyHittersResult(
            **found,
            rmse=self.rmse(view.users, largest),
            **self.promise(view, confidence),
        )

    def rmse(self, users: int, count: float | None = None) -> float:
        """The root mean squared error of a word of five units with a true count; of one that
        everyone has if none is given."""
        held = users if count is None else min(max(count, 0), users)
        empty = self.cell.variance_at(users, 0, 0)
        return math.sqrt((USUAL_ROWS - 1) * empty + self.cell.variance_at(users, held, held))

    # The forecast

    def finding(self, users: int) -> Finding:
        """The parameters that determine whether a word is found among these users."""
        return Finding(
            empty=self.empty_law(users),
            share=float(self.cell.data),
            users=users,
            buckets=self.cell.buckets,
        )

    def further_forecast(self, users: int) -> dict[str, Any]:
        """The number of users that a word needs to be found with probability 95 %, by its length;
        None if that is more than there are."""
        finding = self.finding(users)
        least = {str(size): finding.least_users(size) for size in FORECAST_CHARACTERS}
        return {
            "found_from": {size: None if one > users else one for size, one in least.items()},
            "false_words": FALSE_WORDS,
        }

    def forecast_lines(self, users: int) -> list[tuple[str, str]]:
        found = self.further_forecast(users)["found_from"]
        known = {size: least for size, least in found.items() if least is not None}
        sizes = ", ".join(f"{size} letters: {least:,}" for size, least in known.items())
        longer = "" if len(known) == len(found) else "; longer words are not found"
        return [
            ("found from", f"{sizes} users on, each with a probability of 95 %{longer}"),
            ("false words", f"fewer than {FALSE_WORDS} expected in a result"),
        ]

    # As JSON

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "id_bits": self.id_bits}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            epsilon=Fraction(data["epsilon"]),
            cell=sparse_cell(data["cell"]),
            hash_seed=data["hash_seed"],
            id_bits=data["id_bits"],
        )

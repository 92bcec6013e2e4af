"""Frequencies of labels of any domain: two hashed rows in one sparse histogram (MATH §19).

Half of the buckets are row 0, half are row 1. A user tosses a coin for its row and sends to the
bucket to which the row's hash maps its label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from shuffledp.cells.base import Counts, Values
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.entropy import Entropy
from shuffledp.protocols.report import View
from shuffledp.protocols.results import NUMBERS
from shuffledp.queries.frequencies.hashing import (
    Coder,
    HashedProtocol,
    checked_candidates,
    label_hashes,
    sparse_cell,
)
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.frequencies.table import ROWS, Table
from shuffledp.queries.histogram.protocol import Label


@dataclass(frozen=True, kw_only=True)
class FrequenciesProtocol(HashedProtocol[FrequenciesResult]):
    """How many users have each label, for labels from any domain."""

    candidates: tuple[Label, ...] = ()
    """Labels that results show; a result can be asked about any other."""
    query: ClassVar[str] = "frequencies"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_candidates(self.candidates)

    @property
    def row_buckets(self) -> int:
        """The buckets of one row."""
        return self.cell.buckets // ROWS

    # Values

    def buckets_of(self, labels: Iterable[Label]) -> Counts:
        """For each label its bucket in both rows, counted within the row: shape (2, labels)."""
        hashes = label_hashes(labels, self.seed)[:, :ROWS]
        return (hashes & np.uint64(self.row_buckets - 1)).astype(np.int64).T

    def coder(self, labels: list[Any]) -> Coder:
        """A user's row is a coin."""
        buckets = self.buckets_of(labels)

        def code(places: Counts, entropy: Entropy) -> Counts:
            rows = uniform_below(ROWS, len(places), entropy)
            return np.asarray(rows * self.row_buckets + buckets[rows, places])

        return code

    def parse(self, text: str) -> Label:
        numbers = bool(self.candidates) and isinstance(self.candidates[0], int)
        digits = text.strip().removeprefix("-")
        if not numbers:
            return text
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 20):
            raise ValueOutOfRange("The value must be a whole number of at most 64 bits.")
        return int(text)

    def sample_values(self, size: int) -> Values:
        return np.arange(size) if not self.candidates else np.resize(self.candidates, size)

    # The analyzer

    def table(self, view: View) -> Table:
        """The estimates of all labels from a view."""
        floor, worst = (self.cell.variance_at(view.users, held, held) for held in (0, 1))
        return Table(
            tokens=view.plus.reshape(ROWS, -1),
            share=float(self.cell.data),
            floor=floor,
            slope=worst - floor,
        )

    def result_of(self, view: View, confidence: float) -> FrequenciesResult:
        """Every candidate's estimate and interval; see `Table`."""
        nobody: dict[str, Any] = dict.fromkeys(NUMBERS, np.zeros(0, np.int64))
        return FrequenciesResult(
            labels=(),
            **nobody,
            table=self.table(view),
            buckets_of=self.buckets_of,
            rmse=0.0,
            **self.promise(view, confidence),
        ).showing(self.candidates)

    def rmse(self, users: int, count: float | None = None) -> float:
        """The root mean squared error of a label with a true count, without collisions; of one that
        everyone has if none is given."""
        held = users if count is None else min(max(count, 0), users)
        noise = self.cell.variance_at(users, 0, 0) + self.cell.variance_at(users, held, held)
        return math.sqrt(noise)

    @property
    def assumption(self) -> str:
        return "labels that share a bucket with a frequent one in both rows have a larger error"

    # As JSON

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "candidates": list(self.candidates)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            epsilon=Fraction(data["epsilon"]),
            cell=sparse_cell(data["cell"]),
            hash_seed=data["hash_seed"],
            candidates=tuple(data["candidates"]),
        )

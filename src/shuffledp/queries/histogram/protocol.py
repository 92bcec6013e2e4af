"""Histograms: one cell per bucket, the budget split by direction (MATH §7).

Replacing a user's label moves one bucket down and another one up, on independent randomness, so
the loss is up + down. Every user takes part in every bucket, and each bucket mutes on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Cell, CellGroup, Counts, Values, check_one_value_each
from shuffledp.cells.registry import cell_from_dict, group_of_buckets
from shuffledp.cells.sparse import SparseBuckets
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.protocols.base import MOST_BUCKETS, Protocol
from shuffledp.protocols.report import View
from shuffledp.protocols.results import HistogramResult

Label = str | int


def checked_labels(labels: object) -> tuple[Label, ...]:
    """Bucket names: a number of buckets (then 0, 1, …) or distinct texts or whole numbers."""
    if isinstance(labels, int | np.integer) and not isinstance(labels, bool):
        labels = int(labels)
        labels = range(min(labels, MOST_BUCKETS + 1))
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        raise ParameterError(
            "labels must be a list of labels, or how many whole numbers from 0 on."
        )
    found = islice(labels, MOST_BUCKETS + 1)  # labels may be without end
    names = tuple(label.item() if isinstance(label, np.generic) else label for label in found)
    if not 1 < len(names) <= MOST_BUCKETS:
        raise ParameterError(f"A histogram needs 2 to {MOST_BUCKETS:,} buckets.")
    if not all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
        raise ParameterError("Bucket labels must be texts or whole numbers.")
    if len(set(names)) < len(names):
        raise ParameterError("Two have the same label; give every bucket or group a different one.")
    return names


def _numbered(labels: tuple[Label, ...]) -> bool:
    """Whether the labels are 0, 1, …, so that a label is its bucket's number."""
    return labels == tuple(range(len(labels)))


def encode_labels(values: Values, labels: tuple[Label, ...], other: Label | None) -> Values:
    """Each label's bucket number; the unknown go to `other` or are refused."""
    values = np.asarray(values)
    check_one_value_each(values)
    if values.dtype.kind not in "iuUO":
        raise ValueOutOfRange(
            f"Labels must be texts or whole numbers; an array of type {values.dtype} was given."
        )
    if values.dtype.kind in "iu" and _numbered(labels):
        inside = not values.size or (int(values.min()) >= 0 and int(values.max()) < len(labels))
        if inside:
            return values  # a label is its bucket's number
    try:
        seen, places = np.unique(values, return_inverse=True)
    except TypeError:
        raise ValueOutOfRange(
            "The labels mix texts and numbers; give every label the same type."
        ) from None
    return _numbers(seen.tolist(), labels, other)[places]


def _numbers(seen: list[Any], labels: tuple[Label, ...], other: Label | None) -> NDArray[np.int64]:
    number = {label: place for place, label in enumerate(labels)}
    numbers = np.array([number.get(label, -1) for label in seen], np.int64)
    unknown = numbers < 0
    if unknown.any():
        if other is None:
            raise ValueOutOfRange(
                "Some answers are not on the list of labels, so nothing was randomized; add "
                "them, or name a label that takes all others with other= (--other)."
            )
        numbers[unknown] = number[other]
    return numbers


@dataclass(frozen=True, kw_only=True)
class HistogramProtocol(Protocol[HistogramResult]):
    """How many users hold each label."""

    epsilon: Fraction
    cell: Cell
    labels: tuple[Label, ...]
    other: Label | None = None
    """The bucket that takes every unknown label; without one, an unknown label is an error."""
    query: ClassVar[str] = "histogram"
    loss_rule: ClassVar[str] = "up + down"
    encodes_alike: ClassVar[bool] = True
    one_cell_each: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_labels(self.labels)
        if self.cell.largest != 1 or self.cell.absent_value != 0:
            raise ParameterError(
                "A bucket needs a cell for the values 0 and 1, without a stand-in."
            )
        if self.other is not None and self.other not in self.labels:
            raise ParameterError("The bucket for other labels must be one of the buckets.")
        _ = self.cell_groups  # refuses cells that are not for buckets

    @cached_property
    def cell_groups(self) -> tuple[CellGroup, ...]:
        up = self.cell.up_loss
        return (group_of_buckets(self.cell, len(self.labels), up, self.epsilon - up),)

    def loss(self) -> Fraction:
        """One bucket goes down and one goes up."""
        return sum((group.replacement_loss for group in self.cell_groups), start=Fraction(0))

    @property
    def loss_in_words(self) -> str:
        return self.cell_groups[0].replacement_rule

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        values = np.asarray(values)
        plain = self._numbered and values.ndim == 1 and values.size and values.dtype.kind in "iu"
        if plain and int(values.min()) >= 0 and int(values.max()) < len(self.labels):
            return values  # a label is its bucket's number
        return encode_labels(values, self.labels, self.other)

    @cached_property
    def _numbered(self) -> bool:
        return _numbered(self.labels)

    def parse(self, text: str) -> Label:
        return next((label for label in self.labels if str(label) == text), text)

    def sample_values(self, size: int) -> Values:
        texts = any(isinstance(label, str) for label in self.labels)
        return np.resize(np.array(self.labels, object if texts else np.int64), size)

    def tally(self, codes: Values) -> Counts:
        return np.bincount(codes, minlength=len(self.labels)).astype(np.int64)

    def group_tallies(self, tally: Counts) -> Iterable[Counts]:
        yield tally

    def result_of(self, view: View, confidence: float) -> HistogramResult:
        """Every bucket's unbiased estimate, its own interval, and one that holds for all at once
        (independent buckets may miss with 1 − confidence^(1/B) each, others with a B-th of
        1 − confidence)."""
        sums = view.plus - view.minus
        values = self.cell.estimates(sums, view.users)
        joint = (1 - confidence) / len(sums)
        if self.cell_groups[0].independent:
            joint = -np.expm1(np.log(confidence) / len(sums))
        low, high = self.cell.intervals(view.users, sums, 1 - confidence)
        joint_low, joint_high = self.cell.intervals(view.users, sums, float(joint))
        # the estimates themselves are no whole numbers: intervals reach to the next ones
        below, above = (edge(values).astype(np.int64) for edge in (np.floor, np.ceil))
        return HistogramResult(
            labels=self.labels,
            values=values,
            low=np.minimum(low, below),
            high=np.maximum(high, above),
            joint_low=np.minimum(joint_low, below),
            joint_high=np.maximum(joint_high, above),
            confidence=confidence,
            rmse=self.rmse(view.users, float(values.max())),
            epsilon=self.epsilon,
            users=view.users,
            messages_per_user=self.messages_per_user(),
            seeded=view.seeded,
        )

    def rmse(self, users: int, count: float | None = None) -> float:
        """A bucket's root mean squared error at a true count; at the worst if none is given."""
        return self.cell.rmse(users, None if count is None else Fraction(min(max(count, 0), users)))

    def rmse_at_zero(self, users: int) -> float:
        return self.rmse(users, 0)

    def rmse_at(self, users: int, count: Fraction) -> float:
        return self.rmse(users, float(count))

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        return self.cell.error_range(users, users, outside)

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "epsilon": str(self.epsilon),
            "cell": self.cell.to_dict(),
            "labels": self._written_labels(),
            "other": self.other,
        }

    def _written_labels(self) -> int | list[Label]:
        """The labels, or how many: a million numbers would make a long document."""
        if isinstance(self.cell_groups[0], SparseBuckets) and self._numbered:
            return len(self.labels)
        return list(self.labels)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        labels = data["labels"]
        return cls(
            epsilon=Fraction(data["epsilon"]),
            cell=cell_from_dict(data["cell"]),
            labels=tuple(range(labels) if isinstance(labels, int) else labels),
            other=data.get("other"),
        )

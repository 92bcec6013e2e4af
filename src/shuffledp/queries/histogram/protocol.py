"""Histograms: one cell per bucket, the budget split by direction (MATH §7).

Replacing a user's label moves one bucket down and another one up, on independent randomness, so
the loss is up + down. Every user takes part in every bucket, and each bucket mutes independently. A
public list of *heavy* labels may have exact cells, in addition to a sparse part that all other
labels share (docs/mathematics.md §19, second form). Whichever of the two a label leaves or enters,
the loss is at most the larger loss upwards plus the larger loss downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import (
    Buckets,
    Cell,
    CellGroup,
    Counts,
    Floats,
    Values,
    check_one_value_each,
)
from shuffledp.cells.registry import cell_from_dict, group_of_buckets
from shuffledp.cells.sparse.cell import NO_VALUE, KeptCell, SparseBuckets
from shuffledp.documents.json_text import is_text
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import counted
from shuffledp.protocols.base import MOST_BUCKETS, Protocol, joined
from shuffledp.protocols.report import Report, View
from shuffledp.protocols.results import NUMBERS, HistogramResult, whole_intervals

Label = str | int
LONGEST_LABEL = 1_000
LARGEST_LABEL = 2**63 - 1
BESIDE = "larger up + larger down"
"""In words, how the losses of heavy labels and of others add up."""


def checked_labels(labels: object) -> tuple[Label, ...]:
    """Bucket names: a number of buckets (then 0, 1, …) or distinct texts or whole numbers."""
    if isinstance(labels, np.generic) and not isinstance(labels, np.timedelta64 | np.datetime64):
        labels = labels.item()
    if isinstance(labels, int) and not isinstance(labels, bool):
        labels = range(min(labels, MOST_BUCKETS + 1))
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        raise ParameterError(
            "labels must be a list of labels, or how many there are: 0, 1, …, B−1."
        )
    names = tuple(islice(labels, MOST_BUCKETS + 1))  # labels may be an endless iterator
    if any(issubclass(kind, np.generic) for kind in set(map(type, names))):
        names = tuple(label.item() if isinstance(label, np.generic) else label for label in names)
    if not 1 < len(names) <= MOST_BUCKETS:
        raise ParameterError(f"A histogram needs 2 to {MOST_BUCKETS:,} buckets.")
    kinds = set(map(type, names))
    if not all(issubclass(kind, str | int) and kind is not bool for kind in kinds):
        raise ParameterError("Bucket labels must be texts or whole numbers.")
    check_label_sizes(names, LARGEST_LABEL)
    if len(set(names)) < len(names):
        raise ParameterError(
            "Two buckets or groups have the same label; use a different one for each."
        )
    return names


def check_label_sizes(names: Iterable[Label], largest: int) -> None:
    """Refuses texts and whole numbers that a certificate cannot contain."""
    texts = [name for name in names if isinstance(name, str)]
    numbers = [name for name in names if isinstance(name, int)]
    if max(map(len, texts), default=0) > LONGEST_LABEL or not is_text("".join(texts)):
        raise ParameterError(
            f"Labels must be texts of at most {LONGEST_LABEL:,} characters, without halves of "
            "surrogate pairs; shorten or repair them."
        )
    if max(numbers, default=0) > largest or min(numbers, default=0) < -LARGEST_LABEL - 1:
        raise ParameterError(
            f"Labels must be whole numbers from −2⁶³ to {largest:,}; use smaller ones."
        )


def checked_heavy(heavy: object, labels: tuple[Label, ...]) -> tuple[Label, ...]:
    """Heavy labels: some of the labels, each once, and not all."""
    if isinstance(heavy, str) or not isinstance(heavy, Iterable):
        raise ParameterError("heavy must be a list of labels.")
    found = islice(heavy, len(labels) + 1)
    names = tuple(label.item() if isinstance(label, np.generic) else label for label in found)
    known = set(labels) if names else set()
    if any(not isinstance(name, str | int) or name not in known for name in names):
        raise ParameterError("Every heavy label must be one of the labels; add it there.")
    if len(set(names)) < len(names):
        raise ParameterError("A heavy label is named twice; name each once.")
    if len(names) == len(labels):
        raise ParameterError("All labels are heavy; leave heavy out for exact cells everywhere.")
    return names


def _numbered(labels: tuple[Label, ...]) -> bool:
    """Whether the labels are 0, 1, …, so that a label is its bucket's number."""
    return labels == tuple(range(len(labels)))


def encode_labels(
    values: Values, labels: tuple[Label, ...], other: Label | None, numbered: bool | None = None
) -> Values:
    """Each label's bucket number; unknown labels go to `other` or are refused. `numbered` says
    whether the labels are 0, 1, …, if that is known."""
    values = np.asarray(values)
    check_one_value_each(values)
    if values.dtype.kind not in "iuUO":
        raise ValueOutOfRange(
            f"Labels must be texts or whole numbers; an array of type {values.dtype} was given."
        )
    if values.dtype.kind in "iu" and (_numbered(labels) if numbered is None else numbered):
        inside = not values.size or (int(values.min()) >= 0 and int(values.max()) < len(labels))
        if inside:
            return values  # a label is its bucket's number
    try:
        seen, places = np.unique(values, return_inverse=True)
    except TypeError:
        raise ValueOutOfRange("The labels mix texts and numbers; use one type for all.") from None
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
    """How many users have each label."""

    epsilon: Fraction
    cell: Cell
    """The cell of every label; with heavy labels, of all others together."""
    labels: tuple[Label, ...]
    other: Label | None = None
    """The bucket that takes every unknown label; without one, an unknown label is an error."""
    heavy: tuple[Label, ...] = ()
    """Labels that have an exact cell each. Their counters are the first ones."""
    heavy_cell: Cell | None = None
    """The cell of each heavy label."""
    query: ClassVar[str] = "histogram"
    loss_rule: ClassVar[str] = "up + down"
    encodes_alike: ClassVar[bool] = True
    one_cell_each: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_labels(self.labels)
        for cell in (self.cell, *([] if self.heavy_cell is None else [self.heavy_cell])):
            if cell.largest != 1 or cell.absent_value != 0:
                raise ParameterError(
                    "A bucket needs a cell for the values 0 and 1, without a stand-in."
                )
        if self.other is not None and self.other not in self.labels:
            raise ParameterError("The bucket for other labels must be one of the buckets.")
        checked_heavy(self.heavy, self.labels)
        _ = self.cell_groups  # refuses cells that are not for buckets

    @cached_property
    def cell_groups(self) -> tuple[CellGroup, ...]:
        if self.heavy_cell is None and not self.heavy:
            up = self.cell.up_loss
            return (group_of_buckets(self.cell, len(self.labels), up, self.epsilon - up),)
        cell, others = self.cell, len(self.labels) - len(self.heavy)
        if self.heavy_cell is None or not isinstance(cell, KeptCell) or cell.buckets != others:
            raise ParameterError(
                "Heavy labels need a cell, and the others a kept cell with a bucket for each."
            )
        up, own = max(self.heavy_cell.up_loss, cell.up), self.heavy_cell.up_loss
        exact = group_of_buckets(self.heavy_cell, len(self.heavy), own, self.epsilon - up)
        if not isinstance(exact, Buckets) or exact.most_messages is None:
            raise ParameterError(
                "Heavy labels need cells that are independent of each other and send a bounded "
                "number of messages (bounded)."
            )
        return exact, SparseBuckets(cell=cell)

    def loss(self) -> Fraction:
        """One bucket goes down and one goes up, each among the heavy ones or the others."""
        if not self.heavy:
            return self.cell_groups[0].replacement_loss
        ups, downs = zip(*((member.up, member.down) for member in self.members), strict=True)
        return Fraction(max(ups) + max(downs))

    @property
    def loss_in_words(self) -> str:
        return BESIDE if self.heavy else self.cell_groups[0].replacement_rule

    # Heavy labels and others have separate counters and codes

    @cached_property
    def _order(self) -> Counts:
        """The label (its position) of each counter."""
        known = {label: place for place, label in enumerate(self.labels)}
        heavy = np.array([known[label] for label in self.heavy], np.int64)
        return np.concatenate([heavy, np.delete(np.arange(len(self.labels)), heavy)])

    @cached_property
    def _counter(self) -> Counts:
        """The counter of each label."""
        return np.argsort(self._order)

    def group_codes(self, codes: Values) -> Iterable[Values]:
        if not self.heavy:
            yield codes
            return
        counters, listed = self._counter[codes], len(self.heavy)
        yield np.minimum(counters, listed)  # not the code of any exact cell
        yield np.maximum(counters - listed, NO_VALUE)

    def group_tallies(self, tally: Counts) -> Iterable[Counts]:
        if not self.heavy:
            yield tally
            return
        counters = tally[self._order]
        yield counters[: len(self.heavy)]
        yield counters[len(self.heavy) :]

    def aggregate_tally(self, tally: Counts, entropy: Entropy = SYSTEM) -> Report:
        if not self.heavy:
            return super().aggregate_tally(tally, entropy)
        users = int(tally.sum())
        drawn: list[tuple[Counts, Counts]] = []
        for group, own in zip(self.cell_groups, self.group_tallies(tally), strict=True):
            assert isinstance(group, Buckets | SparseBuckets)
            drawn.append(group.aggregate_with(own, users - int(own.sum()), entropy))
        return self.whole_report(users, *joined(drawn), self.public_totals_of_tally(tally), entropy)

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        return encode_labels(values, self.labels, self.other, numbered=self._numbered)

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

    def result_of(self, view: View, confidence: float) -> HistogramResult:
        """Every bucket's unbiased estimate, its own interval, and one that holds for all at once
        (independent buckets may miss with 1 − confidence^(1/B) each, others with a B-th of
        1 − confidence)."""
        sums = view.plus - view.minus
        values = self._of_parts(lambda cell, own: cell.estimates(own, view.users), sums)
        joint = (1 - confidence) / len(sums)
        if all(group.independent for group in self.cell_groups):
            joint = -np.expm1(np.log(confidence) / len(sums))
        ends = (
            end
            for outside in (1 - confidence, float(joint))
            for end in whole_intervals(values, *self._ends(view.users, sums, outside))
        )
        numbers: dict[str, Any] = dict(zip(NUMBERS, (values, *ends), strict=True))
        return HistogramResult(
            labels=self.labels,
            **numbers,
            rmse=self._rmse_of(view.users, values),
            **self.promise(view, confidence),
        )

    def _parts(self) -> Iterable[tuple[Cell, slice]]:
        """The cells, and which counters belong to each."""
        end = 0
        for member in self.members:
            first, end = end, end + member.copies
            yield member.cell, slice(first, end)

    def _of_parts(self, found: Callable[[Cell, Counts], Values], sums: Counts) -> Values:
        """The estimates of each cell's counters, in the order of the labels."""
        parts = [found(cell, sums[part]) for cell, part in self._parts()]
        return parts[0] if not self.heavy else np.concatenate(parts)[self._counter]

    def _ends(self, users: int, sums: Counts, outside: float) -> tuple[Counts, Counts]:
        """The ends of all intervals, in the order of the labels."""
        parts = [cell.intervals(users, sums[part], outside) for cell, part in self._parts()]
        low, high = (np.concatenate(ends) for ends in zip(*parts, strict=True))
        return (low[self._counter], high[self._counter]) if self.heavy else (low, high)

    def _rmse_of(self, users: int, values: Floats) -> float:
        """The largest error of all labels, at the estimates."""
        counters = values[self._order] if self.heavy else values
        return max(
            cell.rmse(users, Fraction(min(max(float(counters[part].max()), 0), users)))
            for cell, part in self._parts()
        )

    def rmse(self, users: int, count: float | None = None) -> float:
        """The root mean squared error of a bucket (with heavy labels, of another one) at a true
        count; at the worst if none is given."""
        return self.cell.rmse(users, None if count is None else Fraction(min(max(count, 0), users)))

    def rmse_at_zero(self, users: int) -> float:
        return self.rmse(users, 0)

    def rmse_at(self, users: int, count: Fraction) -> float:
        return self.rmse(users, float(count))

    def error_range(self, users: int, outside: float) -> tuple[float, float]:
        return self.cell.error_range(users, users, outside)

    def further_forecast(self, users: int) -> dict[str, Any]:
        return {} if self.heavy_cell is None else {"rmse_heavy": self.heavy_cell.rmse(users)}

    def forecast_lines(self, users: int) -> list[tuple[str, str]]:
        if self.heavy_cell is None:
            return []
        labels = counted(len(self.heavy), "label")
        return [("heavy", f"RMSE {self.heavy_cell.rmse(users):,.3g} for {labels}, at any count")]

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "cell": self.cell.to_dict(),
            "labels": self._written_labels(),
            "other": self.other,
            **({} if self.heavy_cell is None else {"heavy": self._written_heavy()}),
        }

    def _written_heavy(self) -> dict[str, Any]:
        assert self.heavy_cell is not None
        return {"labels": list(self.heavy), "cell": self.heavy_cell.to_dict()}

    def _written_labels(self) -> int | list[Label]:
        """The labels, or their number: a million numbers would make a long document."""
        if isinstance(self.cell_groups[-1], SparseBuckets) and self._numbered:
            return len(self.labels)
        return list(self.labels)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        labels, heavy = data["labels"], data.get("heavy")
        return cls(
            epsilon=Fraction(data["epsilon"]),
            cell=cell_from_dict(data["cell"]),
            labels=tuple(range(labels) if isinstance(labels, int) else labels),
            other=data.get("other"),
            heavy=() if heavy is None else tuple(heavy["labels"]),
            heavy_cell=None if heavy is None else cell_from_dict(heavy["cell"]),
        )

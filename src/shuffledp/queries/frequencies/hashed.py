"""What frequencies and heavy hitters share: a sparse histogram over the buckets of a hash.

A label is mapped to a bucket by a public hash and by private coins. The sparse histogram keeps its
ε for any two buckets, and therefore for any two random choices of buckets. Privacy does not depend
on the hash (docs/mathematics.md §19).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from shuffledp.cells.base import USERS_AT_ONCE, Counts, Values
from shuffledp.cells.registry import cell_from_dict
from shuffledp.cells.sparse.cell import SparseBuckets, SparseCell
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.protocols.base import Protocol, R_co
from shuffledp.queries.frequencies.hashing import checked_seed, distinct, new_hash_seed

LEAST_BUCKETS, MOST_BUCKETS = 1 << 6, 1 << 23

Coder = Callable[[Counts, Entropy], Counts]
"""(positions of users' labels among different ones, entropy) → the bucket of each user."""


def power_of_two_near(number: int) -> int:
    """The power of two nearest to a number by ratio, among the sizes that a table can have."""
    low = 1 << max(number.bit_length() - 1, 0)
    found = low if number * number <= 2 * low * low else 2 * low
    return min(max(found, LEAST_BUCKETS), MOST_BUCKETS)


def sparse_cell(data: Mapping[str, Any]) -> SparseCell:
    """The sparse cell from its JSON; refuses cells of other kinds."""
    cell = cell_from_dict(data)
    if not isinstance(cell, SparseCell):
        raise ParameterError("Hashed labels need a sparse cell; plan this query again.")
    return cell


@dataclass(frozen=True, kw_only=True)
class HashedProtocol(Protocol[R_co]):
    """A sparse histogram over a power of two of buckets, to which labels are hashed."""

    epsilon: Fraction
    cell: SparseCell
    hash_seed: str
    """The hash seed: public, and new for every batch."""
    loss_rule: ClassVar[str] = "any replacement"
    encodes_counted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checked_seed(self.hash_seed)
        buckets = self.cell.buckets
        if not LEAST_BUCKETS <= buckets <= MOST_BUCKETS or buckets & (buckets - 1):
            raise ParameterError(
                f"A table of hashed labels has a power of two of buckets, {LEAST_BUCKETS} to "
                f"{MOST_BUCKETS:,}."
            )
        if self.cell.epsilon != self.epsilon:
            raise ParameterError("The cell must be proved for the protocol's own epsilon.")

    @cached_property
    def cell_groups(self) -> tuple[SparseBuckets]:
        return (SparseBuckets(cell=self.cell),)

    def loss(self) -> Fraction:
        """A user's token moves from one bucket to another."""
        return self.cell_groups[0].replacement_loss

    def renewed(self, entropy: Entropy = SYSTEM) -> Self:
        """The same protocol with a new hash, on which its privacy does not depend."""
        return replace(self, hash_seed=new_hash_seed(entropy))

    @cached_property
    def seed(self) -> bytes:
        """The hash seed's bytes."""
        return checked_seed(self.hash_seed)

    # Its error, which depends on the count

    @abstractmethod
    def rmse(self, users: int, count: float | None = None) -> float:
        """The root mean squared error of a label with a true count; of one that everyone has if
        none is given."""

    def rmse_at(self, users: int, count: Fraction) -> float:
        return self.rmse(users, float(count))

    def rmse_at_zero(self, users: int) -> float:
        return self.rmse(users, 0)

    # Values

    @abstractmethod
    def coder(self, labels: list[Any]) -> Coder:
        """Draws the buckets of users with some of these different labels, each hashed once."""

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        """The bucket of each user, in a row that is drawn here."""
        labels, places = distinct(values)
        return self.coder(labels)(places, entropy)

    def tally_of_counted(self, values: Values, counts: Counts, entropy: Entropy = SYSTEM) -> Counts:
        code, ends = self.coder(values.tolist()), np.cumsum(counts)
        tally, users = self.tally(np.zeros(0, np.int64)), int(ends[-1]) if len(ends) else 0
        for begin in range(0, users, USERS_AT_ONCE):
            part = np.arange(begin, min(begin + USERS_AT_ONCE, users))
            codes = code(np.searchsorted(ends, part, side="right"), entropy)
            np.add.at(tally, codes, 1)
        return tally

    def tally(self, codes: Values) -> Counts:
        return np.bincount(codes, minlength=self.cell.buckets).astype(np.int64, copy=False)

    def group_tallies(self, tally: Counts) -> Iterable[Counts]:
        yield tally

    # As JSON

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "cell": self.cell.to_dict(),
            "hash_seed": self.hash_seed,
        }

"""Estimates of how many users have a label, from a table with two hashed rows (MATH §19).

Each user adds to one of the two rows, in the bucket to which the row's hash maps its label. Both
rows estimate half of the label's count. If they differ by more than chance allows, another frequent
label shares a bucket of one row, and only the smaller estimate is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from shuffledp.numbers.bisection import bisect
from shuffledp.queries.frequencies.tails import (
    Background,
    Counts,
    Flags,
    Floats,
    Seen,
    counts_tried,
    first_place,
    just_above,
)

ROWS = 2
DISAGREEMENT = 4.5
"""Rows that differ by more standard deviations than this are treated as colliding."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The tokens in each bucket of both rows, from which all labels are estimated."""

    tokens: Counts
    """Shape (2, buckets of a row)."""
    share: float
    """The probability that a user sends a token for its label."""
    floor: float
    """The mean squared error of an empty bucket's estimate."""
    slope: float
    """How much a user in the bucket adds to it."""

    @property
    def row_buckets(self) -> int:
        """The buckets of one row."""
        return int(self.tokens.shape[1])

    def halves(self, seen: Counts) -> Floats:
        """The estimates of both rows, each of half of the count, from tokens of shape (2, k)."""
        buckets = self.row_buckets
        means = self.tokens.mean(axis=1, keepdims=True)
        return np.asarray((seen - means) / self.share * (buckets / (buckets - 1)))

    def estimates(self, seen: Counts) -> Floats:
        """The estimated count of labels in whose buckets these tokens are."""
        halves = self.halves(seen)
        least = halves.min(axis=0)
        held = 2 * np.maximum(least, 0)
        allowed = DISAGREEMENT * np.sqrt(2 * self.floor + (self.slope + 1) * held) + 1
        agree = halves.max(axis=0) - least <= allowed
        return np.asarray(np.where(agree, halves.sum(axis=0), 2 * least))

    def rmse(self, count: float) -> float:
        """The root mean squared error of a label with this count, without collisions."""
        return math.sqrt(2 * self.floor + self.slope * count)

    @cached_property
    def _rows(self) -> list[Background]:
        return [Background.of_counts(row) for row in self.tokens]

    @cached_property
    def _row_laws(self) -> list[Seen]:
        return [Seen(self.share / ROWS, row) for row in self._rows]

    @cached_property
    def _sum_laws(self) -> tuple[Seen, Seen]:
        """The law of both rows' sum, rounded up and down."""
        up, down = (self._rows[0].plus(self._rows[1], one) for one in (True, False))
        return Seen(self.share, up), Seen(self.share, down)

    def intervals(self, seen: Counts, outside: float) -> tuple[Counts, Counts]:
        """The interval of counts for each label's tokens; each side misses with probability at most
        outside/2.

        Two tests share the lower side: one of the sum, and one of the two rows separately, which a
        collision in one row does not mislead.
        """
        pairs, places = np.unique(seen.T, axis=0, return_inverse=True)
        pairs = pairs.T
        total = pairs.sum(axis=0)
        tried = counts_tried(int(total.max(initial=0)), self.share)
        both, rest = self._sum_laws
        size, product = len(total), product_level(outside / 4)

        def shown_together(count: int, at: Counts) -> Flags:
            return np.asarray(both.at_least(count, total[at]) > outside / 4)

        def shown_apart(count: int, at: Counts) -> Flags:
            rows = (
                _of_different(law.at_least, count, side[at])
                for law, side in zip(self._row_laws, pairs, strict=True)
            )
            return np.asarray(np.prod(list(rows), axis=0) > product)

        def too_many(count: int, at: Counts) -> Flags:
            return np.asarray(rest.at_most(count, total[at]) <= outside / 2)

        together, apart = (first_place(one, tried, size) for one in (shown_together, shown_apart))
        low = just_above(tried, np.maximum(together, apart))
        high = tried[first_place(too_many, tried, size)] - 1
        return low[places], high[places]


def _of_different(chance: Callable[[int, Counts], Floats], count: int, seen: Counts) -> Floats:
    """A probability for each number of tokens, computed once for equal ones."""
    known, places = np.unique(seen, return_inverse=True)
    return np.asarray(chance(count, known)[places])


@lru_cache(maxsize=256)
def product_level(chance: float) -> float:
    """c with c·(1 − ln c) = chance: the product of two independent P values is below c with this
    probability at most."""

    def below(c: float) -> bool:
        return not (c and c * (1 - math.log(c)) > chance)

    return bisect(below, 1.0, 0.0, steps=200)

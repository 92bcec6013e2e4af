"""Intervals for a count f that is observed as Bin(f, share) plus a random background.

The background is whatever else is in the same buckets: noise, jumps and other labels. Its
distribution is estimated from the table itself, because a random hash puts a label into a random
bucket. For reporting only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

EXACT_VALUES = 64
"""Backgrounds up to here are exact; larger ones are rounded by at most `COARSE`."""
COARSE = 0.02
GRID_STEP = 0.1
"""The distance between counts that are tried, in square roots of the count."""
FARTHEST = 12.0
"""Standard deviations beyond which a binomial law is cut off."""


@dataclass(frozen=True, eq=False)
class Background:
    """The law of what else is in a label's buckets: whole numbers with their probabilities."""

    values: Counts
    weights: Floats

    @classmethod
    def of_counts(cls, counts: Counts) -> Background:
        """The empirical law of a table's buckets."""
        tally = np.bincount(counts)
        values = np.flatnonzero(tally)
        return cls(values, tally[values] / len(counts))

    def rounded(self, up: bool) -> Background:
        """The law with large values rounded up, or down, to fewer different ones."""
        large = np.maximum(self.values, EXACT_VALUES) / EXACT_VALUES
        steps = np.log(large) / math.log1p(COARSE)
        steps = np.ceil(steps - 1e-9) if up else np.floor(steps + 1e-9)
        ends = EXACT_VALUES * (1 + COARSE) ** steps
        ends = np.ceil(ends) if up else np.floor(ends)
        ends = np.maximum(self.values, ends) if up else np.minimum(self.values, ends)
        ends = np.where(self.values <= EXACT_VALUES, self.values, ends)
        values, places = np.unique(ends.astype(np.int64), return_inverse=True)
        return Background(values, np.bincount(places, self.weights).astype(np.float64))

    def plus(self, other: Background, up: bool) -> Background:
        """The law of the sum of two independent backgrounds, rounded."""
        one, two = self.rounded(up), other.rounded(up)
        sums = np.add.outer(one.values, two.values).ravel()
        values, places = np.unique(sums, return_inverse=True)
        products = np.outer(one.weights, two.weights).ravel()
        weights = np.bincount(places, products).astype(np.float64)
        return Background(values, weights).rounded(up)

    def times(self, copies: int, up: bool) -> Background:
        """The law of the sum of `copies` independent backgrounds, rounded."""
        found, power = None, self.rounded(up)
        while copies:
            if copies & 1:
                found = power if found is None else found.plus(power, up)
            copies >>= 1
            if copies:
                power = power.plus(power, up)
        assert found is not None
        return found


@dataclass(frozen=True, eq=False)
class Seen:
    """Bin(f, share) plus a background, for every count f."""

    share: float
    background: Background

    @cached_property
    def _high(self) -> Background:
        return self.background.rounded(up=True)

    @cached_property
    def _low(self) -> Background:
        return self.background.rounded(up=False)

    def at_least(self, count: int, seen: Counts) -> Floats:
        """P(observation ≥ `seen`) if the count is `count`."""
        first, tail = _binomial_tail(count, self.share)
        law = self._high
        return _looked_up(tail, seen[:, None] - law.values[None, :] - first) @ law.weights

    def at_most(self, count: int, seen: Counts) -> Floats:
        """P(observation ≤ `seen`) if the count is `count`."""
        first, tail = _binomial_tail(count, self.share)
        law = self._low
        above = _looked_up(tail, seen[:, None] + 1 - law.values[None, :] - first) @ law.weights
        return np.asarray(1 - above)


def _looked_up(tail: Floats, places: Counts) -> Floats:
    """Entries of a tail: 1 before its beginning, 0 after its end."""
    return tail[np.clip(places, 0, len(tail) - 1)]


@lru_cache(maxsize=4096)
def _binomial_tail(count: int, share: float) -> tuple[int, Floats]:
    """(first, P(X ≥ first), P(X ≥ first + 1), …, 0) of a binomial X; P(X ≥ first) is 1 up to the
    part that is cut off."""
    if count == 0 or share <= 0:
        return 0, np.array([1.0, 0.0])
    if share >= 1:
        return count, np.array([1.0, 0.0])
    mean, spread = count * share, math.sqrt(count * share * (1 - share))
    first = max(0, math.floor(mean - FARTHEST * spread - FARTHEST))
    last = min(count, math.ceil(mean + FARTHEST * spread + FARTHEST))
    steps = np.arange(first, last)
    ratios = np.log((count - steps) / (steps + 1)) + math.log(share / (1 - share))
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    law = np.exp(logs - logs.max())
    tail = np.cumsum(law[::-1])[::-1] / law.sum()
    return first, np.append(tail, 0.0)


def counts_tried(tokens: int, share: float) -> Counts:
    """Counts from 0 to beyond all that may explain this many tokens, with distances far below an
    estimate's error."""
    likely = tokens / share
    most = math.ceil(likely + 20 * math.sqrt(likely / share) + 100)
    found, last = [0], 0
    while last <= most:
        last += max(1, int(GRID_STEP * math.sqrt(last)))
        found.append(last)
    return np.array(found, np.int64)


def first_place(holds: Callable[[int, Counts], Flags], tried: Counts, size: int) -> Counts:
    """For each of `size` labels, the index of the first count at which its monotone condition holds
    (the last index if none). `holds(count, labels)` evaluates the condition for some labels, by
    their numbers."""
    low, high = np.full(size, -1), np.full(size, len(tried) - 1)
    while (going := np.flatnonzero(high - low > 1)).size:
        middle = (low[going] + high[going]) // 2
        order = np.argsort(middle, kind="stable")
        begins = np.flatnonzero(np.diff(middle[order], prepend=-2))
        for part in np.split(order, begins[1:]):
            place, labels = int(middle[part[0]]), going[part]
            found = holds(int(tried[place]), labels)
            high[labels[found]] = place
            low[labels[~found]] = place
    return high


def just_above(tried: Counts, places: Counts) -> Counts:
    """The least counts that were not excluded."""
    before = tried[np.maximum(places - 1, 0)] + 1
    return np.where(places == 0, 0, before)

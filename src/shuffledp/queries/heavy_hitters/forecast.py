"""How many users a word needs to be found: the decoder's test applied to the law of a word's
rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.bisection import bisect, first_whole
from shuffledp.queries.heavy_hitters.decoder import FALSE_PER_ROUND, log_gamma_tail, log_weight
from shuffledp.queries.heavy_hitters.units import BLOCK, rows_of

Floats = NDArray[np.float64]

SCORE_STEP = 1 / 32
"""Scores are rounded down to multiples of this before they are added up."""
FREQUENT = 22.0
"""Other words are assumed to follow Zipf's law: a bucket has more than v of their tokens with
probability tokens per bucket/(22·v)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """The parameters that determine whether a word is found."""

    empty: Floats
    """P(an empty bucket has v tokens) for v = 0, 1, …"""
    share: float
    """The probability that a user sends a token for its word."""
    users: int
    buckets: int

    @cached_property
    def scores(self) -> Floats:
        """ln(1/P) of a row with v tokens, where P is the probability that a bucket has as many
        without the word, from noise, rare words and occasionally a frequent one."""
        size = len(self.empty)
        others = self.share * self.users / self.buckets
        steps = np.arange(1, size)
        rare = np.exp(-others + np.concatenate([[0.0], np.cumsum(np.log(others / steps))]))
        law = np.convolve(self.empty, rare)[:size]
        tail = np.cumsum(law[::-1])[::-1] + others / (FREQUENT * np.maximum(np.arange(size), 1))
        return np.asarray(-np.log(np.clip(tail, 1 / self.buckets, 1.0)))

    @cached_property
    def threshold(self) -> int:
        """The least number of tokens of a row that the search follows."""
        return int(np.argmax(self.scores >= math.log(BLOCK)))

    def chance(self, units: int, holders: int) -> float:
        """The probability that a word of `units` units is found if `holders` users have it."""
        rows = rows_of(units)
        law = _with_binomial(self.empty, holders, self.share / rows)
        price = log_weight(units) + math.log(2 / FALSE_PER_ROUND)
        weakest = int(np.argmax(self.scores * rows >= price))
        alone = float(law[max(weakest, self.threshold) :].sum()) ** rows
        return max(alone, self._together(law, rows, price))

    def _together(self, law: Floats, rows: int, price: float) -> float:
        """The probability that all rows are followed and together pass the test."""
        needed = _least_score(rows, price)
        steps = np.floor(self.scores[self.threshold :] / SCORE_STEP).astype(np.int64)
        one = np.bincount(steps, law[self.threshold : len(self.scores)])
        size = 1 << math.ceil(math.log2(len(one) * rows + 1))
        every = np.fft.irfft(np.fft.rfft(one, size) ** rows, size)
        return float(np.clip(every[math.ceil(needed / SCORE_STEP) :].sum(), 0.0, 1.0))

    def least_users(self, units: int, chance: float = 0.95) -> int:
        """The number of users that a word of `units` units needs to be found with this probability;
        above the number of users if no number suffices."""
        most = self.users + 1
        return first_whole(lambda users: self.chance(units, users) >= chance, 0, most)


def _least_score(rows: int, price: float) -> float:
    """The smallest sum of scores that passes the test of all rows together."""

    def enough(score: float) -> bool:
        return float(log_gamma_tail(rows, np.array([score]))[0]) <= -price

    return bisect(enough, float(rows - 1), price + 40.0 * rows, steps=60)


def _with_binomial(law: Floats, count: int, share: float) -> Floats:
    """The law of a sum with Bin(count, share); everything beyond the end is added to the last
    entry."""
    size = len(law)
    steps = np.arange(min(count, size - 1))
    if share >= 1:
        binomial = np.zeros(count + 1)
        binomial[-1] = 1.0
    else:
        ratios = np.log((count - steps) / (steps + 1)) + math.log(share / (1 - share))
        logs = count * math.log1p(-share) + np.concatenate([[0.0], np.cumsum(ratios)])
        binomial = np.exp(logs)
    found = np.convolve(law, binomial)[:size]
    found[-1] += max(0.0, 1.0 - float(found.sum()))
    return found

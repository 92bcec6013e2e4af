"""A histogram as one counter per bucket, side by side.

A user has the value 1 in its own bucket and 0 in every other. A message is (bucket, the counter's
message). Replacing a value moves one bucket down and another up, with independent randomness. The
code that makes the histogram proves what this costs, with its claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.base import Bag, Counter, Messages, Promised, QueryName, Setting
from shuffledp.baselines.claim import Claim
from shuffledp.baselines.draws import whole_values
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.laws import DiscreteLaplace


@dataclass(frozen=True)
class PerBucket(Promised):
    """`buckets` copies of a counter, with the claim that holds for all of them together."""

    counter: Counter
    buckets: int
    promise: Claim = field(compare=False)
    query: ClassVar[QueryName] = "histogram"

    @property
    def users(self) -> int:  # type: ignore[override]
        return self.counter.users

    @property
    def bits_per_message(self) -> int:
        return (self.buckets - 1).bit_length() + self.counter.bits_per_message

    def randomize(self, value: int, entropy: Entropy = SYSTEM) -> Messages:
        """One user's messages as rows (bucket, the counter's message)."""
        own = int(whole_values(np.array([value]), self.buckets - 1)[0])
        return numbered(
            self.counter.randomize(int(bucket == own), entropy) for bucket in range(self.buckets)
        )

    def collect(self, messages: Messages, users: int) -> Bag:
        per_bucket = [
            self.counter.collect(messages[messages[:, 0] == bucket, 1], users).counts
            for bucket in range(self.buckets)
        ]
        return Bag(users, np.stack(per_bucket))

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        codes = whole_values(values, self.buckets - 1)
        tally = np.bincount(codes, minlength=self.buckets)
        drawn = [self.counter.draw(int(ones), codes.size, entropy) for ones in tally]
        return Bag(codes.size, np.stack(drawn), entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        return np.array([self.counter.estimate(counts, bag.users) for counts in bag.counts])

    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        return self.counter.mean_squared_error(users, total)

    def messages_per_user(self) -> float:
        return self.counter.messages(1) + (self.buckets - 1) * self.counter.messages(0)

    def error_law(self, users: int) -> tuple[DiscreteLaplace, Fraction] | None:
        return self.counter.error_law(users)


def numbered(messages: Iterable[Messages]) -> Messages:
    """The messages of several counters as rows (the counter's number, its message)."""
    rows = [np.column_stack([np.full(len(one), at), one]) for at, one in enumerate(messages)]
    return np.concatenate(rows)


def halves(counter: Callable[[Setting], Counter], setting: Setting) -> PerBucket:
    """An (ε/2, δ/2) counter per bucket: a replacement moves one bucket up and another down."""
    delta = None if setting.delta is None else setting.delta / 2
    half = counter(Setting(users=setting.users, epsilon=setting.epsilon / 2, delta=delta))
    claim = replace(
        half.claim,
        epsilon=setting.epsilon,
        delta=2 * half.claim.delta,
        note=f"ε/2 up, ε/2 down; {half.claim.note}",
    )
    return PerBucket(half, setting.required_buckets, claim)

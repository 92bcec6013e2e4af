"""Tokens dealt to buckets by Pólya's urn: draws, groups of buckets, and the masses of some of them.

Token i+1 goes to a uniformly drawn bucket with probability B/(B + i·m), and otherwise to the bucket
of one of the i earlier tokens, drawn uniformly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, Protocol

import numpy as np
from flint import ctx

from shuffledp.cells.base import CellGroup, Counts, Floats, Values, only_plus
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import FIRST_PRECISION, ball
from shuffledp.numbers.message_law import NoiseMessages
from shuffledp.numbers.uniform import uniform_whole

TOKENS_AT_ONCE = 1 << 22
"""About how many tokens are in memory at the same time."""
LARGEST_EXPONENT = 600.0
"""Floats hold numbers between e^−600 and e^600."""


class Urn(Protocol):
    """A cell that deals tokens."""

    @property
    def users(self) -> int:
        """m."""

    @property
    def buckets(self) -> int:
        """B."""


@dataclass(frozen=True, kw_only=True)
class DealtBuckets(CellGroup):
    """All buckets of a cell, drawn at once; a user has one of them, whose number is the code."""

    independent: ClassVar[bool] = False

    def held(self, codes: Values, counter: int) -> Values:
        return np.equal(codes, counter)

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """See `CellGroup.aggregate`; every user in the tally has a bucket."""
        return self.aggregate_with(tally, 0, entropy)

    def aggregate_with(
        self, tally: Counts, without: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        """`aggregate` with `without` further users who have none of the buckets."""
        if tally.shape != (self.codes,) or (tally < 0).any() or without < 0:
            raise ValueOutOfRange("A tally needs one count for each bucket.")
        return only_plus(self.drawn(tally, without, entropy))

    @abstractmethod
    def drawn(self, tally: Counts, without: int, entropy: Entropy) -> Counts:
        """The messages to each bucket, for `aggregate_with`."""

    def top_up(self, absent: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """The messages of `absent` users who have none of the buckets."""
        return self.aggregate_with(np.zeros(self.codes, np.int64), absent, entropy)

    @property
    @abstractmethod
    def most_messages(self) -> int:
        """The most messages that a user sends."""

    def message_laws(self) -> tuple[int, list[NoiseMessages]]:
        return self.most_messages, []


def urn(cell: Urn, count: int, entropy: Entropy) -> list[int]:
    """The buckets of `count` tokens.

    A number below B + i·m is a bucket if it is below B; the others are m for each earlier token.
    """
    found: list[int] = []
    for i in range(count):
        number = uniform_whole(cell.buckets + i * cell.users, entropy)
        found.append(
            number if number < cell.buckets else found[(number - cell.buckets) // cell.users]
        )
    return found


def urns(cell: Urn, sizes: Counts, entropy: Entropy) -> tuple[Counts, Counts]:
    """(urn, bucket) of every token of many urns, `sizes[u]` tokens in the urn u."""
    order = np.argsort(-sizes, kind="stable")  # urns that continue always come first
    ordered = sizes[order]
    longest = int(ordered[0]) if ordered.size else 0
    going = np.searchsorted(-ordered, -np.arange(1, longest + 1), side="right")
    starts = np.concatenate([[0], np.cumsum(going)]).astype(np.int64)
    buckets, owners = np.empty((2, int(starts[-1])), np.int64)
    for i, count in enumerate(going.tolist()):
        numbers = uniform_below(cell.buckets + i * cell.users, count, entropy)
        copied = np.flatnonzero(numbers >= cell.buckets)
        earlier = (numbers[copied] - cell.buckets) // cell.users
        numbers[copied] = buckets[starts[earlier] + copied]
        buckets[starts[i] : starts[i + 1]] = numbers
        owners[starts[i] : starts[i + 1]] = order[:count]
    return owners, buckets


def dealt(cell: Urn, sizes: Sequence[tuple[int, int]], entropy: Entropy) -> Counts:
    """The tokens in each bucket from all urns; `sizes` are (tokens of an urn, such urns)."""
    total = np.zeros(cell.buckets, np.int64)
    for size, count in sizes:
        step = max(1, TOKENS_AT_ONCE // max(size, 1))
        for begin in range(0, count if size else 0, step):
            _, buckets = urns(cell, np.full(min(step, count - begin), size), entropy)
            total += np.bincount(buckets, minlength=cell.buckets)
    return total


def urn_masses(
    cell: Urn, cut: int, together: int, r: Any, beta: Any
) -> tuple[list[Any], list[Any]]:
    """The distribution of the tokens in some buckets together, for a noise of at most `cut` tokens
    (0..cut) and for cut + 1 tokens (0..cut+1), in the arithmetic of `r` and `beta`."""
    own, others = [r / r], [r / r]  # c_k here and in the other buckets
    here, rest = together * r, (cell.buckets - together) * r
    for k in range(cut + 1):
        own.append(own[-1] * beta * (here + k) / (k + 1))
        others.append(others[-1] * beta * (rest + k) / (k + 1))
    below = list(accumulate(others))
    noise = [own[k] * below[cut - k] for k in range(cut + 1)]
    beyond = [own[k] * others[cut + 1 - k] for k in range(cut + 2)]
    total, jumps = sum(noise), sum(beyond)
    return [mass / total for mass in noise], [mass / jumps for mass in beyond]


def float_masses(
    cell: Urn,
    cut: int,
    together: int,
    decay: Fraction,
    masses: Callable[[Any, Any], tuple[list[Any], list[Any]]],
) -> tuple[Floats, Floats]:
    """`masses`, which returns those of `urn_masses` or what follows from them for given r and β,
    with a relative error of about 10⁻¹³ each: in floats, since all terms are positive, or in balls
    if they would exceed every float. That is so if there are many more buckets than users."""
    r, beta = 1 / cell.users, float(decay)
    k = np.arange(cut + 1)
    shapes = [shape for shape in (together * r, (cell.buckets - together) * r) if shape > 0]
    logs = [np.cumsum(np.log(beta * (shape + k) / (k + 1))) for shape in shapes]
    if max(float(np.abs(log).max()) for log in logs) < LARGEST_EXPONENT:
        found = masses(r, beta)
    else:
        with ctx.workprec(FIRST_PRECISION):
            found = masses(ball(Fraction(1, cell.users)), ball(decay))
    noise, jumps = (np.array([float(mass) for mass in side]) for side in found)
    return noise, jumps

"""How much of [GMPS21]'s noise hides a value: every value is a sum of zero-sum noises.

A message i is one more copy of the noise {i, ⌊−i/2⌋, ⌈−i/2⌉} less the two halves, which are taken
apart in the same way, down to messages +1 and −1; a −1 is a pair {+1, −1} less a +1. So a view
with X in it is the view with X′ of noises that are shifted by whole numbers, and the shift costs

* |X − X′| ε*/D for the geometric noises, purely: of the two, the one that must grow is used;
* for a zero-sum noise shifted by s: |s| times what one step costs, and δ only where it must
  shrink: `low_delta` of its law, once for each step (and e^ε for those before it).

`shares` gives the most that shifts can amount to over all pairs (X, X′).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from shuffledp.baselines.divergence import low_delta
from shuffledp.numbers.exact import ball
from shuffledp.numbers.laws import NegativeBinomial


@lru_cache(maxsize=1 << 14)
def parts(message: int) -> dict[int, int]:
    """A message as {size: how many copies}: sizes |i| ≥ 2 are zero-sum noises, signed as they
    come; 1 and −1 are the messages left over."""
    if abs(message) == 1:
        return {message: 1}
    found = {message: 1}
    for half in (-message // 2, -(message // 2)):
        for size, copies in parts(half).items():
            found[size] = found.get(size, 0) - copies
    return found


@dataclass(frozen=True)
class Shares:
    """Bounds on the shift between any two values 0..D."""

    weighted: int
    """Bounds Σ |i| |s_i| over the zero-sum noises of sizes |i| ≥ 2."""
    copies: int
    """Bounds Σ |s_i| over the same noises."""
    pairs: int
    """Bounds the shift of the pairs {+1, −1}."""


@lru_cache(maxsize=64)
def shares(units: int) -> Shares:
    """The bounds for D: twice those of the worst value, because a replacement takes one value away
    and adds another."""
    weighted = copies = 0
    lows = [0]
    for value in range(1, units + 1):
        found = parts(value)
        large = {size: count for size, count in found.items() if abs(size) > 1}
        weighted = max(weighted, sum(abs(size * count) for size, count in large.items()))
        copies = max(copies, sum(abs(count) for count in large.values()))
        lows.append(found.get(-1, 0))
    return Shares(2 * weighted, 2 * copies, max(lows) - min(lows) + units)


def tree_delta(
    units: int, pairs: NegativeBinomial, splits: tuple[NegativeBinomial, ...], budget: Fraction
) -> arb:
    """A bound of δ when half of `budget` goes to the pairs and half to the other noises, each
    step of size i in proportion to |i|; a ball, infinite where a noise's decay exceeds its step.

    Requires: shapes of at least 1, so that growing by one costs at most the decay, purely.
    """
    most = shares(units)
    pair_step = budget / 2 / most.pairs
    unit = budget / 2 / max(most.weighted, 1)
    steps = [unit * size for size in range(2, units + 1)]
    if pairs.decay > pair_step or any(
        law.decay > step for law, step in zip(splits[1:], steps, strict=True)
    ):
        return arb("inf")
    grow = ball(budget).exp()
    total = most.pairs * grow * low_delta(pairs, pair_step)
    worst = arb(0)
    for law, step in zip(splits[1:], steps, strict=True):
        here = low_delta(law, step)
        worst = worst if here < worst else here
    return total + most.copies * grow * worst

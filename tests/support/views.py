"""The views of a handful of users, by brute force: nothing here relies on a proof."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias, TypeVar

import numpy as np
from flint import arb

from shuffledp.numbers.laws import Binomial

View: TypeAlias = tuple[int, ...]
Law: TypeAlias = Mapping[View, float]
"""How likely each view is."""
K = TypeVar("K", bound=Hashable)


def tuple_sum(left: View, right: View) -> View:
    """Two tuples added entry by entry."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def added(laws: Iterable[Law]) -> dict[View, float]:
    """The law of the sum of independent tuples, each with its own law."""
    total: dict[View, float] = {}
    for law in laws:
        if not total:
            total = dict(law)
            continue
        grown: dict[View, float] = defaultdict(float)
        for a, p in total.items():
            for b, q in law.items():
                grown[tuple_sum(a, b)] += p * q
        total = dict(grown)
    return total


def moved(law: Law, by: View) -> dict[View, float]:
    """The law of a tuple to which a fixed one is added."""
    return {tuple_sum(view, by): p for view, p in law.items()}


def squared(law: Law) -> dict[View, float]:
    """The law of two independent draws, written one after the other."""
    return {(*a, *b): p * q for a, p in law.items() for b, q in law.items()}


def max_divergence(left: Mapping[K, float], right: Mapping[K, float]) -> float:
    """The largest |ln ratio|; infinite where one is possible and the other is not."""
    keys = set(left) | set(right)
    pairs = [(left.get(k, 0.0), right.get(k, 0.0)) for k in keys]
    pairs = [(p, q) for p, q in pairs if p > 0 or q > 0]
    if any(p == 0 or q == 0 for p, q in pairs):
        return math.inf
    return max(abs(math.log(p / q)) for p, q in pairs)


def hockey_stick(left: Mapping[K, float], right: Mapping[K, float], epsilon: float) -> float:
    """The larger of H_ε(left ‖ right) and H_ε(right ‖ left)."""
    grow = math.exp(epsilon)
    keys = set(left) | set(right)
    one = sum(max(left.get(k, 0.0) - grow * right.get(k, 0.0), 0.0) for k in keys)
    two = sum(max(right.get(k, 0.0) - grow * left.get(k, 0.0), 0.0) for k in keys)
    return max(one, two)


def split_distance(users: int, shares: int, ones: int, other_ones: int) -> float:
    """The distance between the shuffled shares modulo 2 of two inputs with `ones` and
    `other_ones` ones; their sums must agree modulo 2.

    A user's shares with sum x hold a ones, a ≡ x (mod 2), with chance C(m,a)/2^(m−1); the view
    is the number of ones of all.
    """
    laws = [np.zeros(shares + 1), np.zeros(shares + 1)]
    for held in range(shares + 1):
        laws[held % 2][held] = math.comb(shares, held) / 2 ** (shares - 1)
    size = 1 << (users * shares + 1).bit_length()
    zero, one = (np.fft.rfft(law, size) for law in laws)
    views = [zero ** (users - k) * one**k for k in (ones, other_ones)]
    return float(np.abs(np.fft.irfft(views[0] - views[1], size)).sum() / 2)


def law_of_view(users: int, flip: Fraction, ones: int, value: int) -> list[arb]:
    """P(T = t) for t = 0..n in ball arithmetic, for a handful of users that flip their bits."""
    total = [arb(1)]
    for chance in [1 - flip] * ones + [flip] * (users - 1 - ones) + [abs(value - flip)]:
        coin = Binomial(1, chance)
        no, yes = coin.pmf(0), coin.pmf(1)
        padded = [arb(0), *total, arb(0)]
        total = [no * b + yes * a for a, b in pairwise(padded)]
    return total

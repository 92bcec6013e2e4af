"""The views of a handful of users, by brute force: nothing here relies on a proof."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias, TypeVar

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

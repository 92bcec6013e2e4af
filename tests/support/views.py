"""Views of a handful of users, by brute force: nothing here knows a proof."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable

Law = dict[Hashable, float]


def tuple_sum(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def added(laws: Iterable[Law]) -> Law:
    """The law of the sum of independent tuples."""
    total: Law = {}
    for law in laws:
        if not total:
            total = dict(law)
            continue
        grown: Law = defaultdict(float)
        for a, p in total.items():
            for b, q in law.items():
                grown[tuple_sum(a, b)] += p * q  # type: ignore[arg-type]
        total = dict(grown)
    return total


def max_divergence(left: Law, right: Law) -> float:
    """The largest |ln ratio|; infinite where one is possible and the other is not."""
    keys = set(left) | set(right)
    pairs = [(left.get(k, 0.0), right.get(k, 0.0)) for k in keys]
    pairs = [(p, q) for p, q in pairs if p > 0 or q > 0]
    if any(p == 0 or q == 0 for p, q in pairs):
        return math.inf
    return max(abs(math.log(p / q)) for p, q in pairs)


def hockey_stick(left: Law, right: Law, epsilon: float) -> float:
    """The larger of H_ε(left ‖ right) and H_ε(right ‖ left)."""
    grow = math.exp(epsilon)
    keys = set(left) | set(right)
    one = sum(max(left.get(k, 0.0) - grow * right.get(k, 0.0), 0.0) for k in keys)
    two = sum(max(right.get(k, 0.0) - grow * left.get(k, 0.0), 0.0) for k in keys)
    return max(one, two)

"""Views of groups of buckets, drawn in several ways and compared with their exact law."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sparse_oracle import Vector

from shuffledp import SeededEntropy

Counts = NDArray[np.int64]


def chi2(drawn: list[Vector], law: dict[Vector, float]) -> float:
    """How far draws are from a law, in standard deviations of χ²; rare views are put together."""
    size = len(drawn)
    common = [view for view, chance in law.items() if chance * size >= 8]
    expected = np.array([law[view] for view in common]) * size
    counts = Counter(drawn)
    seen = np.array([counts[view] for view in common], float)
    rest, rest_seen = size - expected.sum(), size - seen.sum()
    value = ((seen - expected) ** 2 / expected).sum() + (rest_seen - rest) ** 2 / max(rest, 1)
    return float((value - len(common)) / math.sqrt(2 * len(common)))


def one_by_one(group: Any, codes: list[int], entropy: SeededEntropy) -> Counts:
    """The view of users who each draw on a device."""
    return np.asarray(sum(group.randomize(code, entropy)[0] for code in codes))


def as_array(group: Any, codes: list[int], entropy: SeededEntropy) -> Counts:
    """The view of users who are drawn together, each with a code."""
    return np.asarray(group.randomize_total(np.array(codes), entropy)[0])

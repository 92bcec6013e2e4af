"""The oracle: max-divergence of the whole view (V₊, V₋) by brute force, for a handful of users.

It knows nothing of the proof: it adds up the probability of every view on a grid, for every
choice of the other users' values, and takes the largest ratio. The lower left corner of the plane
is exact (a view depends on smaller ones only), all terms are positive, so floats keep about 13
digits; the oracle tests the certificate and never replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.paper.cell import PaperCell
from shuffledp.numbers.laws import Law

Plane = NDArray[np.float64]

SMALLEST = 1e-280  # below this a float loses digits: such views are left out


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The largest log ratio in each direction, and where it was found."""

    up: float
    """A larger value against a smaller one."""
    down: float
    up_at: tuple[int, int]
    down_at: tuple[int, int]

    @property
    def worst(self) -> float:
        return max(self.up, self.down)


def masses(law: Law, size: int) -> NDArray[np.float64]:
    """P(X = 0), …, P(X = size−1)."""
    return np.array([float(law.pmf(k)) for k in range(size)])


def noise_plane(cell: PaperCell, size: int) -> Plane:
    """The law of flood and noises of all users together: P(V₊ = i, V₋ = j)."""
    plus, minus = masses(cell.plus_noise, size), masses(cell.minus_noise, size)
    flood = masses(cell.flood, size)
    plane = np.zeros((size, size))
    for pairs in range(size):
        rest = size - pairs
        plane[pairs:, pairs:] += flood[pairs] * np.outer(plus[:rest], minus[:rest])
    return plane


def with_user(plane: Plane, cell: PaperCell, value: int) -> Plane:
    """The view after one more user's input part (Algorithm 1, line 2)."""
    q = float(cell.mute_probability)
    right, up = cell.input_pairs + value, cell.input_pairs + cell.stand_in
    moved = np.zeros_like(plane)
    moved[right:, up:] = plane[: len(plane) - right, : len(plane) - up]
    return q * plane + (1 - q) * moved


def largest_log_ratio(above: Plane, below: Plane) -> tuple[float, tuple[int, int]]:
    """max ln(above/below) over all views likely enough for floats, and where."""
    seen = above > SMALLEST
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(seen, np.log(above) - np.log(below), -np.inf)
    place = np.unravel_index(np.argmax(ratio), ratio.shape)
    return float(ratio[place]), (int(place[0]), int(place[1]))


def max_divergence(cell: PaperCell, users: int, size: int = 160) -> Divergence:
    """The worst loss over all values of all users, both directions, on a size × size grid.

    Takes any number of users: with fewer than the cell was planned for, all the noise is still
    there (as if absent users sent theirs), which is the certificate's own worst case.
    """
    base = noise_plane(cell, size)
    ups, downs = [], []
    for others in combinations_with_replacement(range(cell.largest + 1), users - 1):
        view = _with_all(base, cell, others)
        views = [with_user(view, cell, value) for value in range(cell.largest + 1)]
        for low in range(cell.largest + 1):
            for high in range(low + 1, cell.largest + 1):
                ups.append(largest_log_ratio(views[high], views[low]))
                downs.append(largest_log_ratio(views[low], views[high]))
    (up, up_at), (down, down_at) = max(ups), max(downs)
    return Divergence(up=up, down=down, up_at=up_at, down_at=down_at)


def _with_all(plane: Plane, cell: PaperCell, values: Iterable[int]) -> Plane:
    for value in values:
        plane = with_user(plane, cell, value)
    return plane

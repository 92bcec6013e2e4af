"""ln E[e^(θ·error)] of the bounded cell's estimate, for bounds on its tails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.bounded.error import noise_masses, shift_and_kept
from shuffledp.numbers.finite import CutNegativeBinomial

if TYPE_CHECKING:
    from shuffledp.cells.bounded.cell import BoundedCell

Floats = NDArray[np.float64]


def log_moment(cell: BoundedCell, theta: Floats, users: int, total: float) -> Floats:
    """ln E[e^(θ·error)] when as many users as possible hold D: the real counterpart of
    `bounded_error.log_characteristic`, from the same parts."""
    shift, kept = shift_and_kept(cell)
    scaled = theta / kept
    full = total / cell.largest
    high, low = (cell.log_user_moment(scaled, x) for x in (cell.largest, 0))
    logs = full * high + (users - full) * low
    return np.asarray(logs + scaled * (float(1 - cell.data_probability) * total - users * shift))


def log_user(cell: BoundedCell, theta: Floats, x: int) -> Floats:
    """ln E[e^(θ(v−x))] of one user whose value is x."""

    kept = float(cell.data_probability)
    y = np.arange(1, cell.largest + 1)
    ups, downs = (
        kept * np.array([float(one) for one in side.odds]) for side in (cell.up, cell.down)
    )
    up, down = noise_off(cell.up_noise, theta), noise_off(cell.down_noise, -theta)
    muted_up = noise_off(cell.up_muted_noise, theta)
    muted_down = noise_off(cell.down_muted_noise, -theta)
    jumps = (
        weighted(np.exp(np.outer(theta, cell.up_jump(0) + y - x)), ups)
        * (1 + muted_up)
        * (1 + down)
    )
    jumps += (
        weighted(np.exp(np.outer(theta, cell.down_jump(0) - y - x)), downs)
        * (1 + up)
        * (1 + muted_down)
    )
    muted = float(1 - cell.data_probability)
    return np.asarray(np.log1p(kept * (up + down + up * down) + jumps - muted))


def noise_off(law: CutNegativeBinomial, theta: Floats) -> Floats:
    """E[e^(θZ)] − 1."""
    masses = noise_masses(law)
    return weighted(np.expm1(np.outer(theta, np.arange(len(masses)))), masses)


def weighted(values: Floats, weights: Floats) -> Floats:
    """The weighted sum of each row; not as a product of matrices, for which NumPy may start threads
    that wait for each other on a busy machine."""
    return np.asarray((values * weights).sum(axis=1))

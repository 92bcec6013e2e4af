"""The pairs and the flood of a paper's cell whose noise and muting are given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.flood import least_flood
from shuffledp.cells.paper.proof import tightest
from shuffledp.errors import CertificateError, PlanningError
from shuffledp.numbers.exact import round_to
from shuffledp.numbers.special import Floats

NOT_PRIVATE = "No number of extra messages makes these parameters private; allow a larger error."


def with_best_pairs(
    cell: PaperCell, loss: Fraction, flood_cost: Callable[[Floats], Floats]
) -> PaperCell:
    """The cell with the number of pairs, and the flood that goes with it, that cost least, where
    `flood_cost` is what flood pairs per user cost; its noise and muting stay as they are."""
    fewest = 1
    while not np.isfinite(_flood(cell, loss, np.array([2.0 * fewest]))[0]):
        fewest *= 2
        if fewest > 1e9:
            raise PlanningError(NOT_PRIVATE)
    low, high = max(1, fewest // 2), 8 * fewest
    for _ in range(12):
        pairs = np.unique(np.linspace(low, high, 64).astype(np.int64))
        floods = _flood(cell, loss, pairs.astype(np.float64)) / cell.users
        possible = np.isfinite(floods)
        costs = 2 * pairs + np.where(possible, flood_cost(np.where(possible, floods, 0.0)), np.inf)
        at = int(np.argmin(costs))
        if len(pairs) < 64:
            break
        low, high = int(pairs[max(at - 2, 0)]), int(pairs[min(at + 2, len(pairs) - 1)])
    best = int(pairs[at])
    for more in (0, 1, 2, 4, 8):
        with contextlib.suppress(PlanningError):
            return with_least_flood(replace(cell, input_pairs=best + more), loss)
    return with_least_flood(replace(cell, input_pairs=best + 16), loss)


def _flood(cell: PaperCell, loss: Fraction, pairs: Floats) -> Floats:
    """The least flood for each number of pairs, in floats."""
    odds = cell.mute_probability / (1 - cell.mute_probability)
    up, down, most, chance = (
        np.full_like(pairs, float(x)) for x in (cell.up_epsilon, cell.down_epsilon, loss, odds)
    )
    return least_flood((cell.largest, cell.stand_in), up, down, most, chance, pairs)


def with_least_flood(cell: PaperCell, loss: Fraction) -> PaperCell:
    """The cell with the smallest flood, to six digits, that certifies."""
    flood = float(_flood(cell, loss, np.array([float(cell.input_pairs)]))[0])
    most = 2 * flood + 100  # beyond it, the cell fails at a change that proposals do not look at
    for attempt in range(40):
        if not flood <= most:
            break
        candidate = replace(cell, flood_mean=round_to(flood, 6, up=True))
        try:
            tightest(candidate, loss)
            return candidate
        except CertificateError:
            flood *= 1 + 1e-5 * 2**attempt
    raise PlanningError(NOT_PRIVATE)

"""Parameters of a kept cell, for losses in both directions and a number of messages.

Floats propose β and the odds x = p/q on a grid that is refined twice. Both become short decimals,
o is rounded up and p down, q is the rest, and `prove_kept` decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.cells.base import Floats
from shuffledp.cells.sparse.cell import MOST_SPARSE_BUCKETS, MOST_SPARSE_CUT, KeptCell
from shuffledp.cells.sparse.proof import beyond_cut, exponential_below
from shuffledp.cells.sparse.search import SAME_ERROR, neighbours
from shuffledp.errors import PlanningError
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.exact import round_to, whole

DIGITS = 6
"""Digits of β and p/q."""
ROUNDS, POINTS = 4, 40
LEAST_ODDS = 1e-4
"""The least p/q that is tried, relative to the largest that is private."""


@dataclass(frozen=True, kw_only=True)
class KeptTask:
    """What a kept cell must achieve."""

    users: int
    """m."""
    buckets: int
    up: Fraction
    """What a value instead of none may cost."""
    down: Fraction
    """What none instead of a value may cost."""
    expected: int
    """Users for whom the error is forecast."""
    count: int
    """The true count at which the error is minimised."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A point of the grid, in floats."""

    decay: float
    """β."""
    odds: float
    """p/q."""
    mse: float


def _mse(task: KeptTask, cut: int, decays: Floats, odds: Floats) -> Floats:
    """The mean squared error at the task's count, for each pair of β and p/q; infinite if it is not
    private. Both are arrays of the same shape."""
    m, b, n = task.users, task.buckets, task.expected
    rho, j = b / m, np.arange(cut + 2)
    ratios = np.log((rho + j[:-1]) / (j[:-1] + 1))
    logs = np.concatenate([[0.0], np.cumsum(ratios)]) + np.log(decays)[..., None] * j
    masses = np.exp(np.minimum(logs, 700.0))
    kept = masses[..., :-1].sum(axis=-1)
    one = (masses[..., :-1] * j[:-1]).sum(axis=-1) / kept
    pairs = (masses[..., :-1] * (j[:-1] * (j[:-1] - 1))).sum(axis=-1) / kept
    jump_odds = odds / decays * m * masses[..., -1] / math.expm1(float(task.up))  # o/q
    q = 1 / (1 + odds + jump_odds)
    p, o, jumped = odds * q, jump_odds * q, cut + 1
    same = (1 / m + 1) / (b * (rho + 1))
    noise = pairs * same + one / b - (one / b) ** 2
    jumps, added = o * (jumped * cut * same + jumped / b), o * jumped / b
    empty, held = noise + jumps - added**2, noise + p + jumps - (p + added) ** 2
    allowed = odds / decays + 1 <= math.exp(float(task.up)) * (odds + 1)
    mse = (task.count * held + (n - task.count) * empty) / p**2
    return np.asarray(np.where(allowed & np.isfinite(mse), mse, np.inf), np.float64)


@lru_cache(maxsize=256)
def _least(task: KeptTask, cut: int) -> Proposal | None:
    """The best point of the grid, refined around it. A point is p/q as a part of the largest, and
    where β lies between the least that is private and 1."""
    most = math.expm1(float(task.down))
    gain = math.exp(float(task.up))
    parts = np.geomspace(LEAST_ODDS, 1, POINTS)
    places = np.concatenate([[0.0], np.geomspace(1e-6, 0.999, POINTS)])
    best: Proposal | None = None
    for _ in range(ROUNDS):
        odds = most * parts[:, None]
        least = odds / (gain * (odds + 1) - 1)
        decays = least + (1 - least) * places[None, :]
        mse = _mse(task, cut, decays, odds + 0 * decays)
        i, k = divmod(int(np.argmin(mse)), mse.shape[1])
        if not np.isfinite(mse[i, k]):
            break
        if best is None or mse[i, k] < best.mse:
            best = Proposal(decay=float(decays[i, k]), odds=float(odds[i, 0]), mse=float(mse[i, k]))
        parts = np.linspace(*neighbours(parts, i), POINTS)
        places = np.linspace(*neighbours(places, k), POINTS)
    return best


def exact_cell(task: KeptTask, cut: int, found: Proposal) -> KeptCell:
    """The cell with about these β and p/q, both as short decimals, and the largest p."""
    taken, given = exponential_below(task.up), exponential_below(task.down)
    odds = min(round_to(found.odds, DIGITS, up=False), given - 1)
    least = odds / (taken * (odds + 1) - 1)  # (iii), solved for β
    decay = max(
        round_to(found.decay, DIGITS, up=False),
        round_to(float(least) * (1 + 1e-9), DIGITS, up=True),
    )
    if decay >= 1:
        raise PlanningError("No sparse cell achieves these losses; allow more messages.")
    m = task.users
    jump_odds = odds / decay * m * beyond_cut(m, task.buckets, decay, cut) / (taken - 1)
    jump = round_to(float(jump_odds / (1 + odds + jump_odds)) * (1 + 1e-9), 6, up=True)
    if jump >= 1:
        raise PlanningError("No sparse cell works with so few messages; allow more.")
    data = Fraction(math.floor((1 - jump) * odds / (1 + odds) * 10**12), 10**12)
    if data <= 0:
        raise PlanningError("No sparse cell works with so few messages; allow more.")
    return KeptCell(
        users=m,
        buckets=task.buckets,
        up=task.up,
        down=task.down,
        decay=decay,
        cut=cut,
        data=data,
        muted=1 - data - jump,
        jump=jump,
    )


def plan_kept(task: KeptTask, max_messages: int) -> KeptCell:
    """The kept cell with the least error at the task's count and at most `max_messages` messages;
    among those with about that error, the one with the fewest messages.

    >>> cell = plan_kept(
    ...     KeptTask(users=10**6, buckets=10**4, up=Fraction(1, 2), down=Fraction(1, 2),
    ...              expected=10**6, count=1000), 25)
    >>> cell.most_messages, round(cell.rmse(10**6, 1000), 1)
    (25, 39.7)
    """
    whole(task.buckets, "buckets", most=MOST_SPARSE_BUCKETS)
    most = min((whole(max_messages, "max_messages", least=1) - 1) // 2, MOST_SPARSE_CUT)
    least = _least(task, most)
    if least is None:
        raise PlanningError("No sparse cell meets these limits; allow more messages.")
    allowed = SAME_ERROR * least.mse

    def does(cut: int) -> bool:
        found = _least(task, cut)
        return found is not None and found.mse <= allowed

    cut = first_whole(does, -1, most)
    return exact_cell(task, cut, _least(task, cut) or least)

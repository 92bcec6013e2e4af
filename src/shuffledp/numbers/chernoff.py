"""Upper bounds on the probability of a deviation, from the moments of its law (Chernoff).

    P(X ≥ x) ≤ E[e^(θX)]·e^(−θx)   for every θ > 0 at which the expectation is finite

The laws here have heavier tails than a normal law of the same variance: noise falls off like
e^(−εx), and a muted user, which is rare, moves an estimate by a dozen. The number of standard
deviations therefore says little about how rare something is; these bounds hold for the exact laws.
For reporting only: no privacy question is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from shuffledp.numbers.bisection import bisect
from shuffledp.numbers.lattice import Floats

LogMoment = Callable[[Floats], Floats]
"""ln E[e^(θX)] at each θ, of one law or, in rows, of several; not finite where the expectation is
not."""
GRID = np.geomspace(0.05, 60.0, 200)
"""The values of θ·σ that are tried."""
ASYMPTOTIC = 20.0
"""Standard deviations beyond which the normal tail is replaced by its first term."""


class Unlikely(NamedTuple):
    """A deviation, and ln of a bound on the probability of one at least as large."""

    sign: int
    log_chance: float


def log_tails(excess: Floats, moment: LogMoment, spread: float) -> Floats:
    """ln of a bound on P(X ≥ x) for each x > 0; 0 for all others. They share one law, or each has
    its own."""
    theta = GRID / spread
    with np.errstate(all="ignore"):
        logs = np.atleast_2d(moment(theta))
    logs = np.where(np.isfinite(logs), logs, np.inf)
    bounds = np.min(logs - np.outer(excess, theta), axis=1, initial=0.0)
    return np.where(excess > 0, bounds, 0.0)


def log_sum_tail(
    total: float, moments: Sequence[tuple[int, LogMoment]], spread: float, *, cut: bool
) -> float:
    """ln of a bound on P(ΣX ≥ total) for independent X; `moments` lists (how many X, their law).
    With `cut`, of the sum of max(X, 0): E[e^(θ·max(X, 0))] ≤ 1 + E[e^(θX)]."""

    def together(theta: Floats) -> Floats:
        logs = np.zeros_like(theta)
        for count, moment in moments:
            laws = np.atleast_2d(moment(theta))
            logs += count * (np.logaddexp(0.0, laws) if cut else laws).sum(axis=0)
        return logs

    return float(log_tails(np.array([total]), together, spread)[0])


def as_deviations(log_chance: float) -> float:
    """The z such that a normal variable is more than z standard deviations from its mean, on either
    side, with this probability."""
    if log_chance >= 0:
        return 0.0
    far = math.sqrt(-2 * log_chance) + 1.0
    return bisect(lambda z: _log_outside(z) > log_chance, far, 0.0, steps=100)


def _log_outside(z: float) -> float:
    """ln P(|N| > z), from above."""
    if z < ASYMPTOTIC:
        return math.log(math.erfc(z / math.sqrt(2)))
    return -z * z / 2 - math.log(z) + math.log(2 / math.pi) / 2


def as_anomaly(found: Sequence[Unlikely]) -> float:
    """The most unlikely of some deviations, in standard deviations of a normal law, with its sign.

    Ensures: for any number of deviations, |anomaly| > z is at most as probable as a normal variable
    more than z standard deviations from its mean (Bonferroni).
    """
    worst = min(found, key=lambda one: one.log_chance, default=Unlikely(1, 0.0))
    away = as_deviations(worst.log_chance + math.log(max(len(found), 1)))
    return worst.sign * away if away else 0.0

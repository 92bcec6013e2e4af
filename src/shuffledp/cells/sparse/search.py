"""Parameters of a sparse cell for a number of messages and the count at which to minimise the
error.

Floats propose β and φ on a grid that is refined twice; both become short decimals, p is rounded
down and o up, q is the rest, and `prove` decides. All of it takes milliseconds at any number of
users.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shuffledp.cells.base import Floats
from shuffledp.cells.search import CellTarget, FoundCells
from shuffledp.cells.sparse.cell import MOST_SPARSE_BUCKETS, MOST_SPARSE_CUT, SparseCell
from shuffledp.cells.sparse.proof import exponential_below, spill
from shuffledp.errors import PlanningError
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.exact import ExactNumber, positive_as_written, round_to, to_float, whole

DEFAULT_MESSAGES, DEFAULT_COUNT = 25, 100
DIGITS = 4
"""Digits of 1 − β (or β) and of φ."""
ROUNDS, FINE = 3, 24
"""How often the grid is refined, and how many points it then has in each direction."""
DECAYS = np.geomspace(1e-4, 40.0, 120)
"""ln(1/β)."""
SHARES = np.concatenate([np.geomspace(1e-7, 0.4, 60), 1 - np.geomspace(0.55, 1e-6, 30)])
"""φ."""
RAREST_JUMP = 1e-70
"""Long cuts need jumps rarer than any float. Jumps at this probability cost nothing, and its digits
fit into a cell."""
SAME_ERROR = 1.001
"""A shorter report is taken if its MSE is at most this many times the least."""
BALANCE = 1.02
"""How far the MSE at the count may exceed the least (1 % of the RMSE) to lower the MSE at 0."""


@dataclass(frozen=True, kw_only=True)
class SparseTask:
    """What a sparse cell must achieve."""

    users: int
    """m."""
    buckets: int
    epsilon: Fraction
    expected: int
    """Users for whom the error is forecast."""
    count: int
    """f: the true count at which the error is measured."""
    average: float = math.inf
    """The most messages of a user on average."""
    jumps: float = math.inf
    """The largest expected number of jumps in a batch of m users."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A point of the grid, in floats."""

    decay: float
    """ln(1/β)."""
    share: float
    mse: float
    """At the task's count."""
    average: float
    """Messages of a user."""


class Grid(NamedTuple):
    """Errors and messages for every pair of ln(1/β) and φ; infinite if a limit is exceeded."""

    mse: Floats
    """At the task's count."""
    empty: Floats
    """At an empty bucket."""
    average: Floats
    """Messages of a user."""


Objective = Callable[[Grid], Floats]
"""The objective at each point of a grid."""


def _grid(task: SparseTask, cut: int, decays: Floats, shares: Floats) -> Grid:
    m, b, n, f = task.users, task.buckets, task.expected, min(task.count, task.expected)
    gain = math.expm1(float(task.epsilon))
    rho, steps = b / m, np.arange(cut + 1)
    ratios = np.log((rho + steps) / (steps + 1))
    logs = np.concatenate([[0.0], np.cumsum(ratios)]) - np.multiply.outer(
        decays, np.arange(cut + 2)
    )
    top = logs.max(axis=1, keepdims=True)
    masses = np.exp(logs - top)
    kept = masses[:, :-1].sum(axis=1)
    j = np.arange(cut + 1)
    one = (masses[:, :-1] * j).sum(axis=1) / kept
    pairs = (masses[:, :-1] * (j * (j - 1))).sum(axis=1) / kept
    spilled = m * masses[:, -1] / kept  # m·s_(Z+1)/C
    one, pairs, spilled, beta = (x[:, None] for x in (one, pairs, spilled, np.exp(-decays)))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        jump_odds = spilled / (shares * beta * gain)
        muted_odds = 1 / ((1 - shares * ((m - 1) / m)) * beta * gain)
        p = 1 / (1 + jump_odds + muted_odds)
        o, q, jumped = p * jump_odds, p * muted_odds, cut + 1
        same = (1 / m + 1) / (b * (rho + 1))
        mean = ((1 - o) * one + o * jumped) / b
        noise, jumps = pairs * same + one / b, jumped * cut * same + jumped / b
        empty = (1 - o) * noise + o * jumps - mean**2
        held = p * (noise + 2 * one / b + 1) + q * noise + o * jumps - (mean + p) ** 2
        mse = (f * held + (n - f) * empty) / p**2
        average = (1 - o) * one + o * jumped + p
        allowed = np.isfinite(mse) & (average <= task.average)
        allowed &= np.maximum(o, RAREST_JUMP) * m <= task.jumps
    return Grid(*(np.where(allowed, x, np.inf) for x in (mse, n * empty / p**2, average)))


def _least(
    task: SparseTask, cut: int, objective: Objective, near: Proposal | None = None
) -> Proposal | None:
    """The best point of the grid, refined around it; the grid is finer around `near`."""
    decays, shares = DECAYS, SHARES
    if near is not None:
        decays = _around(near.decay, math.inf)
        shares = np.unique(np.concatenate([SHARES, _around(near.share, 1.0)]))
    best: Proposal | None = None
    for _ in range(ROUNDS):
        grid = _grid(task, cut, decays, shares)
        score = objective(grid)
        i, j = divmod(int(np.argmin(score)), score.shape[1])
        if not np.isfinite(score[i, j]):
            break
        best = Proposal(
            decay=float(decays[i]),
            share=float(shares[j]),
            mse=float(grid.mse[i, j]),
            average=float(grid.average[i, j]),
        )
        decays = np.geomspace(*neighbours(decays, i), FINE)
        shares = np.linspace(*neighbours(shares, j), FINE)
    return best


def neighbours(points: Floats, place: int) -> tuple[float, float]:
    """The points before and after a place."""
    return float(points[max(place - 1, 0)]), float(points[min(place + 1, len(points) - 1)])


def _around(number: float, most: float) -> Floats:
    """Numbers from an eighth to eight times a number, itself included."""
    steps = np.append(number * np.geomspace(1 / 8, 8, 64), number)
    return np.asarray(np.unique(steps[steps <= most]))


@lru_cache(maxsize=256)
def _least_error(task: SparseTask, cut: int) -> Proposal | None:
    return _least(task, cut, lambda grid: grid.mse)


def _balanced(task: SparseTask, cut: int) -> Proposal:
    """The point with almost the least error at the count and, among these, the least error at an
    empty bucket: near the optimum the former hardly changes, but the latter does. Requires: there
    is such a point."""
    least = _least_error(task, cut)
    assert least is not None
    limit = BALANCE * least.mse
    found = _least(task, cut, lambda grid: np.where(grid.mse <= limit, grid.empty, np.inf), least)
    return found or least


# From floats to exact parameters


def _rounded(number: float) -> Fraction:
    """A number between 0 and 1 as a decimal of few digits, those of its distance from 1 where that
    is smaller; rounded down."""
    if number <= 0.5:
        return round_to(number, DIGITS, up=False)
    return 1 - round_to(1 - number, DIGITS, up=True)


def exact_cell(task: SparseTask, cut: int, found: Proposal) -> SparseCell:
    """The cell with these β and φ, both as short decimals, and the largest p that is private."""
    decay, share = _rounded(math.exp(-found.decay)), _rounded(found.share)
    m = task.users
    price = decay * (exponential_below(task.epsilon) - 1)
    beyond = spill(m, task.buckets, decay, cut)
    jump_odds = m * beyond / (share * price)
    muted_odds = 1 / ((1 - share * Fraction(m - 1, m)) * price)
    most = 1 / (1 + jump_odds + muted_odds)
    jump = round_to(max(float(most * jump_odds), RAREST_JUMP) * (1 + 1e-12), 6, up=True)
    data = Fraction(math.floor((1 - jump) / (1 + muted_odds) * 10**12), 10**12)
    if data <= 0 or jump >= 1:
        raise PlanningError("No sparse cell works with so few messages; allow more.")
    return SparseCell(
        users=m,
        buckets=task.buckets,
        epsilon=task.epsilon,
        decay=decay,
        cut=cut,
        share=share,
        data=data,
        muted=1 - data - jump,
        jump=jump,
    )


# Searches


def plan_sparse(
    users: int,
    buckets: int,
    epsilon: ExactNumber,
    *,
    max_messages: int = DEFAULT_MESSAGES,
    error_at: int = DEFAULT_COUNT,
    expected: int | None = None,
    max_jumps: float = math.inf,
) -> SparseCell:
    """The sparse cell that errs least at a bucket of `error_at` users, with at most `max_messages`
    messages in a report.

    `expected` users (at least `users`) may take part; `max_jumps` limits the jumps (Z+1 tokens, of
    which several may lie in one bucket) that are expected among `users`.

    >>> cell = plan_sparse(10**6, 10**4, 1, error_at=1000)
    >>> cell.most_messages, round(cell.rmse(10**6, 1000), 1)
    (25, 36.4)
    """
    task = SparseTask(
        users=whole(users, "users"),
        buckets=whole(buckets, "buckets", most=MOST_SPARSE_BUCKETS),
        epsilon=positive_as_written(epsilon, "epsilon"),
        expected=whole(users if expected is None else expected, "expected", least=users),
        count=whole(error_at, "error_at", least=0),
        jumps=max_jumps,
    )
    cut = min(whole(max_messages, "max_messages", least=1), MOST_SPARSE_CUT + 1) - 1
    return _least_error_cell(task, cut)


def _least_error_cell(task: SparseTask, most: int) -> SparseCell:
    """The cell of least error with a cut of at most `most`; the least cut with about that error."""
    errors = [found.mse for cut in (0, most) if (found := _least_error(task, cut)) is not None]
    if not errors:
        raise PlanningError("No sparse cell meets these limits; allow more messages or jumps.")
    cut = _least_cut(task, min(errors) * SAME_ERROR, most)
    assert cut is not None
    return exact_cell(task, cut, _balanced(task, cut))


def _least_cut(task: SparseTask, limit: float, most: int) -> int | None:
    """The least cut up to `most` with which a cell errs by at most `limit`. Longer cuts err less,
    except that no noise at all is best at a large epsilon."""

    def does(cut: int) -> bool:
        found = _least_error(task, cut)
        return found is not None and found.mse <= limit

    if does(0):
        return 0
    if not does(most):
        return None
    return most if not does(most - 1) else first_whole(does, 0, most - 1)


def _cheapest_cell(task: SparseTask, mse: Fraction, padded: bool) -> SparseCell:
    """The cell with the shortest report, or with the fewest messages on average, that errs by at
    most `mse` at the task's count."""
    for margin in (1 - 1e-6, 1 - 1e-4, 1 - 1e-3):
        limit = float(mse) * margin
        cut = _least_cut(task, limit, MOST_SPARSE_CUT)
        if cut is None:
            break
        proposal = _least_error(task, cut)
        if not padded:
            cuts = sorted({cut, *(min(cut + round(cut * part), 4 * cut + 8) for part in (0.25, 1))})
            choices = [(_fewest(task, one, limit), one) for one in cuts]
            known = [(found.average, one, found) for found, one in choices if found]
            _, cut, proposal = min(known, key=lambda choice: choice[0])
        assert proposal is not None
        cell = exact_cell(task, cut, proposal)
        if cell.exact_mean_squared_error(task.expected, task.count) <= mse:
            return cell
    raise PlanningError("No sparse cell has so small an error; allow a larger one.")


def _fewest(task: SparseTask, cut: int, limit: float) -> Proposal | None:
    near = _least_error(task, cut)
    return _least(task, cut, lambda grid: np.where(grid.mse <= limit, grid.average, np.inf), near)


def search_buckets(
    epsilon: Fraction,
    task: CellTarget,
    messages: float | None,
    buckets: int,
    found: FoundCells | None = None,
) -> FoundCells | None:
    """A sparse cell for all buckets: the cheapest for the target's error, or of least error for a
    number of messages; None if another kind is known to be better."""
    if task.relative is not None:
        raise PlanningError("A sparse cell has no relative error; use error_at instead.")
    count = task.expected if task.error_at is None else min(task.error_at, task.expected)
    wanted = SparseTask(
        users=task.users,
        buckets=buckets,
        epsilon=epsilon,
        expected=task.expected,
        count=count,
        average=math.inf if messages is None or task.padded else messages,
    )
    # who sends its value with probability p ≤ 1 − q adds at least (1−p)/p ≥ 1/(e^ε − 1) to the MSE
    least = count / math.expm1(float(epsilon))
    if found is not None and least > (task.mse if messages is None else found.mse):
        return None
    if messages is None:
        cell = _cheapest_cell(wanted, task.mse, bool(task.padded))
    else:
        most = math.floor(messages) - 1 if task.padded else MOST_SPARSE_CUT
        if most < 0:
            raise PlanningError("No plan uses so few messages; allow more messages.")
        cell = _least_error_cell(wanted, min(most, MOST_SPARSE_CUT))
    mse = cell.exact_mean_squared_error(task.expected, count)
    return FoundCells(
        cells=(cell,),
        mse=mse,
        cost=cell.most_messages if task.padded else to_float(cell.messages_per_user),
    )

"""The cheapest paper's cell for a target: for an error or a number of messages (MATH §5, §7).

The search zooms in on the best point of a grid over (b, s). For each b the error determines q, and
for each (b, q, s) the flood follows. Then everything is rounded to short exact decimals in the
order b, q, s, λ, and each step compensates for the rounding before it. `arb` decides twice: that
the error is at most the requested one, and that the cell is certified. If it fails by the last
digit, the flood is raised slightly.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp.cells.base import LARGEST_EPSILON_OF_CELL, Copies
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.flood import (
    least_flood,
    log_terms,
    reaches_limit,
    reserve,
    shifts,
    with_least_flood,
)
from shuffledp.cells.paper.proof import tightest
from shuffledp.cells.search import KEPT_SEARCHES, CellTarget, FoundCells, counted_messages
from shuffledp.errors import CertificateError, PlanningError
from shuffledp.numbers.bisection import bisect, bisect_arrays
from shuffledp.numbers.exact import ball, round_to, sign, to_float
from shuffledp.numbers.lattice import Floats

GRID_POINTS = 24
GRID_ZOOMS = 6
NO_MINUS_NOISE = 64
"""The down_epsilon per unit of value of a cell without pairs, which has no −1 to hide; less if that
is more than a cell may have."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The best point of a grid, in floats."""

    messages: float
    down_epsilon: float
    pairs: float
    flood: float


def noise_variance(epsilon: Floats) -> Floats:
    """The variance of Geo(1 − e^−ε)."""
    return np.asarray(np.exp(-epsilon) / np.expm1(-epsilon) ** 2)


def mute_odds(task: CellTarget, down_epsilon: Floats) -> Floats:
    """The largest p = q/(1−q) that the error allows: p·muted(p) + noise·(1+p)² = mse, solved; ≤ 0
    if the noise alone exceeds the error."""
    d, n, target = task.largest, float(task.expected), float(task.mse)
    up = np.full_like(down_epsilon, float(task.up) / d)
    noise = n / task.users * (noise_variance(up) + noise_variance(down_epsilon / d))
    farthest = max(task.stand_in, d - task.stand_in)
    all_at_largest = _root(noise, 2 * noise + n * farthest**2, noise - target)
    if task.relative is None:
        return all_at_largest
    r = float(task.relative)
    # max over the true sum c of p·D·c − R²c² lies at c = pD/(2R²), or at c = nD if that is less
    inside = _root(noise + (d / (2 * r)) ** 2, 2 * noise, noise - target)
    at_most = _root(noise, 2 * noise + n * d * d, noise - target - (r * n * d) ** 2)
    return np.where(inside <= 2 * r * r * n, inside, at_most)


def _root(a: Floats, b: Floats, c: Floats) -> Floats:
    """The larger root of a p² + b p + c, computed without cancellation for small roots."""
    return np.asarray(-2 * c / (b + np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))))


def propose(task: CellTarget, pairs: int | None = None, zooms: int = GRID_ZOOMS) -> Proposal:
    """The cheapest point; among those with this number of pairs, if given."""
    lowest, epsilon = least_down_epsilon(task), float(task.down)
    places = np.linspace(
        0.02, 1.0, GRID_POINTS
    )  # of b between the least that the error allows and ε
    beyond = np.linspace(-12.0, 5.0, GRID_POINTS)  # of s: ln of the excess over the limit
    best = Proposal(messages=np.inf, down_epsilon=0.0, pairs=0.0, flood=0.0)
    for _ in range(zooms):
        b = (lowest + places * (epsilon - lowest))[:, None]
        s = np.full_like(b, pairs) if pairs else _beyond_limit(task, b, beyond)
        down, s = np.broadcast_arrays(b, s)
        costs, floods = _costs(task, down, s)
        i, j = np.unravel_index(np.argmin(costs), costs.shape)
        if costs[i, j] < best.messages:
            best = Proposal(
                messages=float(costs[i, j]),
                down_epsilon=float(down[i, j]),
                pairs=float(s[i, j]),
                flood=float(floods[i, j]),
            )
        places, beyond = _zoom(places, int(i), 1e-6, 1.0), _zoom(beyond, int(j), -14.0, 12.0)
    return best


def _beyond_limit(task: CellTarget, b: Floats, beyond: Floats) -> Floats:
    """Numbers of pairs above the limit at each b, at least 1."""
    limit = _limit_pairs(task, b, np.maximum(mute_odds(task, b), 1e-300))
    pairs: Floats = np.maximum(limit * (1 + np.exp(beyond)), 1.0)
    return pairs


def _zoom(grid: Floats, at: int, low: float, high: float) -> Floats:
    step = 2 * (grid[1] - grid[0])
    return np.linspace(max(grid[at] - step, low), min(grid[at] + step, high), GRID_POINTS)


def least_down_epsilon(task: CellTarget) -> float:
    """The b below which the noise alone exceeds the error."""

    def enough(b: float) -> bool:
        return bool(mute_odds(task, np.array([b]))[0] > 0)

    return bisect(enough, 0.0, float(task.down), steps=60)


def _costs(task: CellTarget, down: Floats, pairs: Floats) -> tuple[Floats, Floats]:
    """The cost as the task counts it, and the flood, at every point of a grid."""
    odds = mute_odds(task, down)
    possible = odds > 0
    odds = np.where(possible, odds, 1.0)
    up, loss = (np.full_like(down, float(x)) for x in (task.up, task.down))
    flood = least_flood(task.shape, up, down, loss, odds, pairs)
    if task.padded:
        possible &= np.isfinite(flood)
        shares = task.padded / task.users * np.where(possible, flood, 0.0)
        decay = np.minimum(up, down) / task.largest
        cost = task.padded * (2 * pairs + task.stand_in) + task.largest
        cost = cost + reserve(decay, shares, task.padded, task.users)
    else:
        noise = 1 / np.expm1(up / task.largest) + 1 / np.expm1(down / task.largest)
        sent = 2 * pairs + task.largest + task.stand_in
        cost = sent / (1 + odds) + (2 * flood + noise) / task.users
    return np.where(possible, cost, np.inf), flood


def _limit_pairs(task: CellTarget, b: Floats, odds: Floats) -> Floats:
    """The least real s that the limit allows at each b."""
    up, loss = (np.full_like(b, float(x)) for x in (task.up, task.down))
    terms = [(k, *log_terms(k, task.shape, up, b, loss, odds)) for k in shifts(task.largest)]

    def enough(log_pairs: Floats) -> NDArray[np.bool_]:
        found = [reaches_limit(*term, np.exp(log_pairs)) > 0 for term in terms]
        return np.asarray(np.all(found, axis=0))

    ends = np.full_like(b, -20.0), np.full_like(b, 60.0)
    return np.asarray(np.exp(bisect_arrays(enough, *ends, steps=50)))


def cheapest_cell(task: CellTarget) -> PaperCell:
    """The cell with the fewest messages, counted as the task says, that meets the target.

    Ensures: the error is at most the task's and the cell is certified for (up, down), both decided
    in ball arithmetic. Raises `PlanningError` if no cell does.
    """
    thin = without_pairs(task)
    if thin is not None:
        return thin
    found = _with_pairs(task)
    if task.padded:  # the estimate of the reserve may be off; the usual cell limits the damage
        usual = _with_pairs(replace(task, padded=0))
        found = min(found, usual, key=lambda cell: spent(task, cell))
    return found


def _with_pairs(task: CellTarget) -> PaperCell:
    if task.relative is None and task.largest > 1:
        centred = replace(task, stand_in=task.largest // 2)
        task = min(task, centred, key=lambda choice: propose(choice).messages)
    real = propose(task)
    if not np.isfinite(real.messages):
        raise PlanningError(
            "No choice of noise reaches this error: with noise alone and no muted users it would "
            f"be {least_rmse(task):.4g}; allow at least that (and some more), or a larger epsilon."
        )
    near = max(1, int(real.pairs))
    choices = [propose(task, pairs) for pairs in range(max(1, near - 1), near + 3)]
    for choice in sorted(choices, key=lambda choice: choice.messages):
        with contextlib.suppress(PlanningError):
            return settle(task, choice)
    return settle(task, propose(task, 2 * max(near, task.largest)))


def spent(task: CellTarget, cell: PaperCell) -> float:
    """The messages of a cell, counted as the task says."""
    group = Copies(cell=cell, copies=task.padded or 1, up=cell.up_epsilon, down=task.down)
    return counted_messages([group], task.users, bool(task.padded))


def least_rmse(task: CellTarget) -> float:
    """The error of noise alone, with the largest down_epsilon: a lower bound for every plan."""
    cell = PaperCell(
        users=task.users,
        largest=task.largest,
        up_epsilon=task.up,
        down_epsilon=task.down,
        mute_probability=Fraction(1, 10**30),
        input_pairs=1,
        flood_mean=Fraction(1),
    )
    return to_float(lambda: cell.noise_error(task.expected).sqrt())


def settle(task: CellTarget, proposal: Proposal) -> PaperCell:
    """The proposal in exact numbers, decided in ball arithmetic."""
    gap = max(float(task.down) - proposal.down_epsilon, 1e-6 * float(task.down))
    down_epsilon = task.down - round_to(gap, 4, up=True)
    odds = float(mute_odds(task, np.array([float(down_epsilon)]))[0])
    digits, slack = 6, 1.0
    for _ in range(60):
        if odds <= 0:
            break
        q = round_to(slack * odds / (1 + odds), digits, up=False)
        cell = PaperCell(
            users=task.users,
            largest=task.largest,
            up_epsilon=task.up,
            down_epsilon=down_epsilon,
            mute_probability=q,
            input_pairs=round(proposal.pairs),
            flood_mean=Fraction(1),
            stand_in=task.stand_in,
        )
        if sign(lambda cell=cell: error_left(task, cell))[0] > 0:  # type: ignore[misc]
            return with_least_flood(cell, task.down)
        slack *= 1 - 1e-6
    raise PlanningError("The requested error is too close to the least possible; allow a bit more.")


def error_left(task: CellTarget, cell: PaperCell) -> arb:
    """mse − (the cell's worst error beyond the relative tolerance), as a ball: not negative if the
    task's error is met for every true sum."""
    n, d, q = task.expected, cell.largest, cell.mute_probability
    p = q / (1 - q)
    noise = cell.noise_error(n)
    if task.relative is None:
        muted = p * cell.most_squares(n)
    else:
        r2 = task.relative**2
        total = min(p * d / (2 * r2), Fraction(n * d))
        muted = p * d * total - r2 * total**2
    return ball(task.mse) - ball(muted) - noise


def without_pairs(task: CellTarget) -> PaperCell | None:
    """The cell without pairs or flood that mutes often (thinning), if its error is small enough.

    With s = 0 the inequality is (e^L − 1) A e^(−a(D−1)/D) ≥ 1: q follows, and there is no −1.
    """
    d = task.largest
    odds = np.exp(float(task.up) * (d - 1) / d) / np.expm1(float(task.down))
    q = round_to(odds / (1 + odds) * (1 + 1e-9), 9, up=True)
    if q >= 1:
        return None
    cell = PaperCell(
        users=task.users,
        largest=d,
        up_epsilon=task.up,
        down_epsilon=min(Fraction(NO_MINUS_NOISE * d), LARGEST_EPSILON_OF_CELL),
        mute_probability=q,
        input_pairs=0,
        flood_mean=Fraction(0),
    )
    if sign(lambda: error_left(task, cell))[0] < 0:
        return None
    try:
        tightest(cell, task.down)
    except CertificateError:
        return None
    return cell


def _on_average(cell: PaperCell, copies: int) -> float:
    """The expected messages of a user in `copies` copies, of which one holds the largest value."""
    group = Copies(cell=cell, copies=copies, up=cell.up_epsilon, down=cell.down_epsilon)
    return to_float(group.messages_per_user)


def best_shape(task: CellTarget, messages: float) -> tuple[CellTarget, PaperCell]:
    """The least error for `messages` messages, with or without a stand-in for muted users."""
    shapes = [task]
    if task.largest > 1:
        shapes.append(replace(task, stand_in=task.largest // 2))
        rough = [_least(shape, messages) for shape in shapes]
        shapes = [shapes[rough.index(min(rough))]]
    return best_for_messages(shapes[0], messages)


def best_for_messages(task: CellTarget, messages: float) -> tuple[CellTarget, PaperCell]:
    """The least error for which a cell fits into the message budget, and that cell."""
    loosest = replace(task, mse=thinning_error(task))
    thin = without_pairs(replace(loosest, stand_in=0))
    if thin is not None and spent(loosest, thin) > messages:
        raise PlanningError(
            f"No plan sends fewer than {spent(loosest, thin):.4g} messages per user "
            f"here; allow at least that."
        )
    wanted = messages
    for attempt in range(8):
        found = _within_messages(task, loosest.mse, wanted)
        if found is None:
            break
        cost = spent(*found)
        if cost <= messages:
            return found
        wanted -= 3.0 ** (attempt + 1) * (cost - messages)  # rounding exceeded the budget
    if thin is None:
        raise PlanningError("No plan uses so few messages; allow more messages.")
    return loosest, thin


def _within_messages(
    task: CellTarget, most: Fraction, messages: float
) -> tuple[CellTarget, PaperCell] | None:
    """The least error up to `most` for which a proposal fits the message budget, and its cell."""
    least = Fraction(least_rmse(task)) ** 2
    found: tuple[CellTarget, PaperCell] | None = None
    real = tightest_error(task, (least, most), messages, None)
    if real is None:
        return None
    middle = int(propose(replace(task, mse=real)).pairs)
    for pairs in range(max(1, middle - 1), middle + 3):
        near = max(least, real * Fraction(98, 100)), min(real * 3, most)
        mse = tightest_error(task, near, messages, pairs)
        if mse is not None and (found is None or mse < found[0].mse):
            better = replace(task, mse=mse)
            found = better, settle(better, propose(better, pairs))
    return found


def thinning_error(task: CellTarget) -> Fraction:
    """An error that thinning certainly meets, as the upper end of a search."""
    cell = without_pairs(replace(task, mse=Fraction(10) ** 60, stand_in=0))
    if cell is None:
        return Fraction(task.expected * task.largest) ** 2
    left = to_float(lambda: error_left(replace(task, mse=Fraction(0)), cell))
    return Fraction(-left * (1 + 1e-9))


def tightest_error(
    task: CellTarget, between: tuple[Fraction, Fraction], messages: float, pairs: int | None
) -> Fraction | None:
    """The least mse between two for which the proposal costs at most `messages`, within 0.03 % of
    what it exceeds the lower one by."""
    least, most = (float(end) for end in between)
    zooms = 5 if pairs else 3

    def excess(log_error: float) -> float:
        """ln(cost of a proposal / allowed cost) at an mse of least + e^log_error."""
        task_here = replace(task, mse=Fraction(min(least + math.exp(log_error), most)))
        cost = propose(task_here, pairs, zooms).messages
        return math.log(cost / (messages * (1 - 1e-5)))

    if most <= least or excess(math.log(most - least)) > 0:
        return None
    low, high = math.log(1e-9 * (most - least)), math.log(most - least)
    high = smallest_root(excess, low, high, 3e-4 if pairs else 0.05)
    return Fraction(min(least + math.exp(high), most))


def smallest_root(excess: Callable[[float], float], low: float, high: float, width: float) -> float:
    """A number at most `width` beyond the one where a falling function reaches 0, by secants where
    it is finite and halving where it is not; at `high` it is at most 0."""
    above, below = math.inf, excess(high)
    side = 0
    while high - low > width:
        if math.isfinite(above) and below < 0:
            middle = low + (high - low) * above / (above - below)
            middle = min(max(middle, low + width / 2), high - width / 2)
        else:
            middle = (low + high) / 2
        found = excess(middle)
        if found <= 0:
            above = (
                above / 2 if side < 0 else above
            )  # the Illinois rule: neither end stays fixed for long
            high, below, side = middle, found, -1
        else:
            below = below / 2 if side > 0 else below
            low, above, side = middle, found, 1
    return high


EPSILON_SPLITS = [percent / 100 for percent in range(28, 61, 4)]  # of ε for the way up
THIN_SPLITS = [part / 20 for part in range(6, 20)]  # without pairs, muting alone may be enough
LIKELY_SPLITS = (0.36, 0.42, 0.48)  # where the best split lies for most targets
SURELY_MORE = 1.03  # proposals that cost this much more than the best are skipped


def split_task(epsilon: Fraction, up: float, task: CellTarget) -> CellTarget:
    """The task with this share of ε for the way up."""
    exact_up = round_to(float(epsilon) * up, 3, up=False)
    return replace(task, up=exact_up, down=epsilon - exact_up)


@lru_cache(maxsize=KEPT_SEARCHES)
def search_cell(
    task: CellTarget, messages: float | None, found: FoundCells | None = None
) -> FoundCells | None:
    """One cell: the cheapest for the task's error, or of least error for `max_messages`; None if it
    is certainly worse than the best result so far."""
    if found is not None and _stays_behind(found, [task], [task], messages, 1):
        return None
    if messages is not None:
        task, cell = best_shape(task, messages)
    else:
        cell = cheapest_cell(task)
    return FoundCells(cells=(cell,), mse=task.mse, cost=spent(task, cell))


@lru_cache(maxsize=KEPT_SEARCHES)
def search_buckets(
    epsilon: Fraction,
    task: CellTarget,
    messages: float | None,
    buckets: int,
    found: FoundCells | None = None,
) -> FoundCells | None:
    """The cell of each bucket, of which one may go up and one down, at ε in total; None if it is
    certainly worse than the best result so far."""
    likely, thin = (
        [split_task(epsilon, up, task) for up in splits] for splits in (LIKELY_SPLITS, THIN_SPLITS)
    )
    copies = 1 if task.padded else buckets
    if found is not None and _stays_behind(found, likely, thin, messages, copies):
        return None
    if messages is not None:
        task, cell = _bucket_for_messages(epsilon, task, messages, buckets)
    else:
        task, cell = _cheapest_bucket(epsilon, task, buckets)
    group = Copies(cell=cell, copies=buckets, up=task.up, down=task.down)
    return FoundCells(
        cells=(cell,),
        mse=task.mse,
        cost=counted_messages([group], task.users, bool(task.padded)),
    )


def _stays_behind(
    found: FoundCells,
    tasks: list[CellTarget],
    thin: list[CellTarget],
    messages: float | None,
    copies: int,
) -> bool:
    """Whether proposals for `tasks` cost more than the best result so far at the same error, and no
    cell without pairs meets that error in one of the tasks `thin`."""

    def cost(task: CellTarget) -> float:
        return propose(replace(task, mse=found.mse), zooms=3).messages

    if any(without_pairs(replace(task, mse=found.mse)) for task in thin):
        return False
    bound = found.cost if messages is None else messages
    cheapest = min(cost(task) for task in tasks)
    return copies * (cheapest - 1) + 1 > SURELY_MORE * bound


def _cheapest_bucket(
    epsilon: Fraction, task: CellTarget, buckets: int
) -> tuple[CellTarget, PaperCell]:
    thin = [split_task(epsilon, up, task) for up in THIN_SPLITS]
    choices = [(one, cell) for one in thin if (cell := without_pairs(one)) is not None]
    splits = {best_split(epsilon, way) for way in {task, replace(task, padded=0)}}
    tasks = [split_task(epsilon, up, task) for up in sorted(splits)]
    choices += [(one, cheapest_cell(one)) for one in tasks]
    return min(
        choices,
        key=lambda choice: spent(*choice) if task.padded else _on_average(choice[1], buckets),
    )


def best_split(epsilon: Fraction, task: CellTarget) -> float:
    """The share of ε for the way up in the cheapest proposal."""
    cost = lambda up: propose(split_task(epsilon, up, task), zooms=3).messages  # noqa: E731
    rough = min(EPSILON_SPLITS, key=cost)
    return min((rough + step / 100 for step in (-2, 0, 2)), key=cost)


def _bucket_for_messages(
    epsilon: Fraction, task: CellTarget, messages: float, buckets: int
) -> tuple[CellTarget, PaperCell]:
    """The least error for this number of messages in all buckets together, with a 1 in one of
    them."""
    copies = 1 if task.padded else buckets  # a padded task already counts all buckets
    share = (messages + copies - 1) / copies  # as if no bucket were ever muted
    task = min(
        (split_task(epsilon, up, task) for up in LIKELY_SPLITS), key=lambda one: _least(one, share)
    )
    for _ in range(6):
        choice = best_for_messages(task, share)
        excess = _on_average(choice[1], copies) - messages
        if excess <= 0:
            return choice
        share -= 1.001 * excess / copies
    raise PlanningError("No histogram uses so few messages; allow more messages.")


def _least(task: CellTarget, messages: float) -> Fraction:
    """The approximate least error for this number of messages."""
    ends = Fraction(least_rmse(task)) ** 2, thinning_error(task)
    return tightest_error(task, ends, messages, None) or ends[1]

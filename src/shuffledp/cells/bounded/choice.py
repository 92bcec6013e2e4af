"""The bounded cell for a task: within an error, or within a number of messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.search import cheapest_bounded_cell, split_epsilon, worst_error_above
from shuffledp.cells.choice import Choice, counted_messages
from shuffledp.cells.target import CellTarget
from shuffledp.cells.use import CellUse
from shuffledp.errors import PlanningError

LOOSEST_ERROR = 40.0
"""ln of how much more squared error than noise alone is looked at for few messages."""
ERROR_TOLERANCE = 1e-4
"""To this part of itself the least error for a number of messages is found."""
UP_SHARES = (Fraction(38, 100), Fraction(1, 2))
"""Shares of ε for the way up that a search for few messages looks at."""


def bounded_one(task: CellTarget, messages: float | None) -> Choice:
    """One cell: the cheapest for the task's error, or of least error for so many messages."""

    def cheapest(mse: Fraction) -> Choice:
        return bounded_copies(replace(task, mse=mse), 1)

    return cheapest(task.mse) if messages is None else least_error(task, cheapest, messages)


def bounded_bucket(
    epsilon: Fraction, task: CellTarget, messages: float | None, buckets: int
) -> Choice:
    """The cell of each of so many buckets, of which one may go up and one down at ε in all."""
    if messages is None:
        return bounded_copies(split_epsilon(epsilon, task), buckets)
    found = []
    for share in UP_SHARES:
        split = replace(task, up=epsilon * share, down=epsilon * (1 - share))

        def cheapest(mse: Fraction, split: CellTarget = split) -> Choice:
            return bounded_copies(replace(split, mse=mse), buckets)

        found.append(least_error(split, cheapest, messages))
    return min(found, key=lambda choice: choice.mse)


def bounded_copies(task: CellTarget, copies: int) -> Choice:
    """So many copies of the cheapest cell, with the losses that the task says."""
    padded = bool(task.padded)
    cell = cheapest_bounded_cell(task)
    use = CellUse(cell=cell, copies=copies, up=task.up, down=task.down)
    return Choice(
        cells=(cell,),
        mse=task.mse,
        cost=counted_messages((use,), padded),
        limit=copies * tilt_limit(task),
    )


def least_error(
    task: CellTarget, cheapest: Callable[[Fraction], Choice], messages: float
) -> Choice:
    """The choice with the least error that costs at most so many messages."""
    least = math.log(noise_alone(task))
    low, high = least, least + LOOSEST_ERROR
    best: Choice | None = None
    while high - low > ERROR_TOLERANCE:
        middle = (low + high) / 2
        try:
            choice = cheapest(Fraction(math.exp(middle)))
        except PlanningError:
            choice = None
        if choice is not None and choice.cost <= messages:
            high, best = middle, choice
        else:
            low = middle
    if best is None:
        raise PlanningError("No plan is that cheap; allow more messages.")
    cells = [cell for cell in best.cells if isinstance(cell, BoundedCell)]
    if len(cells) == 1:  # say the error that it has, not the one that was asked for
        best = replace(best, mse=worst_error_above(cells[0], task.expected))
    return best


def noise_alone(task: CellTarget) -> float:
    """The mean squared error of the noise without any muting."""
    variances = (
        math.exp(-float(loss) / task.largest) / math.expm1(-float(loss) / task.largest) ** 2
        for loss in (task.up, task.down)
    )
    return task.expected / task.users * sum(variances)


def tilt_limit(task: CellTarget) -> float:
    """The fewest messages on average, at the largest value, of any randomizer with one kind of
    message and this error (MATH §12, tilt lemma): who sends b + x with probability 1 − q and
    otherwise moves by at most W = R·D needs q ≥ e^(−ε(R−1))/(e·R·(e^ε−1)) and b ≥ W − D."""
    epsilon, d = float(max(task.up, task.down)), task.largest
    ratio = 1.0
    for _ in range(400):
        rare = math.exp(-epsilon * (ratio - 1)) / (math.e * ratio * math.expm1(epsilon))
        if task.users * rare * (ratio * d) ** 2 <= float(task.mse):
            break
        ratio *= 1.01
    return ratio * d

"""The paper's cell with the least error that a number of messages allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.search import (
    error_left,
    least_rmse,
    propose,
    settle,
    spent,
    without_pairs,
)
from shuffledp.cells.target import CellTarget
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import to_float


def best_shape(task: CellTarget, messages: float) -> tuple[CellTarget, PaperCell]:
    """The least error for so many messages, with or without a stand-in for muted users."""
    shapes = [task]
    if task.largest > 1:
        shapes.append(replace(task, stand_in=task.largest // 2))
        ends = Fraction(least_rmse(task)) ** 2, thinning_error(task)
        rough = [tightest_error(shape, ends, messages, None) or ends[1] for shape in shapes]
        shapes = [shapes[rough.index(min(rough))]]
    return best_for_messages(shapes[0], messages)


def best_for_messages(task: CellTarget, messages: float) -> tuple[CellTarget, PaperCell]:
    """The least error for which a cell costs at most so many messages, and that cell."""
    loosest = replace(task, mse=thinning_error(task))
    thin = without_pairs(replace(loosest, stand_in=0))
    if thin is not None and spent(loosest, thin) > messages:
        raise PlanningError(
            f"No plan sends fewer than {spent(loosest, thin):.4g} messages per user "
            f"here; allow at least that."
        )
    wanted = messages
    for attempt in range(8):
        found = _with_pairs(task, loosest.mse, wanted)
        if found is None:
            break
        cost = spent(*found)
        if cost <= messages:
            return found
        wanted -= 3.0 ** (attempt + 1) * (cost - messages)  # rounding went over
    if thin is None:
        raise PlanningError("No plan is that cheap; allow more messages.")
    return loosest, thin


def _with_pairs(
    task: CellTarget, most: Fraction, messages: float
) -> tuple[CellTarget, PaperCell] | None:
    """The least error up to `most` for which a proposal costs so many messages, and its cell."""
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
    """An error that thinning surely keeps, as the upper end of a search."""
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
        """ln of what a proposal costs against what it may cost, at an mse of
        least + e^log_error."""
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
            )  # the Illinois rule: neither end stays for long
            high, below, side = middle, found, -1
        else:
            below = below / 2 if side > 0 else below
            low, above, side = middle, found, 1
    return high

"""The paper's cell with the least error that a number of messages allows."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.paper import PaperCell
from shuffledp.errors import PlanningError
from shuffledp.exact.numbers import to_float
from shuffledp.planning.cell_task import CellTask
from shuffledp.planning.paper_search import (
    error_left,
    least_rmse,
    propose,
    settle,
    spent,
    without_pairs,
)


def best_shape(task: CellTask, messages: float) -> tuple[CellTask, PaperCell]:
    """The least error for so many messages, with or without a stand-in for muted users."""
    shapes = [task]
    if task.largest > 1:
        shapes.append(replace(task, stand_in=task.largest // 2))
        ends = Fraction(least_rmse(task)) ** 2, _thinning_error(task)
        rough = [_tightest_error(shape, ends, messages, None) or ends[1] for shape in shapes]
        shapes = [shapes[rough.index(min(rough))]]
    return best_for_messages(shapes[0], messages)


def best_for_messages(task: CellTask, messages: float) -> tuple[CellTask, PaperCell]:
    """The least error for which a cell costs at most so many messages, and that cell."""
    loosest = replace(task, mse=_thinning_error(task))
    thin = without_pairs(replace(loosest, stand_in=0))
    if thin is not None and spent(loosest, thin) > messages:
        raise PlanningError(
            f"No plan sends fewer than {spent(loosest, thin):.4g} messages per user "
            f"here; allow at least that."
        )
    wanted = messages
    for _ in range(8):
        found = _with_pairs(task, loosest.mse, wanted)
        if found is None:
            break
        cost = spent(*found)
        if cost <= messages:
            return found
        wanted -= 1.1 * (cost - messages)  # rounding to short decimals went over
    if thin is None:
        raise PlanningError("No plan is that cheap; allow more messages.")
    return loosest, thin


def _with_pairs(
    task: CellTask, most: Fraction, messages: float
) -> tuple[CellTask, PaperCell] | None:
    """The least error up to `most` for which a proposal costs so many messages, and its cell."""
    least = Fraction(least_rmse(task)) ** 2
    found: tuple[CellTask, PaperCell] | None = None
    real = _tightest_error(task, (least, most), messages, None)
    if real is None:
        return None
    middle = int(propose(replace(task, mse=real)).pairs)
    for pairs in range(max(1, middle - 1), middle + 3):
        near = max(least, real * Fraction(98, 100)), min(real * 3, most)
        mse = _tightest_error(task, near, messages, pairs)
        if mse is not None and (found is None or mse < found[0].mse):
            better = replace(task, mse=mse)
            found = better, settle(better, propose(better, pairs))
    return found


def _thinning_error(task: CellTask) -> Fraction:
    """An error that thinning surely keeps, as the upper end of a search."""
    cell = without_pairs(replace(task, mse=Fraction(10) ** 60, stand_in=0))
    if cell is None:
        return Fraction(task.expected * task.largest) ** 2
    left = to_float(lambda: error_left(replace(task, mse=Fraction(0)), cell))
    return Fraction(-left * (1 + 1e-9))


def _tightest_error(
    task: CellTask, between: tuple[Fraction, Fraction], messages: float, pairs: int | None
) -> Fraction | None:
    """The least mse between two for which the proposal costs at most `messages`, within 0.01 % of
    what it exceeds the lower one by."""
    least, most = (float(end) for end in between)
    zooms = 5 if pairs else 3

    def fits(mse: float) -> bool:
        return propose(replace(task, mse=Fraction(mse)), pairs, zooms).messages <= messages * (
            1 - 1e-5
        )

    if most <= least or not fits(most):
        return None
    low, high = math.log(1e-9 * (most - least)), math.log(most - least)
    while high - low > 1e-4 if pairs else high - low > 0.05:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(least + math.exp(middle)) else (middle, high)
    return Fraction(min(least + math.exp(high), most))

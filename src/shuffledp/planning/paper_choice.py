"""The paper's cell for a task: within an error, or within a number of messages (MATH §5, §7)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.paper import PaperCell
from shuffledp.errors import PlanningError
from shuffledp.exact.numbers import round_to
from shuffledp.planning.choice import Choice, copies_messages, counted_messages
from shuffledp.planning.paper_messages import best_for_messages, best_shape
from shuffledp.planning.paper_search import (
    CellTask,
    cheapest_cell,
    free_flood,
    propose,
    spent,
    without_pairs,
)
from shuffledp.protocols.cell_use import CellUse

SPLITS = [place / 100 for place in range(28, 61, 4)]  # of ε for the way up
THIN_SPLITS = [place / 20 for place in range(6, 20)]  # without pairs, muting may do all
LIKELY = 0.42  # where the best split lies for most targets


def split_task(epsilon: Fraction, up: float, task: CellTask) -> CellTask:
    """The task with so much of ε for the way up."""
    exact_up = round_to(float(epsilon) * up, 3, up=False)
    return replace(task, up=exact_up, down=epsilon - exact_up)


def paper_one(task: CellTask, messages: float | None, bound: float) -> Choice:
    """One cell: the cheapest for the task's error, or of least error for so many messages."""
    if messages is not None:
        task, cell = best_shape(task, messages)
    else:
        _give_up_beyond(bound, task)
        cell = cheapest_cell(task)
    return Choice(
        cells=(cell,), mse=task.mse, cost=spent(task, cell), limit=free_flood(task, cell, 1)
    )


def paper_bucket(
    epsilon: Fraction, task: CellTask, messages: float | None, buckets: int, bound: float
) -> Choice:
    """The cell of each of so many buckets, of which one may go up and one down at ε in all."""
    if messages is not None:
        task, cell = _best_for_messages(epsilon, task, messages, buckets)
    else:
        task, cell = _cheapest_bucket(epsilon, task, buckets, bound)
    use = CellUse(cell=cell, copies=buckets, up=task.up, down=task.down)
    return Choice(
        cells=(cell,),
        mse=task.mse,
        cost=counted_messages((use,), bool(task.padded)),
        limit=free_flood(task, cell, buckets),
    )


def _give_up_beyond(bound: float, task: CellTask, copies: int = 1) -> None:
    """Ends a search that would cost more than what was found already."""
    if without_pairs(task) is None and propose(task, zooms=3).messages * copies > 1.02 * bound:
        raise PlanningError("Another kind of cell is cheaper here.")


def _cheapest_bucket(
    epsilon: Fraction, task: CellTask, buckets: int, bound: float
) -> tuple[CellTask, PaperCell]:
    thin = [split_task(epsilon, up, task) for up in THIN_SPLITS]
    choices = [(one, cell) for one in thin if (cell := without_pairs(one)) is not None]
    splits = {best_split(epsilon, way) for way in {task, replace(task, padded=0)}}
    tasks = [split_task(epsilon, up, task) for up in sorted(splits)]
    copies = 1 if task.padded else buckets
    if not choices:
        _give_up_beyond(bound, min(tasks, key=lambda one: propose(one, zooms=3).messages), copies)
    choices += [(one, cheapest_cell(one)) for one in tasks]
    return min(
        choices,
        key=lambda choice: spent(*choice) if task.padded else copies_messages(choice[1], buckets),
    )


def best_split(epsilon: Fraction, task: CellTask) -> float:
    """How much of ε goes to the way up in the cheapest proposal."""
    cost = lambda up: propose(split_task(epsilon, up, task), zooms=3).messages  # noqa: E731
    rough = min(SPLITS, key=cost)
    return min((rough + step / 100 for step in (-2, 0, 2)), key=cost)


def _best_for_messages(
    epsilon: Fraction, task: CellTask, messages: float, buckets: int
) -> tuple[CellTask, PaperCell]:
    """The least error with so many messages in all buckets together, of which one holds 1."""
    found: list[tuple[CellTask, PaperCell]] = []
    refusal: PlanningError | None = None
    if task.padded:
        buckets = 1  # such a task counts all buckets together by itself
    for up in (LIKELY - 0.06, LIKELY, LIKELY + 0.06):
        share = (messages + buckets - 1) / buckets  # as if no bucket were ever muted
        for _ in range(6):
            try:
                choice = best_for_messages(split_task(epsilon, up, task), share)
            except PlanningError as error:
                refusal = error
                break
            excess = copies_messages(choice[1], buckets) - messages
            if excess <= 0:
                found.append(choice)
                break
            share -= 1.001 * excess / buckets
    if not found:
        raise refusal or PlanningError("No histogram is that cheap; allow more messages.")
    return min(found, key=lambda choice: choice[0].mse)

"""The paper's cell for a task: within an error, or within a number of messages (MATH §5, §7)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.choice import Choice, counted_messages
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.messages import (
    best_for_messages,
    best_shape,
    thinning_error,
    tightest_error,
)
from shuffledp.cells.paper.search import (
    cheapest_cell,
    free_flood,
    least_rmse,
    propose,
    spent,
    without_pairs,
)
from shuffledp.cells.report_size import bucket_messages
from shuffledp.cells.target import CellTarget
from shuffledp.cells.use import CellUse
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import round_to

EPSILON_SPLITS = [percent / 100 for percent in range(28, 61, 4)]  # of ε for the way up
THIN_SPLITS = [part / 20 for part in range(6, 20)]  # without pairs, muting may do all
LIKELY_SPLITS = (0.36, 0.42, 0.48)  # where the best split lies for most targets
SURELY_MORE = 1.03  # a proposal that costs so much more than a baseline is not looked at closely


def split_task(epsilon: Fraction, up: float, task: CellTarget) -> CellTarget:
    """The task with so much of ε for the way up."""
    exact_up = round_to(float(epsilon) * up, 3, up=False)
    return replace(task, up=exact_up, down=epsilon - exact_up)


def paper_one(task: CellTarget, messages: float | None, baseline: Choice | None) -> Choice:
    """One cell: the cheapest for the task's error, or of least error for so many messages."""
    _give_up_behind(baseline, [task], [task], messages, 1)
    if messages is not None:
        task, cell = best_shape(task, messages)
    else:
        cell = cheapest_cell(task)
    return Choice(
        cells=(cell,), mse=task.mse, cost=spent(task, cell), limit=free_flood(task, cell, 1)
    )


def paper_bucket(
    epsilon: Fraction,
    task: CellTarget,
    messages: float | None,
    buckets: int,
    baseline: Choice | None,
) -> Choice:
    """The cell of each of so many buckets, of which one may go up and one down at ε in all."""
    likely, thin = (
        [split_task(epsilon, up, task) for up in splits] for splits in (LIKELY_SPLITS, THIN_SPLITS)
    )
    _give_up_behind(baseline, likely, thin, messages, 1 if task.padded else buckets)
    if messages is not None:
        task, cell = _best_for_messages(epsilon, task, messages, buckets)
    else:
        task, cell = _cheapest_bucket(epsilon, task, buckets)
    use = CellUse(cell=cell, copies=buckets, up=task.up, down=task.down)
    return Choice(
        cells=(cell,),
        mse=task.mse,
        cost=counted_messages((use,), bool(task.padded)),
        limit=free_flood(task, cell, buckets),
    )


def _give_up_behind(
    baseline: Choice | None,
    tasks: list[CellTarget],
    thin: list[CellTarget],
    messages: float | None,
    copies: int,
) -> None:
    """Ends a search whose proposals for `tasks` cost more than what was found already, at the same
    error, unless a cell without pairs keeps to that error in one of the tasks `thin`."""
    if baseline is None:
        return

    def cost(task: CellTarget) -> float:
        return propose(replace(task, mse=baseline.mse), zooms=3).messages

    bound = baseline.cost if messages is None else messages
    if any(without_pairs(replace(task, mse=baseline.mse)) for task in thin):
        return
    cheapest = min(cost(task) for task in tasks)
    if copies * (cheapest - 1) + 1 > SURELY_MORE * bound:
        raise PlanningError("Another kind of cell is cheaper here.")


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
        key=lambda choice: spent(*choice) if task.padded else bucket_messages(choice[1], buckets),
    )


def best_split(epsilon: Fraction, task: CellTarget) -> float:
    """How much of ε goes to the way up in the cheapest proposal."""
    cost = lambda up: propose(split_task(epsilon, up, task), zooms=3).messages  # noqa: E731
    rough = min(EPSILON_SPLITS, key=cost)
    return min((rough + step / 100 for step in (-2, 0, 2)), key=cost)


def _best_for_messages(
    epsilon: Fraction, task: CellTarget, messages: float, buckets: int
) -> tuple[CellTarget, PaperCell]:
    """The least error with so many messages in all buckets together, of which one holds 1."""
    copies = 1 if task.padded else buckets  # a padded task counts all buckets by itself
    share = (messages + copies - 1) / copies  # as if no bucket were ever muted
    task = min(
        (split_task(epsilon, up, task) for up in LIKELY_SPLITS), key=lambda one: _least(one, share)
    )
    for _ in range(6):
        choice = best_for_messages(task, share)
        excess = bucket_messages(choice[1], copies) - messages
        if excess <= 0:
            return choice
        share -= 1.001 * excess / copies
    raise PlanningError("No histogram is that cheap; allow more messages.")


def _least(task: CellTarget, messages: float) -> Fraction:
    """About the least error for so many messages."""
    ends = Fraction(least_rmse(task)) ** 2, thinning_error(task)
    return tightest_error(task, ends, messages, None) or ends[1]

"""Plans for histograms: one cell per bucket, ε split between up and down (MATH §7)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.paper import PaperCell
from shuffledp.errors import PlanningError
from shuffledp.exact.numbers import ExactNumber, round_to
from shuffledp.planning.checks import checked_epsilon, checked_size, checked_users
from shuffledp.planning.paper_messages import best_for_messages
from shuffledp.planning.paper_search import (
    CellTask,
    cheapest_cell,
    free_flood,
    propose,
    spent,
    without_pairs,
)
from shuffledp.planning.plan import Forecast, Plan
from shuffledp.planning.target import Target, laplace_variance
from shuffledp.privacy.certificate import certify
from shuffledp.protocols.histogram import Histogram, Label, bucket_messages, checked_labels
from shuffledp.protocols.results import HistogramResult

SPLITS = [place / 100 for place in range(28, 61, 4)]  # of ε for the way up
THIN_SPLITS = [place / 20 for place in range(6, 20)]  # without pairs, muting may do all
LIKELY = 0.42  # where the best split lies for most targets


def plan_histogram(
    users: int,
    epsilon: ExactNumber,
    buckets: object,
    *,
    other: Label | None = None,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
) -> Plan[HistogramResult]:
    """The cheapest certified histogram over `buckets` (labels, or how many).

    The targets are per bucket, the yardstick is DLap(ε/2) per bucket; `max_messages` counts all
    buckets together. `other` names the bucket (added if it is none of them) for unknown labels.
    """
    epsilon = checked_epsilon(epsilon)
    labels = checked_labels(buckets)
    if other is not None and other not in labels:
        labels = checked_labels([*labels, other])
    sure, come = checked_users(users, expected)
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    central = laplace_variance(epsilon / 2)
    task, cell = bucket_cell(epsilon, sure, come, target, len(labels))
    protocol = Histogram(epsilon=epsilon, cell=cell, labels=labels, other=other)
    limit = free_flood(task, cell, len(labels))
    forecast = _forecast(protocol, come, math.sqrt(central), limit)
    return Plan(
        protocol=protocol,
        certificate=certify(protocol),
        target=target,
        expected=come,
        forecast=forecast,
    )


def split_task(epsilon: Fraction, up: float, task: CellTask) -> CellTask:
    """The task with so much of ε for the way up."""
    exact_up = round_to(float(epsilon) * up, 3, up=False)
    return replace(task, up=exact_up, down=epsilon - exact_up)


def bucket_cell(
    epsilon: Fraction, sure: int, come: int, target: Target, buckets: int
) -> tuple[CellTask, PaperCell]:
    """The cheapest cell for each of so many buckets, of which two may move by ε in all, one up and
    one down; and its task."""
    task = CellTask(
        users=sure,
        expected=come,
        largest=1,
        up=epsilon / 2,
        down=epsilon / 2,
        mse=Fraction(1),
        relative=target.relative_error,
        padded=buckets if target.padded else 0,
    )
    if target.max_messages is not None:
        return _best_for_messages(epsilon, task, float(target.max_messages), buckets)
    task = replace(task, mse=target.mse(laplace_variance(epsilon / 2)))
    splits = {best_split(epsilon, way) for way in {task, replace(task, padded=0)}}
    tasks = [split_task(epsilon, up, task) for up in sorted(splits)]
    choices = [(task, cheapest_cell(task)) for task in tasks]
    for up in THIN_SPLITS:
        thinned = split_task(epsilon, up, task)
        if (cell := without_pairs(thinned)) is not None:
            choices.append((thinned, cell))
    return min(
        choices,
        key=lambda choice: spent(*choice) if target.padded else bucket_messages(choice[1], buckets),
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
            excess = bucket_messages(choice[1], buckets) - messages
            if excess <= 0:
                found.append(choice)
                break
            share -= 1.001 * excess / buckets
    if not found:
        raise refusal or PlanningError("No histogram is that cheap; allow more messages.")
    return min(found, key=lambda choice: choice[0].mse)


def _forecast(protocol: Histogram, users: int, central_rmse: float, limit: float) -> Forecast:
    low, high = protocol.cell.error_range(users, users, 0.05)
    total = protocol.messages_per_user()
    checked_size(total * users)
    return Forecast(
        messages_per_user=total,
        limit_messages=limit,
        rmse=protocol.rmse(users),
        rmse_at_zero=protocol.rmse(users, 0),
        central_rmse=central_rmse,
        error_low=low,
        error_high=high,
        bits_per_message=math.ceil(math.log2(2 * len(protocol.labels))),
    )

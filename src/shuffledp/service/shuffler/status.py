"""What the shuffler's status and its levels say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shuffledp.service.shuffler.dispatch import Dispatch
from shuffledp.service.shuffler.store import ShufflerStore
from shuffledp.service.web.metrics import Levels, Metrics
from shuffledp.service.web.tasks import RegisteredTask, TaskRegistry

STATUS_FIGURES = (
    Levels("waiting_reports", "Reports that are in no batch yet", ("task",)),
    Levels("unfinished_batches", "Batches that are closed and not yet delivered and scrubbed"),
    Levels("failing_batches", "Batches that the analyzer did not take at the last try"),
)


async def task_status(
    entry: RegisteredTask, store: ShufflerStore, dispatch: Dispatch, rejected: Mapping[str, int]
) -> dict[str, Any]:
    """How far a task is: waiting reports, refusals, batches."""
    rule, have = entry.task.batch, store.waiting_reports(entry.number)
    return {
        "have": have,
        "need": rule.reports,
        "progress": f"{have:,} of {rule.reports:,}",
        "top_up": rule.top_up,
        "next_batch": store.next_batch(entry.number),
        "rejected": dict(rejected),
        "batches": [
            {
                "number": batch.number,
                "batch": batch.id.hex(),
                "state": batch.state,
                "reports": batch.reports,
                "problem": dispatch.failing.get(batch.id, ""),
            }
            for batch in await store.batches(entry.number)
        ],
    }


async def measure(
    metrics: Metrics, store: ShufflerStore, dispatch: Dispatch, tasks: TaskRegistry
) -> None:
    """Sets the levels that only the shuffler has."""
    waiting = {
        str(entry.number): float(store.waiting_reports(entry.number))
        for entry in tasks.by_id.values()
        if entry.state != "archived"
    }
    metrics.levels("waiting_reports", "task", waiting)
    metrics.level("unfinished_batches", len(await store.batches()))
    metrics.level("failing_batches", len(dispatch.failing))

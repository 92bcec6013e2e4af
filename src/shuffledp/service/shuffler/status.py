"""The shuffler's status and gauges, the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shuffledp.service.http.metrics import Levels, Metrics
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.store import ShufflerStore

STATUS_FIGURES = (
    Levels("waiting_reports", "Reports that are in no batch yet", ("task",)),
    Levels("unfinished_batches", "Batches that are closed and not yet delivered and deleted"),
    Levels("failing_batches", "Batches that the analyzer did not accept at the last attempt"),
    Levels("stopped_tasks", "Tasks that take no reports because the store went back in time"),
    Levels("replicas", "Processes that were seen in the last half minute"),
    Levels("replicas_away", "Processes that hang or ended unexpectedly in the last day"),
)


async def task_status(
    entry: RegisteredTask, store: ShufflerStore, rejected: Mapping[str, int]
) -> dict[str, Any]:
    """The progress of a task: waiting reports, refusals, batches."""
    rule, state = entry.task.batch, await store.filling(entry.number)
    have = state.reports if state else 0
    return {
        "need": rule.reports,
        "top_up": rule.top_up,
        "rejected": dict(rejected),
        "have": have,
        "progress": f"{have:,} of {rule.reports:,}",
        "next_batch": state.number if state else None,
        "reason": state.reason if state else "",
        "batches": [
            {
                "number": batch.number,
                "batch": batch.id.hex(),
                "state": batch.state,
                "reports": batch.reports,
                "problem": batch.problem,
            }
            for batch in await store.batches(entry.number)
        ],
    }


async def measure(metrics: Metrics, store: ShufflerStore, replicas: tuple[int, int]) -> None:
    """Sets the levels that only the shuffler has."""
    states = await store.all_filling()
    metrics.levels(
        "waiting_reports",
        "task",
        {
            str(entry.number): float(states[entry.number].reports)
            for entry in store.tasks.by_id.values()
            if entry.state != "archived" and entry.number in states
        },
    )
    batches = await store.batches()
    metrics.level("unfinished_batches", len(batches))
    metrics.level("failing_batches", sum(bool(batch.problem) for batch in batches))
    metrics.level("stopped_tasks", sum(bool(state.reason) for state in states.values()))
    metrics.level("replicas", replicas[0])
    metrics.level("replicas_away", replicas[1])

"""What the shuffler's status and its levels say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.metrics import Levels, Metrics
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.shards import Shards

STATUS_FIGURES = (
    Levels("waiting_reports", "Reports that are in no batch yet", ("task",)),
    Levels("unfinished_batches", "Batches that are closed and not yet delivered and scrubbed"),
    Levels("failing_batches", "Batches that the analyzer did not take at the last try"),
    Levels("stores_away", "Stores that cannot be reached; their tasks are told 503"),
)


async def task_status(
    entry: RegisteredTask, shards: Shards, rejected: Mapping[str, int]
) -> dict[str, Any]:
    """How far a task is: waiting reports, refusals, batches."""
    rule, name = entry.task.batch, shards.name_of(entry)
    facts = {"need": rule.reports, "top_up": rule.top_up, "rejected": dict(rejected), "store": name}
    try:
        shard = shards.of(entry)
        batches = await shard.store.batches(entry.number)
    except (Problem, StorageUnavailable):
        return {
            **facts,
            "have": 0,
            "progress": f"store {name or 'of this task'} cannot be reached",
            "next_batch": None,
            "batches": [],
        }
    have = shard.store.waiting_reports(entry.number)
    return {
        **facts,
        "have": have,
        "progress": f"{have:,} of {rule.reports:,}",
        "next_batch": shard.store.next_batch(entry.number),
        "batches": [
            {
                "number": batch.number,
                "batch": batch.id.hex(),
                "state": batch.state,
                "reports": batch.reports,
                "problem": shard.dispatch.failing.get(batch.id, ""),
            }
            for batch in batches
        ],
    }


async def measure(metrics: Metrics, shards: Shards) -> None:
    """Sets the levels that only the shuffler has."""
    waiting: dict[str, float] = {}
    unfinished, failing, away = 0, 0, len(shards.away)
    for shard in shards.all_of():
        for entry in shard.store.tasks():
            if entry.state != "archived":
                waiting[str(entry.number)] = float(shard.store.waiting_reports(entry.number))
        try:
            unfinished += len(await shard.store.batches())
        except StorageUnavailable:
            away += 1
        failing += len(shard.dispatch.failing)
    metrics.levels("waiting_reports", "task", waiting)
    metrics.level("unfinished_batches", unfinished)
    metrics.level("failing_batches", failing)
    metrics.level("stores_away", away)

"""What becomes of the batches at the analyzer of a `Trio`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from service_trio import Trio

from shuffledp.service.analyzer.schema import ANALYZER_SCHEMA
from shuffledp.service.store import open_database
from shuffledp.tasks.task import Task

SETTLED = ("published", "held", "discarded")


async def batches_of(trio: Trio, task: Task) -> list[dict[str, Any]]:
    """What the analyzer's status says about a task's batches."""
    tasks = (await trio.to_analyzer.get("/status")).json()["tasks"]
    found: list[dict[str, Any]] = next(
        one["batches"] for one in tasks if one["task"] == task.id.hex()
    )
    return found


async def settled(
    trio: Trio, task: Task, count: int = 1, seconds: float = 30
) -> list[dict[str, Any]]:
    """The analyzer's batches of a task, after so many are published, held or discarded."""
    for _ in range(int(seconds / 0.05)):
        found = await batches_of(trio, task)
        if sum(batch["state"] in SETTLED for batch in found) >= count:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"no {count} batches settled: {found}")


async def waiting_with_reason(trio: Trio, task: Task, seconds: float = 30) -> dict[str, Any]:
    """The last batch of a task, after the status says why it waits."""
    for _ in range(int(seconds / 0.05)):
        found = await batches_of(trio, task)
        if found and found[-1]["problem"]:
            return found[-1]
        assert not found or found[-1]["state"] not in ("published", "discarded"), found[-1]
        await asyncio.sleep(0.05)
    raise AssertionError(f"no reason is shown: {found}")


async def stored_tallies(url: str) -> list[dict[str, Any]]:
    """What the analyzer with this store has counted, batch by batch; it does not run."""
    database = await open_database(url, ANALYZER_SCHEMA)
    try:
        rows = await database.rows("SELECT tally FROM batches")
        return [json.loads(row[0]) for row in rows]
    finally:
        await database.close()

"""What becomes of the batches at the analyzer of a `Trio`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from service_trio import Trio

from shuffledp.service.analyzer.store import ANALYZER_SCHEMA
from shuffledp.service.store import open_database
from shuffledp.tasks.task import Task


async def until(met: Callable[[], object], seconds: float = 60) -> None:
    """Waits until something is met; fails if it never is."""
    async with asyncio.timeout(seconds):
        while not met():
            await asyncio.sleep(0.01)


SETTLED = ("published", "held", "discarded")


async def batches_of(trio: Trio, task: Task) -> list[dict[str, Any]]:
    """What the analyzer's status says about a task's batches."""
    tasks = (await trio.to_analyzer.get("/status")).json()["tasks"]
    found: list[dict[str, Any]] = next(
        one["batches"] for one in tasks if one["task"] == task.id.hex()
    )
    return found


async def settled(
    trio: Trio, task: Task, count: int = 1, seconds: float = 60
) -> list[dict[str, Any]]:
    """The analyzer's batches of a task, after so many are published, held or discarded."""
    for _ in range(int(seconds / 0.05)):
        found = await batches_of(trio, task)
        if sum(batch["state"] in SETTLED for batch in found) >= count:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"no {count} batches settled: {found}")


async def waiting_with_reason(trio: Trio, task: Task, seconds: float = 60) -> dict[str, Any]:
    """The last batch of a task, after the status says why it waits."""
    for _ in range(int(seconds / 0.05)):
        found = await batches_of(trio, task)
        if found and found[-1]["problem"]:
            return found[-1]
        assert not found or found[-1]["state"] not in ("published", "discarded"), found[-1]
        await asyncio.sleep(0.05)
    raise AssertionError(f"no reason is shown: {found}")


KEEP_TALLIES = {
    "sqlite": (
        "CREATE TRIGGER keep AFTER UPDATE OF tally ON batches WHEN NEW.tally IS NOT NULL "
        "BEGIN INSERT OR IGNORE INTO tallies VALUES (NEW.id, NEW.tally); END",
    ),
    "postgresql": (
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO tallies VALUES (NEW.id, NEW.tally) ON CONFLICT DO NOTHING; "
        "RETURN NULL; END $$",
        "CREATE TRIGGER keep AFTER UPDATE ON batches FOR EACH ROW "
        "WHEN (OLD.tally IS NULL AND NEW.tally IS NOT NULL) EXECUTE FUNCTION keep()",
    ),
}


async def keep_tallies(url: str) -> None:
    """Makes an analyzer's new store keep the tallies that the analyzer deletes, for the test."""
    database = await open_database(url, ANALYZER_SCHEMA)
    kind = url.partition(":")[0]
    try:
        blob = {"sqlite": "BLOB", "postgresql": "BYTEA"}[kind]
        await database.rows(f"CREATE TABLE tallies (id {blob} PRIMARY KEY, tally TEXT NOT NULL)")
        for statement in KEEP_TALLIES[kind]:
            await database.rows(statement)
    finally:
        await database.close()


async def stored_tallies(url: str) -> dict[str, dict[str, Any]]:
    """What the analyzer with this store has counted, by batch; it does not run.

    Requires: `keep_tallies` was called before the analyzer started."""
    database = await open_database(url, ANALYZER_SCHEMA)
    try:
        assert await database.rows("SELECT id FROM batches WHERE tally IS NOT NULL") == []
        rows = await database.rows("SELECT id, tally FROM tallies")
        return {bytes(row[0]).hex(): json.loads(row[1]) for row in rows}
    finally:
        await database.close()

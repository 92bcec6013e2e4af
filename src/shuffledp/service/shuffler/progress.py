"""The public progress of a task: in tenths of a batch, with minutes of delay.

An exact count that changes with every report would reveal to an issuer, which knows when it issued
each token, who has used one. So the counts are read at fixed times, regardless of requests, and the
second-to-last reading is shown, rounded down.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from shuffledp.documents.schema import JsonSchema
from shuffledp.service.http.logs import log
from shuffledp.service.http.operations import NEEDS_TASK, TASK_NAME, Operation, json_object
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.store import ShufflerStore

LOOK_SECONDS = 600.0
TENTHS, LEAST_STEP = 10, 10
"""Progress is shown in tenths of a batch, and in steps of at least ten reports."""
COUNT: JsonSchema = {"type": "integer"}
PROGRESS = Operation(
    method="GET",
    path="/tasks/{task}/progress",
    summary="The progress of a task, rounded down and at least ten minutes old",
    answers={200: json_object(task=TASK_NAME, have=COUNT, need=COUNT, batches=COUNT)},
    problems=NEEDS_TASK,
)


class Seen(NamedTuple):
    """The progress of a task at one reading."""

    have: int = 0
    """Reports in the batch that is being filled, rounded down."""
    batches: int = 0
    """Batches that are full."""


class Progress:
    """The public progress of every task; `run` updates it."""

    def __init__(self, store: ShufflerStore) -> None:
        self._store = store
        self._shown: dict[int, Seen] = {}
        self._next: dict[int, Seen] = {}

    async def run(self) -> None:
        """Reads the progress of all tasks every ten minutes, until it is cancelled."""
        while True:
            try:
                await self.look()
            except Exception as error:  # the last reading is shown for longer
                log("reading progress failed", level="warning", error=type(error).__name__)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Reads the progress of all tasks, and publishes the previous reading."""
        states = await self._store.all_filling()
        found = {
            entry.number: Seen(
                rounded(states[entry.number].reports, entry.task.batch.reports),
                states[entry.number].number - 1,
            )
            for entry in self._store.tasks.by_id.values()
            if entry.number in states
        }
        self._shown, self._next = self._next, found

    def of(self, entry: RegisteredTask) -> dict[str, int]:
        """The public progress of a task."""
        seen = self._shown.get(entry.number, Seen())
        return {"have": seen.have, "need": entry.task.batch.reports, "batches": seen.batches}

    def status(self, entry: RegisteredTask) -> dict[str, Any]:
        """The same in the form of the status, for the page."""
        shown = self.of(entry)
        return {
            "have": shown["have"],
            "need": shown["need"],
            "progress": f"about {shown['have']:,} of {shown['need']:,}",
            "rejected": {},
            "batches": [],
        }


def rounded(have: int, need: int) -> int:
    """A number of reports, rounded down to tenths of what is needed."""
    step = max(need // TENTHS, LEAST_STEP)
    return have // step * step

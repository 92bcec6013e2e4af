"""How far tasks are: exactly for operators; for the public in tenths of a batch, with minutes of
delay.

An exact count that changes with every report would reveal to an issuer, which knows when it issued
each token, who has used one. So the counts are read at fixed times, regardless of requests, and the
second-to-last reading is shown, rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shuffledp.service.http.metrics import Levels, Metrics
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.store import ShufflerStore

TENTHS, LEAST_STEP = 10, 10
"""Progress is shown in tenths of a batch, and in steps of at least ten reports."""


STATUS_FIGURES = (
    Levels("waiting_reports", "Reports that are in no batch yet", ("task",)),
    Levels("unfinished_batches", "Batches that are closed and not yet delivered and deleted"),
    Levels("failing_batches", "Batches that the analyzer did not accept at the last attempt"),
    Levels("stopped_tasks", "Tasks that take no reports because the store went back in time"),
    Levels("replicas", "Processes that were seen in the last half minute"),
    Levels("replicas_away", "Processes that hang or ended unexpectedly in the last day"),
)


class Seen(NamedTuple):
    """The progress of a task at one reading."""

    have: int = 0
    """Reports in the batch that is being filled, rounded down."""
    batches: int = 0
    """Batches that are full."""


class Progress:
    """The public progress of every task; `look` updates it."""

    def __init__(self, store: ShufflerStore) -> None:
        self._store = store
        self._shown: dict[int, Seen] = {}
        self._next: dict[int, Seen] = {}

    async def look(self) -> None:
        """Reads the progress of all tasks, and publishes the previous reading. Called every ten
        minutes."""
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

"""Bringing a store and the folder of report keys together at every start.

The folder knows which batches are over; the store may be older, restored from a backup. Reports
whose key was destroyed were delivered, or were given up by an operator: they are deleted and never
counted again. Who sent the reports of a delivered batch that the store does not know is not known
either: such a task is closed, so that nobody answers it twice. Reports whose key is missing without
a record stop the start.
"""

from __future__ import annotations

from collections.abc import Iterator

from shuffledp.service.errors import ConfigError
from shuffledp.service.http.logs import log
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler.batches import Batch, insert_batch, row_number
from shuffledp.service.shuffler.report_keys import DELIVERED, ReportKeys
from shuffledp.service.shuffler.store import ShufflerStore
from shuffledp.service.store.database import Database, Transaction


async def reconcile(
    database: Database, store: ShufflerStore, tasks: TaskRegistry, keys: ReportKeys
) -> None:
    """Ends the batches whose keys were destroyed; raises `ConfigError` if a key was lost."""
    for batch in await store.batches():
        reason = keys.ended(store.entry(batch.task).task.id, batch.number)
        if reason and batch.state != "delivered":
            await store.scrub(batch, _state(reason))
            _say(batch, reason)
    for entry in store.tasks():
        # closed first: after an interruption the batches that show it must still be there
        if any(reason == DELIVERED for reason in _ended(store, entry, keys)):
            await _close(tasks, entry)
        await drop_ended(database, store, entry, keys)
    for entry in store.tasks():
        unfinished = [
            batch.number
            for batch in await store.batches(entry.number)
            if batch.state in ("closed", "ordered")
        ]
        lost = keys.missing(entry.task.id, [*unfinished, *store.waiting_batches(entry.number)])
        if lost:
            raise ConfigError(
                f"The keys of batches {', '.join(map(str, lost))} of task {entry.task.id.hex()} "
                f"are missing in {keys.path}, so their stored reports cannot be read; bring the "
                "folder back, or give the reports up with `shuffledp shuffler discard`."
            )


def _ended(store: ShufflerStore, entry: RegisteredTask, keys: ReportKeys) -> Iterator[str]:
    """How the batches ended that the store does not know of yet."""
    number = store.next_batch(entry.number)
    while reason := keys.ended(entry.task.id, number):
        yield reason
        number += 1


async def drop_ended(
    database: Database, store: ShufflerStore, entry: RegisteredTask, keys: ReportKeys
) -> None:
    """Deletes the waiting reports of a task whose keys were destroyed."""
    while reason := keys.ended(entry.task.id, store.next_batch(entry.number)):
        await _drop_waiting(database, store, entry, reason)


async def _close(tasks: TaskRegistry, entry: RegisteredTask) -> None:
    """Closes a task that the store is too old for, unless its tokens count anew in every batch."""
    if entry.state == "open" and not entry.task.repeat:
        await tasks.close(entry)
        reason = "the store is older than a delivery, so that it is not known who has answered"
        log("task closed", level="warning", task=entry.task.id.hex(), reason=reason)


def _state(reason: str) -> str:
    return "scrubbed" if reason == DELIVERED else "discarded"


async def _drop_waiting(
    database: Database, store: ShufflerStore, entry: RegisteredTask, reason: str
) -> None:
    """Deletes the waiting reports of the next batch, whose key is gone, and records the batch."""
    number, first = store.next_batch(entry.number), store.closed_reports(entry.number)
    reports = min(entry.task.batch.reports, store.waiting_places(entry.number))
    low = row_number(entry.number, first)
    batch = Batch(
        id=entry.task.id[:12] + number.to_bytes(4, "big"),
        task=entry.number,
        number=number,
        state=_state(reason),
        first_report=first,
        reports=reports,
        top_up_messages=0,
        noise_shares=0,
        digest=None,
    )

    async def drop(transaction: Transaction) -> None:
        await transaction.run(
            "DELETE FROM reports WHERE number >= $1 AND number < $2", low, low + reports
        )
        await insert_batch(transaction, batch)

    await database.run(drop)
    await store.reload(entry)
    _say(batch, reason)


def _say(batch: Batch, reason: str) -> None:
    words = (
        "the store is older than its delivery; its reports are not counted again"
        if reason == DELIVERED
        else reason
    )
    log("batch ended", level="warning", batch=batch.id.hex(), reports=batch.reports, reason=words)

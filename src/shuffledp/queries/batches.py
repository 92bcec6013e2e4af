"""The release of an opened batch: charged to the ledger once, then released and analyzed."""

from __future__ import annotations

from typing import Any

from shuffledp.queries.ledger import Ledger
from shuffledp.sealed.results import OpenedBatch, published
from shuffledp.sealed.task import Task


def release_batch(
    task: Task, batch: OpenedBatch, *, ledger: Ledger | None, confidence: float
) -> dict[str, Any]:
    """What is published for a batch.

    Ensures: the ledger is charged before anything is released, once however often this is called
    for the same batch; raises `BudgetExceeded` if the budget does not allow it, and
    `ShortBatchError` if the batch has less noise than the certificate needs.
    """
    what = f"{task.name} [task {task.id.hex()}, batch {batch.id.hex()}]"
    if ledger is not None and all(entry.what != what for entry in ledger.entries()):
        ledger.spend(task.protocol.epsilon, what)
    view = task.protocol.release(batch.report(task.protocol))
    return published(task, batch, task.protocol.analyze(view, confidence))

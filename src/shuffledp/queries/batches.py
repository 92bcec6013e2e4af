"""Publishing a batch of encrypted reports that was opened: for the analyzer and Spark's jobs."""

from __future__ import annotations

from typing import Any

from shuffledp.queries.ledger import Ledger
from shuffledp.queries.publish import publish
from shuffledp.sealed.results import OpenedBatch, published
from shuffledp.sealed.task import Task


def publish_batch(
    task: Task, batch: OpenedBatch, *, ledger: Ledger | None, confidence: float
) -> dict[str, Any]:
    """What is published for a batch, as JSON.

    Ensures: as `publish`; the ledger is charged once, however often this is called for the same
    batch.
    """
    result = publish(
        task.protocol,
        batch.report(task.protocol),
        confidence=confidence,
        ledger=ledger,
        what=f"{task.name} [task {task.id.hex()}, batch {batch.id.hex()}]",
        once=True,
        certificate=task.certificate,
    )
    return published(task, batch, result)

"""The shuffler's batches as rows of its store, and how far every task is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

from shuffledp.service.store.database import Transaction

TASK_NUMBERS = 1 << 40
"""The reports of task t have the numbers t·2⁴⁰, t·2⁴⁰ + 1, …: t·2⁴⁰ and their place."""
PAGE_REPORTS = 512
FINISHED_STATES = ("scrubbed", "discarded")


def row_number(task: int, place: int) -> int:
    """The number under which the report at a place is stored."""
    return task * TASK_NUMBERS + place


@dataclass(kw_only=True)
class Batch:
    """A batch at the shuffler: closed → ordered → delivered → scrubbed, or discarded."""

    id: bytes
    task: int
    number: int
    state: str
    first_report: int
    """How many reports of the task are in earlier batches."""
    reports: int
    top_up_messages: int
    noise_shares: int
    digest: bytes | None


BATCH_COLUMNS = (
    "id",
    "task",
    "number",
    "state",
    "first_report",
    "reports",
    "top_up_messages",
    "noise_shares",
    "digest",
)


async def insert_batch(transaction: Transaction, batch: Batch) -> None:
    """Adds a batch to the table of batches."""
    marks = ", ".join(f"${number}" for number in range(1, len(BATCH_COLUMNS) + 1))
    await transaction.run(
        f"INSERT INTO batches ({', '.join(BATCH_COLUMNS)}) VALUES ({marks})", *astuple(batch)
    )


@dataclass(frozen=True, kw_only=True)
class StoredProgress:
    """How far a task is by what its store holds."""

    closed: int
    """How many places are in closed batches."""
    batches: int
    """How many batches are closed."""
    following: int
    """The place after the last stored report."""
    holes: list[int]
    """Places before it, in no batch, without a report."""


async def progress(transaction: Transaction, task: int) -> StoredProgress:
    """How far a task is."""
    ends = await transaction.rows(
        "SELECT COALESCE(MAX(first_report + reports), 0), COALESCE(MAX(number), 0) FROM batches "
        "WHERE task=$1",
        task,
    )
    closed, batches = int(ends[0][0]), int(ends[0][1])
    low, high = row_number(task, closed), row_number(task + 1, 0)
    waiting = "FROM reports WHERE number >= $1 AND number < $2"
    rows = await transaction.rows(f"SELECT COUNT(*), MAX(number) {waiting}", low, high)
    count, last = int(rows[0][0]), rows[0][1]
    following = closed if last is None else int(last) - row_number(task, 0) + 1
    holes: list[int] = []
    if count < following - closed:
        stored = await transaction.rows(f"SELECT number {waiting}", low, high)
        filled = {int(row[0]) - row_number(task, 0) for row in stored}
        holes = [place for place in range(closed, following) if place not in filled]
    return StoredProgress(closed=closed, batches=batches, following=following, holes=holes)


def pages(batch: Batch) -> Iterator[tuple[int, int]]:
    """The numbers of a batch's reports, in ranges small enough for one transaction."""
    start = row_number(batch.task, batch.first_report)
    for low in range(start, start + batch.reports, PAGE_REPORTS):
        yield low, min(low + PAGE_REPORTS, start + batch.reports)

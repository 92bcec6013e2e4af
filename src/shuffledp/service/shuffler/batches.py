"""The shuffler's batches as rows of its store, and how far every task is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from shuffledp.service.storage.database import Transaction

TASK_NUMBERS = 1 << 40
"""Reports of task t have the numbers t·2⁴⁰, t·2⁴⁰ + 1, …: without gaps, in order of arrival."""
PAGE_REPORTS = 512
FINISHED_STATES = ("scrubbed", "discarded")


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


Counts = dict[int, int]


async def progress(transaction: Transaction, tasks: Iterable[int]) -> tuple[Counts, Counts, Counts]:
    """For each of these tasks, how many reports have arrived, how many of them are in batches, and
    in how many batches."""
    ends = await transaction.rows(
        "SELECT task, MAX(first_report + reports), MAX(number) FROM batches GROUP BY task"
    )
    closed = {task: int(end) for task, end, _ in ends}
    batches = {task: int(number) for task, _, number in ends}
    arrived = {}
    for task in tasks:
        top = await transaction.rows(
            "SELECT MAX(number) FROM reports WHERE number >= $1 AND number < $2",
            task * TASK_NUMBERS,
            (task + 1) * TASK_NUMBERS,
        )
        last = -1 if top[0][0] is None else top[0][0] - task * TASK_NUMBERS
        arrived[task] = max(last + 1, closed.get(task, 0))
    return arrived, closed, batches


def pages(batch: Batch) -> Iterator[tuple[int, int]]:
    """The numbers of a batch's reports, in ranges small enough for one transaction."""
    start = batch.task * TASK_NUMBERS + batch.first_report
    for low in range(start, start + batch.reports, PAGE_REPORTS):
        yield low, min(low + PAGE_REPORTS, start + batch.reports)

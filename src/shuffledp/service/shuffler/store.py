"""The reports, tokens and batches that the shuffler stores."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from enum import Enum

from shuffledp.sealed.ordering import ORDER_SECRET_BYTES
from shuffledp.sealed.wire import MESSAGE_BYTES
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.storage.database import Database, Row, Rows, Transaction

TASK_NUMBERS = 1 << 40
"""Reports of task t have the numbers t·2⁴⁰, t·2⁴⁰ + 1, …: without gaps, in order of arrival."""
PAGE_REPORTS = 512
PART_BYTES = 1024 * MESSAGE_BYTES
"""Bytes of a top-up that are stored in one row."""


class Verdict(Enum):
    """Whether an upload was stored, or why not."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    UNKNOWN_TOKEN = "token-unknown"
    TOKEN_USED = "token-used"


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """An upload that follows the layout; the store decides whether it counts."""

    task: int
    report: bytes
    """The report's id."""
    token: bytes
    """The hash of the token."""
    scope: int | None
    """The task within which the token may be used once; 0: once in all tasks; None: often."""
    messages: bytes


@dataclass(kw_only=True)
class Batch:
    """A batch at the shuffler: closed → ordered → delivered → scrubbed."""

    id: bytes
    task: int
    number: int
    state: str
    first_report: int
    """How many reports of the task are in earlier batches."""
    reports: int
    top_up_messages: int
    noise_shares: int
    order_secret: bytes | None
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
    "order_secret",
    "digest",
)
USED_COLUMNS = ("task", "name")
"""Ids of stored reports (16 bytes) and hashes of spent tokens (32 bytes)."""


class ShufflerStore:
    """Reports, tokens and batches in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._arrived: dict[int, int] = {}
        self._closed: dict[int, int] = {}
        """For each task, how many reports have arrived, and how many of them are in batches."""
        self._failures = -1

    async def load(self) -> None:
        """Reads from the database how many reports of each task have arrived."""
        await self._database.run(self._refresh)

    async def _refresh(self, transaction: Transaction) -> None:
        """Reads the counts again after a failed transaction, which may have taken effect."""
        if self._failures != self._database.failures:
            self._arrived, self._closed = await _progress(transaction)
            self._failures = self._database.failures

    def waiting_reports(self, task: int) -> int:
        """How many reports of a task wait for a batch."""
        return self._arrived.get(task, 0) - self._closed.get(task, 0)

    # arrivals

    async def accept(
        self, take: Callable[[], Sequence[Arrival]], timed: frozenset[int]
    ) -> list[Verdict]:
        """Stores in one durable transaction what may be stored of the arrivals that `take` gives
        when the database is ready for them; for `timed` tasks, also since when reports wait.

        Ensures: a report id counts once per task, and a token once within its scope; a retry of
        what was stored is a duplicate even though its token is spent.
        """

        async def store(transaction: Transaction) -> list[Verdict]:
            await self._refresh(transaction)
            arrivals = take()
            verdicts = await self._judge(transaction, arrivals)
            good = [
                one
                for one, verdict in zip(arrivals, verdicts, strict=True)
                if verdict is Verdict.ACCEPTED
            ]
            arrived = dict(self._arrived)
            names = [(one.task, one.report) for one in good]
            names += [(one.scope, one.token) for one in good if one.scope is not None]
            rows = [(self._next_number(one.task, arrived), one.messages) for one in good]
            await transaction.append(
                Rows("used", USED_COLUMNS, sorted(names)),
                Rows("reports", ("number", "messages"), rows),
            )
            await self._note_waiting(transaction, timed & {one.task for one in arrivals})
            self._arrived = arrived
            return verdicts

        return await self._database.run(store)

    async def _judge(self, transaction: Transaction, arrivals: Sequence[Arrival]) -> list[Verdict]:
        reports: list[Row] = [(arrival.task, arrival.report) for arrival in arrivals]
        tokens: list[Row] = [(arrival.token,) for arrival in arrivals]
        scopes: list[Row] = [(arrival.scope or 0, arrival.token) for arrival in arrivals]
        used, enrolled = await transaction.present(
            Rows("used", USED_COLUMNS, reports + scopes), Rows("tokens", ("token",), tokens)
        )
        verdicts = []
        for arrival, report, token, scope in zip(arrivals, reports, tokens, scopes, strict=True):
            if report in used:
                verdicts.append(Verdict.DUPLICATE)
            elif token not in enrolled:
                verdicts.append(Verdict.UNKNOWN_TOKEN)
            elif arrival.scope is not None and scope in used:
                verdicts.append(Verdict.TOKEN_USED)
            else:
                verdicts.append(Verdict.ACCEPTED)
                used.add(report)
                if arrival.scope is not None:
                    used.add(scope)
        return verdicts

    @staticmethod
    def _next_number(task: int, arrived: dict[int, int]) -> int:
        """The number of a task's next report; counts it in `arrived`."""
        count = arrived.get(task, 0)
        arrived[task] = count + 1
        return task * TASK_NUMBERS + count

    async def _note_waiting(self, transaction: Transaction, tasks: frozenset[int]) -> None:
        rows: list[Row] = [(task, int(time.time())) for task in sorted(tasks)]
        if rows:
            await transaction.insert("waiting", ("task", "since"), rows)

    async def waited(self, task: int) -> float:
        """For how many seconds reports of a task have been waiting. Wall-clock time, which goes on
        during a restart; a clock that jumps can cost accuracy, never privacy, because a batch that
        leaves early gets a noise top-up."""
        rows = await self._database.rows("SELECT since FROM waiting WHERE task=$1", task)
        return time.time() - rows[0][0] if rows else 0.0

    async def enrol(self, hashes: Sequence[bytes]) -> int:
        """Lets the holders of the tokens with these hashes upload; gives how many were new."""
        rows: list[Row] = [(value,) for value in sorted(set(hashes))]
        new = await self._database.run(
            lambda transaction: transaction.insert("tokens", ("token",), rows)
        )
        return len(new)

    # batches

    async def close_batch(
        self,
        task: int,
        reports: int,
        top_up: bytes,
        *,
        top_up_messages: int,
        noise_shares: int,
        uniform: bool,
    ) -> Batch:
        """Closes a batch of the oldest waiting reports, together with its noise top-up.

        Requires: the rule was checked against `waiting_reports`. Ensures: raises
        `StorageUnavailable` and closes nothing if these reports are in a batch already.
        """
        secret = os.urandom(ORDER_SECRET_BYTES) if uniform else None

        async def close(transaction: Transaction) -> Batch:
            await self._refresh(transaction)
            if not 0 < reports <= self.waiting_reports(task):
                raise StorageUnavailable("The batch was closed already; look again.")
            first = self._closed.get(task, 0)
            found = await transaction.rows("SELECT COUNT(*) FROM batches WHERE task=$1", task)
            batch = Batch(
                id=os.urandom(16),
                task=task,
                number=int(found[0][0]) + 1,
                state="closed",
                first_report=first,
                reports=reports,
                top_up_messages=top_up_messages,
                noise_shares=noise_shares,
                order_secret=secret,
                digest=None,
            )
            await self._insert_batch(transaction, batch, top_up)
            self._closed[task] = first + reports
            return batch

        return await self._database.run(close)

    async def discard_waiting(self, task: int) -> int:
        """Deletes all reports of a task that wait for a batch; gives how many. They stand in the
        list of batches as one that was discarded, so that numbers are not used again."""

        async def discard(transaction: Transaction) -> int:
            await self._refresh(transaction)
            count, first = self.waiting_reports(task), self._closed.get(task, 0)
            if count == 0:
                return 0
            found = await transaction.rows("SELECT COUNT(*) FROM batches WHERE task=$1", task)
            gone = Batch(
                id=os.urandom(16),
                task=task,
                number=int(found[0][0]) + 1,
                state="discarded",
                first_report=first,
                reports=count,
                top_up_messages=0,
                noise_shares=count,
                order_secret=None,
                digest=None,
            )
            await self._insert_batch(transaction, gone, b"")
            start = task * TASK_NUMBERS + first
            await transaction.run(
                "DELETE FROM reports WHERE number >= $1 AND number < $2", start, start + count
            )
            self._closed[task] = first + count
            return count

        return await self._database.run(discard)

    @staticmethod
    async def _insert_batch(transaction: Transaction, batch: Batch, top_up: bytes) -> None:
        marks = ", ".join(f"${number}" for number in range(1, len(BATCH_COLUMNS) + 1))
        await transaction.run(
            f"INSERT INTO batches ({', '.join(BATCH_COLUMNS)}) VALUES ({marks})", *astuple(batch)
        )
        parts: list[Row] = [
            (batch.id, part, top_up[start : start + PART_BYTES])
            for part, start in enumerate(range(0, len(top_up), PART_BYTES))
        ]
        await transaction.insert("top_ups", ("batch", "part", "messages"), parts, key=2)
        await transaction.run("DELETE FROM waiting WHERE task=$1", batch.task)

    async def batches(self, task: int | None = None) -> list[Batch]:
        """The unfinished batches, oldest first; all batches of a task if one is given."""
        done = "state NOT IN ('scrubbed', 'discarded')"
        test = done if task is None else "task = $1"
        rows = await self._database.rows(
            f"SELECT {', '.join(BATCH_COLUMNS)} FROM batches WHERE {test} ORDER BY task, number",
            *(() if task is None else (task,)),
        )
        return [Batch(**dict(zip(BATCH_COLUMNS, row, strict=True))) for row in rows]

    async def advance(self, batch: Batch, state: str, digest: bytes | None = None) -> None:
        """Moves a batch to its next state."""
        await self._database.rows(
            "UPDATE batches SET state=$1, digest=COALESCE($2, digest) WHERE id=$3",
            state,
            digest,
            batch.id,
        )
        batch.state, batch.digest = state, digest or batch.digest

    async def messages(self, batch: Batch) -> AsyncIterator[bytes]:
        """The encrypted messages of a batch, page by page, top-up last."""
        for low, high in _pages(batch):
            yield await self._database.joined("reports", "messages", "number", low, high)
        rows = await self._database.rows(
            "SELECT messages FROM top_ups WHERE batch=$1 ORDER BY part", batch.id
        )
        yield b"".join(row[0] for row in rows)

    async def scrub(self, batch: Batch) -> None:
        """Deletes a delivered batch's messages and the secret of its order."""
        for low, high in _pages(batch):
            await self._database.rows(
                "DELETE FROM reports WHERE number >= $1 AND number < $2", low, high
            )

        async def forget(transaction: Transaction) -> None:
            await transaction.run("DELETE FROM top_ups WHERE batch=$1", batch.id)
            await transaction.run(
                "UPDATE batches SET state='scrubbed', order_secret=NULL WHERE id=$1", batch.id
            )

        await self._database.run(forget)
        batch.state, batch.order_secret = "scrubbed", None


async def _progress(transaction: Transaction) -> tuple[dict[int, int], dict[int, int]]:
    """For every task, how many reports have arrived, and how many of them are in batches."""
    ends = await transaction.rows(
        "SELECT task, MAX(first_report + reports) FROM batches GROUP BY task"
    )
    closed = {task: int(end) for task, end in ends}
    arrived = {}
    for (task,) in await transaction.rows("SELECT number FROM tasks"):
        top = await transaction.rows(
            "SELECT MAX(number) FROM reports WHERE number >= $1 AND number < $2",
            task * TASK_NUMBERS,
            (task + 1) * TASK_NUMBERS,
        )
        last = -1 if top[0][0] is None else top[0][0] - task * TASK_NUMBERS
        arrived[task] = max(last + 1, closed.get(task, 0))
    return arrived, closed


def _pages(batch: Batch) -> Iterator[tuple[int, int]]:
    """The numbers of a batch's reports, in ranges small enough for one transaction."""
    start = batch.task * TASK_NUMBERS + batch.first_report
    for low in range(start, start + batch.reports, PAGE_REPORTS):
        yield low, min(low + PAGE_REPORTS, start + batch.reports)

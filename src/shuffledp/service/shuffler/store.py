"""The shuffler's closed batches: leased by one process at a time, delivered, deleted.

closing → ordered → delivered → deleted, or discarded. A process works on a batch while it holds the
batch's lease, which it renews; the lease of a process that hangs or dies expires, and another
process continues. Every step checks the lease in the statement that records it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.logs import log
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler import filling
from shuffledp.service.shuffler.filling import Filling
from shuffledp.service.shuffler.report_keys import DELIVERED, BatchKey, ReportKeys
from shuffledp.service.store.database import PAGE_ROWS, Database, Row, Transaction

LEASE_SECONDS = 60
PAGE_REPORTS = 512
FINISHED = "('deleted', 'discarded')"
UNDELIVERED = ("closing", "ordered")
NOT_OVER = (
    f"SELECT task, number FROM batches WHERE state IN {UNDELIVERED} "
    "UNION ALL SELECT task, number FROM filling"
)
"""The batches of all tasks whose reports must be readable."""
OLDER = "the store is older than a delivery, so it is not known who has answered; make a new task"


class LeaseLost(StorageUnavailable):
    """Another process is now working on this batch."""

    def __init__(self) -> None:
        super().__init__("Another process is now working on this batch.")


@dataclass(kw_only=True)
class Batch:
    """A closed batch."""

    task: int
    number: int
    id: bytes
    state: str
    reports: int
    top_up_messages: int
    noise_shares: int
    digest: bytes | None
    folder: str
    """The folder of its parts in the spool."""
    tries: int
    """How often its delivery has failed."""
    problem: str
    """Why the last delivery failed."""


NAMES = [field.name for field in fields(Batch)]
COLUMNS = ", ".join(NAMES)


def _batch(row: Row) -> Batch:
    return Batch(**dict(zip(NAMES, row, strict=True)))


class ShufflerStore:
    """Closed batches and the progress of tasks, in the store that all processes share."""

    def __init__(
        self, database: Database, tasks: TaskRegistry, keys: ReportKeys, replica: str
    ) -> None:
        """`replica` names this process."""
        self.database, self.tasks, self.keys = database, tasks, keys
        self.replica = replica
        self._not_over: tuple[str, set[Row]] = ("", set())
        """The database server that is being compared, and what was found to be as it says."""

    def key(self, batch: Batch) -> BatchKey:
        """The key of a batch."""
        return self.keys.key(self.tasks.numbered(batch.task).task.id, batch.number)

    async def filling(self, task: int) -> Filling | None:
        """The progress of a task; None if it was deleted."""
        return await self.database.run(
            lambda transaction: filling.filling(transaction, task), atomic=False
        )

    async def all_filling(self) -> dict[int, Filling]:
        """The progress of every task, by its number."""
        rows = await self.database.rows(f"SELECT task, {filling.FILLING_COLUMNS} FROM filling")
        return {int(row[0]): Filling.of(row[1:]) for row in rows}

    async def close_early(self, entry: RegisteredTask, state: Filling) -> bool:
        """Closes the batch that a task is filling; False if its reports have changed."""
        key = await asyncio.to_thread(self.keys.key, entry.task.id, state.number)
        return await self.database.run(
            lambda transaction: filling.close_early(
                transaction, entry.number, state.number, state.reports, key.batch_id
            ),
            atomic=not self.database.shared,
        )

    async def batches(self, task: int | None = None) -> list[Batch]:
        """The unfinished batches; all batches of a task if one is given."""
        test = f"state NOT IN {FINISHED}" if task is None else "task = $1"
        rows = await self.database.rows(
            f"SELECT {COLUMNS} FROM batches WHERE {test} ORDER BY task, number",
            *(() if task is None else (task,)),
        )
        return [_batch(row) for row in rows]

    # leases

    async def lease(self) -> Batch | None:
        """An unfinished batch that no other process works on, for this one; None if there is
        none."""
        skip = "FOR UPDATE SKIP LOCKED" if self.database.shared else ""
        now = self.database.now
        rows = await self.database.rows(
            f"WITH next AS MATERIALIZED (SELECT task AS t, number AS n FROM batches "
            f"WHERE state NOT IN {FINISHED} AND lease_until < {now} "
            f"ORDER BY lease_until, task, number LIMIT 1 {skip}) "
            f"UPDATE batches SET lease = $1, lease_until = {now} + {LEASE_SECONDS} FROM next "
            f"WHERE task = t AND number = n RETURNING {COLUMNS}",
            self.replica,
        )
        return _batch(rows[0]) if rows else None

    async def renew(self, batch: Batch) -> None:
        """Keeps a lease; raises `LeaseLost` if another process has it."""
        await self._change(batch, f"lease_until = {self.database.now} + {LEASE_SECONDS}")

    async def ordered(self, batch: Batch, digest: bytes, folder: str) -> None:
        """Records the parts of a batch: these are delivered, and no others."""
        await self._change(
            batch,
            "state = 'ordered', digest = $4, folder = $5, top_up_messages = $6, noise_shares = $7, "
            "id = $8",
            digest,
            folder,
            batch.top_up_messages,
            batch.noise_shares,
            batch.id,
        )
        batch.state, batch.digest, batch.folder = "ordered", digest, folder

    async def delivered(self, batch: Batch) -> None:
        """Records that the analyzer has the whole batch."""
        await self._change(batch, "state = 'delivered', problem = ''")
        batch.state = "delivered"

    async def give_back(self, batch: Batch, problem: str, pause: int) -> None:
        """Ends a lease after a failure; the batch is tried again after a pause, by any process."""
        tries = "tries + 1" if problem else "tries"
        await self._change(
            batch,
            f"lease = '', lease_until = {self.database.now} + $4, tries = {tries}, problem = $5",
            pause,
            problem,
        )

    async def _change(self, batch: Batch, what: str, *values: int | str | bytes) -> None:
        done = await self.database.rows(
            f"UPDATE batches SET {what} WHERE task = $1 AND number = $2 AND lease = $3 RETURNING 1",
            batch.task,
            batch.number,
            self.replica,
            *values,
        )
        if not done:
            raise LeaseLost

    # content

    async def messages(self, batch: Batch) -> AsyncIterator[bytes]:
        """The encrypted messages of a batch's reports, page by page.

        Ensures: raises `StorageUnavailable` unless all reports of the batch are there.
        """
        key, found = self.key(batch), 0
        async for rows in self._pages(batch):
            found += len(rows)
            yield await asyncio.to_thread(
                lambda rows: b"".join(key.decrypt(bytes(row[2]), bytes(row[1])) for row in rows),
                rows,
            )
        if found != batch.reports:
            log("batch incomplete", level="error", batch=batch.id.hex(), reports=found)
            raise StorageUnavailable("The store does not have all reports of this batch.")

    async def _pages(self, batch: Batch) -> AsyncIterator[list[Row]]:
        last = 0
        while True:
            rows = await self.database.rows(
                "SELECT rowid, name, messages FROM reports WHERE task = $1 AND batch = $2 "
                f"AND rowid > $3 ORDER BY rowid LIMIT {PAGE_REPORTS}",
                batch.task,
                batch.number,
                last,
            )
            if not rows:
                return
            yield rows
            last = rows[-1][0]

    async def destroy_key(self, batch: Batch) -> None:
        """Destroys the key of a batch that was delivered.

        Ensures: no copy of the messages in the database, its log, a backup or the spool can be read
        any more. After a crash before `delete`, the next process finishes it.
        """
        task = self.tasks.numbered(batch.task).task.id
        await asyncio.to_thread(self.keys.destroy, task, batch.number)

    async def delete(self, batch: Batch) -> None:
        """Deletes the reports of a batch whose key was destroyed."""
        await self._delete_reports(batch.task, batch.number)
        await self._change(batch, "state = 'deleted', lease = '', problem = ''")
        batch.state = "deleted"

    async def _delete_reports(self, task: int, number: int) -> None:
        reports = "FROM reports WHERE task = $1 AND batch = $2"
        page = f"SELECT rowid {reports} ORDER BY rowid LIMIT {PAGE_ROWS}"
        while True:
            ((last,),) = await self.database.rows(
                f"SELECT MAX(rowid) FROM ({page}) AS page", task, number
            )
            if last is None:
                return
            await self.database.rows(f"DELETE {reports} AND rowid <= $3", task, number, last)

    # bringing the store and the keys together

    async def reconcile(self, entry: RegisteredTask) -> None:
        """Ends the batches of a task whose keys were destroyed: either they were delivered and the
        store is older than that, or an operator discarded them. In the first case the task takes no
        more reports, because it is not known who has answered."""
        task = entry.task.id
        for batch in await self.batches(entry.number):
            if batch.state in UNDELIVERED:
                reason = await asyncio.to_thread(self.keys.ended, task, batch.number)
                if reason:
                    await self._end(entry, batch.number, reason, filled=False)
        state = await self.filling(entry.number)
        while state and (reason := await asyncio.to_thread(self.keys.ended, task, state.number)):
            await self._end(entry, state.number, reason, filled=True)
            state = await self.filling(entry.number)

    async def contradicted(
        self, transaction: Transaction, server: str
    ) -> list[tuple[int, RegisteredTask]]:
        """The tasks, with their numbers in the store, of which it says that a batch was not
        delivered although its key was destroyed after its delivery: the store is older than
        that."""
        found = dict[int, RegisteredTask]()
        for number, task in await transaction.rows("SELECT number, id FROM tasks"):
            if (entry := self.tasks.by_id.get(bytes(task))) is not None:
                found[number] = entry
        if not server or self._not_over[0] != server:
            self._not_over = (server, set())
        over, known = set[Row](), self._not_over[1]  # an attempt that takes too long is continued
        for row in await transaction.rows(NOT_OVER):
            if row[0] in found and row not in known:
                reason = await self._ended(transaction, found[row[0]].task.id, row[1])
                (over if reason == DELIVERED else known).add(row)
        if over:  # others may have delivered them since the first look
            over.intersection_update(await transaction.rows(NOT_OVER))
        return [(number, found[number]) for number in sorted({number for number, _ in over})]

    async def _ended(self, transaction: Transaction, task: bytes, number: int) -> str:
        if transaction.dialect == "sqlite":  # in the store's thread already
            return self.keys.ended(task, number)
        return await asyncio.to_thread(self.keys.ended, task, number)

    async def _end(self, entry: RegisteredTask, number: int, reason: str, *, filled: bool) -> None:
        """Deletes the reports of a batch that is over, and records that, unless another process has
        meanwhile. `filled`: it was being filled."""
        await self._delete_reports(entry.number, number)

        async def end(transaction: Transaction) -> bool:
            await self.tasks.begin_change(transaction)
            if (entry.number, number) not in await transaction.rows(NOT_OVER):
                return False
            if reason == DELIVERED:
                await transaction.run(filling.LOSE)
            if reason == DELIVERED and entry.task.repeat is False:
                await filling.stop(transaction, entry.number, OLDER)
                await self.tasks.store_state(transaction, entry.number, "closed")
            if filled:
                state = await filling.filling(transaction, entry.number)
                if state is None or state.number != number:
                    return False
                await filling.close_early(
                    transaction, entry.number, number, state.reports, bytes(16)
                )
            await transaction.run(
                "UPDATE batches SET state = $3 WHERE task = $1 AND number = $2",
                entry.number,
                number,
                "deleted" if reason == DELIVERED else "discarded",
            )
            return True

        if not await self.database.run(end):
            return
        words = OLDER if reason == DELIVERED else reason
        log("batch ended", level="warning", task=entry.task.id.hex(), reason=words)

    async def missing_keys(self, entry: RegisteredTask) -> list[int]:
        """The unfinished batches of a task whose keys are missing without a record."""
        numbers = [
            batch.number for batch in await self.batches(entry.number) if batch.state in UNDELIVERED
        ]
        state = await self.filling(entry.number)
        if state and state.reports:
            numbers.append(state.number)
        return await asyncio.to_thread(self.keys.missing, entry.task.id, numbers)

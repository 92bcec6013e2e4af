"""The batches that the shuffler stores, and the reports in them.

Every report is stored under the key of the batch that it will be in (`report_keys`). That batch is
known when a report gets its place (`places`): full batches hold exactly as many reports as the
task's rule says, and a batch that leaves early takes all waiting reports.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.batches import (
    BATCH_COLUMNS,
    FINISHED_STATES,
    Batch,
    insert_batch,
    pages,
    progress,
    row_number,
)
from shuffledp.service.shuffler.places import Places
from shuffledp.service.shuffler.report_keys import BatchKey, ReportKeys
from shuffledp.service.store.database import Database, Row, Rows, Transaction
from shuffledp.tasks.clock import Clock
from shuffledp.tasks.wire import MESSAGE_BYTES

PART_BYTES = 1024 * MESSAGE_BYTES
"""Bytes of a top-up that are stored in one row."""
LONGEST_PAUSE_SECONDS, TRY_AGAIN_SECONDS = 5.0, 60.0
"""How long a task takes no reports because a batch is to leave early, and when that is tried
again."""


class ShufflerStore:
    """Reports and batches of the tasks that live in a database."""

    def __init__(
        self,
        database: Database,
        tasks: Callable[[], list[RegisteredTask]],
        keys: ReportKeys,
        clock: Clock,
        places: Places,
    ) -> None:
        """`tasks` gives the tasks that live in this database."""
        self._database, self.tasks, self._keys, self._clock = database, tasks, keys, clock
        self._places = places
        self._entries: dict[int, RegisteredTask] = {}
        self._doubtful: set[int] = set()
        """Tasks whose last change was not heard to succeed; the database knows."""
        self._pauses: dict[int, float] = {}
        """Since when a batch of a task should have left early."""
        self.closing = asyncio.Lock()
        """Held while a batch is closed, or reports that wait are given up."""

    async def load(self) -> None:
        """Reads from the database how far each task is."""
        for entry in self.tasks():
            await self.reload(entry)

    async def reload(self, entry: RegisteredTask) -> None:
        """Reads again how far a task is, after that was changed by others."""
        found = await self._database.run(lambda transaction: progress(transaction, entry.number))
        self._places.load(entry, found)
        self._doubtful.discard(entry.number)

    def waiting_reports(self, task: int) -> int:
        """How many reports of a task wait for a batch."""
        return self._places.of(task).waiting()

    def waiting_places(self, task: int) -> int:
        """How many places have been taken that are in no batch, filled or not."""
        found = self._places.of(task)
        return found.next - found.closed

    def closed_reports(self, task: int) -> int:
        """How many reports of a task are in batches."""
        return self._places.of(task).closed

    def next_batch(self, task: int) -> int:
        """The number of the batch that is closed next."""
        return self._places.of(task).batches + 1

    def waiting_batches(self, task: int) -> range:
        """The numbers of the batches that the waiting reports will be in."""
        found = self._places.of(task)
        last = found.batch_of(found.next - 1) if found.next > found.closed else found.batches
        return range(found.batches + 1, last + 1)

    def entry(self, task: int) -> RegisteredTask:
        """The task with this number."""
        if task not in self._entries:
            self._entries.update((entry.number, entry) for entry in self.tasks())
        return self._entries[task]

    def _key(self, task: int, number: int) -> BatchKey:
        return self._keys.key(self.entry(task).task.id, number)

    async def waited(self, task: int) -> float:
        """For how many seconds reports of a task have been waiting. Wall-clock time, which goes on
        during a restart; a clock that jumps can cost accuracy, never privacy, because a batch that
        leaves early gets a noise top-up."""
        rows = await self._database.rows("SELECT since FROM waiting WHERE task=$1", task)
        return self._clock() - rows[0][0] if rows else 0.0

    # batches

    async def be_sure(self, entry: RegisteredTask) -> None:
        """Asks the database how far a task is if the last change was not heard to succeed."""
        if entry.number in self._doubtful:
            await self.reload(entry)

    async def line_up(self, entry: RegisteredTask, reports: int) -> bool:
        """Whether a batch of so many reports can be closed now: they are in the first places,
        without a hole, and a batch that leaves early leaves none behind. If not, places are still
        being filled. For a batch that leaves early the task takes no reports until `resume`."""
        task, early = entry.number, reports < entry.task.batch.reports
        has_holes = bool(self._places.of(task).holes)
        settled = self._places.pause(task) if early or has_holes else False
        if settled and has_holes:
            await self._fill_holes(entry)
        if not early or self._paused_too_long(task, settled):
            self.resume(task)
        found = self._places.of(task)
        if early:  # more may have come since they were counted
            return settled and found.in_row() == found.waiting() == reports
        return found.in_row() >= reports

    def _paused_too_long(self, task: int, settled: bool) -> bool:
        """Whether a task must take reports again although places of it are taken that nobody fills:
        a process may have ended that does not come back."""
        now = time.monotonic()
        begun = self._pauses.setdefault(task, now)
        if settled or now - begun > TRY_AGAIN_SECONDS:
            del self._pauses[task]
        return not settled and now - begun > LONGEST_PAUSE_SECONDS

    def resume(self, task: int) -> None:
        """Lets a task take reports again after `line_up`."""
        if task not in self._doubtful:
            self._places.resume(task)

    async def _fill_holes(self, entry: RegisteredTask) -> None:
        """Moves the last waiting reports into places that were taken and not filled.

        Requires: the task is paused, and no places of it are taken.
        """
        task = entry.number
        found = self._places.of(task)
        end = found.closed + found.waiting()
        holes = [place for place in found.holes if place < end]
        last = sorted(set(range(end, found.next)).difference(found.holes))

        async def move(transaction: Transaction) -> None:
            for source, target in zip(last, holes, strict=True):
                old, new = row_number(task, source), row_number(task, target)
                rows = await transaction.rows("SELECT messages FROM reports WHERE number=$1", old)
                messages = self._key(task, found.batch_of(source)).decrypt(rows[0][0], old)
                stored = self._key(task, found.batch_of(target)).encrypt(messages, new)
                await transaction.append(Rows("reports", ("number", "messages"), [(new, stored)]))
                await transaction.run("DELETE FROM reports WHERE number=$1", old)

        self._doubtful.add(task)
        await self._database.run(move)
        await self.reload(entry)

    async def close_batch(
        self, task: int, reports: int, top_up: bytes, *, top_up_messages: int, noise_shares: int
    ) -> Batch:
        """Closes a batch of the oldest waiting reports, together with its noise top-up.

        Requires: `line_up` said that it can be closed. Ensures: raises `StorageUnavailable` and
        closes nothing if these reports are in a batch already.
        """
        found = self._places.of(task)
        whole = reports in (found.size, found.waiting())  # else some would be left under its key
        if task in self._doubtful or not (whole and 0 < reports <= found.in_row()):
            raise StorageUnavailable("The batch may have been closed already; look again.")
        number, first = found.batches + 1, found.closed
        batch = Batch(
            id=self._key(task, number).batch_id,
            task=task,
            number=number,
            state="closed",
            first_report=first,
            reports=reports,
            top_up_messages=top_up_messages,
            noise_shares=noise_shares,
            digest=None,
        )
        self._doubtful.add(task)
        await self._database.run(lambda transaction: self._insert_batch(transaction, batch, top_up))
        self._doubtful.discard(task)
        self._places.close(task, reports)
        return batch

    async def _insert_batch(self, transaction: Transaction, batch: Batch, top_up: bytes) -> None:
        await insert_batch(transaction, batch)
        key = self._key(batch.task, batch.number)
        parts: list[Row] = [
            (batch.id, part, key.encrypt(top_up[start : start + PART_BYTES], part))
            for part, start in enumerate(range(0, len(top_up), PART_BYTES))
        ]
        await transaction.insert("top_ups", ("batch", "part", "messages"), parts, key=2)
        await transaction.run("DELETE FROM waiting WHERE task=$1", batch.task)
        timed = self.entry(batch.task).task.batch.top_up != "none"
        if timed and self._places.of(batch.task).next > batch.first_report + batch.reports:
            row = (batch.task, int(self._clock()))  # others wait from now on
            await transaction.insert("waiting", ("task", "since"), [row])

    async def batches(self, task: int | None = None) -> list[Batch]:
        """The unfinished batches, oldest first; all batches of a task if one is given."""
        finished = ", ".join(f"'{state}'" for state in FINISHED_STATES)
        test = f"state NOT IN ({finished})" if task is None else "task = $1"
        rows = await self._database.rows(
            f"SELECT {', '.join(BATCH_COLUMNS)} FROM batches WHERE {test} ORDER BY task, number",
            *(() if task is None else (task,)),
        )
        found = [Batch(**dict(zip(BATCH_COLUMNS, row, strict=True))) for row in rows]
        known = {entry.number for entry in self.tasks()}
        return [batch for batch in found if batch.task in known]

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
        key = self._key(batch.task, batch.number)
        for low, high in pages(batch):
            page = await self._database.joined("reports", "messages", "number", low, high)
            yield await asyncio.to_thread(key.decrypt_page, page, range(low, high))
        rows = await self._database.rows(
            "SELECT messages FROM top_ups WHERE batch=$1 ORDER BY part", batch.id
        )
        yield b"".join(key.decrypt(row[0], part) for part, row in enumerate(rows))

    def order_secret(self, batch: Batch) -> bytes:
        """The secret of a batch's uniform order."""
        return self._key(batch.task, batch.number).order_secret

    async def scrub(self, batch: Batch, state: str = "scrubbed") -> None:
        """Destroys the key of a batch that was delivered or discarded, and deletes its messages.

        Ensures: after the key is gone, no copy of the messages in the database, its log or a backup
        can be read. A crash in between is made good at the next start.
        """
        task = self.entry(batch.task).task.id
        await asyncio.to_thread(self._keys.destroy, task, batch.number)
        for low, high in pages(batch):
            await self._database.rows(
                "DELETE FROM reports WHERE number >= $1 AND number < $2", low, high
            )

        async def forget(transaction: Transaction) -> None:
            await transaction.run("DELETE FROM top_ups WHERE batch=$1", batch.id)
            await transaction.run("UPDATE batches SET state=$1 WHERE id=$2", state, batch.id)

        await self._database.run(forget)
        batch.state = state

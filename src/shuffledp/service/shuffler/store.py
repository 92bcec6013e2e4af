"""The reports, tokens and batches that the shuffler stores.

Every report is stored under the key of the batch that it will be in (`report_keys`). That batch is
known when a report arrives: full batches hold exactly as many reports as the task's rule says, and
a batch that leaves early takes all waiting reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from shuffledp.sealed.clock import Clock
from shuffledp.sealed.wire import MESSAGE_BYTES
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.shuffler.arrivals import (
    ALL_TASKS,
    STORED_COLUMNS,
    USED_COLUMNS,
    Arrival,
    Verdict,
    spending,
)
from shuffledp.service.shuffler.batches import (
    BATCH_COLUMNS,
    FINISHED_STATES,
    TASK_NUMBERS,
    Batch,
    insert_batch,
    pages,
    progress,
)
from shuffledp.service.shuffler.enrolments import Admitted, Enrolments
from shuffledp.service.shuffler.report_keys import BatchKey, ReportKeys
from shuffledp.service.storage.database import Database, Row, Rows, Transaction
from shuffledp.service.web.tasks import RegisteredTask

PART_BYTES = 1024 * MESSAGE_BYTES
"""Bytes of a top-up that are stored in one row."""


class ShufflerStore:
    """Reports, tokens and batches in a database."""

    def __init__(
        self,
        database: Database,
        tasks: Callable[[], list[RegisteredTask]],
        keys: ReportKeys,
        clock: Clock,
        enrolments: Enrolments | None = None,
    ) -> None:
        """`tasks` gives the tasks that live in this database. Their tokens are enrolled in it too,
        unless `enrolments` says where they are."""
        self._database, self.tasks, self._keys, self._clock = database, tasks, keys, clock
        self._enrolments = enrolments
        self._arrived: dict[int, int] = {}
        self._closed: dict[int, int] = {}
        self._batches: dict[int, int] = {}
        """For each task, how many reports have arrived, how many of them are in batches, and in how
        many batches."""
        self._entries: dict[int, RegisteredTask] = {}
        self._sizes: dict[int, int] = {}
        """For each task, how many reports a full batch holds."""
        self._failures = -1

    async def load(self) -> None:
        """Reads from the database how many reports of each task have arrived."""
        await self._database.run(self._refresh)

    async def reload(self) -> None:
        """Reads the counts again, after they were changed by others."""
        self._failures = -1
        await self.load()

    async def _refresh(self, transaction: Transaction) -> None:
        """Reads the counts again after a failed transaction, which may have taken effect."""
        if self._failures != self._database.failures:
            numbers = [entry.number for entry in self.tasks()]
            self._arrived, self._closed, self._batches = await progress(transaction, numbers)
            self._failures = self._database.failures

    def waiting_reports(self, task: int) -> int:
        """How many reports of a task wait for a batch."""
        return self._arrived.get(task, 0) - self._closed.get(task, 0)

    def closed_reports(self, task: int) -> int:
        """How many reports of a task are in batches."""
        return self._closed.get(task, 0)

    def next_batch(self, task: int) -> int:
        """The number of the batch that is closed next."""
        return self._batches.get(task, 0) + 1

    def waiting_batches(self, task: int) -> range:
        """The numbers of the batches that the waiting reports will be in."""
        waiting = self.waiting_reports(task)
        last = (
            self._batch_of(task, self._arrived[task] - 1) if waiting else self.next_batch(task) - 1
        )
        return range(self.next_batch(task), last + 1)

    def entry(self, task: int) -> RegisteredTask:
        """The task with this number."""
        if task not in self._entries:
            self._entries.update((entry.number, entry) for entry in self.tasks())
        return self._entries[task]

    def _size(self, task: int) -> int:
        self._sizes[task] = self.entry(task).task.batch.reports
        return self._sizes[task]

    def _batch_of(self, task: int, place: int) -> int:
        """The number of the batch that a waiting report will be in; `place` counts the task's
        reports from 0."""
        size = self._sizes.get(task) or self._size(task)
        return self._batches.get(task, 0) + 1 + (place - self._closed.get(task, 0)) // size

    def _key(self, task: int, number: int) -> BatchKey:
        return self._keys.key(self.entry(task).task.id, number)

    # arrivals

    async def accept(
        self, take: Callable[[], Sequence[Arrival]], timed: frozenset[int]
    ) -> list[Verdict]:
        """Stores in one durable transaction what may be stored of the arrivals that `take` gives
        when the database is ready for them; for `timed` tasks, also since when reports wait.

        Ensures: a report id counts once per task, and a token once within its scope; a retry of
        what was stored is a duplicate even though its token is spent.
        """

        early, admitted = None, None
        if self._enrolments is not None:
            early = take()
            ids = [self.entry(arrival.task).task.id for arrival in early]
            admitted = await self._enrolments.admit(early, ids)

        async def store(transaction: Transaction) -> list[Verdict]:
            await self._refresh(transaction)
            arrivals = take() if early is None else early
            arrived = dict(self._arrived)
            names: list[Row] = []
            rows: list[Row] = []
            verdicts = await self._judge(transaction, arrivals, admitted, arrived, names, rows)
            await transaction.append(
                Rows("used", STORED_COLUMNS, sorted(names)),
                Rows("reports", ("number", "messages"), rows),
            )
            await self._note_waiting(transaction, timed & {one.task for one in arrivals})
            self._arrived = arrived
            return verdicts

        return await self._database.run(store)

    async def _judge(
        self,
        transaction: Transaction,
        arrivals: Sequence[Arrival],
        admitted: Admitted | None,
        arrived: dict[int, int],
        names: list[Row],
        rows: list[Row],
    ) -> list[Verdict]:
        """The verdicts on arrivals; of those that are accepted, adds to `arrived` how many, to
        `names` their ids and tokens, and to `rows` the encrypted reports."""
        reports: list[Row] = [(arrival.task, arrival.report) for arrival in arrivals]
        tokens: list[Row] = [] if admitted else [(arrival.token,) for arrival in arrivals]
        # tokens for one task of any: the first store spends them, and the task's own remembers them
        # too, in case the first one is put back from a backup
        here: list[Row] = [(one.task, one.token) for one in arrivals] if admitted else []
        used, enrolled = await transaction.present(
            Rows("used", USED_COLUMNS, reports + self._spendings(arrivals) + here),
            Rows("tokens", ("token",), tokens),
        )
        known = admitted or Admitted([token in enrolled for token in tokens], [])
        verdicts = []
        keys: dict[tuple[int, int], BatchKey] = {}
        checksums = await self._checksums(transaction, used, reports)
        for at, (arrival, report) in enumerate(zip(arrivals, reports, strict=True)):
            task = arrival.task
            place = arrived.get(task, 0)
            number = self._batch_of(task, place)
            elsewhere = admitted is not None and arrival.scope == ALL_TASKS
            spent = (task, arrival.token) if elsewhere else spending(arrival, number)
            if report in used:
                same = checksums[report] == arrival.checksum
                verdicts.append(Verdict.DUPLICATE if same else Verdict.REPORT_DIFFERS)
            elif not (arrival.proved or known.enrolled[at]):
                verdicts.append(Verdict.UNKNOWN_TOKEN)
            elif spent in used or (elsewhere and known.spent[at]):
                verdicts.append(Verdict.TOKEN_USED)
            else:
                verdicts.append(Verdict.ACCEPTED)
                used |= {report, spent}
                checksums[report] = checksum = arrival.checksum
                names += [(*report, checksum), (*spent, 0)]
                row = task * TASK_NUMBERS + place
                key = keys.get((task, number)) or self._key(task, number)
                keys[task, number] = key
                rows.append((row, key.encrypt(arrival.messages, row)))
                arrived[task] = place + 1
        return verdicts

    @staticmethod
    async def _checksums(
        transaction: Transaction, used: set[Row], reports: Sequence[Row]
    ) -> dict[Row, int]:
        """The checksums of those reports that are stored already, which are few."""
        found = {}
        for report in used.intersection(reports):
            rows = await transaction.rows(
                "SELECT checksum FROM used WHERE task=$1 AND name=$2", *report
            )
            found[report] = int(rows[0][0])
        return found

    def _spendings(self, arrivals: Sequence[Arrival]) -> list[Row]:
        """What could be spent of the arrivals' tokens, whichever of them are accepted."""
        found: list[Row] = [spending(one, 0) for one in arrivals if one.scope is not None]
        for arrival in arrivals:
            if arrival.scope is None:
                place = self._arrived.get(arrival.task, 0)
                first = self._batch_of(arrival.task, place)
                last = self._batch_of(arrival.task, place + len(arrivals) - 1)
                found += (spending(arrival, number) for number in range(first, last + 1))
        return found

    async def _note_waiting(self, transaction: Transaction, tasks: frozenset[int]) -> None:
        rows: list[Row] = [(task, int(self._clock())) for task in sorted(tasks)]
        if rows:
            await transaction.insert("waiting", ("task", "since"), rows)

    async def waited(self, task: int) -> float:
        """For how many seconds reports of a task have been waiting. Wall-clock time, which goes on
        during a restart; a clock that jumps can cost accuracy, never privacy, because a batch that
        leaves early gets a noise top-up."""
        rows = await self._database.rows("SELECT since FROM waiting WHERE task=$1", task)
        return self._clock() - rows[0][0] if rows else 0.0

    # batches

    async def close_batch(
        self, task: int, reports: int, top_up: bytes, *, top_up_messages: int, noise_shares: int
    ) -> Batch | None:
        """Closes a batch of the oldest waiting reports, together with its noise top-up; None if
        reports have arrived meanwhile that a batch which leaves early would leave behind.

        Requires: the rule was checked against `waiting_reports`. Ensures: raises
        `StorageUnavailable` and closes nothing if these reports are in a batch already.
        """

        async def close(transaction: Transaction) -> Batch | None:
            await self._refresh(transaction)
            waiting = self.waiting_reports(task)
            if not 0 < reports <= waiting:
                raise StorageUnavailable("The batch was closed already; look again.")
            if reports < waiting and reports != self.entry(task).task.batch.reports:
                return None
            number, first = self.next_batch(task), self.closed_reports(task)
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
            await self._insert_batch(transaction, batch, top_up)
            self._closed[task], self._batches[task] = first + reports, number
            return batch

        return await self._database.run(close)

    async def _insert_batch(self, transaction: Transaction, batch: Batch, top_up: bytes) -> None:
        await insert_batch(transaction, batch)
        key = self._key(batch.task, batch.number)
        parts: list[Row] = [
            (batch.id, part, key.encrypt(top_up[start : start + PART_BYTES], part))
            for part, start in enumerate(range(0, len(top_up), PART_BYTES))
        ]
        await transaction.insert("top_ups", ("batch", "part", "messages"), parts, key=2)
        await transaction.run("DELETE FROM waiting WHERE task=$1", batch.task)

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

"""What the shuffler keeps, and the one transaction that makes an acknowledgement true."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.ordering import SECRET
from shuffledp.service.storage.database import Database, Row, Rows, Transaction

TASK_SPACE = 1 << 40
"""Reports of task t have the places t·2⁴⁰, t·2⁴⁰ + 1, …: without gaps, in order of arrival."""
PAGE = 256
PART = 1024


class Verdict(Enum):
    """What became of an upload."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    UNKNOWN_TOKEN = "token-unknown"
    TOKEN_USED = "token-used"


@dataclass(frozen=True)
class Arrival:
    """An upload that follows the layout; whether it counts, the store decides."""

    task: int
    report: bytes
    token: bytes
    scope: int | None
    """The task within which the token may be used once; 0: within all; None: often."""
    body: bytes


@dataclass
class Batch:
    """A batch on its way: sealed → shuffled → delivered → scrubbed."""

    id: bytes
    task: int
    number: int
    state: str
    first: int
    reports: int
    extra: int
    shares: int
    secret: bytes | None
    digest: bytes | None


SEEN, SPENT = ("task", "report"), ("task", "token")
COLUMNS = "id, task, number, state, first, reports, extra, shares, secret, digest"


class ShufflerStore:
    """Reports, tokens and batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next: dict[int, int] = {}
        self._sealed: dict[int, int] = {}
        self._unsure = False
        """Whether a commit failed, so that only the database knows how far every task has come."""

    async def load(self) -> None:
        """Finds out how far every task has come."""
        self._unsure = False
        async with self._database.transaction() as transaction:
            ends = await transaction.rows(
                "SELECT task, MAX(first + reports) FROM batches GROUP BY task"
            )
            tasks = await transaction.rows("SELECT number FROM tasks")
            self._sealed = {task: int(end) for task, end in ends}
            for (task,) in tasks:
                top = await transaction.rows(
                    "SELECT MAX(place) FROM reports WHERE place >= $1 AND place < $2",
                    task * TASK_SPACE, (task + 1) * TASK_SPACE,
                )
                last = -1 if top[0][0] is None else top[0][0] - task * TASK_SPACE
                self._next[task] = max(last + 1, self._sealed.get(task, 0))

    async def _be_sure(self) -> None:
        """After a failed commit, asks the database what became of it."""
        if self._unsure:
            await self.load()

    @asynccontextmanager
    async def _noting_failure(self) -> AsyncIterator[None]:
        """A commit whose outcome was not heard may have happened: memory must not disagree."""
        try:
            yield
        except BaseException:
            self._unsure = True
            raise

    def open_reports(self, task: int) -> int:
        """How many reports wait for a batch."""
        return self._next.get(task, 0) - self._sealed.get(task, 0)

    # arrivals

    async def accept(self, arrivals: Sequence[Arrival], wait_for: frozenset[int]) -> list[Verdict]:
        """Stores what may be stored, durably, in one transaction.

        Ensures: a report id counts once per task, and a token once within its scope; a retry of
        what was stored is a duplicate even though its token is spent.
        """
        await self._be_sure()
        async with self._noting_failure(), self._database.transaction() as transaction:
            verdicts = await self._judge(transaction, arrivals)
            good = [one for one, verdict in zip(arrivals, verdicts, strict=True)
                    if verdict is Verdict.ACCEPTED]
            places = dict(self._next)
            await transaction.append(
                Rows("seen", SEEN, sorted((one.task, one.report) for one in good)),
                Rows("spent", SPENT, sorted((one.scope, one.token) for one in good
                                            if one.scope is not None)),
                Rows("reports", ("place", "body"), [(self._place(one.task, places), one.body)
                                                    for one in good]),
            )
            await self._note_waiting(transaction, wait_for)
        self._next = places
        return verdicts

    async def _judge(
        self, transaction: Transaction, arrivals: Sequence[Arrival]
    ) -> list[Verdict]:
        reports: list[Row] = [(arrival.task, arrival.report) for arrival in arrivals]
        tokens: list[Row] = [(arrival.token,) for arrival in arrivals]
        scopes: list[Row] = [(arrival.scope or 0, arrival.token) for arrival in arrivals]
        seen, enrolled, spent = await transaction.present(
            Rows("seen", SEEN, reports), Rows("tokens", ("token",), tokens),
            Rows("spent", SPENT, scopes),
        )
        verdicts = []
        for arrival, report, token, scope in zip(arrivals, reports, tokens, scopes, strict=True):
            if report in seen:
                verdicts.append(Verdict.DUPLICATE)
            elif token not in enrolled:
                verdicts.append(Verdict.UNKNOWN_TOKEN)
            elif arrival.scope is not None and scope in spent:
                verdicts.append(Verdict.TOKEN_USED)
            else:
                verdicts.append(Verdict.ACCEPTED)
                seen.add(report)
                if arrival.scope is not None:
                    spent.add(scope)
        return verdicts

    @staticmethod
    def _place(task: int, places: dict[int, int]) -> int:
        """The next place of a task; moves it on."""
        place = places.get(task, 0)
        places[task] = place + 1
        return task * TASK_SPACE + place

    async def _note_waiting(self, transaction: Transaction, tasks: frozenset[int]) -> None:
        rows: list[Row] = [(task, int(time.time())) for task in sorted(tasks)]
        if rows:
            await transaction.insert("waiting", ("task", "since"), rows)

    async def waited(self, task: int) -> float:
        """For how many seconds reports of a task have been waiting. Wall-clock time, so that it
        outlives a restart; a clock that jumps can cost error, never privacy, because whatever
        leaves early is topped up with noise."""
        async with self._database.transaction() as transaction:
            rows = await transaction.rows("SELECT since FROM waiting WHERE task=$1", task)
        return time.time() - rows[0][0] if rows else 0.0

    async def enrol(self, hashes: Sequence[bytes]) -> int:
        """Lets the holders of these tokens upload; gives how many were new."""
        async with self._database.transaction() as transaction:
            rows: list[Row] = [(value,) for value in sorted(set(hashes))]
            return len(await transaction.insert("tokens", ("token",), rows))

    # batches

    async def seal(
        self, task: int, reports: int, top_up: bytes, *, extra: int, shares: int, uniform: bool
    ) -> Batch:
        """Closes a batch over the oldest open reports, together with its noise top-up.

        Requires: the rule was checked against `open_reports`. Ensures: raises `StorageUnavailable`
        and seals nothing if these reports have been sealed meanwhile.
        """
        await self._be_sure()
        if not 0 < reports <= self.open_reports(task):
            raise StorageUnavailable("The batch was sealed already; look again.")
        first = self._sealed.get(task, 0)
        async with self._noting_failure(), self._database.transaction() as transaction:
            found = await transaction.rows("SELECT COUNT(*) FROM batches WHERE task=$1", task)
            secret = os.urandom(SECRET) if uniform else None
            batch = Batch(os.urandom(16), task, int(found[0][0]) + 1, "sealed", first, reports,
                          extra, shares, secret, None)
            await transaction.run(
                f"INSERT INTO batches ({COLUMNS}) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                *vars(batch).values(),
            )
            parts: list[Row] = [
                (batch.id, part, top_up[start : start + PART * 52])
                for part, start in enumerate(range(0, len(top_up), PART * 52))
            ]
            await transaction.insert("top_ups", ("batch", "part", "body"), parts, key=2)
            await transaction.run("DELETE FROM waiting WHERE task=$1", task)
        self._sealed[task] = first + reports
        return batch

    async def batches(self, task: int | None = None) -> list[Batch]:
        """The unfinished batches, oldest first; all batches of a task if one is given."""
        test = "state <> 'scrubbed'" if task is None else "task = $1"
        async with self._database.transaction() as transaction:
            rows = await transaction.rows(
                f"SELECT {COLUMNS} FROM batches WHERE {test} ORDER BY task, number",
                *(() if task is None else (task,)),
            )
        return [Batch(*row) for row in rows]

    async def advance(self, batch: Batch, state: str, digest: bytes | None = None) -> None:
        """Moves a batch to its next state."""
        async with self._database.transaction() as transaction:
            await transaction.run(
                "UPDATE batches SET state=$1, digest=COALESCE($2, digest) WHERE id=$3",
                state, digest, batch.id,
            )
        batch.state, batch.digest = state, digest or batch.digest

    async def bodies(self, batch: Batch) -> AsyncIterator[bytes]:
        """The sealed messages of a batch, page by page, top-up last."""
        start = batch.task * TASK_SPACE + batch.first
        for low in range(start, start + batch.reports, PAGE):
            high = min(low + PAGE, start + batch.reports)
            async with self._database.transaction() as transaction:
                rows = await transaction.rows(
                    "SELECT body FROM reports WHERE place >= $1 AND place < $2 ORDER BY place",
                    low, high,
                )
            yield b"".join(row[0] for row in rows)
        async with self._database.transaction() as transaction:
            rows = await transaction.rows(
                "SELECT body FROM top_ups WHERE batch=$1 ORDER BY part", batch.id
            )
        yield b"".join(row[0] for row in rows)

    async def scrub(self, batch: Batch) -> None:
        """Deletes a delivered batch's messages and the secret of its order."""
        start = batch.task * TASK_SPACE + batch.first
        for low in range(start, start + batch.reports, PAGE):
            async with self._database.transaction() as transaction:
                await transaction.run(
                    "DELETE FROM reports WHERE place >= $1 AND place < $2",
                    low, min(low + PAGE, start + batch.reports),
                )
        async with self._database.transaction() as transaction:
            await transaction.run("DELETE FROM top_ups WHERE batch=$1", batch.id)
            await transaction.run(
                "UPDATE batches SET state='scrubbed', secret=NULL WHERE id=$1", batch.id
            )
        batch.state, batch.secret = "scrubbed", None

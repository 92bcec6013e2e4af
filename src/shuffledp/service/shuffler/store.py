"""What the shuffler keeps, and the one transaction that makes an acknowledgement true."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from shuffledp.sealed.errors import StorageUnavailable
from shuffledp.sealed.ordering import SECRET
from shuffledp.service.storage.database import Database, Row, Rows, Transaction

TASK_SPACE = 1 << 40
"""Reports of task t have the places t·2⁴⁰, t·2⁴⁰ + 1, …: without gaps, in order of arrival."""
PAGE = 512
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


USED = ("task", "name")
"""Ids of reports that were stored (16 bytes) and hashes of tokens that are spent (32 bytes)."""
COLUMNS = "id, task, number, state, first, reports, extra, shares, secret, digest"


class ShufflerStore:
    """Reports, tokens and batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next: dict[int, int] = {}
        self._sealed: dict[int, int] = {}
        self._failures = -1

    async def load(self) -> None:
        """Finds out how far every task has come."""
        await self._database.run(self._be_sure)

    async def _be_sure(self, transaction: Transaction) -> None:
        """After a failed commit, which may have happened all the same, asks the database how far
        every task has come."""
        if self._failures != self._database.failures:
            self._next, self._sealed = await _progress(transaction)
            self._failures = self._database.failures

    def open_reports(self, task: int) -> int:
        """How many reports wait for a batch."""
        return self._next.get(task, 0) - self._sealed.get(task, 0)

    # arrivals

    async def accept(
        self, take: Callable[[], Sequence[Arrival]], wait_for: frozenset[int]
    ) -> list[Verdict]:
        """Stores what may be stored of the arrivals that `take` gives when the database is ready
        for them, durably, in one transaction.

        Ensures: a report id counts once per task, and a token once within its scope; a retry of
        what was stored is a duplicate even though its token is spent.
        """

        async def store(transaction: Transaction) -> list[Verdict]:
            await self._be_sure(transaction)
            arrivals = take()
            verdicts = await self._judge(transaction, arrivals)
            good = [
                one
                for one, verdict in zip(arrivals, verdicts, strict=True)
                if verdict is Verdict.ACCEPTED
            ]
            places = dict(self._next)
            names = [(one.task, one.report) for one in good]
            names += [(one.scope, one.token) for one in good if one.scope is not None]
            await transaction.append(
                Rows("used", USED, sorted(names)),
                Rows(
                    "reports",
                    ("place", "body"),
                    [(self._place(one.task, places), one.body) for one in good],
                ),
            )
            await self._note_waiting(transaction, wait_for & {one.task for one in arrivals})
            self._next = places
            return verdicts

        return await self._database.run(store)

    async def _judge(self, transaction: Transaction, arrivals: Sequence[Arrival]) -> list[Verdict]:
        reports: list[Row] = [(arrival.task, arrival.report) for arrival in arrivals]
        tokens: list[Row] = [(arrival.token,) for arrival in arrivals]
        scopes: list[Row] = [(arrival.scope or 0, arrival.token) for arrival in arrivals]
        used, enrolled = await transaction.present(
            Rows("used", USED, reports + scopes), Rows("tokens", ("token",), tokens)
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
        rows = await self._database.rows("SELECT since FROM waiting WHERE task=$1", task)
        return time.time() - rows[0][0] if rows else 0.0

    async def enrol(self, hashes: Sequence[bytes]) -> int:
        """Lets the holders of these tokens upload; gives how many were new."""
        rows: list[Row] = [(value,) for value in sorted(set(hashes))]
        new = await self._database.run(
            lambda transaction: transaction.insert("tokens", ("token",), rows)
        )
        return len(new)

    # batches

    async def seal(
        self, task: int, reports: int, top_up: bytes, *, extra: int, shares: int, uniform: bool
    ) -> Batch:
        """Closes a batch over the oldest open reports, together with its noise top-up.

        Requires: the rule was checked against `open_reports`. Ensures: raises `StorageUnavailable`
        and seals nothing if these reports have been sealed meanwhile.
        """
        secret = os.urandom(SECRET) if uniform else None

        async def close(transaction: Transaction) -> Batch:
            await self._be_sure(transaction)
            if not 0 < reports <= self.open_reports(task):
                raise StorageUnavailable("The batch was sealed already; look again.")
            first = self._sealed.get(task, 0)
            found = await transaction.rows("SELECT COUNT(*) FROM batches WHERE task=$1", task)
            batch = Batch(
                os.urandom(16),
                task,
                int(found[0][0]) + 1,
                "sealed",
                first,
                reports,
                extra,
                shares,
                secret,
                None,
            )
            await transaction.run(
                f"INSERT INTO batches ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
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

        return await self._database.run(close)

    async def batches(self, task: int | None = None) -> list[Batch]:
        """The unfinished batches, oldest first; all batches of a task if one is given."""
        test = "state <> 'scrubbed'" if task is None else "task = $1"
        rows = await self._database.rows(
            f"SELECT {COLUMNS} FROM batches WHERE {test} ORDER BY task, number",
            *(() if task is None else (task,)),
        )
        return [Batch(*row) for row in rows]

    async def advance(self, batch: Batch, state: str, digest: bytes | None = None) -> None:
        """Moves a batch to its next state."""
        await self._database.rows(
            "UPDATE batches SET state=$1, digest=COALESCE($2, digest) WHERE id=$3",
            state,
            digest,
            batch.id,
        )
        batch.state, batch.digest = state, digest or batch.digest

    async def bodies(self, batch: Batch) -> AsyncIterator[bytes]:
        """The sealed messages of a batch, page by page, top-up last."""
        for low, high in _pages(batch):
            yield await self._database.joined("reports", "body", "place", low, high)
        rows = await self._database.rows(
            "SELECT body FROM top_ups WHERE batch=$1 ORDER BY part", batch.id
        )
        yield b"".join(row[0] for row in rows)

    async def scrub(self, batch: Batch) -> None:
        """Deletes a delivered batch's messages and the secret of its order."""
        for low, high in _pages(batch):
            await self._database.rows(
                "DELETE FROM reports WHERE place >= $1 AND place < $2", low, high
            )

        async def forget(transaction: Transaction) -> None:
            await transaction.run("DELETE FROM top_ups WHERE batch=$1", batch.id)
            await transaction.run(
                "UPDATE batches SET state='scrubbed', secret=NULL WHERE id=$1", batch.id
            )

        await self._database.run(forget)
        batch.state, batch.secret = "scrubbed", None


async def _progress(transaction: Transaction) -> tuple[dict[int, int], dict[int, int]]:
    """For every task the place after its last report, and after its last sealed one."""
    ends = await transaction.rows("SELECT task, MAX(first + reports) FROM batches GROUP BY task")
    sealed = {task: int(end) for task, end in ends}
    following = {}
    for (task,) in await transaction.rows("SELECT number FROM tasks"):
        top = await transaction.rows(
            "SELECT MAX(place) FROM reports WHERE place >= $1 AND place < $2",
            task * TASK_SPACE,
            (task + 1) * TASK_SPACE,
        )
        last = -1 if top[0][0] is None else top[0][0] - task * TASK_SPACE
        following[task] = max(last + 1, sealed.get(task, 0))
    return following, sealed


def _pages(batch: Batch) -> Iterator[tuple[int, int]]:
    """The places of a batch's reports, in ranges small enough for one transaction."""
    start = batch.task * TASK_SPACE + batch.first
    for low in range(start, start + batch.reports, PAGE):
        yield low, min(low + PAGE, start + batch.reports)

"""The batches that the analyzer stores, and what it remembers about its ledger.

received → counted → published
    └─────────┴────→ held, with a reason;  all but published ones → discarded, with a reason

The tally of a batch has no publish noise in it. It is deleted in the step that publishes, holds or
discards the batch.

`batches.published_at` is when a batch's result was published, in seconds since 1970 (0: never).
`series` says which task has which place in a series. `task_log` is the public log of tasks. Nothing
is ever deleted from these two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, NamedTuple

from shuffledp.service.store.database import Database, Transaction
from shuffledp.service.store.schema import TASKS_TABLE, Schema
from shuffledp.tasks.clock import Clock
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.results import OpenedBatch, without_certificate
from shuffledp.tasks.wire import BatchHeader

TABLES = """
    CREATE TABLE task_log (place BIGINT PRIMARY KEY, task {BYTES} NOT NULL UNIQUE,
        entry {BYTES} NOT NULL
    );
    CREATE TABLE batches (
        id {BYTES} PRIMARY KEY, task BIGINT NOT NULL, number BIGINT NOT NULL,
        state TEXT NOT NULL, digest {BYTES} NOT NULL, reports BIGINT NOT NULL,
        top_up_messages BIGINT NOT NULL, noise_shares BIGINT NOT NULL, tally TEXT, result TEXT,
        reason TEXT, remembered BIGINT, published_at BIGINT NOT NULL DEFAULT 0
    );
    CREATE INDEX batches_of_task ON batches (task, number);
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE series (
        series {BYTES}, place BIGINT, task {BYTES} NOT NULL, PRIMARY KEY (series, place)
    )
"""
ANALYZER_SCHEMA = Schema("analyzer", (TASKS_TABLE + TABLES,))
UNFINISHED = ("received", "counted")
"""States in which the analyzer continues automatically."""
LEDGER_SPENT, LEDGER_HEAD = "ledger spent", "ledger head"
"""What the ledger had spent, and the hash of its newest entry, when it was last checked."""


class LedgerFacts(NamedTuple):
    """What the store remembers about the ledger."""

    spent: Fraction = Fraction(0)
    head: str | None = None
    """The hash of its newest line; None if no ledger was used yet."""


@dataclass(kw_only=True)
class StoredBatch:
    """A batch at the analyzer, as it is stored."""

    id: bytes
    task: int
    number: int
    state: str
    digest: bytes
    reports: int
    top_up_messages: int
    noise_shares: int
    tally: str | None
    result: str | None
    reason: str | None
    """Why it is held or was discarded."""

    @property
    def opened(self) -> OpenedBatch:
        """The batch with its tally. Requires: it was counted."""
        assert self.tally is not None
        return OpenedBatch(
            id=self.id,
            number=self.number,
            reports=self.reports,
            noise_shares=self.noise_shares,
            tally=Tally.from_json(self.tally),
        )

    @property
    def forgotten(self) -> bool:
        """Whether its result was published and later deleted because of its age."""
        return self.state == "published" and self.result is None

    @property
    def published(self) -> dict[str, Any]:
        """The published result."""
        found: dict[str, Any] = json.loads(self.result or "{}")
        return found


BATCH_COLUMNS = [field.name for field in fields(StoredBatch)]


def published_results(batches: list[StoredBatch]) -> list[dict[str, Any]]:
    """The results of published batches, without forgotten ones."""
    return [
        batch.published for batch in batches if batch.state == "published" and not batch.forgotten
    ]


class AnalyzerStore:
    """Batches in a database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def find(self, batch: bytes) -> StoredBatch | None:
        """The batch of this id; None if it was not received."""
        rows = await self._select("WHERE id=$1", batch)
        return rows[0] if rows else None

    async def receive(self, header: BatchHeader, task: int, digest: bytes) -> None:
        """Stores a batch whose parts will follow."""

        async def store(transaction: Transaction) -> None:
            found = await transaction.rows("SELECT COUNT(*) FROM batches WHERE task=$1", task)
            row = (
                header.batch_id,
                task,
                int(found[0][0]) + 1,
                "receiving",
                digest,
                header.reports,
                header.top_up_messages,
                header.noise_shares,
            )
            columns = BATCH_COLUMNS[: len(row)]
            await transaction.insert("batches", columns, [row])

        await self._database.run(store)

    async def replace(self, header: BatchHeader, digest: bytes) -> None:
        """Stores another manifest of a batch that is not complete."""
        await self._database.rows(
            "UPDATE batches SET digest=$2, reports=$3, top_up_messages=$4, noise_shares=$5 "
            "WHERE id=$1 AND state='receiving'",
            header.batch_id,
            digest,
            header.reports,
            header.top_up_messages,
            header.noise_shares,
        )

    async def complete(self, batch: StoredBatch) -> bool:
        """Stores that all parts of a batch are here: receiving → received. False, and nothing is
        stored, if another manifest has replaced it or it is already complete."""
        done = await self._database.rows(
            "UPDATE batches SET state='received' WHERE id=$1 AND digest=$2 AND state='receiving' "
            "RETURNING 1",
            batch.id,
            batch.digest,
        )
        if done:
            batch.state = "received"
        return bool(done)

    async def batches(self, task: int | None = None) -> list[StoredBatch]:
        """All batches, or those of a task, in order of arrival."""
        if task is None:
            return await self._select("")
        return await self._select("WHERE task=$1", task)

    async def states(self) -> dict[str, int]:
        """How many batches are in each state."""
        rows = await self._database.rows("SELECT state, COUNT(*) FROM batches GROUP BY state")
        return {state: int(count) for state, count in rows}

    async def published(self, task: int) -> tuple[list[dict[str, Any]], int]:
        """The published results of a task, and how many were forgotten because of their age."""
        batches = await self.batches(task)
        return published_results(batches), sum(batch.forgotten for batch in batches)

    async def unfinished(self) -> list[StoredBatch]:
        """The batches that wait to be counted or published."""
        return await self._select(f"WHERE state IN {UNFINISHED}")

    async def published_ids(self) -> list[tuple[bytes, int]]:
        """(id, number of the task) of every published batch."""
        rows = await self._database.rows("SELECT id, task FROM batches WHERE state='published'")
        return [(bytes(row[0]), int(row[1])) for row in rows]

    async def results_by_id(self) -> dict[bytes, dict[str, Any]]:
        """The results of the published batches as the ledger keeps them, by the batches' ids;
        without those that were deleted."""
        rows = await self._database.rows(
            "SELECT id, result FROM batches WHERE state='published' AND result IS NOT NULL"
        )
        return {bytes(batch): without_certificate(json.loads(result)) for batch, result in rows}

    async def remembered(self) -> dict[int, int]:
        """For each task, of how many batches the messages must be in the replay memory."""
        rows = await self._database.rows(
            "SELECT task, COUNT(*) FROM batches WHERE remembered=1 GROUP BY task"
        )
        return {int(task): int(count) for task, count in rows}

    async def is_remembered(self, batch: bytes) -> bool:
        """Whether a batch's messages must be in the replay memory: it was counted."""
        rows = await self._database.rows("SELECT remembered FROM batches WHERE id=$1", batch)
        return bool(rows and rows[0][0])

    async def ledger_facts(self) -> LedgerFacts:
        """The ledger's state when it was last checked."""
        rows = await self._database.rows("SELECT name, value FROM facts")
        found: dict[str, str] = {row[0]: row[1] for row in rows}
        if LEDGER_SPENT not in found:
            return LedgerFacts()
        return LedgerFacts(Fraction(found[LEDGER_SPENT]), found[LEDGER_HEAD])

    async def note_ledger(self, spent: Fraction, head: str) -> None:
        """Stores what the ledger has spent, and the hash of its newest entry."""

        async def store(transaction: Transaction) -> None:
            for name, value in ((LEDGER_SPENT, str(spent)), (LEDGER_HEAD, head)):
                await transaction.run("DELETE FROM facts WHERE name=$1", name)
                await transaction.run(
                    "INSERT INTO facts (name, value) VALUES ($1, $2)", name, value
                )

        await self._database.run(store)

    async def _select(self, where: str, *values: int | bytes) -> list[StoredBatch]:
        rows = await self._database.rows(
            f"SELECT {', '.join(BATCH_COLUMNS)} FROM batches {where} ORDER BY task, number", *values
        )
        return [StoredBatch(**dict(zip(BATCH_COLUMNS, row, strict=True))) for row in rows]

    async def count(self, batch: StoredBatch, tally: Tally) -> None:
        """Stores a batch's tally: received → counted."""
        text = tally.to_json()
        await self._database.rows(
            "UPDATE batches SET state='counted', tally=$1, remembered=1 "
            "WHERE id=$2 AND state='received'",
            text,
            batch.id,
        )
        batch.state, batch.tally = "counted", text

    async def publish(self, batch: StoredBatch, result: dict[str, Any]) -> None:
        """Stores a batch's result and deletes its tally: counted → published.

        Requires: the result is in the ledger.
        """
        text = json.dumps(result, ensure_ascii=False)
        await self._database.rows(
            "UPDATE batches SET state='published', result=$1, published_at=$3, tally=NULL "
            "WHERE id=$2 AND state='counted'",
            text,
            batch.id,
            int(self._clock()),
        )
        batch.state, batch.result, batch.tally = "published", text, None

    async def hold(self, batch: StoredBatch, reason: str) -> None:
        """Stores that a batch is held, and why; deletes its tally."""
        await self._database.rows(
            "UPDATE batches SET state='held', reason=$1, tally=NULL "
            f"WHERE id=$2 AND state IN {UNFINISHED}",
            reason,
            batch.id,
        )
        batch.state, batch.reason, batch.tally = "held", reason, None

    async def discard(self, batch: StoredBatch, reason: str) -> bool:
        """Discards a batch and its tally; False if it was published in the meantime."""

        async def store(transaction: Transaction) -> bool:
            found = await transaction.rows("SELECT state FROM batches WHERE id=$1", batch.id)
            if found[0][0] == "published":
                return False
            await transaction.run(
                "UPDATE batches SET state='discarded', tally=NULL, reason=$1 WHERE id=$2",
                reason,
                batch.id,
            )
            return True

        done = await self._database.run(store)
        if done:
            batch.state, batch.tally, batch.reason = "discarded", None, reason
        return done

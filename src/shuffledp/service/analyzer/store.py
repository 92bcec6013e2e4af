"""What the analyzer keeps: batches (received → counted → published), tallies and results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shuffledp.sealed.wire import BatchHeader
from shuffledp.service.storage.database import Database, Transaction

COLUMNS = "id, task, number, state, digest, reports, extra, shares, tally, result"


@dataclass
class Received:
    """A batch at the analyzer."""

    id: bytes
    task: int
    number: int
    state: str
    digest: bytes
    reports: int
    extra: int
    shares: int
    tally: str | None
    result: str | None

    @property
    def published(self) -> dict[str, Any]:
        """The published result."""
        found: dict[str, Any] = json.loads(self.result or "{}")
        return found


class AnalyzerStore:
    """Batches by id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, batch: bytes) -> Received | None:
        """The batch of this id, if it was received."""
        rows = await self._database.rows(f"SELECT {COLUMNS} FROM batches WHERE id=$1", batch)
        return Received(*rows[0]) if rows else None

    async def receive(self, header: BatchHeader, task: int, digest: bytes) -> bool:
        """Keeps a batch; False if it was here already."""

        async def keep(transaction: Transaction) -> bool:
            found = await transaction.rows("SELECT COUNT(*) FROM batches WHERE task=$1", task)
            names = ("id", "task", "number", "state", "digest", "reports", "extra", "shares")
            row = (
                header.batch_id,
                task,
                int(found[0][0]) + 1,
                "received",
                digest,
                header.reports,
                header.extra,
                header.shares,
            )
            return bool(await transaction.insert("batches", names, [row]))

        return await self._database.run(keep)

    async def batches(self, task: int | None = None) -> list[Received]:
        """All batches, or those of a task, in order of arrival."""
        where = "" if task is None else "WHERE task=$1"
        rows = await self._database.rows(
            f"SELECT {COLUMNS} FROM batches {where} ORDER BY task, number",
            *(() if task is None else (task,)),
        )
        return [Received(*row) for row in rows]

    async def count(self, batch: Received, tally: str) -> None:
        """received → counted."""
        await self._database.rows(
            "UPDATE batches SET state='counted', tally=$1 WHERE id=$2 AND state='received'",
            tally,
            batch.id,
        )
        batch.state, batch.tally = "counted", tally

    async def publish(self, batch: Received, result: dict[str, Any]) -> None:
        """counted → published."""
        text = json.dumps(result, ensure_ascii=False)
        await self._database.rows(
            "UPDATE batches SET state='published', result=$1 WHERE id=$2 AND state='counted'",
            text,
            batch.id,
        )
        batch.state, batch.result = "published", text

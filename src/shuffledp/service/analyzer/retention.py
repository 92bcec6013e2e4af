"""Retention at the analyzer: when a task may be archived, and what is deleted with it or by age."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from shuffledp.service.analyzer.budget import Budget
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.store import UNFINISHED
from shuffledp.service.http.logs import log
from shuffledp.service.http.retention import Retention
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.store.database import Database, Transaction
from shuffledp.tasks.clock import CLOCK_SECONDS, Clock
from shuffledp.tasks.keys import KeyFolder

SEEN_FOLDER = re.compile(r"seen-(\d+)-(\d+)")


class AnalyzerRetention(Retention):
    """What the analyzer deletes: batches with their task; results and replay memories by age."""

    def __init__(
        self,
        config: AnalyzerConfig,
        database: Database,
        tasks: TaskRegistry,
        budget: Budget,
        clock: Clock,
    ) -> None:
        super().__init__(clock)
        self._config, self._database, self._tasks = config, database, tasks
        self._budget = budget

    async def waiting(self, entry: RegisteredTask) -> int:
        return int(entry.state != "archived" and self._clock() < entry.task.expires + CLOCK_SECONDS)

    async def unfinished(self, entry: RegisteredTask) -> int:
        rows = await self._database.rows(
            "SELECT COUNT(*) FROM batches WHERE task=$1 "
            f"AND (state = 'receiving' OR state IN {UNFINISHED})",
            entry.number,
        )
        return int(rows[0][0])

    async def forget(self, transaction: Transaction, entry: RegisteredTask) -> None:
        await transaction.run("DELETE FROM batches WHERE task=$1", entry.number)

    async def once(self) -> None:
        if self._config.result_days:
            await self._results()
        if self._config.replay_days:
            for folder in list(Path(self._config.spool).glob("seen-*")):
                await self._memory(folder)

    async def _results(self) -> None:
        """Deletes the results of batches that were published long ago, here and in the ledger. The
        fact that they were published stays, because the ledger is compared with it."""
        await self._database.rows(
            "UPDATE batches SET published_at=$1 WHERE state='published' AND published_at=0",
            int(self._clock()),
        )
        old = "state='published' AND published_at < $1 AND result IS NOT NULL"
        before = self.before(self._config.result_days)
        gone = await self._database.rows(f"SELECT id, task FROM batches WHERE {old}", before)
        if gone:
            await self._budget.forget([(bytes(batch), int(task)) for batch, task in gone])
            await self._database.rows(f"UPDATE batches SET result=NULL WHERE {old}", before)
            log("old results deleted", reports=len(gone))

    async def _memory(self, folder: Path) -> None:
        """Deletes the replay memory of a key that can no longer open anything: it is not active, so
        there will be no new task, and its tasks are archived, so they accept no batch."""
        found = SEEN_FOLDER.fullmatch(folder.name)
        if found is None:
            return
        key_id, epoch = int(found[1]), int(found[2])
        tasks = [
            entry
            for entry in self._tasks.by_id.values()
            if (entry.task.key.key_id, entry.task.key.epoch) == (key_id, epoch)
        ]
        too_new = self.before(self._config.replay_days)
        if any(entry.state != "archived" or entry.changed > too_new for entry in tasks):
            return
        if any(
            (key.key_id, key.epoch) == (key_id, epoch) and key.state == "active"
            for key in KeyFolder(self._config.keys).all()
        ):
            return
        for entry in tasks:
            await self._database.rows("UPDATE batches SET remembered=0 WHERE task=$1", entry.number)
        await asyncio.to_thread(shutil.rmtree, folder)
        log("replay memory deleted", key=key_id)

"""Retention at the shuffler: when a task may be archived, and what is deleted with it or by age."""

from __future__ import annotations

import asyncio

from shuffledp.service.http.logs import log
from shuffledp.service.http.retention import Retention
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.store import ShufflerStore
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.clock import CLOCK_SECONDS, DAY_SECONDS, Clock

GIVEN_UP = "discarded: the task was archived"


class ShufflerRetention(Retention):
    """What the shuffler deletes: reports and who has answered, with their task; tokens, and the ids
    and tokens of reports, by age."""

    def __init__(self, config: ShufflerConfig, store: ShufflerStore, clock: Clock) -> None:
        super().__init__(clock)
        self._config, self._store = config, store
        self._database, self._tasks = store.database, store.tasks

    async def waiting(self, entry: RegisteredTask) -> int:
        state = await self._store.filling(entry.number)
        return state.reports if state else 0

    async def unfinished(self, entry: RegisteredTask) -> int:
        batches = await self._store.batches(entry.number)
        return sum(batch.state not in ("deleted", "discarded") for batch in batches)

    async def give_up(self, entry: RegisteredTask) -> None:
        """Destroys the key of reports that wait, and deletes the reports and who has answered."""
        state = await self._store.filling(entry.number)
        if state and state.reports:
            keys = self._store.keys
            await asyncio.to_thread(keys.destroy, entry.task.id, state.number, GIVEN_UP)
            await self._store.reconcile(entry)
        await self.clear(entry)

    async def clear(self, entry: RegisteredTask) -> None:
        await self._forget_uses(entry)

    async def forget(self, transaction: Transaction, entry: RegisteredTask) -> None:
        await transaction.run("DELETE FROM proofs WHERE task=$1", entry.task.id)
        for table in ("batches", "filling"):
            await transaction.run(f"DELETE FROM {table} WHERE task=$1", entry.number)

    async def once(self) -> None:
        if self._config.token_days:
            await self._old_tokens()
        if self._config.replay_days:
            for entry in list(self._tasks.by_id.values()):
                await self._old_uses(entry)

    async def _old_tokens(self) -> None:
        """Deletes tokens that were enrolled long ago, and the record of their use."""
        await self._database.rows(
            "UPDATE tokens SET enrolled=$1 WHERE enrolled=0", int(self._clock()) // DAY_SECONDS
        )
        oldest = self.before(self._config.token_days) // DAY_SECONDS
        gone = await self._database.delete("tokens", ("token",), "enrolled < $1", oldest)
        await self._database.delete(
            "used",
            ("task", "name"),
            "task = 0 AND NOT EXISTS (SELECT 1 FROM tokens WHERE token = used.name)",
        )
        if gone:
            log("old tokens deleted", tokens=gone)

    async def _old_uses(self, entry: RegisteredTask) -> None:
        """Deletes the record of who answered a task that ended long ago. The task is first closed
        permanently, so that nobody can answer twice if a clock is set back."""
        if entry.ended() + CLOCK_SECONDS > self.before(self._config.replay_days):
            return
        await self._tasks.close(entry)
        gone = await self._forget_uses(entry)
        if gone:
            log("old report ids deleted", task=entry.task.id.hex(), reports=gone)

    async def _forget_uses(self, entry: RegisteredTask) -> int:
        """Deletes the record of who answered a task; returns how many rows it had."""
        return await self._database.delete("used", ("task", "name"), "task = $1", entry.number)

"""What the shuffler keeps of a task: when it may be archived, what is deleted with it or by age."""

from __future__ import annotations

import asyncio
import contextlib

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.administration import TaskCare
from shuffledp.service.http.logs import log
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.retention import Retention
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.places import Places
from shuffledp.service.shuffler.report_keys import ReportKeys
from shuffledp.service.shuffler.restoring import drop_ended
from shuffledp.service.shuffler.shards import Shards
from shuffledp.service.store.database import Database, Transaction
from shuffledp.tasks.clock import CLOCK_SECONDS, DAY_SECONDS, Clock

GIVEN_UP = "discarded: the task was archived"
SETTLE_SECONDS, LOOK_AGAIN_SECONDS = 20.0, 0.02


class ShufflerCare(TaskCare):
    """The shuffler's part of archiving and deleting tasks."""

    def __init__(self, shards: Shards, keys: ReportKeys, places: Places) -> None:
        self._shards, self._keys, self._places = shards, keys, places

    async def waiting(self, entry: RegisteredTask) -> int:
        shard = self._shards.of(entry)
        if entry.state != "open":
            await self._settled(entry)
        return shard.store.waiting_reports(entry.number)

    async def _settled(self, entry: RegisteredTask) -> None:
        """Waits for uploads that were taken before the task was closed; a 503 if that takes too
        long."""
        for _ in range(int(SETTLE_SECONDS / LOOK_AGAIN_SECONDS)):
            if self._places.is_settled(entry.number):
                return
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        raise Problem(
            503, "store", "Reports of this task are still being stored; try again.", retry_after=5
        )

    async def unfinished(self, entry: RegisteredTask) -> int:
        store = self._shards.of(entry).store
        return sum(batch.task == entry.number for batch in await store.batches())

    async def give_up(self, entry: RegisteredTask) -> None:
        """Destroys the keys of reports that wait, and deletes the reports and who has answered."""
        shard = self._shards.of(entry)
        async with shard.store.closing:
            await shard.store.reload(entry)  # an earlier try may have gone half way
            for number in shard.store.waiting_batches(entry.number):
                await asyncio.to_thread(self._keys.destroy, entry.task.id, number, GIVEN_UP)
            await drop_ended(shard.database, shard.store, entry, self._keys)
        await shard.database.delete("used", ("task", "name"), "task = $1", entry.number)

    async def clear(self, entry: RegisteredTask) -> None:
        """Deletes everything that is stored beside the task itself: it may live in another
        store."""
        database = self._shards.of(entry).database
        for table in ("used", "batches", "waiting"):
            await database.rows(f"DELETE FROM {table} WHERE task=$1", entry.number)

    async def forget(self, transaction: Transaction, entry: RegisteredTask) -> None:
        for table in ("proofs", "placements"):
            await transaction.run(f"DELETE FROM {table} WHERE task=$1", entry.task.id)


class ShufflerRetention(Retention):
    """Tokens, and the ids and tokens of reports, that are too old."""

    def __init__(
        self,
        config: ShufflerConfig,
        database: Database,
        tasks: TaskRegistry,
        shards: Shards,
        clock: Clock,
    ) -> None:
        super().__init__(clock)
        self._config, self._database, self._tasks = config, database, tasks
        self._shards = shards

    async def once(self) -> None:
        if self._config.token_days:
            await self._old_tokens()
        if self._config.replay_days:
            for entry in list(self._tasks.by_id.values()):
                with contextlib.suppress(Problem, StorageUnavailable):  # of a store that is away
                    await self._old_uses(entry)

    async def _old_tokens(self) -> None:
        """Deletes tokens that were enrolled long ago, and what is known of their use."""
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
        """Deletes who has answered a task that ended long ago. It is closed first, for good, so
        that a clock that goes back cannot let anybody answer twice."""
        if entry.ended() + CLOCK_SECONDS > self.before(self._config.replay_days):
            return
        await self._tasks.close(entry)
        database = self._shards.of(entry).database
        gone = await database.delete("used", ("task", "name"), "task = $1", entry.number)
        if gone:
            log("old report ids deleted", task=entry.task.id.hex(), reports=gone)

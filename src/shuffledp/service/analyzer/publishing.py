"""The analyzer's work on batches: received → counted → published, or held; each state durable."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

from shuffledp.errors import BudgetExceeded
from shuffledp.service.analyzer.budget import Budget
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.receiving import Inbox
from shuffledp.service.analyzer.spark_opening import SparkOpening
from shuffledp.service.analyzer.store import UNFINISHED, AnalyzerStore, StoredBatch
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.logs import log
from shuffledp.service.http.metrics import Metrics
from shuffledp.service.http.tasks import TaskRegistry
from shuffledp.tasks.errors import BatchHeld, StateLost
from shuffledp.tasks.keys import KeyFolder, PrivateKey
from shuffledp.tasks.opening import AllowedNumbers, Tally, count_messages, worker_pool
from shuffledp.tasks.replays import ReplayMemory, first_seen, in_order
from shuffledp.tasks.results import publish_batch
from shuffledp.tasks.task import Task

TRY_AGAIN_SECONDS = 5.0
CHUNKS_PER_WORKER = 3
QUOTED_ERRORS = (BatchHeld, StateLost, BudgetExceeded)
"""Errors whose texts the status shows."""


class Publishing:
    """Opens and counts the batches that were received, and publishes their results."""

    def __init__(
        self,
        config: AnalyzerConfig,
        store: AnalyzerStore,
        tasks: TaskRegistry,
        metrics: Metrics,
        inbox: Inbox,
    ) -> None:
        self._config, self._store, self._tasks = config, store, tasks
        self._metrics, self._inbox = metrics, inbox
        self._keys = KeyFolder(config.keys)
        self._spool = Path(config.spool)
        self.budget = Budget(config, store, tasks)
        self._stop = threading.Event()
        self._pool = worker_pool(config.workers)
        self._spark = SparkOpening(config.spark_master) if config.engine == "spark" else None
        self._working: bytes | None = None
        """The id of the batch that is being counted or published."""
        self.arrived = asyncio.Event()
        self.failing: dict[bytes, str] = {}
        """In words, why a batch could not be published yet, by the batch's id; b"" means the
        store."""

    def interrupt(self) -> None:
        """Makes the opening of a batch stop soon; it starts again after a restart."""
        self._stop.set()
        if self._spark is not None:
            self._spark.interrupt()

    def close(self) -> None:
        """Ends the worker processes."""
        self._pool.shutdown(cancel_futures=True)

    async def run(self) -> None:
        """Counts and publishes every batch that arrives, until it is cancelled."""
        self.arrived.set()
        while True:
            pause = TRY_AGAIN_SECONDS if self.failing else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.arrived.wait(), pause)
            self.arrived.clear()
            try:
                for batch in await self._store.unfinished():
                    await self._advance(batch.id)
            except StorageUnavailable:
                log("store unavailable", level="error")
                self.failing[b""] = "store"
            else:
                self.failing.pop(b"", None)

    async def _advance(self, batch_id: bytes) -> None:
        """Takes a batch through its remaining states, unless it was discarded. If anything fails,
        the reason is shown and the batch is retried later."""
        self._working = batch_id  # from here on it is not discarded
        try:
            batch = await self._store.find(batch_id)
            if batch is not None and batch.state in UNFINISHED:
                await self._finish(batch, self._tasks.numbered(batch.task).task)
            self.failing.pop(batch_id, None)
        except StorageUnavailable:
            raise
        except Exception as error:
            reason = _in_words(error)
            if self.failing.get(batch_id) != reason:
                log("batch waits", level="warning", batch=batch_id.hex(), reason=reason)
            self.failing[batch_id] = reason
            if isinstance(error, BrokenProcessPool):
                self._pool = worker_pool(self._config.workers)
        finally:
            self._working = None

    async def _finish(self, batch: StoredBatch, task: Task) -> None:
        """Publishes a batch; one that must not be published is held, with the reason."""
        try:
            if batch.state == "received":
                await self._count(batch, task)
            await self._publish(batch, task)
        except BatchHeld as held:
            await self._hold(batch, held)

    async def _hold(self, batch: StoredBatch, held: BatchHeld) -> None:
        if held.code == "implausible":  # it was charged
            await self.budget.note()
        try:
            await asyncio.to_thread(self._inbox.remove, batch.id, batch.digest)
        except StorageUnavailable:  # of the bucket, not of the store: the other batches continue
            raise StateLost(
                "The parts of this batch cannot be removed from the bucket; bring the bucket back, "
                "or give the server the right to delete there."
            ) from None
        await self._store.hold(batch, str(held))
        self._metrics.count("batches", state="held")
        log(
            "batch held",
            level="warning",
            batch=batch.id.hex(),
            reason=str(held),
            reports=batch.reports,
        )

    async def discard(self, batch: StoredBatch, reason: str) -> bool:
        """Discards a batch and its messages; False if it is published or in use."""
        if self._working == batch.id or not await self._store.discard(batch, reason):
            return False
        await asyncio.to_thread(self._inbox.remove, batch.id, batch.digest)
        self.failing.pop(batch.id, None)
        self.note(batch.id, batch.state, batch.reports)
        return True

    async def _count(self, batch: StoredBatch, task: Task) -> None:
        key = self._needed_key(task)
        memory = await self._memory(task)
        tally = await asyncio.to_thread(self._open, batch, task, key, memory)
        await self._store.count(batch, tally)
        await asyncio.to_thread(self._inbox.remove, batch.id, batch.digest)
        self.note(batch.id, batch.state, batch.reports)

    def _needed_key(self, task: Task) -> PrivateKey:
        """The private key of a task, which opens its batches and gives them their publish noise;
        raises `BatchHeld` if it was destroyed, `StateLost` if its file is missing."""
        key = self._keys.holds(task.key)
        if key is not None:
            return key
        if self._keys.destroyed(task.key.key_id):
            raise BatchHeld(
                "key-destroyed",
                "The key of this batch was destroyed, so it can never be opened or published; "
                "discard it.",
            )
        raise StateLost(
            "The file of this batch's key is missing; restore it from a copy, or discard the batch."
        )

    async def _memory(self, task: Task) -> ReplayMemory:
        """The replay memory of a task's key, with all batches that were counted.

        Ensures: raises `StateLost` if it knows fewer batches than were counted under the key.
        """
        key = task.key
        memory = ReplayMemory(self._spool / f"seen-{key.key_id}-{key.epoch}")
        counted = [
            name
            for name in memory.waiting()
            if await self._store.is_remembered(bytes.fromhex(name))
        ]
        await asyncio.to_thread(memory.add, counted)
        same_key = {entry.number for entry in self._tasks.by_id.values() if entry.task.key == key}
        found = await self._store.remembered()
        need = sum(count for number, count in found.items() if number in same_key)
        if memory.batches < need:
            raise StateLost(
                f"The replay memory of key {key.key_id} has {memory.batches:,} of the {need:,} "
                "counted batches, so copies would not be recognised; bring its folder back, "
                "or make a new key and new tasks and discard this batch."
            )
        return memory

    def _open(self, batch: StoredBatch, task: Task, key: PrivateKey, memory: ReplayMemory) -> Tally:
        memory.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._spark is not None:
            where = self._inbox.where(batch.id, batch.digest)
            return self._spark.open(*where, task, key, memory)
        pages = in_order(
            lambda: self._inbox.parts(batch.id, batch.digest),
            self._spool,
            self._config.memory_mb << 20,
        )
        return count_messages(
            first_seen(pages, memory.files(), memory.run_of(batch.id.hex())),
            key.secret,
            task.key.info(task.id),
            AllowedNumbers.of(task.protocol),
            pool=self._pool,
            stop=self._stop,
            ahead=CHUNKS_PER_WORKER * (self._config.workers or os.cpu_count() or 1),
        )

    async def _publish(self, batch: StoredBatch, task: Task) -> None:
        result = await asyncio.to_thread(
            publish_batch,
            task,
            batch.opened,
            key=partial(self._needed_key, task),
            ledger=await self.budget.ledger(),
            confidence=self._config.confidence_percent / 100,
            implausible_rule=self._config.implausible,
        )
        await self.budget.note()
        await self._store.publish(batch, result)
        self.note(batch.id, batch.state, batch.reports)

    def note(self, batch_id: bytes, state: str, reports: int) -> None:
        """Counts and logs that a batch has reached a state."""
        self._metrics.count("batches", state=state)
        log("batch", batch=batch_id.hex(), state=state, reports=reports)


def _in_words(error: Exception) -> str:
    """Why a batch waits, in words for the public: other errors may name paths of this machine."""
    return str(error) if isinstance(error, QUOTED_ERRORS) else type(error).__name__

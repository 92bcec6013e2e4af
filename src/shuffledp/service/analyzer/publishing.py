"""The analyzer's work on batches: received → counted → published, each state durable."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from shuffledp.queries.batches import publish_batch
from shuffledp.queries.ledger import Ledger
from shuffledp.sealed.errors import TaskError
from shuffledp.sealed.keys import KeyFolder, PrivateKey
from shuffledp.sealed.opening import Tally, count_messages, worker_pool
from shuffledp.sealed.ordering import PAGE_ROWS
from shuffledp.sealed.replays import first_seen, put_in_order
from shuffledp.sealed.task import Task
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.store import AnalyzerStore, StoredBatch
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.web.logs import log
from shuffledp.service.web.metrics import Metrics
from shuffledp.service.web.tasks import TaskRegistry

TRY_AGAIN_SECONDS = 5.0
CHUNKS_PER_WORKER = 3


class Publishing:
    """Opens and counts the batches that were received, and publishes their results."""

    def __init__(
        self, config: AnalyzerConfig, store: AnalyzerStore, tasks: TaskRegistry, metrics: Metrics
    ) -> None:
        self._config, self._store, self._tasks = config, store, tasks
        self._metrics = metrics
        self._keys = KeyFolder(config.keys)
        self._spool = Path(config.spool)
        self._stop = threading.Event()
        self._pool = worker_pool(config.workers)
        self.arrived = asyncio.Event()
        self.failing: dict[bytes, str] = {}
        """Why a batch could not be published yet, by the batch's id; b"" stands for the store."""
        for left in (*self._spool.glob("*.part"), *self._spool.glob("*.messages.*")):
            left.unlink()

    def interrupt(self) -> None:
        """Makes the opening of a batch end soon; it begins anew after the next start."""
        self._stop.set()

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
                for batch in await self._store.batches():
                    if batch.state != "published":
                        await self._advance(batch)
            except StorageUnavailable:
                log("store unavailable", level="error")
                self.failing[b""] = "store"
            else:
                self.failing.pop(b"", None)

    async def _advance(self, batch: StoredBatch) -> None:
        """Takes a batch through its remaining states; if that fails, the reason is shown and it is
        tried again later."""
        task = self._tasks.numbered(batch.task).task
        try:
            if batch.state == "received":
                await self._count(batch, task)
            await self._publish(batch, task)
            self.failing.pop(batch.id, None)
        except StorageUnavailable:
            raise
        except Exception as error:
            self.failing[batch.id] = type(error).__name__
            log("batch waits", level="warning", batch=batch.id.hex(), error=type(error).__name__)
            if isinstance(error, BrokenProcessPool):
                self._pool = worker_pool(self._config.workers)

    async def _count(self, batch: StoredBatch, task: Task) -> None:
        key = self.key_of(task)
        if key is None:
            raise TaskError("The key of this batch was destroyed; it can never be opened.")
        earlier = [
            self._seen_file(other.id, task)
            for other in await self._store.batches()
            if other.state != "received"
        ]
        known = [path for path in earlier if path.exists()]
        tally = await asyncio.to_thread(self._open, batch, task, key, known)
        await self._store.count(batch, tally)
        self.messages_file(batch.id, batch.digest).unlink(missing_ok=True)
        self.note(batch.id, batch.state, batch.reports)

    def _open(self, batch: StoredBatch, task: Task, key: PrivateKey, earlier: list[Path]) -> Tally:
        file = self.messages_file(batch.id, batch.digest)
        put_in_order(file, self._config.memory_mb << 20)
        seen = self._seen_file(batch.id, task)
        seen.parent.mkdir(parents=True, exist_ok=True)
        return count_messages(
            first_seen(file, earlier, seen, PAGE_ROWS),
            key.secret,
            task.key.info(task.id),
            len(task.protocol.cells),
            pool=self._pool,
            stop=self._stop,
            ahead=CHUNKS_PER_WORKER * (self._config.workers or os.cpu_count() or 1),
        )

    async def _publish(self, batch: StoredBatch, task: Task) -> None:
        result = await asyncio.to_thread(
            publish_batch,
            task,
            batch.opened,
            ledger=self._ledger(),
            confidence=self._config.confidence_percent / 100,
        )
        await self._store.publish(batch, result)
        self.note(batch.id, batch.state, batch.reports)

    def _ledger(self) -> Ledger:
        """The configured ledger, which is made at the first release."""
        path = self._config.ledger
        return Ledger(path) if Path(path).exists() else Ledger.create(path, self._config.budget)

    def key_of(self, task: Task) -> PrivateKey | None:
        """The private key of a task; None if it was destroyed."""
        return self._keys.find(task.key.key_id, task.key.epoch)

    def messages_file(self, batch_id: bytes, digest: bytes) -> Path:
        """Where the messages of a batch are stored until they are counted."""
        return self._spool / f"{batch_id.hex()}-{digest.hex()[:16]}.messages"

    def _seen_file(self, batch_id: bytes, task: Task) -> Path:
        """Where the encapsulated keys of a counted batch are kept: one folder per key."""
        return self._spool / f"seen-{task.key.key_id}-{task.key.epoch}" / f"{batch_id.hex()}.enc"

    def note(self, batch_id: bytes, state: str, reports: int) -> None:
        """Counts and logs that a batch has reached a state."""
        self._metrics.count("batches", state=state)
        log("batch", batch=batch_id.hex(), state=state, reports=reports)

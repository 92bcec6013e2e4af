"""Batches on their way: closed → ordered → delivered → scrubbed, each state durable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import httpx

from shuffledp.numbers.entropy import SYSTEM
from shuffledp.service.errors import untrusted_certificate
from shuffledp.service.http.logs import log
from shuffledp.service.http.metrics import Counts, Metrics
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.batches import Batch
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.store import ShufflerStore
from shuffledp.tasks.ordering import order_file
from shuffledp.tasks.reports import encrypted_top_up
from shuffledp.tasks.wire import BatchHeader

CHUNK_BYTES = 1 << 20
LOOK_AGAIN_SECONDS = 1.0


DISPATCH_FIGURES = (
    Counts("batches", "Batches that reached a state", ("state",)),
    Counts("delivery_failures", "Tries to deliver a batch that failed", ("reason",)),
)


class Dispatch:
    """Closes batches that are full and delivers them to the analyzer."""

    def __init__(
        self,
        config: ShufflerConfig,
        store: ShufflerStore,
        metrics: Metrics,
        analyzer: httpx.AsyncClient,
    ) -> None:
        self._config, self._store = config, store
        self._metrics, self._analyzer = metrics, analyzer
        self._spool = Path(config.spool)
        self.reports_arrived = asyncio.Event()
        self.batch_closed = asyncio.Event()
        self.failing: dict[bytes, str] = {}
        """Why a batch could not be delivered yet, by the batch's id."""
        self._unreachable = False

    # closing

    async def run_closing(self) -> None:
        """Closes batches whenever a task's rule allows one, until it is cancelled."""
        self.batch_closed.set()
        while True:
            for entry in self._store.tasks():
                try:
                    while await self._close_next(entry):
                        self.batch_closed.set()
                except Exception as error:  # look again later, whatever it was
                    log("closing a batch failed", level="error", error=type(error).__name__)
            await _set_or_later(self.reports_arrived, LOOK_AGAIN_SECONDS)

    async def _close_next(self, entry: RegisteredTask) -> Batch | None:
        async with self._store.closing:
            return await self.close_one(entry)

    async def close_one(self, entry: RegisteredTask) -> Batch | None:
        """Closes one batch if the task's rule allows it.

        Ensures: no batch without a top-up holds fewer reports than the rule says.
        """
        task, rule = entry.task, entry.task.batch
        await self._store.be_sure(entry)
        waiting = self._store.waiting_reports(entry.number)
        early = rule.fewest <= waiting < rule.reports
        waited = await self._store.waited(entry.number) if early else 0.0
        reports = rule.leaving(waiting, waited)
        if reports == 0:
            self._store.resume(entry.number)
            return None
        if not await self._store.line_up(entry, reports):
            return None
        try:
            shares = rule.top_up_shares(reports, task.protocol.users)
            top_up, size = await asyncio.to_thread(encrypted_top_up, task, shares)
            batch = await self._store.close_batch(
                entry.number,
                reports,
                top_up,
                top_up_messages=size,
                noise_shares=reports + shares,
            )
        finally:
            self._store.resume(entry.number)
        self._note(batch)
        return batch

    # delivery

    async def run_delivery(self) -> None:
        """Delivers every closed batch, until it is cancelled; pauses grow while the analyzer does
        not answer."""
        attempt = 0
        while True:
            await _set_or_later(self.batch_closed, self._pause(attempt) if attempt else None)
            attempt = 0 if await self.deliver_all() else attempt + 1

    def _pause(self, attempt: int) -> float:
        longest = min(self._config.retry_seconds, 2.0 ** min(attempt - 1, 12))
        return float(longest) * (0.5 + SYSTEM.below(512) / 1024)

    async def deliver_all(self) -> bool:
        """Tries to deliver every unfinished batch, until the analyzer does not answer; True if no
        batch is left."""
        done, self._unreachable = True, False
        try:
            waiting = await self._store.batches()
        except Exception as error:  # tried again later, whatever it was
            log("delivery failed", level="error", error=type(error).__name__)
            return False
        for batch in waiting:
            try:
                done = await self.advance(batch) and done
            except Exception as error:  # the others go on
                log("delivery failed", level="error", error=type(error).__name__)
                done = False
            if self._unreachable:
                break
        return done

    async def advance(self, batch: Batch) -> bool:
        """Takes a batch through its remaining states; False if it could not be delivered."""
        file = self._spool / f"{batch.id.hex()}.batch"
        if batch.state == "closed" or (batch.state == "ordered" and not file.exists()):
            digest = await self._order(batch, file)
            await self._store.advance(batch, "ordered", digest)
            self._note(batch)
        if batch.state == "ordered":
            if not await self._deliver(batch, file):
                return False
            await self._store.advance(batch, "delivered")
            self._note(batch)
        file.unlink(missing_ok=True)
        await self._store.scrub(batch)
        self._note(batch)
        return True

    async def _order(self, batch: Batch, file: Path) -> bytes:
        """Writes the batch, its messages in order, to a file; gives its SHA-256."""
        task = self._store.entry(batch.task).task
        header = BatchHeader(
            task_id=task.id,
            batch_id=batch.id,
            reports=batch.reports,
            top_up_messages=batch.top_up_messages,
            noise_shares=batch.noise_shares,
        )
        raw = file.with_suffix(".batch.raw")
        with open(raw, "wb") as out:
            async for page in self._store.messages(batch):
                out.write(page)
        memory = self._config.memory_mb << 20
        secret = self._store.order_secret(batch) if task.order == "uniform" else None
        digest = await asyncio.to_thread(order_file, raw, file, header.to_bytes(), memory, secret)
        raw.unlink()
        return digest

    async def _deliver(self, batch: Batch, file: Path) -> bool:
        """Tries once to deliver a batch. The analyzer keeps each (batch id, digest) once, however
        often it is sent."""
        assert batch.digest is not None
        headers = {
            "Authorization": f"Bearer {self._config.deliver_token}",
            "Content-Type": "application/octet-stream",
            "Content-Length": str(file.stat().st_size),
            "X-Content-SHA256": batch.digest.hex(),
        }
        try:
            with open(file, "rb") as source:
                answer = await self._analyzer.put(
                    f"/batches/{batch.id.hex()}", content=_chunks(source), headers=headers
                )
        except httpx.HTTPError as error:
            self._unreachable = True
            untrusted = untrusted_certificate(error)
            reason = "certificate not trusted" if untrusted else type(error).__name__
            return self._failed(batch, reason)
        if answer.status_code not in (200, 201):
            return self._failed(batch, f"HTTP {answer.status_code}")
        self.failing.pop(batch.id, None)
        return True

    def _failed(self, batch: Batch, reason: str) -> bool:
        self.failing[batch.id] = reason
        self._metrics.count("delivery_failures", reason=reason)
        log("delivery failed", level="warning", batch=batch.id.hex(), reason=reason)
        return False

    def _note(self, batch: Batch) -> None:
        self._metrics.count("batches", state=batch.state)
        log("batch", batch=batch.id.hex(), state=batch.state, reports=batch.reports)


async def _chunks(source: BinaryIO) -> AsyncIterator[bytes]:
    while data := source.read(CHUNK_BYTES):
        yield data


async def _set_or_later(event: asyncio.Event, seconds: float | None) -> None:
    """Waits until the event is set, or for so many seconds; clears it."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    event.clear()

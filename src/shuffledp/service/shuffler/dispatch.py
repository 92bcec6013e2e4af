"""Batches on their way: open → sealed → shuffled → delivered → scrubbed, each state durable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import httpx

from shuffledp.exact.entropy import SYSTEM
from shuffledp.sealed.ordering import order_file
from shuffledp.sealed.top_up import encrypted_top_up
from shuffledp.sealed.wire import BatchHeader
from shuffledp.service.shuffler.store import Batch, ShufflerStore
from shuffledp.service.web.config import ShufflerConfig
from shuffledp.service.web.logs import log
from shuffledp.service.web.metrics import Metrics
from shuffledp.service.web.tasks import KnownTask, TaskShelf

CHUNK = 1 << 20
LOOK_AGAIN = 1.0


class Dispatch:
    """Seals batches that are full and carries them to the analyzer."""

    def __init__(
        self,
        config: ShufflerConfig,
        store: ShufflerStore,
        shelf: TaskShelf,
        metrics: Metrics,
        analyzer: httpx.AsyncClient,
    ) -> None:
        self._config, self._store, self._shelf = config, store, shelf
        self._metrics, self._analyzer = metrics, analyzer
        self._spool = Path(config.spool)
        self.ready = asyncio.Event()
        self.sealed = asyncio.Event()
        self.failing: dict[bytes, str] = {}
        """Why a batch could not be delivered yet."""
        self._away = False

    # sealing

    async def run_sealing(self) -> None:
        """Seals whatever is full, for ever."""
        self.sealed.set()
        while True:
            try:
                for entry in list(self._shelf.known.values()):
                    while await self.encrypt_one(entry):
                        self.sealed.set()
            except Exception as error:  # look again later, whatever it was
                log("sealing failed", level="error", kind=type(error).__name__)
            await _set_or_later(self.ready, LOOK_AGAIN)

    async def encrypt_one(self, entry: KnownTask) -> Batch | None:
        """Seals one batch if the task's rule allows it.

        Ensures: no batch without a top-up holds fewer reports than the rule says.
        """
        rule, task = entry.task.batch, entry.task
        have = self._store.open_reports(entry.number)
        if have == 0 or (have < rule.reports and rule.top_up == "none"):
            return None
        waited = 0.0 if have >= rule.reports else await self._store.waited(entry.number)
        if not rule.enough(have, waited):
            return None
        reports = min(have, rule.reports)
        shares = rule.extra_shares(reports, task.protocol.users)
        sealed, extra = await asyncio.to_thread(encrypted_top_up, task, shares)
        batch = await self._store.seal(
            entry.number,
            reports,
            sealed,
            extra=extra,
            shares=reports + shares,
            uniform=task.order == "uniform",
        )
        self._note(batch)
        return batch

    # delivery

    async def run_delivery(self) -> None:
        """Carries every sealed batch to the analyzer; pauses grow while it is away."""
        attempt = 0
        while True:
            await _set_or_later(self.sealed, self._pause(attempt) if attempt else None)
            attempt = 0 if await self.deliver_all() else attempt + 1

    def _pause(self, attempt: int) -> float:
        longest = min(self._config.retry_seconds, 2.0 ** min(attempt - 1, 12))
        return float(longest) * (0.5 + SYSTEM.below(512) / 1024)

    async def deliver_all(self) -> bool:
        """One attempt at every unfinished batch, until the analyzer is found to be away; True if
        none is left."""
        done, self._away = True, False
        try:
            for batch in await self._store.batches():
                done = await self.carry(batch) and done
                if self._away:
                    break
        except Exception as error:  # tried again later, whatever it was
            log("delivery failed", level="error", kind=type(error).__name__)
            return False
        return done

    async def carry(self, batch: Batch) -> bool:
        """Takes a batch as far as it will go; True if it was delivered and scrubbed."""
        file = self._spool / f"{batch.id.hex()}.batch"
        if batch.state == "sealed" or (batch.state == "shuffled" and not file.exists()):
            digest = await self._shuffle(batch, file)
            await self._store.advance(batch, "shuffled", digest)
            self._note(batch)
        if batch.state == "shuffled":
            if not await self._deliver(batch, file):
                return False
            await self._store.advance(batch, "delivered")
            self._note(batch)
        file.unlink(missing_ok=True)
        await self._store.scrub(batch)
        self._note(batch)
        return True

    async def _shuffle(self, batch: Batch, file: Path) -> bytes:
        task = self._shelf.numbered(batch.task).task
        header = BatchHeader(task.id, batch.id, batch.reports, batch.extra, batch.shares)
        raw = file.with_suffix(".batch.raw")
        with open(raw, "wb") as out:
            async for page in self._store.bodies(batch):
                out.write(page)
        memory = self._config.memory_mb << 20
        digest = await asyncio.to_thread(
            order_file, raw, file, header.to_bytes(), memory, batch.secret
        )
        raw.unlink()
        return digest

    async def _deliver(self, batch: Batch, file: Path) -> bool:
        """One attempt; the analyzer keeps (batch id, digest) once, however often it is sent."""
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
            self._away = True
            return self._failed(batch, type(error).__name__)
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
    while data := source.read(CHUNK):
        yield data


async def _set_or_later(event: asyncio.Event, seconds: float | None) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    event.clear()

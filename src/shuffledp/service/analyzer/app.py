"""The analyzer's HTTP face and its work: received → counted → published."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from shuffledp.exact.numbers import show
from shuffledp.sealed.encryption import KeyFolder, PrivateKey
from shuffledp.sealed.errors import StorageUnavailable, TaskError
from shuffledp.sealed.opening import Tally, count_messages, worker_pool
from shuffledp.sealed.replays import first_seen, put_in_order
from shuffledp.service.analyzer.receiving import Download, announced, check_header
from shuffledp.service.analyzer.results import published, record_release, to_csv
from shuffledp.service.analyzer.store import AnalyzerStore, Received
from shuffledp.service.web.access import require
from shuffledp.service.web.config import AnalyzerConfig
from shuffledp.service.web.logs import log
from shuffledp.service.web.problems import Problem
from shuffledp.service.web.role import Role
from shuffledp.service.web.tasks import KnownTask

TRY_AGAIN = 5.0
PAGE = 1 << 15


class Analyzer(Role):
    """Opens batches, publishes results."""

    name = "analyzer"

    def __init__(self, config: AnalyzerConfig) -> None:
        super().__init__(config)
        self.config = config
        self.keys = KeyFolder(config.keys)
        self.failing: dict[bytes, str] = {}
        self._spool = Path(config.spool)
        self._stop = threading.Event()
        self._arrived = asyncio.Event()

    async def prepare(self) -> list[Coroutine[Any, Any, None]]:
        self.store = AnalyzerStore(self.database)
        self._pool = worker_pool(self.config.workers)
        for left in (*self._spool.glob("*.part"), *self._spool.glob("*.messages.*")):
            left.unlink()
        self._arrived.set()
        return [self._run()]

    async def stop(self) -> None:
        self._stop.set()
        await super().stop()
        self._pool.shutdown(cancel_futures=True)

    # work

    async def _run(self) -> None:
        """Counts and publishes whatever has arrived, for ever."""
        while True:
            pause = TRY_AGAIN if self.failing else None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), pause)
            self._arrived.clear()
            try:
                for batch in await self.store.batches():
                    if batch.state != "published":
                        await self._advance(batch)
            except StorageUnavailable:
                log("store unavailable", level="error")
                self.failing[b""] = "store"
            else:
                self.failing.pop(b"", None)

    async def _advance(self, batch: Received) -> None:
        """Takes a batch as far as it will go; what hinders it is shown and tried again."""
        entry = self.shelf.numbered(batch.task)
        try:
            if batch.state == "received":
                await self._count(batch, entry)
            await self._publish(batch, entry)
            self.failing.pop(batch.id, None)
        except StorageUnavailable:
            raise
        except Exception as error:
            self.failing[batch.id] = type(error).__name__
            log("batch waits", level="warning", batch=batch.id.hex(), kind=type(error).__name__)
            if isinstance(error, BrokenProcessPool):
                self._pool = worker_pool(self.config.workers)

    async def _count(self, batch: Received, entry: KnownTask) -> None:
        key = self._key(entry)
        if key is None:
            raise TaskError("The key of this batch was destroyed; it can never be opened.")
        earlier = [
            self._remembered(other.id, entry)
            for other in await self.store.batches()
            if other.state != "received"
        ]
        known = [path for path in earlier if path.exists()]
        tally = await asyncio.to_thread(self._open, batch, entry, key, known)
        await self.store.count(batch, tally.to_json())
        self._messages(batch.id, batch.digest).unlink(missing_ok=True)
        self._note(batch)

    def _open(
        self, batch: Received, entry: KnownTask, key: PrivateKey, earlier: list[Path]
    ) -> Tally:
        file, task = self._messages(batch.id, batch.digest), entry.task
        put_in_order(file, self.config.memory_mb << 20)
        remember = self._remembered(batch.id, entry)
        remember.parent.mkdir(parents=True, exist_ok=True)
        pages = first_seen(file, earlier, remember, PAGE)
        cells = len(task.protocol.cells)
        ahead = 3 * (self.config.workers or os.cpu_count() or 1)
        info = task.key.info(task.id)
        return count_messages(
            pages, key.secret, info, cells, pool=self._pool, stop=self._stop, ahead=ahead
        )

    async def _publish(self, batch: Received, entry: KnownTask) -> None:
        confidence = self.config.confidence_percent / 100
        result = await asyncio.to_thread(published, entry.task, batch, confidence)
        await asyncio.to_thread(
            record_release, self.config.ledger, self.config.budget, entry.task, batch
        )
        await self.store.publish(batch, result)
        self._note(batch)

    def _key(self, entry: KnownTask) -> PrivateKey | None:
        return self.keys.find(entry.task.key.key_id, entry.task.key.epoch)

    def _messages(self, batch: bytes, digest: bytes) -> Path:
        return self._spool / f"{batch.hex()}-{digest.hex()[:16]}.messages"

    def _remembered(self, batch: bytes, entry: KnownTask) -> Path:
        """Where the `enc` values of a batch are kept: one folder per key."""
        key = entry.task.key
        return self._spool / f"seen-{key.key_id}-{key.epoch}" / f"{batch.hex()}.enc"

    def _note(self, batch: Received) -> None:
        self.metrics.count("batches", state=batch.state)
        log("batch", batch=batch.id.hex(), state=batch.state, reports=batch.reports)

    # routes

    def own_routes(self) -> list[Route]:
        return [
            Route("/keys", self.answer_keys),
            Route("/batches/{batch}", self.answer_batch, methods=["PUT"]),
            Route("/tasks/{task}/results", self.answer_results),
            Route("/tasks/{task}/results.csv", self.answer_csv),
        ]

    async def answer_keys(self, _: Request) -> Response:
        """The public halves of all keys and their states."""
        keys = [key.public.to_dict() | {"state": key.state} for key in self.keys.all()]
        return JSONResponse({"keys": keys})

    async def answer_batch(self, request: Request) -> Response:
        """Keeps a delivery, once per (batch id, digest)."""
        require(request, self.config.shuffler_token_sha256, "shuffler")
        batch, digest, length = announced(request, self.config.most_batch_mb << 20)
        known = await self.store.find(batch)
        if known is not None:
            return self._have_it(known, digest)
        part = self._spool / f"{batch.hex()}-{os.urandom(4).hex()}.part"
        download = Download(request, part, length)
        header = await download.header()
        entry = self.shelf.find(header.task_id.hex())
        check_header(header, entry.task, batch, length)
        if self._key(entry) is None:
            raise Problem(410, "key-destroyed", "The key of this task was destroyed.")
        await download.messages(digest, self._messages(batch, digest))
        if not await self.store.receive(header, entry.number, digest):
            return await self._delivered_twice(batch, digest)
        self.metrics.count("batches", state="received")
        log("batch", batch=batch.hex(), state="received", reports=header.reports)
        self._arrived.set()
        return JSONResponse({"state": "received"}, 201)

    def _have_it(self, known: Received, digest: bytes) -> Response:
        if known.digest != digest:
            raise Problem(409, "batch-differs", "Another batch has this id; deliver each once.")
        return JSONResponse({"state": known.state})

    async def _delivered_twice(self, batch: bytes, digest: bytes) -> Response:
        """The same batch came over two connections at once: the first one counts."""
        known = await self.store.find(batch)
        assert known is not None
        if known.digest != digest or known.state != "received":
            self._messages(batch, digest).unlink(missing_ok=True)
        return self._have_it(known, digest)

    async def answer_results(self, request: Request) -> Response:
        """Everything published for a task."""
        entry = self.shelf.find(request.path_params["task"])
        return JSONResponse(
            {
                "task": entry.task.id.hex(),
                "name": entry.task.name,
                "results": await self._results(entry),
            }
        )

    async def answer_csv(self, request: Request) -> Response:
        entry = self.shelf.find(request.path_params["task"])
        return PlainTextResponse(to_csv(await self._results(entry)), media_type="text/csv")

    async def _results(self, entry: KnownTask) -> list[dict[str, Any]]:
        batches = await self.store.batches(entry.number)
        return [batch.published for batch in batches if batch.state == "published"]

    async def status(self) -> dict[str, Any]:
        tasks = [await self._task_status(entry) for entry in self.shelf.known.values()]
        return {"role": self.name, "tasks": tasks}

    async def _task_status(self, entry: KnownTask) -> dict[str, Any]:
        task = entry.task
        batches = await self.store.batches(entry.number)
        return {
            "task": task.id.hex(),
            "name": task.name,
            "kind": task.protocol.query,
            "epsilon": show(task.protocol.epsilon),
            "state": entry.state,
            "messages": task.report_size,
            "batches": [
                {
                    "number": batch.number,
                    "batch": batch.id.hex(),
                    "state": batch.state,
                    "reports": batch.reports,
                    "problem": self.failing.get(batch.id, ""),
                }
                for batch in batches
            ],
            "results": [batch.published for batch in batches if batch.state == "published"],
        }

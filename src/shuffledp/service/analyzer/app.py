"""The analyzer's routes: keys, deliveries, results, status."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from shuffledp.service.analyzer import operations
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.publishing import Publishing
from shuffledp.service.analyzer.receiving import (
    Inbox,
    Receiving,
    check_delivery,
    read_manifest,
)
from shuffledp.service.analyzer.retention import AnalyzerRetention
from shuffledp.service.analyzer.series import SeriesResults, take_place
from shuffledp.service.analyzer.store import (
    ANALYZER_SCHEMA,
    AnalyzerStore,
    StoredBatch,
    published_results,
)
from shuffledp.service.analyzer.task_log import TaskLog
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.access import require
from shuffledp.service.http.bodies import given_reason
from shuffledp.service.http.logs import log
from shuffledp.service.http.metrics import Counts, Levels
from shuffledp.service.http.operations import Served
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.role import Role
from shuffledp.service.http.tasks import RegisteredTask, Storing
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.clock import Clock, system_clock
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.results import results_csv
from shuffledp.tasks.signing import TaskSignature
from shuffledp.tasks.task import Task

BATCH_ID = re.compile("[0-9a-f]{32}")


class Analyzer(Role):
    """The server that opens batches and publishes results."""

    name = "analyzer"
    about = "opens whole batches and publishes estimates; it never learns who sent what"
    schema = ANALYZER_SCHEMA
    figures = (
        Counts("batches", "Batches that reached a state", ("state",)),
        Levels("unfinished_batches", "Batches that wait to be opened or published"),
        Levels("held_batches", "Batches that are held and not discarded"),
        Levels("failing_batches", "Batches that cannot be published for a reason that may pass"),
        Levels("budget_left", "The remaining part of the ledger's budget"),
    )

    def __init__(self, config: AnalyzerConfig, clock: Clock = system_clock) -> None:
        super().__init__(config, clock)
        self.config = config
        self.keys = KeyFolder(config.keys)
        self.log = TaskLog(config.log_origin, config.witnesses)
        self.series = SeriesResults(config.confidence_percent / 100)

    async def prepare(self) -> list[Coroutine[Any, Any, None]]:
        self.store = AnalyzerStore(self.database, self.clock)
        self.log.open(self.database, self.signing)
        self.series.open(self.tasks, self.store)
        self.tasks.admit = self._admit
        self.inbox = Inbox(self.config)
        self.receiving = Receiving(self.inbox, self.store)
        await self.receiving.sweep()
        self.publishing = Publishing(self.config, self.store, self.tasks, self.metrics, self.inbox)
        self.retention = AnalyzerRetention(
            self.config, self.database, self.tasks, self.publishing.budget, self.clock
        )
        return [self.publishing.run()]

    async def stop(self) -> None:
        self.publishing.interrupt()
        await super().stop()
        self.publishing.close()

    async def measure(self) -> None:
        states = Counter(await self.store.states())
        self.metrics.level("unfinished_batches", states["received"] + states["counted"])
        self.metrics.level("held_batches", states["held"])
        self.metrics.level("failing_batches", len(self.publishing.failing))
        left = await self.publishing.budget.left()
        if left is not None:
            self.metrics.level("budget_left", float(left))

    def own_routes(self) -> list[Served]:
        return [
            Served(operations.KEYS, self.answer_keys),
            Served(operations.DELIVER, self.answer_batch),
            Served(operations.DELIVER_PART, self.answer_part),
            Served(operations.BATCH_STATE, self.answer_batch_state),
            Served(operations.DISCARD, self.answer_discard),
            Served(operations.RESTORE, self.answer_restore),
            Served(operations.RESULTS, self.answer_results),
            Served(operations.RESULTS_CSV, self.answer_csv),
            *self.series.routes(),
            *self.log.routes(),
        ]

    async def _admit(self, task: Task, signature: TaskSignature) -> Storing:
        """Checks a new task's key, and adds the task to the log when it is stored."""
        self._check_key(task)

        async def store(transaction: Transaction) -> None:
            await take_place(transaction, task)
            await self.log.append(transaction, task.id, signature)

        return store

    def _check_key(self, task: Task) -> None:
        """Refuses a new task unless the analyzer has the private half of exactly its key."""
        key = self.keys.holds(task.key)
        if key is None:
            raise Problem(
                422,
                "key-unknown",
                "The task's key is not one of this analyzer's keys, so nothing could be opened; "
                "make the task with the key that `shuffledp keys show` prints.",
            )
        if key.state != "active":
            raise Problem(
                410, "key-retired", "The task's key is retired; make the task with a newer key."
            )

    async def answer_keys(self, _: Request) -> Response:
        """The public halves of all keys and their states. A folder that is away is no empty list:
        shufflers would take every key for destroyed, and devices would give up."""
        if not self.keys.path.is_dir():
            raise StorageUnavailable("The folder of keys is missing.")
        keys = [key.public.to_dict() | {"state": key.state} for key in self.keys.all()]
        return JSONResponse({"keys": keys})

    async def answer_batch(self, request: Request) -> Response:
        """Accepts a batch's manifest and says which parts are missing; may be repeated until the
        batch is complete."""
        require(request, self.config.shuffler_token_sha256, "shuffler")
        manifest = await read_manifest(request)
        entry = self.tasks.find(manifest.header.task_id.hex())
        known = await self.store.find(manifest.header.batch_id)
        if known is None or known.state == "receiving":
            if entry.state == "archived":
                raise Problem(
                    410, "task-archived", "This task is archived; it takes no more batches."
                )
            await asyncio.to_thread(check_delivery, manifest, entry.task)
            self._check_openable(entry.task)
        shared = self.inbox.shared(request)
        batch = await self.receiving.begin(manifest, entry.number, shared)
        if batch.state != "receiving":
            return JSONResponse({"state": batch.state})
        missing = await self.receiving.advance(batch, manifest)
        if batch.state == "receiving":
            return JSONResponse({"state": "receiving", "missing": missing}, 202)
        self.publishing.note(batch.id, "received", batch.reports)
        self.publishing.arrived.set()
        return JSONResponse({"state": "received"}, 201)

    async def answer_part(self, request: Request) -> Response:
        """Takes one part of a batch."""
        require(request, self.config.shuffler_token_sha256, "shuffler")
        return await self.receiving.take_part(request)

    async def answer_batch_state(self, request: Request) -> Response:
        """Says whether a batch is complete here, for the shuffler."""
        require(request, self.config.shuffler_token_sha256, "shuffler")
        known = await self._named(request)
        return JSONResponse({"state": known.state, "sha256": known.digest.hex()})

    async def _named(self, request: Request) -> StoredBatch:
        """The batch in a path; a 404 if there is none."""
        name = request.path_params["batch"]
        known = await self.store.find(bytes.fromhex(name)) if BATCH_ID.fullmatch(name) else None
        if known is None:
            raise Problem(404, "batch-unknown", "No such batch was received; see the status.")
        return known

    def _check_openable(self, task: Task) -> None:
        """Refuses a delivery while its key's file is missing. A batch for a destroyed key is
        accepted and then held: refusing it would make the shuffler retry forever."""
        if self.keys.holds(task.key) is None and not self.keys.destroyed(task.key.key_id):
            raise Problem(
                503,
                "key-missing",
                "The file of this task's key is missing; deliver again when it is back.",
                retry_after=60,
            )

    async def answer_discard(self, request: Request) -> Response:
        """Discards a batch that is not published, for the analyzer's operator, with a reason."""
        require(request, self.config.operator_token_sha256, "operator")
        reason, known = await given_reason(request), await self._named(request)
        if known.state != "discarded" and not await self.publishing.discard(known, reason):
            raise Problem(
                409,
                "not-discarded",
                "The batch is already published or is being opened; check its state and try again.",
            )
        name = known.id.hex()
        return JSONResponse({"batch": name, "state": "discarded", "reason": known.reason})

    async def answer_restore(self, request: Request) -> Response:
        """Rewrites the entries that the ledger lost, for the analyzer's operator."""
        require(request, self.config.operator_token_sha256, "operator")
        written = await self.publishing.budget.restore()
        log("ledger restored", level="warning")
        self.publishing.arrived.set()
        return JSONResponse({"lines": written})

    async def answer_results(self, request: Request) -> Response:
        """All results that were published for a task, as JSON."""
        entry = self.tasks.find(request.path_params["task"])
        batches = await self.store.batches(entry.number)
        return JSONResponse(
            {
                "task": entry.task.id.hex(),
                "name": entry.task.name,
                "results": published_results(batches),
                "unpublished": [
                    self._facts(batch) for batch in batches if batch.state != "published"
                ],
                "forgotten": sum(batch.forgotten for batch in batches),
            }
        )

    async def answer_csv(self, request: Request) -> Response:
        """All results that were published for a task, as CSV."""
        entry = self.tasks.find(request.path_params["task"])
        results, _ = await self.store.published(entry.number)
        return PlainTextResponse(results_csv(results), media_type="text/csv")

    async def task_status(self, entry: RegisteredTask) -> dict[str, Any]:
        batches = await self.store.batches(entry.number)
        return {
            "batches": [self._facts(batch) for batch in batches],
            "results": published_results(batches),
        }

    async def public_status(self, entry: RegisteredTask) -> dict[str, Any]:
        """Whole batches arrive and whole results are published, so all of it is public."""
        return await self.task_status(entry)

    def _facts(self, batch: StoredBatch) -> dict[str, Any]:
        """What the status says about a batch."""
        return {
            "number": batch.number,
            "batch": batch.id.hex(),
            "state": batch.state,
            "reports": batch.reports,
            "problem": self.publishing.failing.get(batch.id, ""),
            "reason": batch.reason or "",
        }

"""The shuffler's routes: uploads, enrolment, closing a task, status."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shuffledp.service.http.access import require
from shuffledp.service.http.administration import TaskCare
from shuffledp.service.http.bodies import read_json_body
from shuffledp.service.http.logs import log
from shuffledp.service.http.operations import Served
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.retention import Retention
from shuffledp.service.http.role import Role
from shuffledp.service.http.tasks import RegisteredTask, Storing
from shuffledp.service.shuffler import operations, status
from shuffledp.service.shuffler.analyzer_keys import AnalyzerKeys
from shuffledp.service.shuffler.arrivals import Verdict
from shuffledp.service.shuffler.care import ShufflerCare, ShufflerRetention
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.dispatch import DISPATCH_FIGURES
from shuffledp.service.shuffler.gateway import Gateway
from shuffledp.service.shuffler.intake import INTAKE_FIGURES
from shuffledp.service.shuffler.operations import MOST_TOKENS
from shuffledp.service.shuffler.places import Places
from shuffledp.service.shuffler.report_keys import ReportKeys
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.shuffler.shards import Parts, Shards
from shuffledp.service.shuffler.status import STATUS_FIGURES
from shuffledp.service.shuffler.stores import FIRST
from shuffledp.service.shuffler.uploads import REJECTED, UPLOAD_PATH, Uploads, over
from shuffledp.service.shuffler.witness import Witness
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.clock import Clock, system_clock
from shuffledp.tasks.signing import TaskSignature
from shuffledp.tasks.task import Task

MOST_TOKENS_BYTES = 80 * MOST_TOKENS
DRAIN_SECONDS = 10.0
"""How long uploads that wait for the disk may take when the server stops."""


class Shuffler(Role):
    """The server that collects encrypted reports and delivers them in whole batches."""

    name = "shuffler"
    about = "collects encrypted reports, orders whole batches, deletes them after delivery"
    schema = SHUFFLER_SCHEMA
    figures = (REJECTED, *INTAKE_FIGURES, *DISPATCH_FIGURES, *STATUS_FIGURES)
    before_operations = (operations.UPLOAD,)

    def __init__(
        self,
        config: ShufflerConfig,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Clock = system_clock,
    ) -> None:
        super().__init__(config, clock)
        self.config = config
        self._transport = transport
        self.analyzer_keys, self.witness = AnalyzerKeys(), Witness(config.analyzer_signing_key)

    async def prepare(self) -> list[Coroutine[Any, Any, None]]:
        for left in Path(self.config.spool).glob("*.batch*"):  # made again from the store
            left.unlink()
        self.tasks.admit = self._admit
        self.report_keys = ReportKeys(self.config.report_keys_folder)
        await asyncio.to_thread(self.report_keys.open)
        self._analyzer = httpx.AsyncClient(
            base_url=self.config.analyzer, transport=self._transport, timeout=120
        )
        self.places = Places(self.report_keys)
        self.places.late = self._late
        self.tasks.added, self.tasks.removed = self.places.add, self.places.forget
        self.shards = Shards(
            self.database,
            Parts(
                self.config,
                self.tasks,
                self.report_keys,
                self.places,
                self.clock,
                self.metrics,
                self._analyzer,
            ),
        )
        try:
            await self.shards.start()
        except BaseException:
            await self.shards.close()
            self.report_keys.close()
            raise
        first = self.shards.open[FIRST]
        self.store, self.dispatch, self.intake = first.store, first.dispatch, first.intake
        self.uploads = Uploads(
            self.config,
            self.tasks,
            self.shards.of,
            self.shards.enrolments,
            self.metrics,
            self.clock,
        )
        self.gateway = Gateway(self.config.gateway_keys_folder, self.tasks, self.uploads.arriving)
        await asyncio.to_thread(self.gateway.open)
        self.analyzer_keys.open(self._analyzer)
        self.witness.open(self.database, self.signing, self._analyzer)
        stores = [self.shards.run(name) for name in self.shards.names()]
        return [self.analyzer_keys.run(), *stores]

    async def stop(self) -> None:
        self.draining = True
        if self._work:
            self.shards.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.shards.settled(), DRAIN_SECONDS)
        await super().stop()
        await self.shards.close()
        self.report_keys.close()
        await self._analyzer.aclose()

    async def _admit(self, task: Task, signature: TaskSignature) -> Storing:
        """Checks a new task's keys and its place in the analyzer's log; the proof is stored with
        the task."""
        self.gateway.check(task.gateway)
        await self.analyzer_keys.check(task)
        prove = await self.witness.prove(task, signature)
        place = await self.shards.place(task.id)

        async def store(transaction: Transaction) -> None:
            await place(transaction)
            await prove(transaction)

        return store

    # routes

    def own_routes(self) -> list[Served]:
        return [
            Served(operations.CLOSE, self.answer_close),
            Served(operations.TOKENS, self.answer_tokens),
            Served(operations.GATEWAY_KEYS, lambda _: self.gateway.configurations()),
            Served(operations.GATEWAY, self.answer_gateway),
            *self.witness.routes(),
        ]

    async def answer_close(self, request: Request) -> Response:
        """Closes a task: no more reports are accepted for it."""
        require(request, self.config.collector_token_sha256, "collector")
        await self.tasks.close(self.tasks.find(request.path_params["task"]))
        return JSONResponse({"state": "closed"})

    async def answer_tokens(self, request: Request) -> Response:
        """Enrols clients by the hashes of their tokens."""
        require(request, self.config.operator_token_sha256, "operator")
        try:
            data = await read_json_body(request, MOST_TOKENS_BYTES)
            hashes = [bytes.fromhex(text) for text in data["sha256"]]
        except (ValueError, KeyError, TypeError):
            hashes = []
        if not 0 < len(hashes) <= MOST_TOKENS or {len(value) for value in hashes} != {32}:
            raise Problem(
                422, "tokens", 'Send {"sha256": […]} with hashes of 64 digits.', need=MOST_TOKENS
            )
        new = await self.shards.enrolments.enrol(hashes)
        log("enrolled", tokens=new)
        return JSONResponse({"new": new}, 201)

    async def answer_gateway(self, request: Request) -> Response:
        """Answers a request that came through a relay."""

        async def upload(inner: Request) -> Response:
            task = inner.path_params["task"]
            return await self.uploads.answer(task, inner.headers, inner.receive)

        answers = {
            ("POST", "/reports"): upload,
            ("GET", ""): self.tasks.answer_get,
            ("GET", "/proof"): self.witness.answer_proof,
            ("GET", "/current"): self.answer_current,
        }
        return await self.gateway.answer(request, answers)

    def before_routes(self, app: ASGIApp) -> ASGIApp:
        """Uploads, which are many, bypass the framework's routes."""

        async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
            found = scope["type"] == "http" and UPLOAD_PATH.fullmatch(scope["path"])
            if found and scope["method"] == "POST":
                answer = await self.uploads.answer(found[1], Headers(scope=scope), receive)
                await answer(scope, receive, send)
            else:
                await app(scope, receive, send)

        return dispatch

    def _late(self, entry: RegisteredTask) -> Verdict | None:
        """Why a task takes no more reports; None if it does."""
        active = self.analyzer_keys.state(entry.task.key) == "active"
        return over(entry, self.clock()) or (None if active else Verdict.KEY_RETIRED)

    # status

    async def task_status(self, entry: RegisteredTask) -> dict[str, Any]:
        rejected = self.metrics.counted("rejected", "reason", task=str(entry.number))
        return await status.task_status(entry, self.shards, rejected)

    async def measure(self) -> None:
        await status.measure(self.metrics, self.shards)

    async def logged(self) -> set[bytes]:
        return {bytes(task) for (task,) in await self.database.rows("SELECT task FROM proofs")}

    def care(self) -> TaskCare:
        return ShufflerCare(self.shards, self.report_keys, self.places)

    def retention(self) -> Retention:
        return ShufflerRetention(self.config, self.database, self.tasks, self.shards, self.clock)

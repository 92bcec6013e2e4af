"""The shuffler's routes: uploads, enrolment, closing a task, status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.http.access import require
from shuffledp.service.http.bodies import read_json_body
from shuffledp.service.http.logs import log
from shuffledp.service.http.operations import Served
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.role import Role
from shuffledp.service.http.tasks import RegisteredTask, Storing
from shuffledp.service.repeating import every
from shuffledp.service.shuffler import filling, operations, progress
from shuffledp.service.shuffler.accepting import Accepting
from shuffledp.service.shuffler.analyzer_keys import AnalyzerKeys
from shuffledp.service.shuffler.arrivals import Verdict
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.delivery import DELIVERY_FIGURES, Delivery
from shuffledp.service.shuffler.gateway import Gateway
from shuffledp.service.shuffler.intake import INTAKE_FIGURES, Intake
from shuffledp.service.shuffler.operations import MOST_TOKENS
from shuffledp.service.shuffler.progress import STATUS_FIGURES, Progress
from shuffledp.service.shuffler.registry import SharedTasks
from shuffledp.service.shuffler.replicas import Replicas
from shuffledp.service.shuffler.report_keys import open_keys
from shuffledp.service.shuffler.retention import ShufflerRetention
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.shuffler.store import OLDER, ShufflerStore
from shuffledp.service.shuffler.uploads import REJECTED, UPLOAD_PATH, Enrolments, Uploads, over
from shuffledp.service.shuffler.watch import Watch
from shuffledp.service.shuffler.witness import Witness
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.clock import Clock, system_clock
from shuffledp.tasks.signing import TaskSignature
from shuffledp.tasks.task import Task

MOST_TOKENS_BYTES = 80 * MOST_TOKENS
BEAT_SECONDS = 2.0
DRAIN_SECONDS = 10.0
"""Seconds to finish waiting uploads when the server stops."""


class Shuffler(Role):
    """The server that collects encrypted reports and delivers them in whole batches."""

    name = "shuffler"
    about = "collects encrypted reports, orders whole batches, deletes them after delivery"
    schema = SHUFFLER_SCHEMA
    figures = (REJECTED, *INTAKE_FIGURES, *DELIVERY_FIGURES, *STATUS_FIGURES)
    before_operations = (operations.UPLOAD,)
    shares_store = True
    registry = SharedTasks

    def __init__(
        self,
        config: ShufflerConfig,
        transport: httpx2.AsyncBaseTransport | None = None,
        clock: Clock = system_clock,
    ) -> None:
        super().__init__(config, clock)
        self.config = config
        self._transport = transport
        self.beat: Callable[[], None] = lambda: None
        """Sends a heartbeat to the parent process."""
        self.name_of_replica = f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(4).hex()}"
        self.witness = Witness(config, clock)
        self.report_keys = open_keys(config.report_keys_folder, config.keys_command)
        self._checking_keys, self._keys_checked = asyncio.Lock(), ""

    async def prepare(self) -> list[Coroutine[Any, Any, None]]:
        assert isinstance(self.tasks, SharedTasks)
        self.watch = Watch(self.config.memory_folder, self.database, self.tasks)
        self.tasks.admit, self.tasks.lost = self._admit, self.watch.remembers
        await asyncio.to_thread(self.watch.open)
        ((identity,),) = await self.database.rows("SELECT identity FROM store WHERE id = 1")
        await asyncio.to_thread(self.report_keys.open, bytes(identity))
        self._analyzer = httpx2.AsyncClient(
            base_url=self.config.analyzer, transport=self._transport, timeout=120
        )
        self.store = ShufflerStore(
            self.database, self.tasks, self.report_keys, self.name_of_replica
        )
        self.retention = ShufflerRetention(self.config, self.store, self.clock)
        self.accepting = Accepting(
            self.database, self.tasks.numbered, self.report_keys, self.watch, self.clock
        )
        try:
            await self._look_back()
        except BaseException:
            self.watch.close()
            self.report_keys.close()
            await self._analyzer.aclose()
            raise
        self.delivery = Delivery(
            self.config, self.store, self.spool, self.metrics, self._analyzer, self.clock
        )
        await asyncio.to_thread(self.delivery.sweep)
        self.accepting.late = self._late
        self.accepting.closed = self.delivery.batch_closed.set
        self.intake = Intake(self.accepting, self.config.queue, self.metrics)
        self.enrolments = Enrolments(self.database, self.clock)
        self.uploads = Uploads(
            self.config, self.tasks, self.intake, self.enrolments, self.metrics, self.clock
        )
        self.gateway = Gateway(self.config.gateway_keys_folder, self.tasks, self.uploads.arriving)
        await asyncio.to_thread(self.gateway.open)
        self.analyzer_keys = AnalyzerKeys(self._analyzer)
        self.witness.open(self.database, self.tasks, self.signing, self._analyzer)
        self.replicas = Replicas(self.database, self.name_of_replica)
        await self.replicas.beat()
        self.progress = Progress(self.store)
        return [
            self.intake.run(),
            self.delivery.run(),
            self._beat(),
            *(every(*work) for work in self._repeated()),
        ]

    def _repeated(self) -> list[tuple[float, Callable[[], Awaitable[object]], str]]:
        """(seconds between two turns, the work, what is logged if it fails)."""
        return [
            (0.5, self._reconcile_suspects, "ending a batch failed"),
            (1, self.tasks.refresh, "reading tasks failed"),
            (1, lambda: asyncio.to_thread(self.watch.sync), "comparing the store failed"),
            (1, self.delivery.close_due, "closing a batch failed"),
            (5, self.replicas.beat, "heartbeat failed"),
            (10, self.watch.compare_now, "comparing the store failed"),
            (30, self.analyzer_keys.learn, "reading the analyzer's keys failed"),
            (600, self.progress.look, "reading progress failed"),
        ]

    async def _reconcile_suspects(self) -> None:
        """Ends the batches that uploads found to be over although the store does not know it."""
        while self.accepting.suspects:
            await self.store.reconcile(self.accepting.suspects.pop())

    async def _beat(self) -> None:
        """Sends heartbeats while the event loop runs."""
        while True:
            self.beat()
            await asyncio.sleep(BEAT_SECONDS)

    async def _look_back(self) -> None:
        """Compares the store with what is known outside it: now, and at every new session."""
        for entry in list(self.tasks.by_id.values()):
            await self.store.reconcile(entry)
        await self.watch.compare_now()  # what was delivered is not lost
        self.database.on_session = self._new_session
        for entry in list(self.tasks.by_id.values()):
            lost = await self.store.missing_keys(entry)
            if lost:
                raise ConfigError(
                    f"The keys of batches {', '.join(map(str, lost))} of task "
                    f"{entry.task.id.hex()} are missing in {self.report_keys.place}, so their "
                    "stored reports cannot be read; bring the keys back, or discard the reports "
                    "with `shuffledp shuffler discard`."
                )
        await self.tasks.refresh()

    async def _new_session(self, transaction: Transaction) -> None:
        """Before a session is used: the store may have gone back to before a batch was delivered,
        and nothing may be stored under that batch's key."""
        self.report_keys.forget()
        await self.watch.compare(transaction)
        server = self.watch.server
        async with self._checking_keys:
            if server and server == self._keys_checked:
                return
            for number, entry in await self.store.contradicted(transaction, server):
                async with transaction.atomic():
                    if entry.task.repeat is False:
                        await self.watch.stop(transaction, number, entry.task.id, OLDER)
                    else:
                        await transaction.run(filling.LOSE)
                self.accepting.suspects.append(entry)
            self._keys_checked = server

    async def stop(self) -> None:
        self.draining = True
        if self._work:
            self.intake.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.intake.settled(), DRAIN_SECONDS)
            with contextlib.suppress(StorageUnavailable):
                await self.replicas.leave()
        await super().stop()
        self.watch.close()
        self.report_keys.close()
        await self._analyzer.aclose()

    async def _admit(self, task: Task, signature: TaskSignature) -> Storing:
        """Checks a new task's keys and its place in the analyzer's log; the proof is stored with
        the task."""
        self.gateway.check(task.gateway)
        await self.analyzer_keys.check(task)
        return await self.witness.prove(task, signature)

    # routes

    def own_routes(self) -> list[Served]:
        return [
            Served(operations.CLOSE, self.answer_close),
            Served(operations.TOKENS, self.answer_tokens),
            Served(operations.PROGRESS, self.answer_progress),
            Served(operations.GATEWAY_KEYS, lambda _: self.gateway.configurations()),
            Served(operations.GATEWAY, self.answer_gateway),
            Served(operations.PROOF, self.witness.answer_proof),
            Served(operations.WITNESSED_HEAD, self.witness.answer_head),
        ]

    async def answer_close(self, request: Request) -> Response:
        """Closes a task: no more reports are accepted for it."""
        require(request, self.config.collector_token_sha256, "collector")
        await self.tasks.close(await self.tasks.lookup(request.path_params["task"], fresh=True))
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
        new = await self.enrolments.enrol(hashes)
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
                headers = {
                    name.decode("latin-1"): value.decode("latin-1")
                    for name, value in reversed(scope["headers"])  # of equal names, the first
                }
                answer = await self.uploads.answer(found[1], headers, receive)
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
        return await progress.task_status(entry, self.store, rejected)

    async def public_status(self, entry: RegisteredTask) -> dict[str, Any]:
        return self.progress.status(entry)

    async def answer_progress(self, request: Request) -> Response:
        """The public progress of a task: coarse and delayed."""
        entry = await self.tasks.lookup(request.path_params["task"])
        return JSONResponse({"task": entry.task.id.hex(), **self.progress.of(entry)})

    async def measure(self) -> None:
        await progress.measure(self.metrics, self.store, await self.replicas.counts())

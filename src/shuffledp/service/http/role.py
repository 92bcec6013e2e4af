"""The base of shuffler, analyzer and issuer: store, tasks, health, metrics, status."""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

from shuffledp.documents.files import lock
from shuffledp.numbers.exact import show
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.http import operations
from shuffledp.service.http.access import carries, require
from shuffledp.service.http.administration import Administration
from shuffledp.service.http.config import ServerConfig
from shuffledp.service.http.connections import Connections, watched, with_short_heads
from shuffledp.service.http.logs import log
from shuffledp.service.http.metrics import CONTENT_TYPE_LATEST, Figure, Levels
from shuffledp.service.http.operations import Operation, Served, application
from shuffledp.service.http.page import PAGE_HEADERS, SCRIPT, STYLE, render
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.retention import Retention
from shuffledp.service.http.server import Server
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry, series_facts
from shuffledp.service.repeating import every
from shuffledp.service.store import open_database
from shuffledp.service.store.database import Database
from shuffledp.service.store.schema import Schema
from shuffledp.service.store.spool import Spool, open_spool
from shuffledp.tasks.clock import Clock, system_clock
from shuffledp.tasks.sandbox import CheckLimits
from shuffledp.tasks.signing import SigningKey

LEVELS = (
    Levels("spool_free_bytes", "Free space on the disk of the spool folder"),
    Levels("open_tasks", "Tasks that are neither closed nor archived"),
)
RETENTION_SECONDS = 3600.0
LEAST_FREE_BYTES = 16 << 20
"""With less free space on the disk of its spool folder, a server is not ready."""


class Role(Server):
    """A server: its store, its background work, its routes."""

    before_operations: ClassVar[tuple[Operation, ...]] = ()
    """What `before_routes` answers."""
    schema: ClassVar[Schema]
    figures: ClassVar[tuple[Figure, ...]]
    """What /metrics shows of this role."""
    database: Database
    tasks: TaskRegistry
    retention: Retention
    """What this role deletes."""
    signs: ClassVar[bool] = True
    """Whether this server signs tasks, and has a key for that."""
    signing: SigningKey
    """The key with which this server signs tasks."""
    shares_store: ClassVar[bool] = False
    """Whether several processes of this role may use one PostgreSQL store."""
    registry: ClassVar[type[TaskRegistry]] = TaskRegistry
    spool: Spool

    def __init__(self, config: ServerConfig, clock: Clock = system_clock) -> None:
        super().__init__(config, (*LEVELS, *self.figures))
        self.clock = clock
        self.operators_connections = Connections(config)
        self._work: list[asyncio.Task[None]] = []

    @abstractmethod
    async def prepare(self) -> list[Coroutine[Any, Any, None]]:
        """Prepares the role once its store is open, sets `retention`, and returns the background
        work."""

    @abstractmethod
    async def task_status(self, entry: RegisteredTask) -> dict[str, Any]:
        """What the status says about a task beyond `_task_facts`, to operators."""

    @abstractmethod
    async def public_status(self, entry: RegisteredTask) -> dict[str, Any]:
        """The same for the public: without exact counts that change with single reports or
        tokens."""

    @abstractmethod
    async def measure(self) -> None:
        """Sets the levels that only this role has."""

    @abstractmethod
    def own_routes(self) -> list[Served]:
        """The routes of this role only."""

    async def start(self) -> None:
        """Opens the store and starts the background work."""
        self.spool = open_spool(self.server_config.spool)
        await asyncio.to_thread(self.spool.prepare)
        self.database = await open_database(
            self.server_config.store, self.schema, shared=self.shares_store
        )
        try:
            limits = CheckLimits(
                self.server_config.verify_seconds, self.server_config.verify_memory_mb
            )
            self.tasks = self.registry(self.database, limits, lambda: self.draining, self.clock)
            await self.tasks.load()
            if self.signs:
                self.signing = self._signing_key()
            own = await self.prepare()
            sweeps = (self.connections.sweep(), self.operators_connections.sweep())
            deleting = every(RETENTION_SECONDS, self.retention.once, "retention failed")
            work = [*own, *sweeps, deleting]
            self._work = [asyncio.create_task(one) for one in work]
        except BaseException:
            await self.database.close()
            raise

    def _signing_key(self) -> SigningKey:
        """The key with which this server signs; made at the first start."""
        file = Path(self.server_config.signing_key_file)
        file.parent.mkdir(parents=True, exist_ok=True)
        with (
            lock(Path(f"{file}.lock"), secret=True)
            if not file.exists()
            else contextlib.nullcontext()
        ):
            if file.exists():  # perhaps since a moment ago, by another process
                return SigningKey.load(file)
            if self.tasks.by_id:
                raise ConfigError(
                    f"The signing key {file} is missing, and devices know the {self.name} by it; "
                    "restore it from a copy, or make another with `shuffledp keys signing "
                    f"{file}` and publish its public half."
                )
            key = SigningKey.create(file)
        log("signing key made", role=self.name, key=key.public.hex())
        return key

    async def stop(self) -> None:
        """Ends the background work and closes the store; what was acknowledged is durable."""
        self.draining = True
        for work in self._work:
            work.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self.database.close()

    def public_routes(self) -> list[Served]:
        apart = bool(self.server_config.operators_listen)
        return [one for one in self.served() if not (apart and one.operation.inside)]

    def operators_app(self) -> ASGIApp:
        """What is answered at the operators' address: everything but uploads."""
        app = application(self.served())
        app.state.for_operators = True
        return watched(with_short_heads(app))

    def served(self) -> list[Served]:
        return [*self.own_routes(), *self._shared()]

    def _shared(self) -> list[Served]:
        tasks = Administration(self)
        return [
            Served(operations.STATUS_PAGE, self.answer_page),
            Served(operations.PAGE_STYLE, lambda _: Response(STYLE, media_type="text/css")),
            Served(
                operations.PAGE_SCRIPT, lambda _: Response(SCRIPT, media_type="text/javascript")
            ),
            Served(operations.STATUS, self.answer_status),
            Served(operations.ALIVE, self.answer_alive),
            Served(operations.READY, self.answer_ready),
            Served(operations.METRICS, self.answer_metrics),
            Served(operations.CURRENT, self.answer_current),
            Served(operations.LIST_TASKS, tasks.answer_list),
            Served(operations.ARCHIVE_TASK, tasks.answer_archive),
            Served(operations.DELETE_TASK, tasks.answer_delete),
            Served(operations.PUT_TASK, self.answer_put_task),
            Served(operations.GET_TASK, self.answer_get_task),
        ]

    def operations(self) -> list[Operation]:
        return [*self.before_operations, *super().operations()]

    async def answer_put_task(self, request: Request) -> Response:
        """Registers a task, for the collector only."""
        require(request, self.server_config.collector_token_sha256, "collector")
        key = self.server_config.collector_signing_key
        answer = await self.tasks.answer_put(request, key)
        log("task registered", role=self.name, task=request.path_params["task"])
        return answer

    async def answer_current(self, _: Request) -> Response:
        """The tasks that devices may answer now or later: how the tasks of a series are found."""
        await self.tasks.refresh()
        return JSONResponse({"tasks": self.tasks.current()})

    async def answer_get_task(self, request: Request) -> Response:
        """Returns a task in its canonical text."""
        return await self.tasks.answer_get(request)

    def exact_for(self, request: Request) -> bool:
        """Whether a request may see exact counts: it came to the operators' address, or carries
        the operator's token."""
        inside = getattr(request.app.state, "for_operators", False)
        return inside or carries(request, self.server_config.operator_token_sha256)

    async def status(self, exact: bool) -> dict[str, Any]:
        """The tasks, their progress and their results: everything that the page shows. Exact
        counts are for operators."""
        await self.tasks.refresh()
        told = self.task_status if exact else self.public_status
        tasks = [
            self._task_facts(entry) | await told(entry)
            for entry in list(self.tasks.by_id.values())
            if entry.state != "archived"
        ]
        return {"role": self.name, "tasks": tasks}

    def _task_facts(self, entry: RegisteredTask) -> dict[str, Any]:
        task = entry.task
        return {
            "task": task.id.hex(),
            "name": task.name,
            "query": task.protocol.query,
            "epsilon": show(task.protocol.epsilon),
            "state": entry.state,
            "report_size": task.report_size,
            "report_bytes": task.report_bytes,
            "series": series_facts(task),
        }

    async def answer_status(self, request: Request) -> Response:
        """The status as JSON."""
        return JSONResponse(await self.status(self.exact_for(request)))

    async def answer_page(self, request: Request) -> Response:
        """The status as a page."""
        status = await self.status(self.exact_for(request))
        return HTMLResponse(render(status, self.about), headers=PAGE_HEADERS)

    async def answer_metrics(self, request: Request) -> Response:
        """The metrics for Prometheus: exact counts, for operators."""
        if not self.exact_for(request):
            require(request, self.server_config.operator_token_sha256, "operator")
        free = await asyncio.to_thread(self.spool.free_bytes)
        if free is not None:
            self.metrics.level("spool_free_bytes", free)
        self.metrics.level(
            "open_tasks", sum(one.state == "open" for one in self.tasks.by_id.values())
        )
        await self.measure()
        return Response(self.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def answer_ready(self, _: Request) -> Response:
        """200 while requests can be answered: no shutdown has begun, and the disk takes more."""
        self.refuse_while_draining()
        if any(work.done() for work in self._work):
            raise Problem(503, "stopped", "Background work has stopped; restart the service.")
        try:
            await self.database.prove_writable()
        except StorageUnavailable:
            raise Problem(
                503,
                "store",
                "The store is full or cannot be reached; free space, or bring it back.",
                retry_after=5,
            ) from None
        free = await asyncio.to_thread(self.spool.free_bytes)
        if free is not None and free < LEAST_FREE_BYTES:
            raise Problem(
                503, "spool", "The disk of the spool folder is full; free space.", retry_after=5
            )
        return PlainTextResponse("ready\n")

"""The shuffler's routes: uploads, enrolment, closing a task, status."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shuffledp.sealed.clock import CLOCK_SECONDS, Clock, system_clock
from shuffledp.sealed.errors import TaskError
from shuffledp.sealed.signing import TaskSignature
from shuffledp.sealed.task import Task
from shuffledp.sealed.wire import Upload, read_upload
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.shuffler import operations, status
from shuffledp.service.shuffler.admission import Admission, admission, not_enrolled
from shuffledp.service.shuffler.analyzer_keys import AnalyzerKeys
from shuffledp.service.shuffler.arrivals import Arrival, Verdict
from shuffledp.service.shuffler.arriving import Arriving
from shuffledp.service.shuffler.care import ShufflerCare, ShufflerRetention
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.dispatch import DISPATCH_FIGURES
from shuffledp.service.shuffler.gateway import Gateway
from shuffledp.service.shuffler.intake import INTAKE_FIGURES
from shuffledp.service.shuffler.operations import MOST_TOKENS
from shuffledp.service.shuffler.report_keys import ReportKeys
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.shuffler.shards import FIRST, Parts, Shards
from shuffledp.service.shuffler.status import STATUS_FIGURES
from shuffledp.service.shuffler.witness import Witness
from shuffledp.service.storage.database import Transaction
from shuffledp.service.web.access import bearer, require
from shuffledp.service.web.administration import TaskCare
from shuffledp.service.web.bodies import (
    declared_length,
    next_part,
    read_json_body,
    rest_of_body,
)
from shuffledp.service.web.logs import log
from shuffledp.service.web.metrics import Counts
from shuffledp.service.web.operations import Served
from shuffledp.service.web.problems import Problem, answer_fault, answer_storage
from shuffledp.service.web.rates import Rate
from shuffledp.service.web.retention import Retention
from shuffledp.service.web.role import Role
from shuffledp.service.web.tasks import RegisteredTask, Storing

UPLOAD_PATH = re.compile(r"/tasks/([0-9a-f]+)/reports")
STORED_ANSWER, DUPLICATE_ANSWER = Response(status_code=201), Response(status_code=200)
"""Without bodies, so that an answer is one write to the network, which saves an eighth of an
upload's CPU time."""
MOST_TOKENS_BYTES = 80 * MOST_TOKENS
DRAIN_SECONDS = 10.0
"""How long uploads that wait for the disk may take when the server stops."""


REJECTED = Counts("rejected", "Uploads that were refused unread, by reason", ("task", "reason"))


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
        self._rejected: dict[int, Counter[str]] = {}
        self._arriving = Arriving()
        self._token_rate = Rate(config.token_requests_per_minute, "token", self.metrics)

    async def prepare(self) -> list[Coroutine[Any, Any, None]]:
        for left in Path(self.config.spool).glob("*.batch*"):  # made again from the store
            left.unlink()
        self.tasks.admit = self._admit
        self.gateway = Gateway(self.config.gateway_keys_folder, self.tasks, self._arriving)
        await asyncio.to_thread(self.gateway.open)
        self.report_keys = ReportKeys(self.config.report_keys_folder)
        await asyncio.to_thread(self.report_keys.open)
        self._analyzer = httpx.AsyncClient(
            base_url=self.config.analyzer, transport=self._transport, timeout=120
        )
        self.shards = Shards(
            self.database,
            Parts(
                self.config,
                self.tasks,
                self.report_keys,
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

    async def answer_put_task(self, request: Request) -> Response:
        answer = await super().answer_put_task(request)
        for shard in self.shards.all_of():
            shard.note_timed()
        return answer

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
            return await self.answer_upload(task, inner.headers, inner.receive)

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
                answer = await self.answer_upload(found[1], Headers(scope=scope), receive)
                await answer(scope, receive, send)
            else:
                await app(scope, receive, send)

        return dispatch

    async def answer_upload(self, task: str, headers: Headers, receive: Receive) -> Response:
        """Stores a report and acknowledges it, after it is durable and never before."""
        entry: RegisteredTask | None = None
        try:
            entry = self.tasks.find(task)
            verdict = await self._upload(entry, headers, receive)
            return STORED_ANSWER if verdict is Verdict.ACCEPTED else DUPLICATE_ANSWER
        except Problem as problem:
            if entry is not None:
                self._rejected.setdefault(entry.number, Counter())[problem.code] += 1
                self.metrics.count("rejected", task=str(entry.number), reason=problem.code)
            return problem.response()
        except StorageUnavailable as error:
            return await answer_storage(None, error)
        except Exception as error:
            return await answer_fault(None, error)

    async def _upload(self, entry: RegisteredTask, headers: Headers, receive: Receive) -> Verdict:
        holder = admission(entry, bearer(headers))
        self._token_rate.check(holder.token)
        shard = self.shards.of(entry)
        upload = await self._read(entry, holder, headers, receive)
        verdict = await shard.intake.submit(
            Arrival(
                task=entry.number,
                report=upload.report_id,
                token=holder.token,
                scope=holder.scope,
                messages=upload.messages,
                proved=holder.proved,
            )
        )
        if verdict is Verdict.UNKNOWN_TOKEN:
            raise not_enrolled()
        if verdict is Verdict.REPORT_DIFFERS:
            raise Problem(
                409,
                verdict.value,
                "Another report has this id; a retry sends the same bytes, a new report a new id.",
            )
        if verdict is Verdict.TOKEN_USED:
            raise Problem(
                409,
                verdict.value,
                "This token has sent its report for this batch; send the same again for the next."
                if holder.scope is None
                else "This token has sent its report; one report per token counts.",
            )
        return verdict

    async def _read(
        self, entry: RegisteredTask, holder: Admission, headers: Headers, receive: Receive
    ) -> Upload:
        """The report in a request; a `Problem` unless it is one of this task and has its size."""
        need = entry.task.report_bytes
        length = declared_length(headers, need)
        if length != need:
            raise Problem(
                413, "size", "Every report of this task has the same size.", have=length, need=need
            )
        try:
            upload = read_upload(await self._body(receive, need, holder))
        except TaskError as error:
            raise Problem(400, "malformed", str(error)) from None
        if upload.task_id != entry.task.id:
            raise Problem(422, "wrong-task", "The report belongs to another task; send it there.")
        if upload.key_id != entry.task.key.key_id:
            raise Problem(
                422, "wrong-key", "The report is encrypted for another key; get the task again."
            )
        self._refuse_late(entry)
        return upload

    async def _body(self, receive: Receive, need: int, holder: Admission) -> bytes:
        """A request's whole body. If it is not there at once, the token is looked up before more
        of it is read, and all such bodies together have a limit."""
        first = await next_part(receive)
        if not first.get("more_body", False):
            return bytes(first.get("body", b""))
        await holder.check(self.shards.enrolments)
        with self._arriving.room(need):
            return await rest_of_body(receive, first.get("body", b""), need)

    def _refuse_late(self, entry: RegisteredTask) -> None:
        """A 410 if the task is closed or has expired, or its key is retired."""
        if entry.state != "open":
            raise Problem(410, "task-closed", "This task takes no more reports.")
        if self.clock() >= entry.task.expires + CLOCK_SECONDS:
            raise Problem(410, "task-expired", "This task has expired; it takes no more reports.")
        if self.analyzer_keys.state(entry.task.key) != "active":
            raise Problem(
                410,
                "key-retired",
                "The analyzer has retired this task's key; "
                "ask the collector for the task that follows.",
            )

    # status

    async def task_status(self, entry: RegisteredTask) -> dict[str, Any]:
        rejected = self._rejected.get(entry.number, Counter())
        return await status.task_status(entry, self.shards, rejected)

    async def measure(self) -> None:
        await status.measure(self.metrics, self.shards)

    async def logged(self) -> set[bytes]:
        return {bytes(task) for (task,) in await self.database.rows("SELECT task FROM proofs")}

    def care(self) -> TaskCare:
        return ShufflerCare(self.shards, self.report_keys)

    def retention(self) -> Retention:
        return ShufflerRetention(self.config, self.database, self.tasks, self.shards, self.clock)

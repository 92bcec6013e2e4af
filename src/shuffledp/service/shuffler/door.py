"""A process that answers the shuffler's public address, beside others, and stores reports itself.

It reads requests, with all limits on connections, and stores uploads over connections of its own
to the stores. Places for reports it takes from the host, the process that closes batches (`doors`),
and every other request is passed on to that one. If it is gone, this process stores nothing more
and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import uvicorn
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shuffledp.service.http.connections import ConnectionLimits, Connections
from shuffledp.service.http.lifecycle import THREAD_SWITCH_SECONDS, uvicorn_config
from shuffledp.service.http.logs import log, start_logs
from shuffledp.service.http.origins import Origins
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.rates import Rate
from shuffledp.service.http.tasks import TaskRegistry
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.gateway import Gateway
from shuffledp.service.shuffler.host import Host
from shuffledp.service.shuffler.lanes import Lanes
from shuffledp.service.shuffler.operations import GATEWAY_PATH
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.shuffler.uploads import UPLOAD_PATH, Uploads
from shuffledp.service.store import open_lane
from shuffledp.tasks.clock import Clock, system_clock
from shuffledp.tasks.sandbox import CheckLimits

DRAIN_SECONDS = 10.0
"""How long uploads that wait for the disk may take when this process ends."""
PASS_SECONDS = 300.0
"""Registering a task takes as long as verifying it."""
OWN_HEADERS = {"connection", "content-length", "transfer-encoding", "keep-alive", "upgrade", "host"}
FRAMES_SOCKET, REQUESTS_SOCKET = "frames", "requests"


class Door:
    """The ASGI application of one such process."""

    def __init__(
        self, config: ShufflerConfig, folder: str, lane: int, clock: Clock = system_clock
    ) -> None:
        self.config, self._folder, self._lane, self._clock = config, folder, lane, clock
        self.host = Host(self._task_changed)
        self.origins = Origins(config.allow_origins)
        share = -(-config.most_connections // config.processes)
        limits = replace(ConnectionLimits.of(config), most=share)
        self.connections = Connections(limits, self.origins)
        self._rate = Rate(config.address_requests_per_minute, "address", self.host)

    def app(self) -> ASGIApp:
        """Uploads and what comes through a relay are answered here, everything else is passed
        on."""
        return self.origins.around(self._rate.around(self._answer))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        found = UPLOAD_PATH.fullmatch(scope["path"])
        post = scope["method"] == "POST"
        if found and post:
            answer = await self._upload(found[1], scope, receive)
        elif post and scope["path"] == GATEWAY_PATH:
            answer = await self._answer_gateway(Request(scope, receive))
        else:
            answer = await self._pass_on(scope, receive)
        await answer(scope, receive, send)

    async def _upload(self, task: str, scope: Scope, receive: Receive) -> Response:
        """Stores a report. Where a token counts anew in every batch, the host must do that: it
        alone knows which batch a report will be in. It also answers for tasks that are not known
        here, because they may be so new that only the host knows them."""
        if self.host.lost.is_set():
            return _ending()
        try:
            passed = self._tasks.find(task).task.repeat
        except Problem:
            passed = True
        if passed:
            return await self._pass_on(scope, receive)
        return await self._uploads.answer(task, Headers(scope=scope), receive)

    async def _answer_gateway(self, request: Request) -> Response:
        """Answers a request that came through a relay."""

        async def upload(inner: Request) -> Response:
            return await self._upload(inner.path_params["task"], inner.scope, inner.receive)

        async def other(inner: Request) -> Response:
            return await self._pass_on(inner.scope, inner.receive)

        asked = {("GET", end): other for end in ("", "/proof", "/current")}
        try:
            return await self._gateway.answer(request, {("POST", "/reports"): upload, **asked})
        except Problem as problem:
            return problem.response()

    async def _pass_on(self, scope: Scope, receive: Receive) -> Response:
        headers = [
            (name, value)
            for name, value in scope["headers"]
            if name.decode("latin-1") not in OWN_HEADERS - {"content-length"}
        ]
        has_body = any(name == b"content-length" for name, _ in headers)  # others are told 411
        path = scope.get("raw_path") or scope["path"].encode()
        url = httpx.URL("http://host", raw_path=path + _query(scope))
        try:
            answer = await self._requests.request(
                scope["method"], url, headers=headers, content=_body(receive) if has_body else None
            )
        except httpx.HTTPError:
            return _ending()
        kept = {name: value for name, value in answer.headers.items() if name not in OWN_HEADERS}
        return Response(answer.content, answer.status_code, kept)

    # running

    async def _task_changed(self, task_id: bytes) -> None:
        await self._lanes.note(task_id)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Connects when the server starts, and ends the connections when it stops."""
        await receive()
        transport = httpx.AsyncHTTPTransport(uds=f"{self._folder}/{REQUESTS_SOCKET}")
        async with httpx.AsyncClient(transport=transport, timeout=PASS_SECONDS) as self._requests:
            await self._start()
            work = [self._lanes.run(name) for name in self._lanes.names()]
            running = [
                asyncio.create_task(one)
                for one in (*work, self.connections.sweep(), self._stop_when_lost())
            ]
            for one in running:
                one.add_done_callback(self._ended)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._leave()
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await send({"type": "lifespan.shutdown.complete"})

    def _ended(self, work: asyncio.Task[None]) -> None:
        """Ends this process if some of its work has failed; the host starts it anew."""
        if not work.cancelled() and work.exception() is not None:
            log("process failed", level="error", error=type(work.exception()).__name__)
            self.host.lost.set()

    async def _start(self) -> None:
        config, clock = self.config, self._clock
        first = await open_lane(config.store, SHUFFLER_SCHEMA, self._lane)
        limits = CheckLimits(config.verify_seconds, config.verify_memory_mb)
        self._tasks = TaskRegistry(first, limits, self.host.lost.is_set, clock)
        self._lanes = Lanes(config, self._lane, first, self._tasks, self.host, clock)
        self._uploads = Uploads(
            config, self._tasks, self._lanes.of, self._lanes.enrolments, self.host, clock
        )
        self._gateway = Gateway(config.gateway_keys_folder, self._tasks, self._uploads.arriving)
        await asyncio.to_thread(self._gateway.open)
        await self.host.connect(f"{self._folder}/{FRAMES_SOCKET}-{self._lane}")
        await self._tasks.load()  # after that, because what changes from now on is told
        await self._lanes.start()

    async def _stop_when_lost(self) -> None:
        """Gives the stores free as soon as the other process is gone, because its successor waits
        for that; connections end a little later."""
        await self.host.lost.wait()
        await self._leave()

    async def _leave(self) -> None:
        """Gives the stores free after uploads that wait for them have their verdicts."""
        self._lanes.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lanes.settled(), DRAIN_SECONDS)
        await self._lanes.close()


def _ending() -> Response:
    return Problem(
        503, "draining", "The server is shutting down; try again.", retry_after=5
    ).response()


def _query(scope: Scope) -> bytes:
    return b"?" + scope["query_string"] if scope["query_string"] else b""


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message: Message = await receive()
        more = message.get("more_body", False)
        yield message.get("body", b"")


class DoorServer(uvicorn.Server):
    """Ends when the process that closes batches is gone, as well as at SIGTERM."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    async def on_tick(self, counter: int) -> bool:  # uvicorn's name
        return await super().on_tick(counter) or self._door.host.lost.is_set()


def listening(config: ShufflerConfig) -> socket.socket:
    """The public address, which several processes may have."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((config.host, config.port))
    return found


def main() -> None:
    """Serves until SIGTERM, with the settings and the folder of sockets in standard input."""
    given: dict[str, Any] = json.load(sys.stdin)
    lists = {
        name: tuple(value) for name, value in given["config"].items() if isinstance(value, list)
    }
    config = ShufflerConfig(**(given["config"] | lists))
    os.umask(0o077)
    start_logs()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    door = Door(config, given["folder"], given["lane"])
    log("process started", process=os.getpid())
    with contextlib.closing(listening(config)) as public:
        settings = uvicorn_config(config, door.app(), door.connections)
        DoorServer(settings, door).run(sockets=[public])


if __name__ == "__main__":
    main()

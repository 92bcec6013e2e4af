"""A process that answers the shuffler's public address, beside others, and stores nothing itself.

It reads requests, with all limits on connections, and hands uploads to the process that writes the
store; the client is told what that one says. Every other request is passed on as it is. If the
writer is gone, this process ends: `doors.Doors` starts both anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.frames import ANSWERING, Frames, Kind, opening
from shuffledp.service.web.connections import ConnectionLimits, Connections
from shuffledp.service.web.lifecycle import uvicorn_config
from shuffledp.service.web.logs import log, start_logs
from shuffledp.service.web.origins import Origins
from shuffledp.service.web.problems import Problem, answer_fault, answer_storage
from shuffledp.service.web.rates import Rate

UPLOAD_PATH = re.compile(r"/tasks/([0-9a-f]+)/reports")
STORED, KNOWN = Response(status_code=201), Response(status_code=200)
PASS_SECONDS = 300.0
"""Registering a task takes as long as verifying it."""
OWN_HEADERS = {"connection", "content-length", "transfer-encoding", "keep-alive", "upgrade", "host"}
FRAMES_SOCKET, REQUESTS_SOCKET = "frames", "requests"


class Writer:
    """The process that writes the store, as a door sees it."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[tuple[Kind, bytes]]] = {}
        self.lost = asyncio.Event()

    async def connect(self, folder: str) -> None:
        """Connects to the writer's socket in a folder."""
        _, self._frames = await asyncio.get_running_loop().create_unix_connection(
            lambda: Frames(self._received, self._gone), f"{folder}/{FRAMES_SOCKET}"
        )

    def _received(self, _: Frames, kind: Kind, number: int, content: bytes) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.done():
            asked.set_result((kind, content))

    def _gone(self, _: Frames) -> None:
        self.lost.set()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(StorageUnavailable("The process that writes has ended."))

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Tells the writer, which shows all metrics, that an address came too fast."""
        self._frames.send(Kind.LIMITED, 0)

    async def upload(self, task: bytes, headers: Headers, receive: Receive) -> Response:
        """What a client is told about its upload."""
        first = await receive()
        if first["type"] == "http.disconnect":
            return KNOWN  # nobody is there to read it
        number = next(self._numbers)
        content = opening(
            task,
            headers.get("authorization", "").encode("latin-1"),
            headers.get("content-length", "").encode("latin-1"),
            first.get("body", b""),
            more=first.get("more_body", False),
        )
        kind, said = await self._ask(Kind.OPEN, number, content)
        while kind is Kind.MORE:
            part = await receive()
            gone = part["type"] == "http.disconnect"
            rest = bytes([part.get("more_body", False)]) + part.get("body", b"")
            kind, said = await self._ask(Kind.GONE if gone else Kind.PART, number, rest)
        return _response(said)

    async def _ask(self, kind: Kind, number: int, content: bytes) -> tuple[Kind, bytes]:
        if self.lost.is_set():
            raise StorageUnavailable("The process that writes has ended.")
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._frames.send(kind, number, content)
        return await self._asked[number]


def _response(said: bytes) -> Response:
    """A client's answer as the writer's frame has it."""
    status, wait = ANSWERING.unpack_from(said)
    body = said[ANSWERING.size :]
    if not body:
        return STORED if status == STORED.status_code else KNOWN
    headers = {"Retry-After": str(wait)} if wait else None
    return Response(body, status, headers, "application/problem+json")


class Door:
    """The ASGI application of one such process."""

    def __init__(self, config: ShufflerConfig, folder: str) -> None:
        self.config, self._folder = config, folder
        self.writer = Writer()
        self.origins = Origins(config.allow_origins)
        share = -(-config.most_connections // config.processes)
        limits = replace(ConnectionLimits.of(config), most=share)
        self.connections = Connections(limits, self.origins)
        self._rate = Rate(config.address_requests_per_minute, "address", self.writer)

    def app(self) -> ASGIApp:
        """Uploads to the writer, everything else passed on."""
        return self.origins.around(self._rate.around(self._answer))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        found = UPLOAD_PATH.fullmatch(scope["path"])
        if found and scope["method"] == "POST":
            answer = await self._upload(found[1].encode(), Headers(scope=scope), receive)
        else:
            answer = await self._pass_on(scope, receive)
        await answer(scope, receive, send)

    async def _upload(self, task: bytes, headers: Headers, receive: Receive) -> Response:
        try:
            return await self.writer.upload(task, headers, receive)
        except StorageUnavailable as error:
            return await answer_storage(None, error)
        except Exception as error:
            return await answer_fault(None, error)

    async def _pass_on(self, scope: Scope, receive: Receive) -> Response:
        headers = [
            (name, value)
            for name, value in scope["headers"]
            if name.decode("latin-1") not in OWN_HEADERS - {"content-length"}
        ]
        has_body = any(name == b"content-length" for name, _ in headers)  # others are told 411
        url = httpx.URL("http://writer", raw_path=scope["raw_path"] + _query(scope))
        try:
            answer = await self._requests.request(
                scope["method"], url, headers=headers, content=_body(receive) if has_body else None
            )
        except httpx.HTTPError:
            return Problem(
                503, "draining", "The server is shutting down; try again.", retry_after=5
            ).response()
        kept = {name: value for name, value in answer.headers.items() if name not in OWN_HEADERS}
        return Response(answer.content, answer.status_code, kept)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Connects when the server starts, and ends the connection when it stops."""
        await receive()
        await self.writer.connect(self._folder)
        transport = httpx.AsyncHTTPTransport(uds=f"{self._folder}/{REQUESTS_SOCKET}")
        async with httpx.AsyncClient(transport=transport, timeout=PASS_SECONDS) as self._requests:
            sweeping = asyncio.create_task(self.connections.sweep())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            sweeping.cancel()
        await send({"type": "lifespan.shutdown.complete"})


def _query(scope: Scope) -> bytes:
    return b"?" + scope["query_string"] if scope["query_string"] else b""


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message: Message = await receive()
        more = message.get("more_body", False)
        yield message.get("body", b"")


class DoorServer(uvicorn.Server):
    """Ends when the writer is gone, as well as at SIGTERM."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    async def on_tick(self, counter: int) -> bool:  # uvicorn's name
        return await super().on_tick(counter) or self._door.writer.lost.is_set()


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
    origins = tuple(given["config"].pop("allow_origins"))
    config = ShufflerConfig(**given["config"], allow_origins=origins)
    os.umask(0o077)
    start_logs()
    door = Door(config, given["folder"])
    log("process started", process=os.getpid())
    with contextlib.closing(listening(config)) as public:
        settings = uvicorn_config(config, door.app(), door.connections)
        DoorServer(settings, door).run(sockets=[public])


if __name__ == "__main__":
    main()

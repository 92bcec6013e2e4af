"""Limits on a server's connections: how many there are, how long a request may take to arrive, and
how long its head may be.

`Guarded` is between the network and uvicorn's protocol, and `watched` between uvicorn and the
application. Both use only what asyncio and ASGI define. A peer that exceeds a limit gets a short
answer and is disconnected; nothing of it is logged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shuffledp.service.http.config import ServerConfig
from shuffledp.service.http.problems import Problem

MOST_URL_BYTES = 2_048
MOST_HEADER_BYTES = 16 << 10
"""Of all headers of a request together, names and values."""
MOST_HEADERS = 64
LEAST_BYTES_PER_SECOND = 64 << 10
"""A request may take its seconds, and one more second per this many received bytes; what it
declares counts for nothing."""
MOST_WAITING = 100
"""Requests of a connection that wait for the answer to an earlier one."""
SWEEP_SECONDS = 0.5
TOO_MANY = Problem(503, "connections", "Too many connections; try again later.")
LONG_URL = Problem(414, "url", f"A URL has at most {MOST_URL_BYTES:,} bytes here.")
LONG_HEAD = Problem(
    431,
    "headers",
    f"A request has at most {MOST_HEADERS} headers of {MOST_HEADER_BYTES:,} bytes in all.",
)
SLOW = Problem(408, "slow", "The request took too long to arrive; send the same again.")
PIPELINED = Problem(429, "busy", "Wait for an answer before you send the next request.")
UPGRADE = Problem(400, "upgrade", "Send a body without an Upgrade header, by HTTP/1.1.")


@dataclass
class Progress:
    """How far the request of a connection is: `watched` tells, `Guarded` looks."""

    arriving: bool = True
    """Whether bytes of it are awaited: at first, and until it is complete."""
    serving: bool = False
    answering: bool = False
    """Whether the application has it, and has begun to answer it."""


class Connections:
    """All open connections of a server; the slow ones are closed."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.open: set[Guarded] = set()
        self.per_address: Counter[str] = Counter()

    def protocol(self, *, app_state: dict[str, Any], **given: Any) -> asyncio.Protocol:
        """A new connection's protocol, as uvicorn asks for it."""
        progress = Progress()
        inner = HttpToolsProtocol(app_state=app_state | {"progress": progress}, **given)
        return Guarded(self, inner, progress)

    async def sweep(self) -> None:
        """Closes connections whose time is over, until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            for connection in list(self.open):
                connection.end_if_late(clock())
            await asyncio.sleep(SWEEP_SECONDS)


class Guarded(asyncio.Protocol):
    """One connection: uvicorn's protocol behind the limits of a server."""

    def __init__(self, registry: Connections, inner: HttpToolsProtocol, progress: Progress) -> None:
        self._registry, self._config = registry, registry.config
        self.inner, self.progress = inner, progress
        self._clock = asyncio.get_running_loop().time
        self._transport: asyncio.Transport
        self._address = ""
        self._ended = False
        """Whether it was refused: whatever still comes is not looked at."""
        self._begun = self._last_byte = self._clock()
        self._received = 0
        """Bytes of the request that is arriving."""
        self._write_paused_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._address = (transport.get_extra_info("peername") or ("",))[0]
        counts, config = self._registry.per_address, self._config
        full = len(self._registry.open) >= config.most_connections
        if full or counts[self._address] >= config.most_connections_per_address:
            self._end(TOO_MANY)
            return
        self._registry.open.add(self)
        counts[self._address] += 1
        self.inner.connection_made(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self not in self._registry.open:
            return
        self._registry.open.discard(self)
        counts = self._registry.per_address
        counts[self._address] -= 1
        if not counts[self._address]:
            del counts[self._address]
        self.inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._last_byte = self._clock()
        progress = self.progress
        if not (progress.arriving or progress.serving):
            self._begun, self._received, progress.arriving = self._last_byte, 0, True
        if not progress.serving and self._received > MOST_URL_BYTES + MOST_HEADER_BYTES:
            self._end(LONG_HEAD)  # what came before this was no complete head
            return
        self._received += len(data)
        self.inner.data_received(data)
        if len(self.inner.pipeline) > MOST_WAITING:  # uvicorn would take any number of them
            self._end(PIPELINED)

    def eof_received(self) -> None:
        if not self._ended:
            self.inner.eof_received()

    def pause_writing(self) -> None:
        self._write_paused_since = self._clock()
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self._write_paused_since = None
        self.inner.resume_writing()

    def end_if_late(self, now: float) -> None:
        """Ends the connection if its time is over."""
        idle, paused = self._config.idle_seconds, self._write_paused_since
        allowed = self._config.request_seconds + self._received / LEAST_BYTES_PER_SECOND
        silent = now - self._last_byte > idle and self._transport.is_reading()
        if paused is not None and now - paused > idle:
            self._transport.abort()
        elif self.progress.arriving and (silent or now - self._begun > allowed):
            if (
                self.progress.answering or self._transport.is_closing()
            ):  # it does not take the answer
                self._transport.abort()
            else:
                self._end(SLOW)

    def _end(self, problem: Problem) -> None:
        """Answers once and closes the connection."""
        self._ended = True
        body = bytes(problem.response().body)
        self._transport.write(
            b"HTTP/1.1 %d \r\ncontent-type: application/problem+json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % (problem.status, len(body)) + body
        )
        self._transport.close()


def watched(app: ASGIApp) -> ASGIApp:
    """An application whose requests have a short head, and which tells its connection how far a
    request is. It says `Connection: close` in every answer to a request whose body is not complete,
    so that nobody keeps a connection by sending the rest slowly, or that offers another protocol,
    after which uvicorn's parser reads no more."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        progress: Progress = scope.get("state", {}).get("progress") or Progress()
        has_body, upgrade = _declares(scope)
        progress.arriving, progress.serving = has_body, True

        async def receiving() -> Message:
            message = await receive()
            progress.arriving = progress.arriving and message.get("more_body", False)
            return message

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                progress.answering = True
                if upgrade or progress.arriving:
                    headers = [*message["headers"], (b"connection", b"close")]
                    message = {**message, "headers": headers}
            await send(message)

        try:
            await app(scope, receiving, answered)
        finally:
            progress.serving = progress.answering = False

    return guarded


def with_short_heads(app: ASGIApp) -> ASGIApp:
    """An application that is asked only with a short URL and short headers, and by HTTP/1.1."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (problem := _problem(scope)) is not None:
            await problem.response()(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


def _problem(scope: Scope) -> Problem | None:
    headers = scope["headers"]
    size = sum(map(len, chain.from_iterable(headers)))
    if len(scope["raw_path"]) + len(scope["query_string"]) > MOST_URL_BYTES:
        return LONG_URL
    if len(headers) > MOST_HEADERS or size > MOST_HEADER_BYTES:
        return LONG_HEAD
    return UPGRADE if all(_declares(scope)) else None


def _declares(scope: Scope) -> tuple[bool, bool]:
    """Whether a request says that it has a body, and whether it offers another protocol."""
    given = dict(scope["headers"])  # the parser refuses a second Content-Length
    has_body = given.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in given
    return has_body, b"upgrade" in given

"""The relay of Oblivious HTTP (RFC 9458): passes sealed requests on to one shuffler.

It sees who asks and when, and bytes that only the shuffler can read. It stores nothing, logs
nothing about requests, and passes nothing on but the sealed bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from shuffledp.service.answers import bounded_request_async
from shuffledp.service.http.arriving import Arriving
from shuffledp.service.http.bodies import read_body
from shuffledp.service.http.connections import Connections, watched, with_short_heads
from shuffledp.service.http.lifecycle import uvicorn_config
from shuffledp.service.http.logs import log, start_logs
from shuffledp.service.http.operations import NEEDS_BODY, Content, Operation, Served, page
from shuffledp.service.http.origins import Origins
from shuffledp.service.http.problems import Problem, exception_answers
from shuffledp.service.relay.config import RelayConfig

REQUEST_TYPE, RESPONSE_TYPE = "message/ohttp-req", "message/ohttp-res"
GATEWAY_PATH = "/.well-known/ohttp-gateway"
MOST_ANSWER_BYTES = 16 << 20
PASS_SECONDS = 60.0
BINARY = {"type": "string", "format": "binary"}
RELAY = Operation(
    method="POST",
    path="/relay",
    summary="Passes a sealed request on to the shuffler, without its sender",
    body=Content(REQUEST_TYPE, BINARY),
    answers={200: Content(RESPONSE_TYPE, BINARY)},
    problems={
        **NEEDS_BODY,
        400: ("interrupted", "malformed"),
        422: ("media-type",),
        429: ("busy",),
        503: ("busy", "gateway-away"),
    },
)
ALIVE = page("/livez", "text/plain", "Whether the relay runs")
READY = page("/readyz", "text/plain", "Whether the relay can answer requests")


class Relay:
    """The server between devices and a shuffler's gateway."""

    name = "relay"
    about = "passes sealed requests on, so that the shuffler does not learn addresses"

    def __init__(
        self, config: RelayConfig, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.config, self._transport = config, transport
        self.origins, self._arriving = Origins(config.allow_origins), Arriving()
        self.connections = Connections(config)

    def served(self) -> list[Served]:
        """What the relay answers."""
        return [
            Served(RELAY, self.answer_relay),
            Served(ALIVE, lambda _: PlainTextResponse("alive\n")),
            Served(READY, lambda _: PlainTextResponse("ready\n")),
        ]

    def operations(self) -> list[Operation]:
        """The same, described."""
        return [one.operation for one in self.served()]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The relay's connection to the shuffler, while it runs."""
        sweep = asyncio.create_task(self.connections.sweep())
        async with httpx.AsyncClient(
            base_url=self.config.shuffler, transport=self._transport, timeout=PASS_SECONDS
        ) as self._shuffler:
            log("started", role=self.name, listen=self.config.listen)
            try:
                yield
            finally:
                sweep.cancel()
                log("stopped", role=self.name)

    def app(self) -> ASGIApp:
        """The ASGI application."""

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with self.running():
                yield

        routes = [one.route() for one in self.served()]
        app = Starlette(routes=routes, exception_handlers=exception_answers(), lifespan=lifespan)
        app.router.redirect_slashes = False
        return watched(self.origins.around(with_short_heads(app)))

    async def answer_relay(self, request: Request) -> Response:
        """Passes a request on: its bytes and no header but their type."""
        if request.headers.get("content-type") != REQUEST_TYPE:
            raise Problem(422, "media-type", f"Send a sealed request as {REQUEST_TYPE}.")
        body = await read_body(request, self.config.most_body_kb << 10, self._arriving)
        try:
            answer = await bounded_request_async(
                self._shuffler,
                "POST",
                GATEWAY_PATH,
                MOST_ANSWER_BYTES,
                content=body,
                headers={"Content-Type": REQUEST_TYPE, "User-Agent": "relay"},
            )
        except httpx.TransportError:
            raise Problem(
                503,
                "gateway-away",
                "The shuffler does not answer; send the same again later.",
                retry_after=5,
            ) from None
        good = answer.status_code == 200
        return Response(
            answer.content,
            answer.status_code,
            {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers},
            media_type=RESPONSE_TYPE if good else "application/problem+json",
        )


def serve_relay(config: RelayConfig) -> None:
    """Runs the relay until SIGTERM or SIGINT."""
    start_logs()
    relay = Relay(config)
    uvicorn.Server(uvicorn_config(config, relay.app(), relay.connections)).run()

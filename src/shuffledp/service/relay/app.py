"""The relay of Oblivious HTTP (RFC 9458): passes sealed requests on to one shuffler.

It sees who asks and when, and bytes that only the shuffler can read. It stores nothing, logs
nothing about requests, and passes on nothing but the sealed bytes.
"""

from __future__ import annotations

import asyncio

import httpx2
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from shuffledp.service.answers import bounded_request_async
from shuffledp.service.http.bodies import Arriving, read_body
from shuffledp.service.http.operations import NEEDS_BODY, PLAIN, Content, Served, get, post
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.server import Server
from shuffledp.service.relay.config import RelayConfig

REQUEST_TYPE, RESPONSE_TYPE = "message/ohttp-req", "message/ohttp-res"
GATEWAY_PATH = "/.well-known/ohttp-gateway"
MOST_ANSWER_BYTES = 16 << 20
PASS_SECONDS = 60.0
BINARY = {"type": "string", "format": "binary"}
RELAY = post(
    "/relay",
    "Passes a sealed request on to the shuffler, without its sender",
    Content(RESPONSE_TYPE, BINARY),
    body=Content(REQUEST_TYPE, BINARY),
    problems={
        **NEEDS_BODY,
        400: ("interrupted", "malformed"),
        422: ("media-type",),
        429: ("busy",),
        503: ("busy", "gateway-away"),
    },
)
ALIVE = get("/livez", "Whether the relay runs", PLAIN)
READY = get(
    "/readyz", "Whether the relay can answer requests", PLAIN, problems={503: ("draining",)}
)


class Relay(Server):
    """The server between devices and a shuffler's gateway."""

    name = "relay"
    about = "passes sealed requests on, so that the shuffler does not learn addresses"

    def __init__(
        self, config: RelayConfig, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        super().__init__(config)
        self.config, self._transport, self._arriving = config, transport, Arriving()

    def served(self) -> list[Served]:
        return [
            Served(RELAY, self.answer_relay),
            Served(ALIVE, self.answer_alive),
            Served(READY, self.answer_ready),
        ]

    async def start(self) -> None:
        self._shuffler = httpx2.AsyncClient(
            base_url=self.config.shuffler, transport=self._transport, timeout=PASS_SECONDS
        )
        self._sweep = asyncio.create_task(self.connections.sweep())

    async def stop(self) -> None:
        self._sweep.cancel()
        await self._shuffler.aclose()

    async def answer_ready(self, _: Request) -> Response:
        self.refuse_while_draining()
        return PlainTextResponse("ready\n")

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
        except httpx2.TransportError:
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

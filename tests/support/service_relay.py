"""A relay in front of a `Trio`'s shuffler, in the same program, joined without sockets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
from service_issuer import ByHost
from service_trio import TRUSTING, Trio

from shuffledp.service.client.connection import AsyncConnection
from shuffledp.service.client.relaying import RelayedConnection, gateway_of
from shuffledp.service.client.sending import AsyncClient
from shuffledp.service.relay.app import Relay
from shuffledp.service.relay.config import RelayConfig
from shuffledp.tasks.oblivious import GatewayKey, seal_request
from shuffledp.tasks.task import Task

GATEWAY = "/.well-known/ohttp-gateway"


class Watching(httpx2.AsyncBaseTransport):
    """Carries requests, and keeps what a listener there sees."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.seen: list[tuple[httpx2.Headers, bytes]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append((request.headers, await request.aread()))
        return await self._inner.handle_async_request(request)


class Relayed:
    """A trio with a relay in front of its shuffler."""

    def __init__(self, trio: Trio) -> None:
        self.trio = trio
        self.to_gateway = Watching(httpx2.ASGITransport(trio.shuffler_app))
        self.relay = Relay(RelayConfig(shuffler="http://shuffler"), self.to_gateway)
        self.to_relay = Watching(httpx2.ASGITransport(self.relay.app()))

    async def key(self) -> GatewayKey:
        """The gateway's key, as everybody can get it."""
        answer = await self.trio.to_shuffler.get(GATEWAY)
        size = int.from_bytes(answer.content[:2], "big")
        return GatewayKey.from_hex(answer.content[2 : 2 + size].hex())

    async def task(self, **options: Any) -> Task:
        """A registered task for reports through the relay."""
        task = self.trio.task(gateway=await self.key(), **options)
        await self.trio.register(task)
        return task

    def device(self, task: Task, token: str, name: str, **options: Any) -> AsyncClient:
        """A device that sends through the relay."""
        given = {"transport": ByHost({"relay": self.to_relay}), "relay": "http://relay", **options}
        folder = self.trio.folder / name
        return AsyncClient(task, "http://shuffler", token, folder, policy=TRUSTING, **given)

    async def post(self, key: GatewayKey, inner: bytes) -> httpx2.Response:
        """The gateway's answer to a sealed request."""
        content = seal_request(key, inner)[0]
        return await self.trio.to_shuffler.post(GATEWAY, content=content)

    async def through(self, task: Task, method: str, path: str, **content: Any) -> httpx2.Response:
        """The shuffler's answer to a request through the relay."""
        inner = AsyncConnection(ByHost({"relay": self.to_relay}), bare=True)
        connection = RelayedConnection(gateway_of(task), "http://shuffler", "http://relay", inner)
        return await connection.request(method, f"http://shuffler{path}", **content)


@contextlib.asynccontextmanager
async def relayed(folder: Path) -> AsyncIterator[Relayed]:
    """A trio and a relay while they run."""
    async with Trio(folder).running() as trio:
        one = Relayed(trio)
        async with one.relay.running():
            yield one

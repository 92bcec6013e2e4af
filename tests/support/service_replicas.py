"""Several shuffler processes on one store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx2
from service_trio import Trio, bearing

from shuffledp.service.shuffler.app import Shuffler
from shuffledp.tasks.task import Task


class Replicas:
    """Shufflers that share the store of a trio, with a client for each."""

    def __init__(self, trio: Trio) -> None:
        self.trio = trio
        self.servers: list[Shuffler] = []
        self.clients: list[httpx2.AsyncClient] = []

    async def post(self, at: int, task: Task, body: bytes, token: str) -> httpx2.Response:
        """The answer of one of them to an upload."""
        for _ in range(600):
            answer = await self.clients[at].post(
                f"/tasks/{task.id.hex()}/reports", content=body, headers=bearing(token)
            )
            if answer.status_code != 503:  # a busy machine
                break
            await asyncio.sleep(0.1)
        return answer


@contextlib.asynccontextmanager
async def replicas(trio: Trio, count: int = 3) -> AsyncIterator[Replicas]:
    """An analyzer and `count` shufflers on one store; the trio's own shuffler is the first."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(trio.running())
        found = Replicas(trio)
        found.servers.append(trio.shuffler)
        found.clients.append(trio.to_shuffler)
        for _ in range(count - 1):
            server = Shuffler(trio.shuffler_config, trio.analyzer_transport, trio.clock)
            await server.start()
            stack.push_async_callback(server.stop)
            client = httpx2.AsyncClient(
                transport=httpx2.ASGITransport(server.app()), base_url="http://shuffler", timeout=60
            )
            found.servers.append(server)
            found.clients.append(await stack.enter_async_context(client))
        yield found

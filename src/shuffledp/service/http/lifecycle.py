"""Running a server until SIGTERM: it refuses new work first, then finishes and ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
from collections.abc import Iterator
from types import FrameType
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from shuffledp.service.http.config import ServerConfig, host_and_port
from shuffledp.service.http.connections import Connections
from shuffledp.service.http.logs import start_logs
from shuffledp.service.http.role import Role
from shuffledp.service.http.server import Server

THREAD_SWITCH_SECONDS = 0.001
"""How long the event loop runs before the store's thread may go on; Python's default of 0.005 costs
about a tenth of the uploads."""


COLLECT_OBJECTS = 10_000
"""New objects between two searches for reference cycles. Requests leave no cycles behind, and
Python's default of 700 spends a tenth of an upload's CPU time on searching."""
MOST_BACKLOG = 1024
"""How many connections the operating system queues until the server accepts them."""


class DrainingServer(uvicorn.Server):
    """A server whose /readyz says 503 from the first signal on, `drain_seconds` before the port
    closes."""

    def __init__(self, config: uvicorn.Config, role: Server) -> None:
        super().__init__(config)
        self._role = role
        self._operators: asyncio.Task[None] | None = None
        self._operators_server: OperatorsServer | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # uvicorn's name
        await super().startup(sockets)
        gc.freeze()  # modules and tasks: they stay, so no search needs to visit them
        role, listen = self._role, self._role.server_config.operators_listen
        if isinstance(role, Role) and listen and self.started and not self.should_exit:
            config = uvicorn_config(
                role.server_config, role.operators_app(), role.operators_connections, listen=listen
            )
            self._operators_server = OperatorsServer(config)
            self._operators = asyncio.create_task(self._operators_server.serve())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # uvicorn's name
        if self._operators is not None and self._operators_server is not None:
            self._operators_server.should_exit = True
            await self._operators
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # uvicorn's name
        if self._role.draining:
            super().handle_exit(sig, frame)
            return
        self._role.draining = True
        loop = asyncio.get_event_loop()
        loop.call_later(self._role.server_config.drain_seconds, super().handle_exit, sig, frame)


class OperatorsServer(uvicorn.Server):
    """The operators' server of a role, which starts and stops with the public one."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:  # uvicorn's name; the other server has the signals
        yield


def serve(role: Server, sockets: list[socket.socket] | None = None) -> None:
    """Runs a server until SIGTERM or SIGINT, on given listening sockets, if any."""
    start_logs()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    gc.set_threshold(COLLECT_OBJECTS)
    config = uvicorn_config(role.server_config, role.app(), role.connections)
    DrainingServer(config, role).run(sockets)


def bound_socket(listen: str) -> socket.socket:
    """A new socket, bound to an address like 127.0.0.1:8801."""
    host, port = host_and_port(listen)
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made


def uvicorn_config(
    settings: ServerConfig,
    app: ASGIApp,
    connections: Connections,
    *,
    listen: str = "",
) -> uvicorn.Config:
    """How uvicorn serves an application, at the public address unless another one is given."""
    host, port = host_and_port(listen or settings.listen)
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=cast("type[asyncio.Protocol]", connections.protocol),
        ws="none",
        interface="asgi3",
        backlog=min(settings.most_connections, MOST_BACKLOG),
        loop="auto",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_graceful_shutdown=10,
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
    )

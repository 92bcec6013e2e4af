"""Running a server until SIGTERM: it refuses new work first, then finishes and ends."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType

import uvicorn

from shuffledp.service.web.connections import bounded_protocol
from shuffledp.service.web.logs import start_logs
from shuffledp.service.web.role import Role

THREAD_SWITCH_SECONDS = 0.001
"""How long the event loop runs before the store's thread may go on; Python's own 0.005 costs about
a tenth of the uploads."""


MOST_BACKLOG = 1024
"""Connections that the operating system holds until the server takes them."""


class DrainingServer(uvicorn.Server):
    """A server whose /readyz says 503 from the first signal on, `drain_seconds` before the port
    closes."""

    def __init__(self, config: uvicorn.Config, role: Role) -> None:
        super().__init__(config)
        self._role = role

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # uvicorn's name
        if self._role.draining:
            super().handle_exit(sig, frame)
            return
        self._role.draining = True
        loop = asyncio.get_event_loop()
        loop.call_later(self._role.server_config.drain_seconds, super().handle_exit, sig, frame)


def serve(role: Role) -> None:
    """Runs a server until SIGTERM or SIGINT."""
    start_logs()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    settings = role.server_config
    config = uvicorn.Config(
        role.app(),
        host=settings.host,
        port=settings.port,
        http=bounded_protocol(role.connections),
        ws="none",
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
    DrainingServer(config, role).run()

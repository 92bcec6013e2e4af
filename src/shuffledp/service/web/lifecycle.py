"""Running a server until it is told to stop: SIGTERM drains, then everything ends in order."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType

import uvicorn

from shuffledp.service.web.logs import start_logs
from shuffledp.service.web.role import Role


class DrainingServer(uvicorn.Server):
    """From the first signal on /readyz says 503; a moment later the port closes."""

    def __init__(self, config: uvicorn.Config, role: Role) -> None:
        super().__init__(config)
        self._role = role

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # uvicorn's name
        if self._role.draining:
            super().handle_exit(sig, frame)
            return
        self._role.draining = True
        loop = asyncio.get_event_loop()
        loop.call_later(self._role.base.drain_seconds, super().handle_exit, sig, frame)


THREAD_SWITCH = 0.001
"""Seconds after which the event loop lets the store's thread go on; Python's own 0.005 costs
about a tenth of the uploads."""


def serve(role: Role) -> None:
    """Serves until SIGTERM or SIGINT."""
    start_logs()
    sys.setswitchinterval(THREAD_SWITCH)
    base = role.base
    config = uvicorn.Config(
        role.app(),
        host=base.host,
        port=base.port,
        http="httptools",
        loop="auto",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_graceful_shutdown=10,
        ssl_certfile=base.tls_certificate or None,
        ssl_keyfile=base.tls_key or None,
    )
    DrainingServer(config, role).run()


def serve_role(name: str, path: str | None) -> None:
    """Serves the shuffler or the analyzer as a configuration says."""
    from shuffledp.service.analyzer.app import Analyzer
    from shuffledp.service.shuffler.app import Shuffler
    from shuffledp.service.web.config import AnalyzerConfig, ShufflerConfig, load

    if name == "shuffler":
        serve(Shuffler(load(path, ShufflerConfig)))
    else:
        serve(Analyzer(load(path, AnalyzerConfig)))

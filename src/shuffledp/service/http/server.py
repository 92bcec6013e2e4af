"""What every server has: routes behind limits, an end that is announced first."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from shuffledp.service.http.config import ServerConfig
from shuffledp.service.http.connections import Connections, watched, with_short_heads
from shuffledp.service.http.logs import log, plain_reason
from shuffledp.service.http.metrics import Figure, Metrics
from shuffledp.service.http.operations import Operation, Served, application
from shuffledp.service.http.origins import Origins
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.rates import LIMITED, Rate


class Server(ABC):
    """A role or the relay: what `serve` runs."""

    name: ClassVar[str]
    about: ClassVar[str]
    """What the server does, in one line for its page."""

    def __init__(self, config: ServerConfig, figures: Sequence[Figure] = ()) -> None:
        self.server_config = config
        self.metrics = Metrics(self.name, (LIMITED, *figures))
        self.address_rate = Rate(config.address_requests_per_minute, "address", self.metrics)
        self.origins = Origins(config.allow_origins)
        self.connections = Connections(config)
        self.draining = False

    @abstractmethod
    async def start(self) -> None:
        """Opens what the server needs, and starts its background work."""

    @abstractmethod
    async def stop(self) -> None:
        """Ends the background work and closes everything."""

    @abstractmethod
    def served(self) -> list[Served]:
        """All routes, at whichever address."""

    @abstractmethod
    async def answer_ready(self, request: Request) -> Response:
        """Whether the server can answer requests."""

    def public_routes(self) -> list[Served]:
        """The routes at the public address."""
        return self.served()

    def before_routes(self, app: ASGIApp) -> ASGIApp:
        """The application with what is answered without going through the routes."""
        return app

    def operations(self) -> list[Operation]:
        """Everything that this server answers."""
        return [one.operation for one in self.served()]

    async def answer_alive(self, _: Request) -> Response:
        """The server runs."""
        return PlainTextResponse("alive\n")

    def refuse_while_draining(self) -> None:
        """Raises a 503 from the signal to stop on."""
        if self.draining:
            raise Problem(
                503,
                "draining",
                f"The {self.name} is shutting down; use another or wait.",
                retry_after=5,
            )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The server while it runs."""
        try:
            await self.start()
        except Exception as error:
            log("cannot start", level="error", role=self.name, reason=plain_reason(error))
            raise
        log("started", role=self.name, listen=self.server_config.listen)
        try:
            yield
        finally:
            await self.stop()
            log("stopped", role=self.name)

    def app(self) -> ASGIApp:
        """The ASGI application at the public address."""

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with self.running():
                yield

        app = application(self.public_routes())
        app.router.lifespan_context = lifespan
        routed = self.address_rate.around(self.before_routes(app))
        return watched(self.origins.around(with_short_heads(routed)))

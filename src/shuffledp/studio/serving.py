"""Running the studio on this machine until it is interrupted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from shuffledp.errors import ParameterError
from shuffledp.studio.access import Access
from shuffledp.studio.app import Studio


def listening(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 means any free one."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError as error:
        found.close()
        raise ParameterError(
            f"Port {port} cannot be used ({error.strerror}); leave --port out, or name another."
        ) from None
    return found


class LocalServer(uvicorn.Server):
    """A server that ends all work in progress with the first signal, so that nobody waits."""

    def __init__(self, config: uvicorn.Config, studio: Studio) -> None:
        super().__init__(config)
        self._studio = studio
        self._ending: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # uvicorn's name
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._studio.workers.close())
        super().handle_exit(sig, frame)


def serve(port: int, opened: Callable[[str], None]) -> None:
    """Runs the studio; `opened` is told its link once it answers."""
    taken = listening(port)
    studio = Studio()
    access = Access(studio.app(), taken.getsockname()[1])
    config = uvicorn.Config(
        access,
        access_log=False,
        log_level="warning",
        ws="none",
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    server = LocalServer(config, studio)

    async def run() -> None:
        working = asyncio.create_task(server.serve(sockets=[taken]))
        while not server.started and not working.done():
            await asyncio.sleep(0.02)
        if server.started:
            opened(access.link)
        await working

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass
    finally:
        taken.close()

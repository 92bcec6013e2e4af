"""Running the studio on this machine until it is interrupted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

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


def serve(port: int, opened: Callable[[str], None]) -> None:
    """Runs the studio; `opened` is told its link once it answers."""
    taken = listening(port)
    access = Access(Studio().app(), taken.getsockname()[1])
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
    server = uvicorn.Server(config)

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

"""HTTP connections for code that is written once, as coroutines.

`AsyncConnection` awaits the network. `BlockingConnection` has the same methods, but none of them
ever suspends, so `run_blocking` can run such a coroutine to its end in an ordinary call: without an
event loop, in the caller's thread, with Ctrl-C as usual, and even inside a notebook's running loop.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

import httpx2

from shuffledp.service.answers import (
    MOST_ANSWER_BYTES,
    bounded_request,
    bounded_request_async,
)

T = TypeVar("T")
P = ParamSpec("P")
DEFAULT_SECONDS = 30.0
"""How long a device waits for a server."""


@lru_cache(maxsize=1)
def trusted_certificates() -> ssl.SSLContext:
    """The certificates that clients trust, read only once because that is slow."""
    return httpx2.create_ssl_context()


class Connection(ABC):
    """Sends requests to servers; a context for coroutines that need a server, time or threads."""

    @abstractmethod
    async def request(
        self, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
    ) -> httpx2.Response:
        """A server's answer; raises `AnswerTooLong` if it has more than `most` bytes. `content` is
        what `httpx2.Request` accepts: headers, content, json."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Waits."""

    @abstractmethod
    async def compute(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Calls a function that takes long to compute or writes to a disk."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the connection."""


class BlockingConnection(Connection):
    """A connection whose coroutines never suspend; `with` closes it at the end. With `bare`,
    requests have only the headers that are given."""

    def __init__(
        self,
        transport: httpx2.BaseTransport | None = None,
        *,
        seconds: float = DEFAULT_SECONDS,
        bare: bool = False,
    ) -> None:
        self._http = httpx2.Client(
            transport=transport, timeout=seconds, verify=trusted_certificates()
        )
        if bare:
            self._http.headers.clear()

    async def request(
        self, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
    ) -> httpx2.Response:
        return bounded_request(self._http, method, url, most, **content)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def compute(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        return function(*args, **options)

    async def close(self) -> None:
        self._http.close()

    def __enter__(self) -> BlockingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


class AsyncConnection(Connection):
    """A connection in an event loop; `compute` uses a thread. With `bare`, requests have only the
    headers that are given."""

    def __init__(
        self,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        seconds: float = DEFAULT_SECONDS,
        bare: bool = False,
    ) -> None:
        self._http = httpx2.AsyncClient(
            transport=transport, timeout=seconds, verify=trusted_certificates()
        )
        if bare:
            self._http.headers.clear()

    async def request(
        self, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
    ) -> httpx2.Response:
        return await bounded_request_async(self._http, method, url, most, **content)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def compute(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **options)

    async def close(self) -> None:
        await self._http.aclose()

"""The connections of a server, with limits on their number, size and duration.

`BoundedProtocol` is uvicorn's HTTP protocol with these limits. A peer that exceeds one gets a short
response and is disconnected; nothing about it is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from shuffledp.service.http.config import ServerConfig
from shuffledp.service.http.origins import Origins
from shuffledp.service.http.problems import Problem

MOST_URL_BYTES = 2_048
MOST_HEADER_BYTES = 16 << 10
"""The most bytes of all headers of a request, names and values."""
MOST_HEADERS = 64
MOST_PIPELINED = 16
"""The most requests of one connection that may wait."""
MOST_IGNORED_BYTES = 1 << 20
"""The most bytes of a body after its request was answered; then the connection is closed."""
LEAST_BYTES_PER_SECOND = 64 << 10
"""A request may take its seconds, and one more second per this many received bytes; its declared
length does not count."""
SWEEP_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """How many connections a server accepts, and how long requests may take."""

    most: int
    most_per_address: int
    idle_seconds: float
    """Seconds without a byte while a request arrives or its response is sent."""
    request_seconds: float
    """Seconds from a request's first byte to its last."""

    @classmethod
    def of(cls, config: ServerConfig) -> ConnectionLimits:
        """The limits in a server's configuration."""
        return cls(
            most=config.most_connections,
            most_per_address=config.most_connections_per_address,
            idle_seconds=config.idle_seconds,
            request_seconds=config.request_seconds,
        )


class Connections:
    """All open connections of a server; the slow ones are closed."""

    def __init__(self, limits: ConnectionLimits, origins: Origins) -> None:
        self.limits, self.origins = limits, origins
        self.open: set[BoundedProtocol] = set()
        self._per_address: Counter[str] = Counter()

    def admit(self, connection: BoundedProtocol) -> bool:
        """Counts a new connection; False if there are too many."""
        address = connection.address
        if (
            len(self.open) >= self.limits.most
            or self._per_address[address] >= self.limits.most_per_address
        ):
            return False
        self.open.add(connection)
        self._per_address[address] += 1
        return True

    def forget(self, connection: BoundedProtocol) -> None:
        """Removes a connection that has ended from the count."""
        if connection in self.open:
            self.open.discard(connection)
            self._per_address[connection.address] -= 1
            if not self._per_address[connection.address]:
                del self._per_address[connection.address]

    async def sweep(self) -> None:
        """Closes connections whose time is over, until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            now = clock()
            for connection in list(self.open):
                connection.end_if_late(now)
            await asyncio.sleep(SWEEP_SECONDS)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. uvicorn calls its methods; the limits are those of `registry`."""

    registry: Connections
    """Set by `bounded_protocol`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        self._ended = False
        """Whether it was refused; further bytes are ignored."""
        self.url = b""
        self._limits = self.registry.limits
        self._heading = True
        """Whether a request's URL and headers are still to come."""
        self._header_bytes = 0
        self._ignored_bytes = 0
        self._received = 0
        """Bytes of the arriving request."""
        self._last_byte = self._begun = self.loop.time()
        self._seconds: float = self._limits.request_seconds
        self._arriving = True
        """Whether bytes of a request are awaited: at first, and until it is complete."""
        self._write_paused_since: float | None = None

    # what uvicorn and the transport call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self.registry.admit(self):
            self._end(503, "connections", "Too many connections; try again later.")

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._last_byte = now = self.loop.time()
        self._received += len(data)
        if self._heading:
            if not self._header_bytes:
                self._begun, self._arriving, self._received = now, True, len(data)
                self._seconds = self._limits.request_seconds
            self._header_bytes += len(data)
        self._feed(data)
        if self._heading and self._header_bytes > MOST_URL_BYTES + MOST_HEADER_BYTES:
            self._end_long_head()

    def _feed(self, data: bytes) -> None:
        """Parses what came. A request without a body that offers another protocol (as Java's client
        does with HTTP/2) is answered like any other, and the connection goes on as HTTP/1.1."""
        self._unset_keepalive_if_required()
        try:
            while data and not self._ended:
                try:
                    self.parser.feed_data(data)
                    return
                except httptools.HttpParserUpgrade as offer:
                    self.parser = _new_parser(self)  # the old one reads no more
                    data = data[offer.args[0] :]
        except httptools.HttpParserError:
            if self.cycle is not None and self.cycle.response_started and not self._answered():
                self.transport.close()
            else:
                self._end(400, "http", "This is not an HTTP request.")

    def _answered(self) -> bool:
        return self.cycle is not None and bool(self.cycle.response_complete)

    def on_headers_complete(self) -> None:
        self._heading = False
        if self._ended:
            return
        # a few bytes have a short head; otherwise its headers are counted
        long = self._header_bytes > MOST_HEADER_BYTES and self._head_size() > MOST_HEADER_BYTES
        if long or len(self.url) > MOST_URL_BYTES or len(self.headers) > MOST_HEADERS:
            self._end_long_head()
        elif self.parser.should_upgrade() and self._declared():
            self._end(400, "upgrade", "Send a body without an Upgrade header, by HTTP/1.1.")
        elif len(self.pipeline) >= MOST_PIPELINED:
            self._end(429, "pipelined", "Too many requests at once; wait for the answers.")
        else:
            super().on_headers_complete()

    # The next two do the same as uvicorn's, without checks for WebSockets, which are not used.

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle is None or self._ended:
            return
        if cycle.response_complete:
            self._ignored_bytes += len(body)
            if self._ignored_bytes > MOST_IGNORED_BYTES:
                self.transport.abort()
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._heading, self._header_bytes, self._ignored_bytes = True, 0, 0
        self._arriving = False
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def pause_writing(self) -> None:
        self._write_paused_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._write_paused_since = None
        super().resume_writing()

    # the limits

    def end_if_late(self, now: float) -> None:
        """Ends the connection if its time is over."""
        paused = self._write_paused_since
        if paused is not None and now - paused > self._limits.idle_seconds:
            self.transport.abort()
        elif self._arriving and (
            (now - self._last_byte > self._limits.idle_seconds and not self.flow.read_paused)
            or now - self._begun > self._seconds + self._received / LEAST_BYTES_PER_SECOND
        ):
            self._end_late()

    def _end_late(self) -> None:
        if self.transport.is_closing():  # it was told, but does not read the response
            self.transport.abort()
        elif self.cycle is not None and self.cycle.response_started:
            self.transport.close()
        else:
            self._end(408, "slow", "The request took too long to arrive; send the same again.")

    def _head_size(self) -> int:
        """Bytes of the headers' names and values."""
        return sum(len(name) + len(value) for name, value in self.headers)

    def _end_long_head(self) -> None:
        if len(self.url) > MOST_URL_BYTES:
            self._end(414, "url", f"A URL has at most {MOST_URL_BYTES:,} bytes here.")
            return
        self._end(
            431,
            "headers",
            f"A request has at most {MOST_HEADERS} headers of {MOST_HEADER_BYTES:,} bytes in all.",
        )

    def _declared(self) -> int:
        """The length that the request's headers declare; 0 if none, or none that can be read."""
        for name, value in self.headers or ():
            if name == b"content-length" and len(value) <= 15 and value.isdigit():
                return int(value)
        return 0

    def _end(self, status: int, code: str, detail: str) -> None:
        """Answers once and closes the connection."""
        if self._ended or self.transport.is_closing():
            return
        self._ended = True
        body = bytes(Problem(status, code, detail).response().body)
        said = self.registry.origins.headers(getattr(self, "headers", None) or [])
        self.transport.write(
            STATUS_LINE[status]
            + b"".join(b"%s: %s\r\n" % header for header in said)
            + b"content-type: application/problem+json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body
        )
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.pipeline.clear()
        self.transport.close()


def _new_parser(connection: BoundedProtocol) -> Any:
    """A parser like uvicorn's: anything after a request that closes is ignored."""
    parser = httptools.HttpRequestParser(connection)
    with contextlib.suppress(AttributeError):  # httptools before 0.6.3
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def bounded_protocol(registry: Connections) -> type[asyncio.Protocol]:
    """The protocol class whose connections are those of a registry, as uvicorn takes it."""
    return cast(
        "type[asyncio.Protocol]", type("Bounded", (BoundedProtocol,), {"registry": registry})
    )

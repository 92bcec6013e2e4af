"""How fast one address or one token may send requests: each has an allowance that refills.

Addresses and hashes of tokens are kept only in memory, until their allowance is full again.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from shuffledp.service.http.metrics import Counts, Metrics
from shuffledp.service.http.problems import Problem

MOST_NAMES = 100_000
"""The most addresses or tokens that are remembered at a time; beyond that, the oldest are
forgotten."""
NETWORK_BITS = 64
"""An IPv6 address counts by its network: one subscriber has enough addresses that each could be
used once."""
SECONDS_PER_MINUTE = 60.0
LIMITED = Counts("limited", "Requests refused because they came too fast", ("by",))


class Rate:
    """A number of requests per minute for each name; after a pause, a minute's worth at once."""

    def __init__(
        self,
        per_minute: int,
        by: str,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._by = per_minute, by
        self._metrics, self._clock = metrics, clock
        self._full_at: dict[str | bytes, float] = {}
        """When the allowance of each name is full again, oldest request first."""

    def check(self, name: str | bytes) -> None:
        """Takes one request from the allowance of a name; a 429 if none is left. A limit of 0 means
        none."""
        if self._most == 0:
            return
        now, each = self._clock(), SECONDS_PER_MINUTE / self._most
        full = max(self._full_at.pop(name, now), now)
        wait = full + each - now - SECONDS_PER_MINUTE
        if wait > 0:
            self._full_at[name] = full
            self._metrics.count("limited", by=self._by)
            raise Problem(
                429,
                "rate",
                f"More than {self._most:,} requests per minute; send the same again later.",
                retry_after=math.ceil(wait),
            )
        self._full_at[name] = full + each
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Forgets the oldest names whose allowance is full, and those beyond the limit."""
        for _ in range(2):
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now and len(self._full_at) <= MOST_NAMES:
                return
            del self._full_at[oldest]
            if not self._full_at:
                return

    def around(self, app: ASGIApp) -> ASGIApp:
        """An application that answers each address as often as this rate allows."""
        if self._most == 0:
            return app

        async def limited(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                try:
                    self.check(network(scope["client"][0] if scope["client"] else ""))
                except Problem as problem:
                    await problem.response()(scope, receive, send)
                    return
            await app(scope, receive, send)

        return limited


def network(address: str) -> str:
    """What an address is counted by: itself, or of IPv6 its network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network(f"{address.partition('%')[0]}/{NETWORK_BITS}", strict=False))

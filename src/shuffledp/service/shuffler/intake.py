"""Uploads wait here for one durable commit together; the queue is bounded."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from shuffledp.service.metrics import Metrics
from shuffledp.service.problems import Problem
from shuffledp.service.shuffler.store import Arrival, ShufflerStore, Verdict

MOST_AT_ONCE = 512


class Intake:
    """Collects what arrives while the last commit runs, and commits it in one go."""

    def __init__(
        self, store: ShufflerStore, limit: int, metrics: Metrics, after: Callable[[], None]
    ) -> None:
        self._store, self._limit, self._metrics, self._after = store, limit, metrics, after
        self._waiting: list[tuple[Arrival, asyncio.Future[Verdict]]] = []
        self._wake = asyncio.Event()
        self._closing = False
        self.timed: frozenset[int] = frozenset()
        """Tasks for which the time of the first waiting report matters."""

    async def submit(self, arrival: Arrival) -> Verdict:
        """The verdict on an upload, once it is durable; 429 if too many wait already."""
        if len(self._waiting) >= self._limit:
            raise Problem(
                429, "busy", "Too many uploads wait for the disk; send the same again later.",
                retry_after=1,
            )
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((arrival, future))
        self._wake.set()
        verdict: Verdict = await future
        return verdict

    async def run(self) -> None:
        """Commits until `close`; then what is left, and ends."""
        while not (self._closing and not self._waiting):
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                taken = self._waiting[:MOST_AT_ONCE]
                del self._waiting[:MOST_AT_ONCE]
                await self._commit(taken)
                self._after()

    async def _commit(self, taken: list[tuple[Arrival, asyncio.Future[Verdict]]]) -> None:
        begin = time.perf_counter()
        arrivals = [arrival for arrival, _ in taken]
        timed = self.timed & {arrival.task for arrival in arrivals}
        try:
            verdicts = await self._store.accept(arrivals, timed)
        except Exception as error:
            for _, future in taken:
                if not future.done():
                    future.set_exception(error)
            return
        self._metrics.time("commit_seconds", time.perf_counter() - begin)
        self._count(arrivals, verdicts)
        for (_, future), verdict in zip(taken, verdicts, strict=True):
            if not future.done():
                future.set_result(verdict)

    def _count(self, arrivals: list[Arrival], verdicts: list[Verdict]) -> None:
        counts = Counter(zip((one.task for one in arrivals), verdicts, strict=True))
        for (task, verdict), count in counts.items():
            self._metrics.count("uploads", count, task=str(task), verdict=verdict.value)

    def close(self) -> None:
        """Lets `run` end when nothing waits any more."""
        self._closing = True
        self._wake.set()

"""The queue of uploads, which are committed many at a time; its length is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque

from shuffledp.service.http.metrics import Counts, Figures, Seconds
from shuffledp.service.http.problems import Problem
from shuffledp.service.shuffler.arrivals import Arrival, Verdict
from shuffledp.service.shuffler.lane import Lane

MOST_PER_COMMIT = 512
Waiting = tuple[Arrival, "asyncio.Future[Verdict]"]


INTAKE_FIGURES = (
    Counts("uploads", "Reports that were uploaded, by what became of them", ("task", "verdict")),
    Seconds("commit_seconds", "How long it took to make uploads durable, many at once"),
)


class Intake:
    """Collects the uploads that arrive while a commit runs, and commits them together."""

    def __init__(self, lane: Lane, limit: int, metrics: Figures) -> None:
        self.lane, self._limit, self._metrics = lane, limit, metrics
        self._waiting: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._unsettled: set[asyncio.Future[Verdict]] = set()

    async def submit(self, arrival: Arrival) -> Verdict:
        """The verdict on an upload, after it is durable; a 429 if too many uploads wait."""
        if self._closing:
            raise Problem(
                503, "draining", "The server is shutting down; send the same again.", retry_after=5
            )
        if len(self._waiting) >= self._limit:
            raise Problem(
                429,
                "busy",
                "Too many uploads wait for the disk; send the same again later.",
                retry_after=1,
            )
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((arrival, future))
        self._wake.set()
        self._unsettled.add(future)
        try:
            verdict: Verdict = await future
        finally:
            self._unsettled.discard(future)
        return verdict

    async def settled(self) -> None:
        """Returns when there is a verdict on every upload that waits now."""
        if self._unsettled:
            await asyncio.wait(list(self._unsettled))

    async def run(self) -> None:
        """Commits uploads until `close` was called and none is left.

        Two loops take turns: while one commits, the other already waits for the database, and takes
        all waiting uploads when its turn comes. So the disk never waits for the event loop.
        """
        await asyncio.gather(self._commit_all(), self._commit_all(), self.lane.run_settling())

    async def _commit_all(self) -> None:
        while not (self._closing and not self._waiting):
            await self._wake.wait()
            while self._waiting:
                await self._commit()
            if not self._closing:
                self._wake.clear()

    def _take(self) -> list[Waiting]:
        """The uploads to commit next, taken one by one: the store's thread calls this too."""
        taken: list[Waiting] = []
        with contextlib.suppress(IndexError):
            while len(taken) < MOST_PER_COMMIT:
                taken.append(self._waiting.popleft())
        return taken

    async def _commit(self) -> None:
        taken: list[Waiting] = []

        def take() -> list[Arrival]:
            taken.extend(self._take())
            return [arrival for arrival, _ in taken]

        begin = time.perf_counter()
        try:
            verdicts = await self.lane.accept(take)
        except Exception as error:
            for _, future in (
                taken or self._take()
            ):  # if none was taken yet, those that wait fail too
                if not future.done():
                    future.set_exception(error)
            return
        self._metrics.time("commit_seconds", time.perf_counter() - begin)
        self._count([arrival for arrival, _ in taken], verdicts)
        for (_, future), verdict in zip(taken, verdicts, strict=True):
            if not future.done():
                future.set_result(verdict)

    def _count(self, arrivals: list[Arrival], verdicts: list[Verdict]) -> None:
        counts = Counter(zip((one.task for one in arrivals), verdicts, strict=True))
        for (task, verdict), count in counts.items():
            self._metrics.count("uploads", count, task=str(task), verdict=verdict.value)

    def close(self) -> None:
        """Lets `run` end when no upload waits any more."""
        self._closing = True
        self._wake.set()

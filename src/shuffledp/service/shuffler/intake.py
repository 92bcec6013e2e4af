"""The queue of uploads, which are committed many at a time; its length is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque

from shuffledp.service.http.metrics import Counts, Metrics, Seconds
from shuffledp.service.http.problems import Problem
from shuffledp.service.shuffler.accepting import Accepting
from shuffledp.service.shuffler.arrivals import Arrival, Verdict

MOST_PER_COMMIT = 512
Waiting = tuple[Arrival, "asyncio.Future[Verdict]"]


INTAKE_FIGURES = (
    Counts("uploads", "Uploaded reports, by outcome", ("task", "verdict")),
    Seconds("commit_seconds", "How long it took to make uploads durable, many at once"),
)


class Intake:
    """Collects the uploads that arrive while a commit runs, and commits them together."""

    def __init__(self, accepting: Accepting, limit: int, metrics: Metrics) -> None:
        self._accepting, self._limit, self._metrics = accepting, limit, metrics
        self._waiting: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
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
        if self._loop is None:  # asking for it costs a system call
            self._loop = asyncio.get_running_loop()
        future = self._loop.create_future()
        self._waiting.append((arrival, future))
        self._wake.set()
        self._unsettled.add(future)
        try:
            verdict: Verdict = await future
        finally:
            self._unsettled.discard(future)
        return verdict

    async def settled(self) -> None:
        """Returns when every upload that waits now has a verdict."""
        if self._unsettled:
            await asyncio.wait(list(self._unsettled))

    async def run(self) -> None:
        """Commits uploads until `close` was called and none is left.

        Two loops take turns: while one commits to SQLite, the other already checks and encrypts. On
        a shared store the second one waits for its turn (`Accepting`).
        """
        await asyncio.gather(self._commit_all(), self._commit_all())

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
        verdicts: list[Verdict | Exception]

        def take() -> list[Arrival]:
            taken.extend(self._take())
            return [arrival for arrival, _ in taken]

        begin = time.perf_counter()
        try:
            verdicts = await self._accepting.accept_all(take)
        except Exception as error:
            if not taken:  # those that wait fail too
                taken.extend(self._take())
            verdicts = [error] * len(taken)
        self._metrics.time("commit_seconds", time.perf_counter() - begin)
        self._count([arrival for arrival, _ in taken], verdicts)
        for (_, future), verdict in zip(taken, verdicts, strict=True):
            if future.done():
                continue
            if isinstance(verdict, Exception):
                future.set_exception(verdict)
            else:
                future.set_result(verdict)

    def _count(self, arrivals: list[Arrival], verdicts: list[Verdict | Exception]) -> None:
        counts = Counter(
            (one.task, verdict.value)
            for one, verdict in zip(arrivals, verdicts, strict=True)
            if isinstance(verdict, Verdict)
        )
        for (task, verdict), count in counts.items():
            self._metrics.count("uploads", count, task=str(task), verdict=verdict)

    def close(self) -> None:
        """Lets `run` end when no upload waits any more."""
        self._closing = True
        self._wake.set()

"""Work in other processes: the newest request wins, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from shuffledp.errors import ShuffleDPError
from shuffledp.studio.workers import LatestJob, Outdated, WorkerPool

LONG = {"question": "real-sum", "users": "1000000", "epsilon": "1", "error": "60", "low": "0"}
LONG |= {"confidence": "95", "find": "messages", "high": "100", "publish_noise": "yes"}
SHORT = {**LONG, "question": "count", "users": "1000"}


def with_workers(test: Callable[[WorkerPool], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        workers = WorkerPool()
        try:
            await test(workers)
        finally:
            everybody = set(workers._all)
            await workers.close()
            assert all(one.returncode is not None for one in everybody)

    asyncio.run(run())


async def items(job: LatestJob, form: dict[str, str]) -> list[dict[str, Any]]:
    rates = {name: 1000.0 for name in ("encrypted", "ordered", "opened", "tallied")}
    return [item async for item in job.run("plan", {"form": form, "rates": rates})]


def test_a_newer_request_replaces_an_older_one() -> None:
    async def test(workers: WorkerPool) -> None:
        job = LatestJob(workers)
        old = asyncio.create_task(items(job, LONG))
        while job._running is None or job._running.worker is None:
            await asyncio.sleep(0.05)
        worker = job._running.worker
        between = asyncio.create_task(items(job, LONG))
        await asyncio.sleep(0)
        found = await items(job, SHORT)
        assert any("fleet" in one for one in found) and found[0]["plan"]["query"] == "count"
        for outdated in (old, between):
            with pytest.raises(Outdated):
                await outdated
        with pytest.raises(ProcessLookupError):
            await worker.wait()
            os.kill(worker.pid, 0)

    with_workers(test)


class SlowPool(WorkerPool):
    """A pool whose processes come late; none of them is started."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: asyncio.Queue[Any] = asyncio.Queue()
        self.given_back: list[object] = []

    async def take(self) -> Process:
        process: Process = await self.coming.get()
        return process

    def give_back(self, process: Process) -> None:
        self.given_back.append(process)


def test_a_job_that_is_replaced_while_it_waits_for_a_process_never_begins() -> None:
    async def run() -> None:
        pool, process = SlowPool(), object()
        job = LatestJob(pool)
        old = asyncio.create_task(items(job, LONG))
        while job._running is None:
            await asyncio.sleep(0)
        replaced = job._running
        new = asyncio.create_task(items(job, SHORT))
        await replaced.over.wait()  # after its grace
        pool.coming.put_nowait(process)
        with pytest.raises(Outdated):
            await old
        assert pool.given_back == [process]
        new.cancel()
        await asyncio.gather(new, return_exceptions=True)

    asyncio.run(run())


def test_a_process_is_reused_and_refusals_are_passed_on() -> None:
    async def test(workers: WorkerPool) -> None:
        job = LatestJob(workers)
        await items(job, SHORT)
        (kept,) = workers._idle
        with pytest.raises(ShuffleDPError, match="The question must be one of"):
            await items(job, {**SHORT, "question": "nothing"})
        assert workers._idle == [kept]

    with_workers(test)


def test_a_process_that_ends_by_itself_is_said_so() -> None:
    """Else the page would wait forever."""

    async def test(workers: WorkerPool) -> None:
        job = LatestJob(workers)
        asking = asyncio.create_task(items(job, LONG))
        while job._running is None or job._running.worker is None:
            await asyncio.sleep(0.05)
        job._running.worker.kill()
        with pytest.raises(ShuffleDPError, match="has ended"):
            await asking
        (await workers.take()).kill()
        assert await items(job, SHORT)

    with_workers(test)


def test_a_caller_who_leaves_ends_the_work() -> None:
    async def test(workers: WorkerPool) -> None:
        job = LatestJob(workers)
        asking = asyncio.create_task(items(job, LONG))
        while job._running is None or job._running.worker is None:
            await asyncio.sleep(0.05)
        worker = job._running.worker
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert await worker.wait() != 0

    with_workers(test)


def test_jobs_at_once_have_two_processes_and_jobs_in_turn_share_one() -> None:
    """Also those of other tabs: else every tab would keep its processes until the end."""

    async def test(workers: WorkerPool) -> None:
        await asyncio.gather(*(items(LatestJob(workers), SHORT) for _ in range(2)))
        assert len(workers._idle) == 2
        for _ in range(3):
            await items(LatestJob(workers), SHORT)
        assert len(workers._all) <= 3  # one of them is the spare one

    with_workers(test)

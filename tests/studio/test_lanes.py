"""Work in other processes: the newest request wins, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from shuffledp.errors import ShuffleDPError
from shuffledp.studio.workers import Lane, Outdated, Workers

LONG = {"question": "real-sum", "users": "1000000", "epsilon": "1", "error": "60", "low": "0"}
LONG |= {"confidence": "95", "find": "messages", "high": "100", "publish_noise": "yes"}
SHORT = {**LONG, "question": "count", "users": "1000"}


def with_workers(test: Callable[[Workers], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        workers = Workers()
        try:
            await test(workers)
        finally:
            everybody = set(workers._all)
            await workers.close()
            assert all(one.returncode is not None for one in everybody)

    asyncio.run(run())


async def items(lane: Lane, form: dict[str, str]) -> list[dict[str, Any]]:
    rates = {name: 1000.0 for name in ("encrypted", "ordered", "opened", "tallied")}
    return [item async for item in lane.run("plan", {"form": form, "rates": rates})]


def test_a_newer_request_takes_the_place_of_an_older_one() -> None:
    async def test(workers: Workers) -> None:
        lane = Lane(workers)
        old = asyncio.create_task(items(lane, LONG))
        while lane._running is None or lane._running.worker is None:
            await asyncio.sleep(0.05)
        worker = lane._running.worker
        between = asyncio.create_task(items(lane, LONG))
        await asyncio.sleep(0)
        found = await items(lane, SHORT)
        assert any("fleet" in one for one in found) and found[0]["plan"]["query"] == "count"
        for outdated in (old, between):
            with pytest.raises(Outdated):
                await outdated
        with pytest.raises(ProcessLookupError):
            await worker.wait()
            os.kill(worker.pid, 0)

    with_workers(test)


def test_a_process_is_used_again_and_refusals_are_handed_on() -> None:
    async def test(workers: Workers) -> None:
        lane = Lane(workers)
        await items(lane, SHORT)
        kept = lane._kept
        with pytest.raises(ShuffleDPError, match="The question must be one of"):
            await items(lane, {**SHORT, "question": "nothing"})
        assert lane._kept is kept is not None

    with_workers(test)


def test_a_caller_who_leaves_ends_the_work() -> None:
    async def test(workers: Workers) -> None:
        lane = Lane(workers)
        job = asyncio.create_task(items(lane, LONG))
        while lane._running is None or lane._running.worker is None:
            await asyncio.sleep(0.05)
        worker = lane._running.worker
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        assert await worker.wait() != 0

    with_workers(test)


def test_two_lanes_have_two_processes() -> None:
    async def test(workers: Workers) -> None:
        lanes = Lane(workers), Lane(workers)
        await asyncio.gather(*(items(lane, SHORT) for lane in lanes))
        assert lanes[0]._kept is not lanes[1]._kept

    with_workers(test)

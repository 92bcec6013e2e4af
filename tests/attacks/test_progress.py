"""Counts that anyone could watch: they must not tell when a single report arrives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_programs import Programs
from service_trio import OPERATOR, Trio, bearing

from shuffledp.service.shuffler.progress import rounded
from shuffledp.tasks.task import Task

REPORTS = 200


async def seen_by_anyone(trio: Trio, task: Task) -> list[Any]:
    """Everything about a task that is shown without a token."""
    paths = ("/", "/status", "/current", f"/tasks/{task.id.hex()}/progress")
    found: list[Any] = [(await trio.to_shuffler.get(path)).text for path in paths]
    metrics = await trio.to_shuffler.get("/metrics")
    assert metrics.status_code == 401
    return [*found, metrics.text]


@pytest.mark.attack("an issuer that watches the count to see who used a token")
def test_a_report_changes_nothing_that_anyone_can_see(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task(cell="bounded", batch={"reports": REPORTS})
            await trio.register(task)
            await trio.upload(task, [1] * 45)
            before = await seen_by_anyone(trio, task)
            for _ in range(3):
                await trio.upload(task, [1])
                assert await seen_by_anyone(trio, task) == before
            assert (await trio.status(task))["have"] == 48  # the twin: operators see all of them
            where = f"/tasks/{task.id.hex()}/progress"
            shown = []
            for _ in range(3):  # as time passes: the look before the last one, rounded down
                await trio.shuffler.progress.look()
                shown.append((await trio.to_shuffler.get(where)).json()["have"])
            assert shown == [0, 40, 40]
            await trio.upload(task, [1] * 60)
            assert (await trio.to_shuffler.get(where)).json() == {
                "task": task.id.hex(),
                "have": 40,
                "need": REPORTS,
                "batches": 0,
            }

    asyncio.run(walk())


@pytest.mark.attack("an issuer that watches the count to see who used a token")
def test_closing_a_batch_does_not_show_at_once(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task(cell="bounded")
            await trio.register(task)
            before = await seen_by_anyone(trio, task)
            await trio.upload(task, [1] * 20)
            await trio.deleted(task)
            assert await seen_by_anyone(trio, task) == before
            await trio.shuffler.progress.look()
            await trio.shuffler.progress.look()
            answer = await trio.to_shuffler.get(f"/tasks/{task.id.hex()}/progress")
            assert answer.json()["batches"] == 1

    asyncio.run(walk())


def test_progress_is_rounded_down_to_tenths_and_tens() -> None:
    assert [rounded(have, 1000) for have in (0, 99, 100, 999)] == [0, 0, 100, 900]
    assert [rounded(have, 20) for have in (0, 9, 10, 19)] == [0, 0, 10, 10]


def test_exact_counts_are_at_the_operators_address(tmp_path: Path) -> None:
    from shuffledp.service.demo import free_port

    inside = f"127.0.0.1:{free_port()}"
    programs = Programs(Trio(tmp_path, operators_listen=inside))
    with programs.both() as (shuffler, _):
        task = programs.trio.task(cell="bounded", batch={"reports": REPORTS})
        programs.register(task)
        for path in ("/status", "/", "/metrics"):
            refused = httpx2.get(f"{shuffler}{path}", headers=bearing(OPERATOR), timeout=60)
            assert refused.status_code == 404
        assert httpx2.get(f"http://{inside}/status", timeout=60).json()["tasks"][0]["have"] == 0
        assert httpx2.get(f"http://{inside}/metrics", timeout=60).status_code == 200
        public = httpx2.get(f"{shuffler}/tasks/{task.id.hex()}/progress", timeout=60)
        assert public.json()["need"] == REPORTS

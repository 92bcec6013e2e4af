"""A histogram on a pooled cell as a task of the service: reports, a result, and the noise that the
shuffler and the analyzer add."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_trio import Trio

from shuffledp import plan_histogram
from shuffledp.tasks.opening import AllowedNumbers
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.results import PUBLISHED
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task, task_from_json

USERS = 20
ANSWERS = ["tea"] * 14 + ["milk"] * 6


def task_of(trio: Trio, batch: BatchRule | None = None, **options: Any) -> Task:
    plan = plan_histogram(USERS, 8, ["tea", "milk", "water"], padded=True, cell="pooled")
    key = trio.keys.all()[-1].public
    return Task.create(plan.to_dict(), key, "drinks", batch or BatchRule(USERS), **options)


@pytest.mark.parametrize(("noise", "top_up"), [("none", "none"), ("full", "full")])
def test_a_batch_becomes_a_result(tmp_path: Path, noise: str, top_up: str) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = task_of(trio, BatchRule(USERS, top_up=top_up), publish_noise=noise)
            assert task_from_json(task.canonical(), task.id) == task
            await trio.register(task)
            await trio.upload(task, ANSWERS)
            (result,) = await trio.results(task)
            PUBLISHED.check(result, "result")
            rows = result["result"]["buckets"]
            found = {row["label"]: row["estimate"] for row in rows}
            for label, true in (("tea", 14), ("milk", 6), ("water", 0)):
                assert abs(found[label] - true) < 10
            assert result["reports"] == USERS and not any(result["dropped"].values())

    asyncio.run(walk())


def test_every_report_is_equally_long_and_contains_bucket_numbers(tmp_path: Path) -> None:
    task = task_of(Trio(tmp_path))
    assert task.padding == "exact"
    sizes = {len(encrypt_report(task, drink)) for drink in ("tea", "milk", "water")}
    assert sizes == {task.report_bytes}
    allowed = AllowedNumbers.of(task.protocol)
    numbers = np.arange(2 * allowed.cells + 2)
    assert allowed.among(numbers).tolist() == [
        number % 2 == 1 and number < 2 * allowed.cells for number in numbers
    ]

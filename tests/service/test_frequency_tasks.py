"""Frequencies and heavy hitters as tasks of the service: reports, results, top-up, noise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_trio import Trio

from shuffledp import Plan, plan_frequencies, plan_heavy_hitters
from shuffledp.protocols.report import Report
from shuffledp.queries.heavy_hitters.protocol import HeavyHittersProtocol
from shuffledp.tasks.opening import AllowedNumbers, Tally
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.results import PUBLISHED, OpenedBatch, publish_batch
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task, task_from_json

USERS = 60
WORDS = ["tea"] * 50 + ["milk"] * 10
PLANS: dict[str, Plan[Any]] = {
    "table": plan_frequencies(USERS, 8, candidates=["tea", 'cof"fee', *map(str, range(10**4))]),
    "histogram": plan_frequencies(USERS, 8, candidates=["tea"]),
    "words": plan_heavy_hitters(USERS, 8),
}


def task_of(trio: Trio, plan: Plan[Any], **options: Any) -> Task:
    rule = BatchRule(USERS, **options.pop("batch", {}))
    key = trio.keys.all()[-1].public
    return Task.create(plan.to_dict(), key, "drinks", rule, **options)


@pytest.mark.parametrize("name", PLANS)
def test_a_batch_becomes_a_result(tmp_path: Path, name: str) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = task_of(trio, PLANS[name])
            assert task_from_json(task.canonical(), task.id) == task
            await trio.register(task)
            await trio.upload(task, WORDS)
            (result,) = await trio.results(task)
            PUBLISHED.check(result, "result")
            rows = result["result"]["buckets"]
            assert all(row["interval"][0] <= row["clipped"] <= row["interval"][1] for row in rows)
            if name != "words":
                assert rows[0]["label"] == "tea" and abs(rows[0]["estimate"] - 50) < 40
            assert result["reports"] == USERS and not any(result["dropped"].values())

    asyncio.run(walk())


@pytest.mark.parametrize("name", PLANS)
def test_every_report_is_equally_long_and_contains_bucket_numbers(
    tmp_path: Path, name: str
) -> None:
    task = task_of(Trio(tmp_path), PLANS[name])
    assert task.report_size <= 25
    sizes = {len(encrypt_report(task, drink)) for drink in ("tea", "milk", "")}
    assert sizes == {task.report_bytes}
    allowed = AllowedNumbers.of(task.protocol)
    numbers = np.arange(2 * allowed.cells + 2)
    assert allowed.among(numbers).tolist() == [
        number % 2 == 1 and number < 2 * allowed.cells for number in numbers
    ]


def opened(report: Report) -> OpenedBatch:
    return OpenedBatch(
        id=bytes(16),
        number=1,
        reports=USERS,
        noise_shares=report.users,
        tally=Tally(report.plus, report.minus),
    )


@pytest.mark.parametrize("noise", ["full", "none"])
def test_topped_up_and_noisy_batches_are_published(tmp_path: Path, noise: str) -> None:
    plan = PLANS["words"]
    what = plan.protocol
    assert isinstance(what, HeavyHittersProtocol)
    trio = Trio(tmp_path)
    task = task_of(trio, plan, batch={"top_up": "full"}, publish_noise=noise)
    report = what.aggregate(np.array(WORDS, object)) + what.top_up(USERS)
    shown = publish_batch(task, opened(report), key=trio.newest_key, ledger=None, confidence=0.95)
    assert shown["result"]["users"] == USERS and shown["noise_shares"] >= 2 * USERS

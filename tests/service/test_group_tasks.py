"""Answers by group and combinations of columns as tasks of the service."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chance import OUTSIDE
from service_trio import Trio

from shuffledp import certify, plan_by_group, plan_histogram
from shuffledp.plans.plan import Plan
from shuffledp.queries.histogram.result import combined
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.results import PUBLISHED, results_csv
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task, task_from_json

USERS = 30
ANSWERS: dict[str, dict[str, Any]] = {
    "count": {},
    "pooled count": {"cell": "pooled"},
    "sparse count": {"cell": "sparse", "max_messages": 12},
    "mean": {"answer": "mean", "bounds": (-2, 4), "rmse": 1},
}


@cache
def plan_of(answer: str) -> Plan[Any]:
    return plan_by_group(USERS, 8, ["may", "june"], **ANSWERS[answer], padded=True)


def task_of(trio: Trio, plan: Plan[Any], **options: Any) -> Task:
    key = trio.keys.all()[-1].public
    return Task.create(certify(plan.protocol).to_dict(), key, "groups", BatchRule(USERS), **options)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_batch_becomes_a_result_for_every_group(tmp_path: Path, answer: str) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = task_of(trio, plan_of(answer))
            assert task_from_json(task.canonical(), task.id) == task
            await trio.register(task)
            parse = task.protocol.parse
            given = ["may=1"] * 20 + ["june=0"] * 6 + ["june=1"] * 4
            await trio.upload(task, [parse(text) for text in given])
            (result,) = await trio.results(task)
            PUBLISHED.check(result, "result")
            shown = result["result"]
            assert shown["answer"] == answer.rsplit(maxsplit=1)[-1] and not shown["groups_public"]
            assert [row["label"] for row in shown["groups"]] == ["may", "june"]
            truth = [1.0, 0.4] if answer == "mean" else [20, 4]
            for row, true in zip(shown["groups"], truth, strict=True):
                low, high = row["joint_interval"]
                if answer == "mean":
                    assert low - 4 * shown["rmse"] <= true <= high + 4 * shown["rmse"]
                    continue
                assert low <= row["estimate"] <= high
                # shares of noise: those of the users, and as many of the analyzer
                protocol: Any = task.protocol
                least, most = protocol.digits[0].cell.error_range(2 * USERS, int(true), OUTSIDE)
                assert least <= row["estimate"] - true <= most
            assert "june," in results_csv([result])

    asyncio.run(walk())


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_report_is_equally_long(tmp_path: Path, answer: str) -> None:
    task = task_of(Trio(tmp_path), plan_of(answer))
    values = [("may", 0), ("may", 1), ("june", 1)]
    assert {len(encrypt_report(task, value)) for value in values} == {task.report_bytes}


def test_combinations_of_columns_are_a_task(tmp_path: Path) -> None:
    labels = combined([["DE", "FR"], ["walk", "bike"]])

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = task_of(trio, plan_histogram(USERS, 8, labels, padded=True))
            await trio.register(task)
            await trio.upload(task, ["DE × walk"] * 20 + ["FR × bike"] * 10)
            (result,) = await trio.results(task)
            PUBLISHED.check(result, "result")
            rows = result["result"]["buckets"]
            assert [row["label"] for row in rows] == list(labels)

    asyncio.run(walk())

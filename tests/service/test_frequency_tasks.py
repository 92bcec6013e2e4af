"""Frequencies as a task of the service: roll call, short groups, top-up, publishing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from service_trio import Trio

from shuffledp import certify, plan_count, plan_histogram
from shuffledp.cells.base import independent_cell
from shuffledp.protocols.report import Report
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.tasks.errors import BatchHeld
from shuffledp.tasks.opening import AllowedNumbers, Tally
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.results import PUBLISHED, OpenedBatch, publish_batch
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task, task_from_json

USERS = 40


def protocol(cells: int = 2) -> FrequenciesProtocol:
    """Two groups that need four of forty users each."""
    plan = (
        plan_count(4, 4, cell="bounded", rmse=4)
        if cells == 2
        else plan_histogram(4, 4, cells, cell="bounded", rmse=6)
    )
    return FrequenciesProtocol(
        epsilon=Fraction(4),
        reports=USERS,
        groups=2,
        cells_per_group=cells,
        cell=independent_cell(plan.protocol.cells[0]),
        spread=Fraction(2),
        hash_seed="07" * 32,
        candidates=("tea", "coffee"),
    )


def task_of(trio: Trio, what: FrequenciesProtocol, **options: object) -> Task:
    rule = BatchRule(USERS, **options.pop("batch", {}))  # type: ignore[arg-type]
    key = trio.keys.all()[-1].public
    return Task.create(certify(what).to_dict(), key, "drinks", rule, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [2, 4])
def test_a_batch_becomes_a_result_for_every_candidate(tmp_path: Path, cells: int) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = task_of(trio, protocol(cells))
            assert task_from_json(task.canonical(), task.id) == task
            await trio.register(task)
            await trio.upload(task, ["tea"] * 30 + ["milk"] * 10)
            (result,) = await trio.results(task)
            PUBLISHED.check(result, "result")
            rows = result["result"]["buckets"]
            assert [row["label"] for row in rows] == ["tea", "coffee"]
            assert all(row["interval"][0] <= row["clipped"] <= row["interval"][1] for row in rows)
            assert result["reports"] == USERS and not any(result["dropped"].values())

    asyncio.run(walk())


def test_every_report_is_equally_long_and_holds_numbers_of_one_group(tmp_path: Path) -> None:
    task = task_of(Trio(tmp_path), protocol(4))
    assert {len(encrypt_report(task, drink)) for drink in ("tea", "milk", "")} == {
        task.report_bytes
    }
    assert task.report_size == 1 + 4 * protocol(4).cell.most_messages  # type: ignore[operator]
    allowed = AllowedNumbers.of(task.protocol)
    cells = 2 * 4
    assert allowed.cells == cells + 2
    numbers = np.arange(2 * allowed.cells + 2)
    assert allowed.among(numbers).tolist() == [
        number % 2 == 1 and number < 2 * (cells + 2) for number in numbers
    ]


def opened(report: Report, bad: int = 0) -> OpenedBatch:
    tally = Tally(report.plus, report.minus)
    tally.dropped["unopened"] = bad
    return OpenedBatch(
        id=bytes(16), number=1, reports=USERS, noise_shares=report.users, tally=tally
    )


def batch_of(what: FrequenciesProtocol, present: tuple[int, int]) -> Report:
    """A batch in which the groups have so many users."""
    tally = np.zeros((2, what.cells_per_group), np.int64)
    tally[:, 0] = present
    return what.aggregate_tally(tally.ravel())


@pytest.mark.parametrize("noise", ["full", "none"])
def test_a_short_group_is_held_also_where_the_analyzer_adds_noise(
    tmp_path: Path, noise: str
) -> None:
    what = protocol()
    task = task_of(Trio(tmp_path), what, publish_noise=noise)
    for present, bad, held in (((4, 36), 0, False), ((3, 37), 0, True), ((20, 20), 0, False)):
        batch = opened(batch_of(what, present), bad)
        if held:
            with pytest.raises(BatchHeld, match="group of users is 1 report short"):
                publish_batch(task, batch, ledger=None, confidence=0.95)
        else:
            publish_batch(task, batch, ledger=None, confidence=0.95)


def test_a_bad_message_may_be_of_the_smallest_group(tmp_path: Path) -> None:
    what = replace(protocol(), reports=30)
    task = task_of(Trio(tmp_path), what)
    publish_batch(task, opened(batch_of(what, (6, 34)), 2), ledger=None, confidence=0.95)
    with pytest.raises(BatchHeld, match="group of users"):
        publish_batch(task, opened(batch_of(what, (6, 34)), 3), ledger=None, confidence=0.95)


def test_a_top_up_of_the_shuffler_counts_for_every_group(tmp_path: Path) -> None:
    what = protocol()
    task = task_of(Trio(tmp_path), what, batch={"top_up": "full"})
    report = batch_of(what, (0, 40)) + what.top_up(USERS)
    shown = publish_batch(task, opened(report), ledger=None, confidence=0.95)
    assert shown["noise_shares"] == 2 * USERS and shown["result"]["users"] == USERS

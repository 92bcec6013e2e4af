"""What is published for a batch."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_trio import USERS, Trio

from shuffledp import plan_integer_sum, plan_real_sum
from shuffledp.protocols.report import Report
from shuffledp.release.ledger import Ledger
from shuffledp.service.http.page import MARKED_ANOMALY
from shuffledp.tasks.errors import BatchHeld
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.results import OpenedBatch, publish_batch
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task


def anomaly(trio: Trio, task: Task) -> float:
    """The anomaly of a batch of honest users, with the top-up that the task asks for."""
    protocol, absent = task.protocol, task.batch.top_up_shares(USERS, USERS)
    report = protocol.aggregate(np.ones(USERS, np.int64))
    if absent:
        report += protocol.top_up(absent)
    score = shown(trio, task, opened(report))["anomaly"]
    return float(score)


def shown(trio: Trio, task: Task, batch: OpenedBatch) -> dict[str, Any]:
    """What is published for a batch, without a ledger."""
    return publish_batch(task, batch, key=trio.newest_key, ledger=None, confidence=0.95)


def opened(report: Report, reports: int = USERS) -> OpenedBatch:
    return OpenedBatch(
        id=os.urandom(16),
        number=1,
        reports=reports,
        noise_shares=report.users,
        tally=Tally(report.plus, report.minus),
    )


def test_the_anomaly_of_honest_batches_is_at_most_a_standard_score(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    task = trio.task(cell="paper")
    scores = np.abs([anomaly(trio, task) for _ in range(300)])
    assert np.mean(scores > 1) < 0.4 and np.mean(scores > 2) < 0.09  # 0.32 and 0.046 at most
    report = task.protocol.aggregate(np.ones(USERS, np.int64))
    twin = opened(replace(report, minus=report.minus + 60, plus=report.plus + 60))
    assert shown(trio, task, twin)["anomaly"] > 2


@pytest.mark.parametrize("top_up", ["none", "full"])
@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_honest_batches_are_not_marked(tmp_path: Path, cell: str, top_up: str) -> None:
    trio = Trio(tmp_path)
    task = trio.task(cell=cell, batch={"top_up": top_up})
    assert max(abs(anomaly(trio, task)) for _ in range(50)) < MARKED_ANOMALY


def test_the_guarantee_is_that_of_the_padding(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    said = {}
    for cell in ("paper", "bounded"):
        task = trio.task(cell=cell)
        batch = opened(task.protocol.aggregate(np.ones(USERS, np.int64)))
        said[cell] = shown(trio, task, batch)["guarantee"]
    assert ["2⁻⁶⁴" in text for text in said.values()] == [True, False]
    assert all("shuffler and analyzer acting together" in text for text in said.values())


@pytest.mark.parametrize(
    ("query", "cell"), [("integer-sum", "bounded"), ("integer-sum", "paper"), ("real-sum", "best")]
)
def test_a_top_up_does_not_shift_the_estimate(tmp_path: Path, query: str, cell: str) -> None:
    """Absent users bring noise and no value, not even the stand-in of a muted one."""
    trio = Trio(tmp_path)
    plan = (
        plan_integer_sum(USERS, 8, 4, mse_overhead=1, cell=cell)
        if query == "integer-sum"
        else plan_real_sum(USERS, 8, bounds=(-3, 5), mse_overhead=4)
    )
    task = Task.create(
        plan.to_dict(), trio.newest_key().public, "shift", BatchRule(USERS, top_up="full")
    )
    protocol, estimates, covered = task.protocol, [], 0
    for _ in range(150):
        report = protocol.aggregate(np.ones(USERS, np.int64)) + protocol.top_up(USERS)
        result = shown(trio, task, opened(report))["result"]
        estimates.append(result["estimate"])
        covered += result["interval"][0] <= USERS <= result["interval"][1]
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - USERS) < 5 * error + 1e-9
    assert covered > 125


def test_a_batch_with_too_little_noise_is_not_released(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    task = trio.task()
    batch = opened(task.protocol.aggregate(np.ones(USERS - 1, np.int64)), USERS - 1)
    with pytest.raises(BatchHeld, match="19 of the 20 shares"):
        shown(trio, task, batch)


@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_publish_noise_adds_error_and_no_shift(tmp_path: Path, cell: str) -> None:
    """The estimate stays unbiased, its interval holds the truth, and its error is as forecast."""
    trio = Trio(tmp_path)
    forecasts = []
    for noise in ("none", "full"):
        task = trio.task(cell=cell, publish_noise=noise)
        found = [
            shown(trio, task, opened(task.protocol.aggregate(np.ones(USERS, np.int64))))["result"]
            for _ in range(200)
        ]
        errors = np.array([one["estimate"] - USERS for one in found])
        assert abs(errors.mean()) < 5 * errors.std() / len(errors) ** 0.5 + 1e-9
        assert sum(low <= USERS <= high for low, high in (one["interval"] for one in found)) > 175
        forecasts.append(task.forecast_rmse())  # bounded cells rarely err far: leave room for it
        assert float(np.sqrt(np.mean(errors**2))) < 2 * forecasts[-1]
        assert {one["users"] for one in found} == {USERS}  # who reported, not the shares of noise
    assert forecasts[0] < forecasts[1] < 1.5 * forecasts[0]


def test_implausible_batches_are_held_after_the_charge(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    task = trio.task(cell="paper")
    report = task.protocol.aggregate(np.ones(USERS, np.int64))
    odd = opened(replace(report, minus=report.minus + 10_000))
    ledger = Ledger.create(tmp_path / "budget.json", 10)
    marked = shown(trio, task, odd)
    assert marked["implausible"] and abs(marked["anomaly"]) > 6
    with pytest.raises(BatchHeld, match="standard deviations"):
        publish_batch(
            task,
            odd,
            key=trio.newest_key,
            ledger=ledger,
            confidence=0.95,
            implausible_rule="hold",
        )
    assert ledger.spent() == task.protocol.epsilon

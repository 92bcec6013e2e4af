"""What is published for a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from service_trio import USERS, Trio

from shuffledp import plan_integer_sum, plan_real_sum
from shuffledp.errors import ShortBatchError
from shuffledp.queries.batches import release_batch
from shuffledp.sealed.opening import Tally
from shuffledp.sealed.results import OpenedBatch
from shuffledp.sealed.rules import BatchRule
from shuffledp.sealed.task import Task


def test_the_anomaly_of_honest_batches_is_a_standard_score(tmp_path: Path) -> None:
    protocol = Trio(tmp_path).task().protocol
    scores = []
    for _ in range(300):
        scores.append(protocol.anomaly(protocol.aggregate(np.ones(USERS, np.int64))))
    assert abs(np.mean(scores)) < 0.3 and 0.8 < np.std(scores) < 1.2


@pytest.mark.parametrize("query", ["integer-sum", "real-sum"])
def test_a_top_up_does_not_shift_the_estimate(tmp_path: Path, query: str) -> None:
    """Absent users bring noise and no value, not even the stand-in of a muted one."""
    key = Trio(tmp_path).keys.all()[0].public
    plan = (
        plan_integer_sum(USERS, 8, 4, mse_overhead=1)
        if query == "integer-sum"
        else plan_real_sum(USERS, 8, bounds=(-3, 5), mse_overhead=4)
    )
    task = Task.create(plan.to_dict(), key, "shift", BatchRule(USERS, top_up="full"))
    protocol, estimates, covered = task.protocol, [], 0
    for _ in range(150):
        report = protocol.aggregate(np.ones(USERS, np.int64)) + protocol.top_up(USERS)
        batch = OpenedBatch(
            id=bytes(16),
            number=1,
            reports=USERS,
            noise_shares=2 * USERS,
            tally=Tally(report.plus, report.minus),
        )
        result = release_batch(task, batch, ledger=None, confidence=0.95)["result"]
        estimates.append(result["estimate"])
        covered += result["interval"][0] <= USERS <= result["interval"][1]
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - USERS) < 5 * error + 1e-9
    assert covered > 125


def test_a_batch_with_too_little_noise_is_not_released(tmp_path: Path) -> None:
    task = Trio(tmp_path).task()
    report = task.protocol.aggregate(np.ones(USERS, np.int64))
    batch = OpenedBatch(
        id=bytes(16),
        number=1,
        reports=USERS - 1,
        noise_shares=USERS - 1,
        tally=Tally(report.plus, report.minus),
    )
    with pytest.raises(ShortBatchError):
        release_batch(task, batch, ledger=None, confidence=0.95)

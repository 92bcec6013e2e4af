"""Sparse histograms in parts, as Spark's workers draw them: sparse rows, and the same again after a
retry."""

import numpy as np
import pytest
from drawn_parts import added, part, work_of

from shuffledp import SeededEntropy, plan_histogram
from shuffledp.engines.spark.keyed import JobSecret

PLAN = plan_histogram(1000, 1, 100_000, error_at=100, cell="sparse")
CODES = np.arange(1000) % 5


@pytest.mark.parametrize("per_user", [False, True])
def test_parts_send_few_rows_and_the_same_again(
    per_user: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol, secret = PLAN.protocol, JobSecret(SeededEntropy(4))
    work = work_of(protocol, secret, per_user)
    first, again, second = (
        part(work, number, values, monkeypatch)
        for number, values in ((0, CODES[:600]), (0, CODES[:600]), (1, CODES[600:]))
    )
    assert first == again
    assert [row[:3] for row in second] != [row[:3] for row in first[: len(second)]]
    sent = sum(row[2] for row in first)
    assert len(first) <= sent + 1 < protocol.counters / 2  # never a row for every bucket
    assert first[0][0] == 0 and first[0][4] == 600  # the first cell carries the users
    report = added([*first, *second], protocol, secret)
    assert report.users == 1000 and report.plus.shape == (100_000,)
    result = protocol.analyze(protocol.release(report))
    assert (result.joint_low[:5] <= 200).all() and (result.joint_high[:5] >= 200).all()


def test_a_new_job_draws_new_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    works = [work_of(PLAN.protocol, JobSecret()) for _ in range(2)]
    found = [part(work, 0, CODES, monkeypatch) for work in works]
    assert found[0] != found[1]

"""Sparse histograms in parts, as Spark's workers draw them: sparse rows, and the same again after a
retry."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import SeededEntropy, plan_histogram
from shuffledp.engines.spark import reports
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.engines.spark.reports import PartWork

PLAN = plan_histogram(1000, 1, 100_000, error_at=100, cell="sparse")
CODES = np.arange(1000) % 5


def as_given(values: Any) -> Any:
    return values


def part(
    work: PartWork, number: int, values: Any, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, ...]]:
    monkeypatch.setattr(reports, "_part_number", lambda: number)
    given = [pa.RecordBatch.from_pydict({"value": values})]
    found = [batch.to_pydict() for batch in work(given)]
    names = ("cell", "said", "plus", "minus", "users")
    return [row for batch in found for row in zip(*(batch[n] for n in names), strict=True)]


@pytest.mark.parametrize("per_user", [False, True])
def test_parts_send_few_rows_and_the_same_again(
    per_user: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = PLAN.protocol
    work = PartWork(
        protocol=protocol.to_dict(),
        prepare=as_given,
        secret=JobSecret(SeededEntropy(4)),
        per_user=per_user,
    )
    first, again, second = (
        part(work, number, values, monkeypatch)
        for number, values in ((0, CODES[:600]), (0, CODES[:600]), (1, CODES[600:]))
    )
    assert first == again
    assert [row[:3] for row in second] != [row[:3] for row in first[: len(second)]]
    sent = sum(row[2] for row in first)
    assert len(first) <= sent + 1 < protocol.counters / 2  # never a row for every bucket
    assert first[0][0] == 0 and first[0][4] == 600  # the first cell carries the users
    added: dict[int, list[int]] = {}
    for cell, _, plus, minus, users in [*first, *second]:
        sums = added.setdefault(cell, [0, 0, 0])
        for place, number in enumerate((plus, minus, users)):
            sums[place] += number
    rows = [(cell, "", *added[cell]) for cell in sorted(added)]
    report = reports._report(rows, protocol, work.secret)
    assert report.users == 1000 and report.plus.shape == (100_000,)
    result = protocol.analyze(protocol.release(report))
    assert (result.joint_low[:5] <= 200).all() and (result.joint_high[:5] >= 200).all()


def test_a_new_job_draws_new_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        part(
            PartWork(protocol=PLAN.protocol.to_dict(), prepare=as_given, secret=JobSecret()),
            0,
            CODES,
            monkeypatch,
        )
        for _ in range(2)
    ]
    assert found[0] != found[1]

"""Pooled histograms in parts, as Spark's workers draw them: the same again after a retry, and sums
that are answers."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import SeededEntropy, plan_histogram
from shuffledp.engines.spark import reports
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.engines.spark.reports import PartWork

CODES = np.repeat(np.arange(4), [500, 300, 0, 200])


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
def test_parts_add_up_and_are_the_same_again(
    per_user: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_histogram(1000, 1, 4, cell="pooled")
    work = PartWork(
        protocol=plan.protocol.to_dict(),
        prepare=as_given,
        secret=JobSecret(SeededEntropy(4)),
        per_user=per_user,
    )
    first, again, second = (
        part(work, number, values, monkeypatch)
        for number, values in ((0, CODES[::2]), (0, CODES[::2]), (1, CODES[1::2]))
    )
    assert first == again
    assert [row[2] for row in first] != [row[2] for row in second]
    added: dict[int, list[int]] = {}
    for cell, _, plus, minus, users in [*first, *second]:
        sums = added.setdefault(cell, [0, 0, 0])
        for place, number in enumerate((plus, minus, users)):
            sums[place] += number
    rows = [(cell, "", *added[cell]) for cell in sorted(added)]
    report = reports._report(rows, plan.protocol, work.secret)
    assert report.users == 1000
    result = plan.analyze(plan.release(report))
    assert np.abs(result.values - [500, 300, 0, 200]).max() < 6 * plan.forecast.rmse

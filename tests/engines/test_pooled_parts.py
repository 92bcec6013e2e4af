"""Pooled histograms in parts, as Spark's workers draw them: the same again after a retry, and sums
that are answers."""

import numpy as np
import pytest
from drawn_parts import added, part, work_of

from shuffledp import SeededEntropy, plan_histogram
from shuffledp.engines.spark.keyed import JobSecret

CODES = np.repeat(np.arange(4), [500, 300, 0, 200])


@pytest.mark.parametrize("per_user", [False, True])
def test_parts_add_up_and_are_the_same_again(
    per_user: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_histogram(1000, 1, 4, cell="pooled")
    secret = JobSecret(SeededEntropy(4))
    work = work_of(plan.protocol, secret, per_user)
    first, again, second = (
        part(work, number, values, monkeypatch)
        for number, values in ((0, CODES[::2]), (0, CODES[::2]), (1, CODES[1::2]))
    )
    assert first == again
    assert [row[2] for row in first] != [row[2] for row in second]
    report = added([*first, *second], plan.protocol, secret)
    assert report.users == 1000
    result = plan.analyze(plan.release(report))
    assert np.abs(result.values - [500, 300, 0, 200]).max() < 6 * plan.forecast.rmse

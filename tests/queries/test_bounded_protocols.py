"""Protocols of bounded cells: private by brute force, topped up, and watched for implausible
batches."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from bounded_laws import BIT, DIGIT, sums
from bounded_oracle import all_ratios, ratios
from chi2 import p_value
from plan_parts import bounded_cell, bounded_cells, histogram

from shuffledp import plan_count, plan_histogram, plan_integer_sum, plan_real_sum
from shuffledp.cells.base import Floats, Values
from shuffledp.cells.bounded.cell import BoundedCell, Direction
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.protocols.report import Report
from shuffledp.queries.histogram.protocol import HistogramProtocol

F = Fraction


def halved(cell: BoundedCell) -> BoundedCell:
    """The cell with half the odds in both directions: not private."""

    def half(side: Direction) -> Direction:
        return replace(side, odds=tuple(odds / 2 for odds in side.odds))

    return replace(cell, up=half(cell.up), down=half(cell.down))


def histogram_loss(cell: BoundedCell, users: int) -> float:
    """The largest loss of a histogram with two buckets, over both cells' views together: one user
    moves from the first to the second bucket, and so many of the others are in the first. Given
    everybody's values the cells are independent, so the largest ratios multiply."""
    others = users - 1
    losses = []
    for first in range(others + 1):
        down = ratios(cell, [others - first, first]).loss("down")
        up = ratios(cell, [first, others - first]).loss("up")
        losses.append(down + up)
    return max(losses)


@pytest.mark.parametrize("users", [2, 3, 4])
@pytest.mark.parametrize("padded", [False, True])
def test_a_histogram_of_two_buckets_by_brute_force(users: int, padded: bool) -> None:
    plan = plan_histogram(users, 1, 2, mse_overhead=1, padded=padded, cell="bounded")
    cell = bounded_cell(plan)
    assert 0.7 < histogram_loss(cell, users) <= 1 + 1e-12
    assert histogram_loss(cell, users + 1) <= 1 + 1e-12
    assert histogram_loss(halved(cell), users) > 1  # the twin


def test_two_digits_by_brute_force() -> None:
    """Every digit may change in either direction: the losses add up."""
    plan = plan_real_sum(4, 2, radix=(3, 2), mse_overhead=4, cell="bounded")
    cells = bounded_cells(plan)
    assert 1.7 < sum(map(digit_loss, cells)) <= 2 + 1e-12
    assert sum(digit_loss(halved(cell)) for cell in cells) > 2  # the twin


def digit_loss(cell: BoundedCell) -> float:
    """The largest loss of one digit, whatever three others hold."""
    found = all_ratios(cell, 4)
    return max(found.loss("up"), found.loss("down"))


@pytest.mark.parametrize("cell", [BIT, DIGIT], ids=["bit", "digit"])
def test_a_top_up_has_the_noise_of_absent_users_who_hold_0(cell: BoundedCell) -> None:
    absent = 5
    drawn, none = cell.top_up(absent, 200_000, SeededEntropy(f"top-up {cell.largest}"))
    assert not none.any() and drawn.min() >= 0
    assert p_value(drawn, sums(cell, [0] * absent)) > 1e-4
    # the twins: one user less (at the same level), one who holds 1
    fewer = np.concatenate([np.zeros(cell.base), sums(cell, [0] * (absent - 1))])
    assert p_value(drawn, fewer) < 1e-4
    assert p_value(drawn, sums(cell, [0] * (absent - 1) + [1])) < 1e-4


def test_a_top_up_never_exceeds_the_reports_of_the_missing_users() -> None:
    for plan, absent in (
        (plan_count(50, 1, cell="bounded"), 7),
        (plan_histogram(50, 1, 3, cell="bounded"), 20),
        (plan_integer_sum(50, 1, 4, cell="bounded"), 1),
    ):
        protocol = plan.protocol
        size = absent * protocol.report_size(50)
        entropy = SeededEntropy("sizes")
        sizes = [int(protocol.top_up(absent, entropy).plus.sum()) for _ in range(2000)]
        assert max(sizes) <= size
        assert max(sizes) > size / 4  # the twin: a size that is not far beyond all need


def test_topped_up_batches_are_estimated_without_bias() -> None:
    """30 of 50 users report, the noise of 20 is added: the estimate is that of those 30."""
    plan = plan_count(50, 1, cell="bounded")
    entropy, values = SeededEntropy("unbiased"), np.array([1] * 18 + [0] * 12)
    errors, covered, short = [], [], []
    for _ in range(1500):
        batch = plan.aggregate(values, entropy) + plan.protocol.top_up(20, entropy)
        assert batch.users == 50
        found = plan.analyze(plan.release(batch))
        errors.append(found.value - 18)
        covered.append(found.low <= 18 <= found.high)
        fewer = replace(batch, users=51)
        short.append(plan.analyze(plan.release(fewer)).value - 18)
    sampling = 4.5 * np.std(errors) / 1500**0.5
    assert abs(np.mean(errors)) < sampling
    assert np.std(errors) == pytest.approx(plan.protocol.rmse(50), rel=0.1)
    assert np.mean(covered) > 0.935
    # The twin: one more user is counted than is there. That moves every estimate by one user's mean
    # number of messages, which depends on the plan, so the same criterion must reject it by far.
    assert abs(np.mean(short)) > 10 * sampling


def anomalies(protocol: HistogramProtocol, values: Values, runs: int, absent: int = 0) -> Floats:
    entropy = SeededEntropy(f"anomaly {values[:3]}")
    found = []
    for _ in range(runs):
        batch = protocol.aggregate(values, entropy)
        if absent:
            batch += protocol.top_up(absent, entropy)
        found.append(protocol.anomaly(batch))
    return np.array(found)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_honest_counts_are_plausible_and_impossible_ones_are_not(share: float, cell: str) -> None:
    users = 400
    plan = plan_count(users, 1, cell=cell)
    values = (np.arange(users) < share * users).astype(np.int64)
    entropy = SeededEntropy(f"counts {share}")
    batches = [plan.aggregate(values, entropy) for _ in range(400)]
    seen = [plan.protocol.anomaly(batch) for batch in batches]
    assert max(map(abs, seen)) < 5 and np.mean(np.abs(seen)) < 2
    if cell == "bounded":
        # the twins: more messages than anybody could send, fewer, and some of another kind
        many = users + 20 * plan.report_size
        for extra in (Report(users=0, plus=np.array([many]), minus=np.array([0])),):
            assert plan.protocol.anomaly(batches[0] + extra) > 20
            one_minus = replace(extra, minus=np.array([1]))  # does not hide the others
            assert plan.protocol.anomaly(batches[0] + one_minus) > 20
        fewer = replace(batches[0], plus=batches[0].plus - many)
        assert plan.protocol.anomaly(fewer) < -20
        other = replace(batches[0], minus=batches[0].minus + 20 * plan.report_size)
        assert abs(plan.protocol.anomaly(other)) > 20


@pytest.mark.parametrize("absent", [0, 60])
def test_honest_histograms_are_plausible_and_others_are_not(absent: int) -> None:
    """A client that adds 20 reports' worth of messages is seen whatever the data are: all buckets
    together hold as many users as there are reports."""
    plan = plan_histogram(300, 1, 4, cell="bounded")
    protocol = histogram(plan)
    for values in (np.zeros(300 - absent, int), np.arange(300 - absent) % 4):
        assert np.abs(anomalies(protocol, values, 300, absent)).max() < 5
        entropy = SeededEntropy("added")
        batch = protocol.aggregate(values, entropy)
        if absent:
            batch += protocol.top_up(absent, entropy)
        for bucket in range(4):
            plus = batch.plus.copy()
            plus[bucket] += 20 * bounded_cell(plan).most_messages
            assert abs(protocol.anomaly(replace(batch, plus=plus))) > 20

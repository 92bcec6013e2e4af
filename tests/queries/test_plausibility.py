"""The mark for implausible totals: rare among honest batches, whatever the tails; sees one cell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shuffledp import (
    Plan,
    plan_count,
    plan_frequencies,
    plan_heavy_hitters,
    plan_histogram,
    plan_integer_sum,
    plan_real_sum,
)
from shuffledp.numbers.chernoff import Unlikely, as_anomaly, as_deviations, log_sum_tail, log_tails
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.plausibility import CellCounts
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.tasks.results import implausible
from shuffledp.tasks.rules import IMPLAUSIBLE_DEVIATIONS

LEVELS = (1.0, 2.0, 3.0, 4.0, 5.0)


def outside(z: float) -> float:
    """How often a normal law lies more than z standard deviations away."""
    return math.erfc(z / math.sqrt(2))


@pytest.mark.parametrize("cell", ["bounded", "paper"])
@pytest.mark.parametrize("users", [60, 10_000])
def test_moments_are_those_of_the_error_law(users: int, cell: str) -> None:
    counter = plan_count(users, 1, padded=True, cell=cell).protocol.cells[0]
    for total in (0, users // 3, users):
        errors, masses = counter.error_law(users, total)
        for theta in (-0.3, -0.1, 0.1, 0.3):
            (found,) = counter.log_moment(np.array([theta]), users, total)
            expected = math.log((masses * np.exp(theta * errors)).sum())
            assert found == pytest.approx(expected, abs=0.02, rel=0.05)
    (other,) = counter.log_moment(np.array([0.3]), 2 * users, 0)  # the twin: another law
    assert abs(other - counter.log_moment(np.array([0.3]), users, 0)[0]) > 0.02


@pytest.mark.parametrize("cell", ["bounded", "paper"])
@pytest.mark.parametrize("users", [60, 10_000, 1_000_000])
def test_honest_counts_are_marked_as_rarely_as_it_says(users: int, cell: str) -> None:
    """By the exact law of the estimate, heavy tails of muted users included, at both ends, where
    nobody holds it or everybody does."""
    protocol = plan_count(users, 1, padded=True, cell=cell).protocol
    counter = protocol.cells[0]
    normal_breaks = False
    for total in (0, users):
        errors, masses = counter.error_law(users, total)
        estimates = total + errors
        deviations = np.maximum(np.maximum(-estimates, estimates - users), 0.0)
        anomalies = np.array([_estimate_anomaly(protocol, users, one) for one in estimates])
        for z in LEVELS:
            assert masses[np.abs(anomalies) > z].sum() <= outside(z)
        # the twin: the same deviations in standard deviations, as if the law were normal
        far = masses[deviations / counter.rmse(users) > 5.0].sum()
        normal_breaks |= bool(far > 10 * outside(5.0))
    assert normal_breaks


def _estimate_anomaly(protocol: Protocol[Result], users: int, estimate: float) -> float:
    """The anomaly of a batch with this estimate, and as many −1 as honest users send."""
    counter = protocol.cells[0]
    minus = round(counter.minus_law(users, 0)[0]) if counter.sends_minus else 0
    at_zero = float(counter.estimates(np.array([0]), users)[0])
    each = float(counter.estimates(np.array([1]), users)[0]) - at_zero
    plus = round((estimate - at_zero) / each) + minus
    return protocol.anomaly(Report(users=users, plus=np.array([plus]), minus=np.array([minus])))


@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_honest_batches_of_many_cells_are_not_marked(cell: str) -> None:
    """Labels that nobody holds, digits at their ends, noise that was topped up."""
    entropy = SeededEntropy(f"many cells {cell}")
    histogram = plan_histogram(200, 1, 20, mse_overhead=4, cell=cell).protocol
    real = plan_real_sum(200, 2, bounds=(0, 1), mse_overhead=8, cell=cell).protocol
    whole = plan_integer_sum(200, 2, 5, mse_overhead=4, cell=cell).protocol
    cases: list[tuple[Protocol[Result], np.ndarray]] = [
        (histogram, np.zeros(200, int)),
        (real, np.ones(200)),
        (whole, np.zeros(200, int)),
    ]
    seen = []
    for protocol, values in cases:
        for absent in (0, 50):
            for _ in range(60):
                batch = protocol.aggregate(values[absent:], entropy)
                if absent:
                    added = protocol.top_up(absent, entropy)
                    batch += added
                seen.append(abs(protocol.anomaly(batch)))
    assert max(seen) < 4.5  # one in 150,000 each, and there are 360
    assert np.mean(np.array(seen) > 2) < 0.05


@pytest.mark.attack("fake clients who move one label and leave the total as it is")
def test_one_label_is_seen_though_the_total_is_right() -> None:
    users, false = 2000, 100
    protocol = plan_histogram(users, 1, 10, padded=True, cell="bounded").protocol
    entropy = SeededEntropy("one label")
    honest = protocol.aggregate(np.arange(users - false) % 10, entropy)
    usual = round(float(honest.plus.sum()) / (users - false))
    plus = honest.plus.copy()
    plus[3] += false * usual  # as many messages as honest reports hold, all for one label
    batch = Report(users=users, plus=plus, minus=honest.minus)
    assert implausible(protocol.anomaly(batch))
    cell = protocol.cells[0]
    total = cell.estimates(batch.plus, users).sum()
    spread = protocol.rmse(users) * len(plus) ** 0.5
    assert abs(total - users) / spread < IMPLAUSIBLE_DEVIATIONS * 40  # hardly moved, beside …
    assert cell.estimates(batch.plus, users).max() > 1.2 * users  # … this label
    # the twin: with the same messages from honest clients there is no mark
    rest = protocol.aggregate(np.full(false, 3), entropy)
    assert not implausible(protocol.anomaly(honest + rest))


def test_small_deviations_of_many_cells_add_up() -> None:
    """No cell alone is implausible, all together are; and signs do not cancel."""
    protocol = plan_histogram(200, 1, 40, mse_overhead=4, cell="bounded").protocol
    cell, size = protocol.cells[0], len(protocol.cells)
    away = 6 * cell.rmse(200)
    nothing, one_message = cell.estimates(np.array([0, 1]), 200)
    at_zero = -nothing / (one_message - nothing)
    low = np.full(size, round(at_zero - away))
    batch = Report(users=200, plus=low, minus=np.zeros(size, np.int64))
    assert protocol.anomaly(batch) < -IMPLAUSIBLE_DEVIATIONS
    one = low.copy()
    one[1:] = round(at_zero) + 5  # 195 in all, so that the labels add up
    assert not implausible(protocol.anomaly(replace(batch, plus=one)))


def test_chances_become_standard_deviations() -> None:
    for z in (0.5, 3.0, 6.0, 12.0):
        assert as_deviations(math.log(outside(z))) == pytest.approx(z, abs=1e-6)
    assert as_deviations(0.0) == 0.0
    assert 140 < as_deviations(-10_000.0) < math.sqrt(20_000)
    assert as_anomaly([]) == 0.0
    alone = as_anomaly([Unlikely(-1, -30.0)])
    shared = as_anomaly([Unlikely(1, -1.0)] * 9 + [Unlikely(-1, -30.0)])
    assert alone < shared < 0  # the level is shared


def test_the_bound_lies_above_the_tail() -> None:
    """Of a Laplace law, whose moments are finite up to 1 only."""

    def moment(theta: np.ndarray) -> np.ndarray:
        return np.where(theta < 1, -np.log(np.maximum(1 - theta**2, 1e-300)), np.nan)

    x = np.array([1.0, 5.0, 20.0, 60.0])
    bounds = log_tails(x, moment, 2**0.5)
    tails = -x - math.log(2)
    assert (bounds >= tails).all() and (bounds[2:] < tails[2:] / 2).all()
    assert log_tails(np.array([-1.0, 0.0]), moment, 1.0).tolist() == [0.0, 0.0]


def test_sums_of_buckets_are_as_rare_as_it_says() -> None:
    """By their exact law: users are independent, so all buckets together err as one cell would to
    which everybody brings a 1 and, from the other buckets, 0s."""
    users, cells = 30_000, 8
    plan = plan_histogram(users, "1/4", cells, max_messages=20, cell="bounded")
    cell = plan.protocol.cells[0]
    errors, masses = cell.error_law(cells * users, users)
    nothing = np.zeros((1, cells), np.int64)
    for look in CellCounts(cell, nothing, nothing, np.array([users]), 0).sums_away():
        found = np.array(
            [
                as_deviations(
                    log_sum_tail(look.sign * error, [(1, look.moment)], look.spread, cut=False)
                )
                for error in errors
            ]
        )
        for z in LEVELS:
            assert masses[found > z].sum() <= outside(z)
        assert found.max() > 4  # it is of use, too
    # the twin: as if the law were normal
    far = masses[np.abs(errors) > 5 * cell.rmse(cells * users, users)].sum()
    assert far > 10 * outside(5.0)


# labels of any domain: one table, whose buckets depend on each other


@pytest.mark.parametrize("planner", [plan_frequencies, plan_heavy_hitters])
def test_honest_tables_of_labels_are_not_marked(planner: Callable[..., Plan[Any]]) -> None:
    """All with the same label, or all with different ones; with noise that was topped up."""
    users = 2_000
    plan, entropy, seen = planner(users, 1), SeededEntropy("labels"), []
    for run in range(8):
        protocol = plan.protocol.renewed(entropy)
        values = ["same"] * users if run % 2 else [f"label {n}" for n in range(users)]
        batch = protocol.aggregate(np.array(values, object), entropy)
        if run % 4 > 1:
            batch += protocol.top_up(users, entropy)
        seen.append(abs(protocol.anomaly(batch)))
    assert max(seen) < 4


@pytest.mark.attack("fake clients who send more for one label than all users could")
@pytest.mark.parametrize("planner", [plan_frequencies, plan_heavy_hitters])
def test_a_bucket_above_what_all_users_can_send_is_marked(
    planner: Callable[..., Plan[Any]],
) -> None:
    users, fake = 2_000, 200
    protocol = planner(users, 1).protocol
    entropy = SeededEntropy("one bucket")
    batch = protocol.aggregate(
        np.array([f"label {n}" for n in range(users - fake)], object), entropy
    )
    plus = np.zeros_like(batch.plus)
    plus[5] = fake * protocol.report_size(users)
    flooded = batch + Report(users=fake, plus=plus, minus=np.zeros_like(plus))
    assert protocol.anomaly(flooded) > IMPLAUSIBLE_DEVIATIONS
    # the twin: as many honest clients
    rest = protocol.aggregate(np.full(fake, "bought", object), entropy)
    assert not implausible(protocol.anomaly(batch + rest))

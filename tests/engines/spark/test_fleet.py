"""Sizing: arithmetic on measured rates."""

from __future__ import annotations

import pytest

import shuffledp
from shuffledp.engines.spark import rates
from shuffledp.errors import ParameterError
from shuffledp.plans.fleet import Rates, fleet
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.wire import MOST_BATCH_REPORTS, BatchHeader, read_batch_header, report_bytes


def test_a_fleet_follows_from_rates_by_arithmetic() -> None:
    plan = shuffledp.plan_count(10**6, 1)
    speeds = Rates(encrypted=100, ordered=1000, opened=50, tallied=10**6, cores=2)
    found = fleet(plan, speeds, 20, report_bytes(20), users=10**6)
    with pytest.raises(ParameterError, match="at least 1"):
        fleet(plan, speeds, 20, report_bytes(20), users=0)
    order, opening, rows = found.steps
    assert found.client_seconds == 0.2
    assert (order.core_seconds, opening.core_seconds, rows.core_seconds) == (20_000, 400_000, 1)
    assert opening.cores_for(60) == 112 and order.minutes(2) == pytest.approx(20_000 / 120)
    assert found.collected_bytes == 10**6 * report_bytes(20)
    assert found.batch_bytes == 20 * 10**6 * 52
    told = found.to_dict()
    assert told["users"] == 10**6 and len(told["steps"]) == len(found.rows()) - 2 == 3


def test_rates_are_measured_for_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "LEAST_SECONDS", 0.01)
    for plan in (
        shuffledp.plan_count(1000, 2),
        shuffledp.plan_histogram(1000, 8, ["a", "b"]),
        shuffledp.plan_quantiles(1000, 8, (0, 1), bins=4),
    ):
        found = rates.fleet_for(plan)
        speeds = found.rates
        assert min(speeds.encrypted, speeds.ordered, speeds.opened, speeds.tallied) > 100
        assert speeds.opened < speeds.ordered
        assert found.users == 1000
        assert found.report_size == plan.report_size


def test_a_billion_users_fit_into_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may not be smaller than the plan's users, so the largest one must hold them all."""
    monkeypatch.setattr(rates, "LEAST_SECONDS", 0.01)
    plan = shuffledp.plan_count(10**9, 1, relative_error="0.01", padded=True)
    rule = BatchRule(plan.users)
    assert rates.fleet_for(plan).report_size == plan.report_size
    header = BatchHeader(
        task_id=bytes(32),
        batch_id=bytes(16),
        reports=MOST_BATCH_REPORTS,
        top_up_messages=0,
        noise_shares=2 * MOST_BATCH_REPORTS,
    )
    assert read_batch_header(header.to_bytes()) == header
    assert rule.reports == 10**9
    with pytest.raises(ParameterError, match="at most 2,000,000,000 reports"):
        rates.fleet_for(shuffledp.plan_count(3 * 10**9, 1))

"""Plans of sums whose digits share their way up: their figures, errors and reports (§18)."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
import pytest
from plan_parts import held

import shuffledp
from shuffledp.cells.digits.cell import SharedCell
from shuffledp.cells.report_size import EXACT
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate
from shuffledp.queries.real_sum.protocol import RealSumProtocol


@lru_cache
def shared_plan(users: int, rmse: str) -> Plan[Estimate]:
    return shuffledp.plan_real_sum(users, 1, rmse=rmse, padded=True)


def shared_protocol(users: int, rmse: str) -> RealSumProtocol:
    protocol = shared_plan(users, rmse).protocol
    assert isinstance(protocol, RealSumProtocol)
    return protocol


@pytest.mark.parametrize(
    ("users", "rmse", "most"),
    [(10**6, "4.07", 1_200), (10**6, "2.714", 1_760), (10**4, "4.07", 260), (10**4, "2.714", 430)],
)
def test_a_padded_report_of_a_sum_is_short(users: int, rmse: str, most: int) -> None:
    plan = shared_plan(users, rmse)
    assert plan.report_size <= most
    assert plan.forecast.rmse <= float(rmse)
    assert plan.padding == "exact"
    assert plan.to_dict()["privacy_of_padded_reports"].startswith("pure")


def test_a_report_holds_every_way_down_and_one_way_up() -> None:
    protocol = shared_protocol(10**6, "4.07")
    assert {cell.kind for cell in protocol.digits} == {SharedCell.kind}
    cells = [cell for cell in protocol.digits if isinstance(cell, SharedCell)]
    ways_down = sum(cell.base + cell.largest for cell in cells)
    most = ways_down + 2 * cells[0].up.cut + 1 + protocol.dither - 1
    assert protocol.report_size(10**6) == protocol.most_messages == most
    assert most < 0.75 * (sum(cell.most_messages for cell in cells) + protocol.dither - 1)
    assert protocol.padding == EXACT


def test_plans_that_count_messages_on_average_keep_separate_digits() -> None:
    plan = shuffledp.plan_real_sum(10**4, 1, rmse="4.07")
    assert SharedCell.kind not in plan.to_dict()["cells"]


def test_a_plan_is_read_back_and_proved_again() -> None:
    plan = shared_plan(10**4, "2.714")
    text = json.dumps(plan.to_dict())
    assert shuffledp.verify(json.loads(text)).protocol == plan.protocol


def test_digits_that_were_not_made_for_each_other_are_refused() -> None:
    data = shared_plan(10**4, "2.714").to_dict()["certificate"]
    data["protocol"]["digits"].pop()
    with pytest.raises(ParameterError, match="fit together"):
        shuffledp.verify(data)


@pytest.mark.parametrize("path", ["aggregate", "randomize_all"])
def test_the_error_is_what_the_forecast_says(path: str) -> None:
    """400 batches of 10⁴ users; a forecast that is too small by two fifths is rejected."""
    users, entropy = 10**4, SeededEntropy(f"shared {path}")
    protocol = shared_protocol(users, "2.714")
    values = np.random.default_rng(7).random(users)
    draw = getattr(protocol, path)
    found = [
        protocol.analyze(protocol.release(draw(values, entropy))).value - values.sum()
        for _ in range(400)
    ]
    totals = held(protocol, protocol.encode(values)).sum(axis=1).astype(float).tolist()
    expected = protocol.rmse(users, totals)
    measured = float(np.sqrt(np.mean(np.square(found))))
    assert abs(np.mean(found)) < 4 * expected / 20
    assert 0.8 < measured / expected < 1.25  # rare jumps are not in every 400 batches
    assert not 0.8 < measured / (0.6 * expected) < 1.25


def test_noise_of_absent_users_fits_its_size_and_leaves_the_estimate_unbiased() -> None:
    users, entropy = 10**4, SeededEntropy("absent")
    protocol = shared_protocol(users, "2.714")
    values = np.full(users - 1_000, 0.25)
    found = []
    for _ in range(200):
        added = protocol.top_up(1_000, entropy)
        assert int(added.plus.sum()) <= 1_000 * protocol.report_size(users)
        batch = protocol.aggregate(values, entropy) + added
        view = protocol.release(batch)
        found.append(
            protocol.analyze(view).value - values.sum() - 1_000 * float(protocol.absent_value)
        )
    assert abs(np.mean(found)) < 4 * protocol.rmse(users) / np.sqrt(200)

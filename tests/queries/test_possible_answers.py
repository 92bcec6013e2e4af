"""Intervals and shown numbers lie within what is possible; estimates stay unbiased."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp import SeededEntropy
from shuffledp.numbers.exact import written
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate, Result
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.tasks.results import of_reports, result_lines

RUNS = 60


def runs(plan: Plan[Any], values: Any) -> list[Any]:
    """Results of the same data with different noise."""
    return [plan.run(values, SeededEntropy(seed)) for seed in range(RUNS)]


@pytest.fixture(scope="module")
def nobody() -> list[Estimate]:
    """Counts of 20 users of whom none says yes."""
    return runs(shuffledp.plan_count(20, "1/4", mse_overhead=8), np.zeros(20, int))


def test_an_interval_holds_possible_counts_only(nobody: list[Estimate]) -> None:
    assert all(0 <= one.low <= one.high <= 20 for one in nobody)
    assert all(one.clipped == min(max(one.value, 0), 20) for one in nobody)
    assert any(one.value < 0 for one in nobody)  # else the test shows nothing


def test_estimates_stay_unbiased_and_clipped_ones_are_not(nobody: list[Estimate]) -> None:
    def deviations(numbers: list[float]) -> float:
        return float(np.mean(numbers) / (np.std(numbers) / np.sqrt(RUNS)))

    assert abs(deviations([one.value for one in nobody])) < 4
    assert deviations([one.clipped for one in nobody]) > 4  # the twin: clipping adds a bias


def test_people_see_the_clipped_number_and_json_has_both(nobody: list[Estimate]) -> None:
    one = next(one for one in nobody if one.value < -1)
    assert str(one).startswith("count ≈ 0") and "-" not in str(one).split("(")[0]
    assert one.texts()[0][1].startswith("0") and one.rows()[0][1] == one.value
    shown = one.to_dict()
    assert shown["estimate"] == one.value < 0 and shown["clipped"] == 0.0
    (line,) = result_lines(shown)
    assert (line.estimate, line.clipped) == (one.value, 0.0)
    assert ">-" not in one._repr_html_()


@pytest.mark.parametrize("low", [0, -5, 10])
def test_sums_and_means_stay_within_their_bounds(low: int) -> None:
    plan = shuffledp.plan_real_sum(20, "1/4", bounds=(low, low + 3), mse_overhead=100)
    found = runs(plan, np.full(20, float(low)))
    assert all(20 * low <= one.low <= one.high <= 20 * (low + 3) for one in found)
    assert any(one.value < 20 * low for one in found)
    mean = shuffledp.mean(
        [low] * 20, bounds=(low, low + 3), epsilon="1/4", mse_overhead=100, seed=1
    )
    assert low <= mean.low <= mean.high <= low + 3 and low <= mean.clipped <= low + 3


def test_every_bucket_and_group_stays_within_what_is_possible() -> None:
    plan = shuffledp.plan_histogram(20, "1/4", ["a", "b", "c"], mse_overhead=8)
    for one in runs(plan, np.array(["a"] * 20, object)):
        assert (one.low >= 0).all() and (one.joint_high <= 20).all()
        assert (one.clipped == np.clip(one.values, 0, 20)).all() and one.low.dtype.kind == "i"
        assert one.to_frame("pandas")["clipped"].tolist() == one.clipped.tolist()
    asked: dict[str, Any] = {"by": ["x", "y"] * 20, "epsilon": "1/4", "mse_overhead": 100}
    hours = [0.0, 720.0] * 20
    for seed in range(2):
        for public in (False, True):
            more: dict[str, Any] = {"groups": ["x", "y"], "groups_public": public, "seed": seed}
            mean = shuffledp.mean(hours, bounds=(0, 720), **asked, **more)
            _within(mean, 0, 720)
            _within(shuffledp.count([False] * 40, **asked, **more), 0, 40)


def _within(found: GroupsResult, low: float, high: float) -> None:
    for part in (found.clipped, found.low, found.high, found.joint_low, found.joint_high):
        assert (part >= low).all() and (part <= high).all()
    assert [row[1] for row in found.clipped_rows()] == found.clipped.tolist()
    assert [group["clipped"] for group in found.to_dict()["groups"]] == found.clipped.tolist()


def test_frequencies_and_ranges_stay_within_what_is_possible() -> None:
    words = [f"word {n}" for n in range(200)]
    found = shuffledp.frequencies(words, epsilon=1, candidates=words[:50])
    assert (found.low >= 0).all() and (found.high <= 200).all()
    ranges = shuffledp.quantiles([1.0] * 50, epsilon="1/4", bounds=(0, 64), bins=8, seed=3)
    for begin in range(0, 64, 8):
        inside = ranges.between(begin, begin + 8)
        assert 0 <= inside.low <= inside.high <= 50 and 0 <= inside.clipped <= 50


def test_a_published_result_is_cut_to_those_who_reported() -> None:
    """Also where the noise of absent users moves the estimate first."""
    plan = shuffledp.plan_real_sum(50, "1/4", bounds=(10, 13), mse_overhead=100)
    protocol = plan.protocol
    for seed in range(20):
        entropy = SeededEntropy(seed)
        batch = protocol.aggregate(np.full(50, 10.0), entropy) + protocol.top_up(50, entropy)
        result: Result = plan.analyze(protocol.release(batch))
        found = of_reports(protocol, result, 50, 50)
        assert isinstance(found, Estimate) and found.users == 50
        assert 500 <= found.low <= found.high <= 650 and 500 <= found.clipped <= 650


def test_no_negative_zero_is_written() -> None:
    assert written(-0.04, 1) == "0.0" and written(-0.06, 1) == "-0.1" and f"{-0.04:.1f}" == "-0.0"
    one = shuffledp.plan_count(20, 1).run(np.zeros(20, int))
    below = type(one)(**{**vars(one), "value": -0.0, "low": -0.0, "possible": (0.0, 20.0)})
    assert not np.signbit([below.value, below.low, below.clipped]).any()
    assert "-0" not in str(below)


def test_pictures_show_the_clipped_number(nobody: list[Estimate]) -> None:
    one = next(one for one in nobody if one.value < -1)
    axes = one.plot().axes[0]
    bars = [
        box.x0 + box.width / 2
        for box in (bar.get_path().get_extents(bar.get_patch_transform()) for bar in axes.patches)
    ]
    assert min(bars) >= -1e-9 and max(bars) <= 20 + 1e-9
    assert axes.lines[0].get_xdata()[0] == 0.0  # type: ignore[index]
    histogram = shuffledp.histogram(["a"] * 20, epsilon="1/8", labels=["a", "b"], seed=2)
    heights = [bar.get_height() for bar in histogram.plot().axes[0].patches]  # type: ignore[attr-defined]
    assert heights == histogram.clipped.tolist()

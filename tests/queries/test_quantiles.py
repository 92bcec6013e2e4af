"""Quantiles of whole numbers, dates and measured values; ranges inside buckets; the laws behind."""

from __future__ import annotations

import datetime
import json
import math

import numpy as np
import pytest

import shuffledp
from shuffledp import plan_quantiles, verify
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.tails import error_ends, third_and_fourth_cumulants
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.queries.quantiles.planner import point_bins
from shuffledp.queries.quantiles.range_errors import mean_squares, steps_below
from shuffledp.queries.quantiles.result import QuantilesResult

HOURS = np.clip(np.random.default_rng(1).normal(13, 4.5, 5000).round(), 0, 23).astype(np.int64)
DAYS = np.datetime64("2013-01-01") + np.random.default_rng(2).integers(0, 365, 5000)
YEAR = ("2013-01-01", "2013-12-31")


def result_of(bins: int = 64, high: int = 300, seed: str = "a") -> QuantilesResult:
    values = np.random.default_rng(3).random(5000) * high
    return plan_quantiles(5000, 1, (0, high), bins=bins).run(values, SeededEntropy(seed))


# whole numbers


def test_whole_numbers_are_answered_with_whole_numbers() -> None:
    found = shuffledp.quantiles(HOURS, epsilon=1, bounds=(0, 23), entropy=SeededEntropy(1))
    assert [one.value for one in found.shown()] == [10, 13, 16]
    assert found.axis.bins == 24 and found.quantile(0.5).low == found.quantile(0.5).high == 13
    assert "quantile 0.5 ≈ 13 " in str(found)


def test_twin_measured_values_shift_upwards() -> None:
    found = shuffledp.quantiles(
        HOURS, epsilon=1, bounds=(0, 24), bins=24, points=False, entropy=SeededEntropy(1)
    )
    assert found.quantile(0.5).value - 13 > 0.2


def test_ranges_of_whole_numbers_have_their_points_as_edges() -> None:
    found = shuffledp.quantiles(HOURS, epsilon=4, bounds=(0, 23), entropy=SeededEntropy(1))
    morning = found.between(6, 12)
    assert morning.query == "count in [6, 12)"
    assert morning.low <= ((HOURS >= 6) & (HOURS < 12)).sum() <= morning.high
    assert found.between(0, 24).value == pytest.approx(5000)


@pytest.mark.parametrize(("points", "most"), [(24, 64), (101, 64), (101, 512), (2, 2), (10**6, 64)])
def test_groups_of_points_are_equal_and_hold_all(points: int, most: int) -> None:
    bins = point_bins(points, most)
    group = math.ceil(points / bins)
    assert bins * group >= points
    assert group == math.ceil(points / most)


def test_grouped_whole_numbers_stay_whole_and_inside_the_bounds() -> None:
    values = np.random.default_rng(4).integers(0, 1001, 5000)
    plan = plan_quantiles(5000, 2, (0, 1000), points=True)
    found = plan.run(values, SeededEntropy(2)).quantile(0.5)
    assert found.value == int(found.value) and found.low <= np.median(values) <= found.high
    last = plan.run(np.full(5000, 1000), SeededEntropy(2)).quantile(0.5)
    assert last.high == 1000 and last.value <= 1000


def test_points_are_part_of_the_protocol() -> None:
    plan = plan_quantiles(100, 1, (0, 23), points=True)
    data = json.loads(json.dumps(plan.protocol.to_dict()))
    assert data["points"] is True and protocol_from_dict(data) == plan.protocol
    assert verify(json.loads(json.dumps(plan.certificate.to_dict()))).epsilon == 1
    assert "points" not in plan_quantiles(100, 1, (0, 23), bins=24).protocol.to_dict()


def test_points_refuse_what_is_not_whole() -> None:
    protocol = plan_quantiles(20, 1, (0, 23), points=True).protocol
    for wrong in (np.array([1.5]), np.array([24]), np.array([-1]), np.array(["x"])):
        with pytest.raises(ValueOutOfRange):
            protocol.encode(wrong)
    with pytest.raises(ValueOutOfRange):
        protocol.parse("1.5")
    assert protocol.parse("23") == 23 and protocol.encode(np.array([7.0])).tolist() == [7]
    with pytest.raises(ParameterError, match="whole numbers"):
        plan_quantiles(20, 1, ("0.5", 23), points=True)


# dates


def test_dates_are_answered_with_dates() -> None:
    found = shuffledp.quantiles(DAYS, epsilon=2, bounds=YEAR, entropy=SeededEntropy(1))
    median = found.quantile(0.5)
    truth = np.quantile(DAYS.astype(np.int64), 0.5, method="inverted_cdf")
    assert median.low <= truth <= median.high
    one = found.to_dict()["quantiles"][1]
    assert datetime.date.fromisoformat(one["date"]).year == 2013
    assert found.texts()[1][1] == one["date"] and one["date"] in str(found)
    assert found.to_dict()["unit"] == "days since 1970-01-01" and "days; ε" in str(median)
    assert found.rmse_unit == " days" and " days;" in found._repr_html_()
    spring = found.between("2013-03-01", "2013-06-01")
    first, end = np.datetime64("2013-03-01"), np.datetime64("2013-06-01")
    held = (first <= DAYS) & (end > DAYS)
    assert spring.low <= held.sum() <= spring.high


def test_seconds_for_bounds_with_times() -> None:
    plan = plan_quantiles(50, 4, ("2013-01-01T00:00:00", "2013-01-01T23:59:59"), bins=24)
    noon = np.full(50, np.datetime64("2013-01-01T12:30:59.9"))
    found = plan.run(noon, SeededEntropy(1)).quantile(0.5)
    assert found.dates()["date_interval"] == ["2013-01-01T12:00:00", "2013-01-01T12:59:59"]
    assert protocol_from_dict(plan.protocol.to_dict()) == plan.protocol


def test_dates_before_1970_and_date_objects() -> None:
    protocol = plan_quantiles(20, 1, ("1969-12-30", "1970-01-02")).protocol
    late = np.array(["1969-12-31T23:00"], "datetime64[s]")
    assert protocol.encode(late).tolist() == [1]
    objects = np.array([datetime.date(1970, 1, 1), datetime.datetime(1970, 1, 2, 5)], object)
    assert protocol.encode(objects).tolist() == [2, 3]
    assert protocol.encode(np.array([protocol.parse("1970-01-02")])).tolist() == [3]


def test_what_is_no_date_is_refused() -> None:
    protocol = plan_quantiles(20, 1, YEAR).protocol
    for wrong in (
        np.array([1]),
        np.array(["NaT"], "datetime64[D]"),
        np.array(["2014-01-01"], "M8"),
    ):
        with pytest.raises(ValueOutOfRange):
            protocol.encode(wrong)
    for text in ("2014-01-01", "yesterday", "2013-02-30", "2013-01-01T00:00+01:00"):
        with pytest.raises(ValueOutOfRange):
            protocol.parse(text)
    for bounds in (("2013-01-01", 5), ("2013-01-01", "2013-13-01"), ("2013-01-02", "2013-01-01")):
        with pytest.raises(ParameterError):
            plan_quantiles(20, 1, bounds)
    with pytest.raises(ParameterError, match="dates like"):
        plan_quantiles(20, 1, YEAR).run(np.full(20, YEAR[0], "M8[D]")).between(1, 2)


# ranges and units


def test_a_range_inside_buckets_says_its_edges_and_is_wider() -> None:
    found = result_of()
    whole, inside = found.between(0, 300), found.between(1, 299)
    assert whole.query == "count in [0, 300)"
    assert inside.query == ("count in [1, 299), interpolated in buckets that reach over [0, 300)")
    assert inside.high - inside.low > 5000 / 64
    values = np.random.default_rng(3).random(5000) * 300
    assert inside.low <= ((values >= 1) & (values < 299)).sum() <= inside.high
    tiny = found.between(1, 2)
    assert tiny.low <= tiny.value <= tiny.high and tiny.low <= 0


def test_twin_the_inner_buckets_alone_miss_the_truth() -> None:
    found = result_of()
    inner = found.between(4.6875, 295.3125)
    assert inner.high < (np.random.default_rng(3).random(5000) * 300 >= 1).sum()


def test_ranges_cover() -> None:
    values = np.random.default_rng(3).random(333)
    plan, entropy = plan_quantiles(333, 1, (0, 1), bins=16), SeededEntropy("ranges")
    truth = ((values >= 0.25) & (values < 0.75)).sum()
    found = [plan.run(values, entropy).between(0.25, 0.75) for _ in range(200)]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.92
    near = [abs(one.value - truth) <= (one.high - one.low) / 5 for one in found]
    assert np.mean(near) < 0.92  # a twin with narrower intervals
    measured = np.sqrt(np.mean([(one.value - truth) ** 2 for one in found]))
    assert np.mean([one.rmse for one in found]) == pytest.approx(measured, rel=0.15)


def test_a_quantiles_rmse_is_in_its_own_unit() -> None:
    """Stretching the values stretches it; the confidence does not matter."""
    small, large = result_of(high=3), result_of(high=300)
    assert large.rmse == pytest.approx(100 * small.rmse, rel=1e-6)
    assert large.rmse == max(one.rmse for one in large.shown())
    assert large.to_dict()["quantiles"][0]["rmse"] == large.shown()[0].rmse
    assert large.rank_rmse == pytest.approx(small.rank_rmse)


# the laws behind


def test_steps_below() -> None:
    curve = np.array([0.0, 2.0, 0.0, 4.0])
    assert steps_below(curve, 1.0) == 0.5 + 0.5 + 0.25
    assert 3 - steps_below(4.0 - curve[::-1], 3.0) == 1.25  # mirrored
    assert steps_below(np.array([0.0, 0.0, 0.0, 5.0]), 0.0) == 0.0
    assert steps_below(np.array([0.0, 1.0, 1.0, 3.0]), 2.0) == 2.5


def test_rising_order_is_no_further_from_a_rising_truth() -> None:
    """A twin in falling order is."""
    rng = np.random.default_rng(8)
    truth, curve = np.arange(65.0), np.arange(65.0) + rng.normal(0, 20, 65)
    wanted = np.linspace(-60, 130, 4000)
    ordered = np.array([steps_below(curve, one) for one in wanted])
    true = np.array([steps_below(truth, one) for one in wanted])
    off = float(((ordered - true) ** 2).mean())
    assert off < ((64 - ordered - true) ** 2).mean()
    assert np.abs(np.sort(curve) - truth).sum() < np.abs(curve - truth).sum()


def test_mean_squares_of_a_sure_place() -> None:
    later = np.array([1.0, 1.0, 0.0, 0.0])
    for centre, square in ((1.5, 0.0), (0.5, 1.0)):
        shares, squares = mean_squares(later, centre, 0.0)
        assert shares.tolist() == [0.0, 1.0, 0.0] and squares.tolist() == [0.0, square, 0.0]


@pytest.mark.parametrize("outside", [0.5, 0.05, 0.001, 1e-9])
def test_reaches_of_normal_and_laplace(outside: float) -> None:
    one = np.array([1.0])
    low, high = error_ends(one, 0 * one, 3 * one, outside)
    assert high[0] == pytest.approx(-math.log(outside) / math.sqrt(2)) == -low[0]
    normal = error_ends(one, 0 * one, 0 * one, outside)[1][0]
    assert math.erfc(normal / math.sqrt(2)) == pytest.approx(outside, rel=1e-3)


@pytest.mark.parametrize("parts", [2, 8])
def test_reaches_of_sums_of_laplace_errors(parts: int) -> None:
    """Against draws; the normal law alone, the twin, misses them at 99.9 %."""
    draws = np.random.default_rng(5).laplace(size=(200_000, parts)).sum(axis=1)
    variance, fourth = 2.0 * parts, 12.0 * parts
    ends = error_ends(np.array([variance]), np.zeros(1), np.array([fourth]), 0.001)
    normal = error_ends(np.array([variance]), np.zeros(1), np.zeros(1), 0.001)
    assert np.mean(np.abs(draws) > ends[1][0]) == pytest.approx(0.001, rel=0.35)
    assert np.mean(np.abs(draws) > normal[1][0]) > 0.00135


def test_cumulants_from_characteristic_functions() -> None:
    third, fourth = third_and_fourth_cumulants(lambda t: 1j * 0 - np.log(1 + t * t), 2.0)
    assert third == pytest.approx(0, abs=1e-9) and fourth == pytest.approx(12, rel=0.01)
    third, _ = third_and_fourth_cumulants(lambda t: 5 * (np.exp(1j * t) - 1 - 1j * t), 5.0)
    assert third == pytest.approx(5, rel=0.01)

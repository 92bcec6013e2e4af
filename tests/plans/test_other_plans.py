"""Plans for histograms, real sums and quantiles."""

import math
from fractions import Fraction

import pytest
from plan_parts import histogram, paper_cell, quantiles, real_sum

from shuffledp import plan_histogram, plan_integer_sum, plan_quantiles, plan_real_sum
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.laws import DiscreteLaplace
from shuffledp.queries.quantiles.planner import best_levels

F = Fraction
CENTRAL = math.sqrt(float(DiscreteLaplace(F(1)).variance()))


@pytest.mark.parametrize(
    ("users", "aim", "most"),
    [
        (10**4, {}, 72),
        (10**6, {}, 121),
        (10**6, {"relative_error": "0.01"}, 18),
        (10**9, {"relative_error": "0.01"}, 18),
    ],
)
def test_histogram_messages_to_reach(users: int, aim: dict[str, str], most: float) -> None:
    plan = plan_histogram(users, 1, 10, **aim, cell="paper")  # type: ignore[arg-type]
    assert plan.forecast.messages_per_user / 10 <= most
    if not aim:
        assert plan.forecast.rmse**2 <= 1.5 * float(DiscreteLaplace(F(1, 2)).variance())


@pytest.mark.parametrize(
    ("users", "factor", "most"),
    [
        (10**4, 3, 215),
        (10**6, 3, 1275),
        (10**4, 2, 545),
        (10**6, 2, 2750),
    ],
)
def test_sum_messages_to_reach(users: int, factor: int, most: float) -> None:
    plan = plan_real_sum(users, 1, rmse=str(factor * CENTRAL), cell="paper")
    assert plan.forecast.messages_per_user <= most
    assert plan.forecast.rmse <= factor * CENTRAL * (1 + 1e-9)
    assert plan.certificate.loss == 1


def test_bit_by_bit_costs_more() -> None:
    error = str(3 * CENTRAL)
    mixed, bits = (
        plan_real_sum(10**4, 1, rmse=error, cell="paper"),
        plan_real_sum(10**4, 1, rmse=error, radix=(2,) * 6, cell="paper"),
    )
    assert real_sum(bits).radix == (2,) * 6
    assert mixed.forecast.messages_per_user < 0.5 * bits.forecast.messages_per_user


def test_sums_scale_with_their_bounds() -> None:
    unit, wide = plan_real_sum(1000, 1), plan_real_sum(1000, 1, bounds=(-10, 30))
    assert wide.forecast.rmse == pytest.approx(40 * unit.forecast.rmse)
    assert wide.forecast.messages_per_user == pytest.approx(unit.forecast.messages_per_user)


def test_sum_for_a_number_of_messages() -> None:
    plan = plan_real_sum(10**4, 1, max_messages=120, cell="paper")
    assert 90 < plan.forecast.messages_per_user <= 120
    assert plan.forecast.rmse < 5 * CENTRAL


def test_sum_with_a_relative_tolerance() -> None:
    plan = plan_real_sum(10**4, 1, relative_error="0.01")
    assert plan.forecast.messages_per_user < 60
    for part in (0.0, 0.001, 0.01, 0.1, 1.0):
        totals = [part * 10**4 * cell.largest for cell in real_sum(plan).digits]
        allowed = 9 * 2 + (0.01 * part * 10**4) ** 2
        assert real_sum(plan).rmse(10**4, totals) ** 2 <= allowed * (1 + 1e-9)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0,), "01", (0, float("nan")), (0, "x")])
def test_bounds_that_are_none(bounds: object) -> None:
    with pytest.raises(ParameterError):
        plan_real_sum(1000, 1, bounds=bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize("radix", [(1, 2), (), (2,) * 30, ("x",)])
def test_a_radix_that_is_none(radix: object) -> None:
    with pytest.raises(ParameterError):
        plan_real_sum(1000, 1, radix=radix)  # type: ignore[arg-type]


def test_an_error_out_of_reach() -> None:
    with pytest.raises(PlanningError, match="No digits reach"):
        plan_real_sum(1000, 1, rmse="0.5")


@pytest.mark.parametrize("buckets", [1, 0, ["a"], ["a", "a"], "abc", [1.5, 2], [True, False], None])
def test_buckets_that_are_none(buckets: object) -> None:
    with pytest.raises(ParameterError):
        plan_histogram(1000, 1, buckets)


def test_a_thousand_buckets() -> None:
    plan = plan_histogram(10**5, 1, 1000, other="rest")
    assert len(histogram(plan).labels) == 1001 and plan.forecast.bits_per_message == 11


def test_histogram_messages_in_all() -> None:
    plan = plan_histogram(10**4, 1, 5, max_messages=200, cell="paper")
    assert 150 < plan.forecast.messages_per_user <= 200


def test_levels_where_they_pay() -> None:
    assert best_levels(16, F(1)) == (16,)
    assert len(best_levels(256, F(1))) == 2
    plan = plan_quantiles(10**4, 1, (0, 100), bins=64)
    assert plan.certificate.loss == 1 and quantiles(plan).levels[-1].buckets == 64
    with pytest.raises(ParameterError):
        plan_quantiles(10**4, 1, (0, 100), bins=1)


def test_thinned_histograms_may_mute_almost_everybody() -> None:
    """A large error leaves nearly all of ε to the way up, and messages to few."""
    plan = plan_histogram(10**4, 1, 10, rmse=1000)
    assert plan.forecast.messages_per_user < 0.06 and plan.forecast.rmse <= 1000
    assert paper_cell(plan).input_pairs == 0
    assert plan.report_size <= 46


@pytest.mark.parametrize(("users", "epsilon"), [(100, 4), (10**4, "0.5"), (10**6, 1)])
def test_a_larger_tolerance_makes_sums_cheaper(users: int, epsilon: int | str) -> None:
    """Also where muting doubles the noise, and where one pair is too few for middling changes."""
    small, large, wide = (
        plan_real_sum(users, epsilon, relative_error=r, cell="paper").forecast.messages_per_user
        for r in ("0.02", "0.1", "0.3")
    )
    assert large < 0.85 * small
    assert wide < 1.25 * large


@pytest.mark.parametrize("largest", [16, 100])
def test_large_values_are_planned_with_either_cell(largest: int) -> None:
    """The paper's cell without pairs has a down_epsilon of 64 per unit of value."""
    for users, cell in ((2000, "best"), (10**5, "best"), (2000, "paper")):
        plan = plan_integer_sum(users, 1, largest, cell=cell)
        assert (
            plan.forecast.rmse**2 <= 1.5 * float(DiscreteLaplace(F(1, largest)).variance()) + 1e-6
        )
    thin = plan_integer_sum(2000, 1, largest, max_messages=largest, cell="paper")
    assert thin.certificate.loss == 1

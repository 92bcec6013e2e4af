"""Plans for counts and integer sums: the figures to reach, every corner, and clear refusals."""

import math
from fractions import Fraction
from functools import cache

import pytest
from plan_parts import paper_cell

from shuffledp import certify, plan_count, plan_histogram, plan_integer_sum
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.printed import printed_recipe
from shuffledp.cells.paper.search import cheapest_cell, error_left
from shuffledp.cells.search import CellTarget
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.laws import DiscreteLaplace
from shuffledp.plans.plan import Plan
from shuffledp.plans.text import describe_plan
from shuffledp.protocols.results import Estimate
from shuffledp.queries.count.protocol import CountProtocol

F = Fraction


def central(epsilon: str) -> float:
    return float(DiscreteLaplace(F(epsilon)).variance())


@pytest.mark.parametrize(
    ("epsilon", "overhead", "users", "most"),
    [
        ("1", "0.5", 10**4, 54),
        ("1", "0.5", 10**6, 86),
        ("1", "0.1", 10**6, 308),
        ("0.1", "0.5", 10**6, 521),
    ],
)
def test_messages_to_reach(epsilon: str, overhead: str, users: int, most: float) -> None:
    plan = plan_count(users, epsilon, mse_overhead=overhead, cell="paper")
    assert plan.forecast.messages_per_user <= most
    assert plan.forecast.rmse**2 <= (1 + float(overhead)) * central(epsilon)
    assert plan.forecast.limit_messages is not None
    assert plan.forecast.messages_per_user >= plan.forecast.limit_messages


@pytest.mark.parametrize("users", [10**6, 10**9])
def test_a_relative_tolerance_makes_the_cost_independent_of_n(users: int) -> None:
    plan = plan_count(users, 1, relative_error="0.01", cell="paper")
    assert plan.forecast.messages_per_user <= 13.2
    cell = paper_cell(plan)
    for part in (0, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1):
        count = F(part) * users
        allowed = 1.5 * central("1") + (0.01 * float(count)) ** 2
        assert float(cell.mean_squared_error(users, count)) <= allowed * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.7", "1", "3", "8"])
@pytest.mark.parametrize("users", [10, 1000, 10**7, 10**12])
@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_every_corner_plans_and_certifies(epsilon: str, users: int, cell: str) -> None:
    plan = plan_count(users, epsilon, cell=cell)
    assert plan.certificate.loss == F(epsilon)
    assert plan.forecast.rmse**2 <= 1.5 * central(epsilon) * (1 + 1e-12)


@pytest.mark.parametrize("overhead", ["0.01", "2", "30"])
@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_other_overheads(overhead: str, cell: str) -> None:
    plan = plan_count(10**5, 1, mse_overhead=overhead, cell=cell)
    assert plan.forecast.rmse**2 <= (1 + float(overhead)) * central("1") * (1 + 1e-12)


def test_an_rmse_is_kept_and_used_up() -> None:
    plan = plan_count(10**5, "0.5", rmse=5, cell="paper")
    assert 4.99 < plan.forecast.rmse <= 5


@cache
def plan_of_most(messages: int) -> Plan[Estimate]:
    return plan_count(10**4, 1, max_messages=messages, cell="paper")


@pytest.mark.parametrize("messages", [1, 3, 10, 60, 500])
def test_messages_are_kept_and_used_up(messages: int) -> None:
    plan = plan_of_most(messages)
    assert plan.forecast.messages_per_user <= messages
    if messages > 5:
        assert plan.forecast.messages_per_user > 0.95 * messages


def test_more_messages_never_err_more() -> None:
    errors = [plan_of_most(m).forecast.rmse for m in (1, 2, 3, 5, 8, 10, 59, 60, 500)]
    assert errors == sorted(errors, reverse=True)


def test_max_messages_is_the_reverse_of_an_error() -> None:
    cheap = plan_count(10**4, 1, max_messages=54, cell="paper")
    assert cheap.forecast.rmse <= math.sqrt(1.5 * central("1")) * 1.001


def test_surplus_users_are_planned_for() -> None:
    plan = plan_count(1000, 1, expected=3000, rmse=4)
    assert plan.users == 1000 and plan.forecast.rmse <= 4
    assert plan.protocol.rmse(3000) == plan.forecast.rmse > plan.protocol.rmse(1000)
    with pytest.raises(PlanningError, match="allow a larger error"):
        plan_count(1000, 1, expected=10**6, cell="bounded")
    with pytest.raises(PlanningError, match="No choice of noise"):
        plan_count(1000, 1, expected=10**6, cell="paper")
    with pytest.raises(ParameterError, match="plan for fewer"):
        plan_count(1000, 1, expected=10)


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), 0, -1, True, "abc", None])
def test_an_invalid_epsilon_is_refused(epsilon: object) -> None:
    plan_count(1000, 1)  # a plan for 1 must not be found again for True
    with pytest.raises(ParameterError):
        plan_count(1000, epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "aim",
    [
        {"rmse": 1, "mse_overhead": 1},
        {"rmse": 0},
        {"mse_overhead": "nan"},
        {"max_messages": 5, "relative_error": 1},
        {"relative_error": -1},
    ],
)
def test_targets_that_make_no_sense(aim: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        plan_count(1000, 1, **aim)  # type: ignore[arg-type]


@pytest.mark.parametrize("aim", [{"rmse": "0.5"}, {"max_messages": "0.01"}])
def test_targets_out_of_reach_say_why(aim: dict[str, str]) -> None:
    with pytest.raises(PlanningError, match="allow"):
        plan_count(1000, 1, **aim)  # type: ignore[arg-type]


@pytest.mark.parametrize("users", [0, -5, 1.5, 10**14, "x"])
def test_an_invalid_number_of_users_is_refused(users: object) -> None:
    with pytest.raises(ParameterError):
        plan_count(users, 1)  # type: ignore[arg-type]


def test_printed_constants_and_errata_3_and_4() -> None:
    at_one = printed_recipe(10**4, F(1), F(1, 2))
    assert round(at_one.messages_per_user) == 9201 and at_one.keeps_its_error
    assert not printed_recipe(10**6, F(1, 10), F(1, 2)).keeps_its_error
    over = printed_recipe(10**6, F(1, 100), F(1, 2)).rmse ** 2 / (1.5 * central("0.01"))
    assert 33 < over < 35
    with pytest.raises(PlanningError, match="erratum 4"):
        printed_recipe(900, F(1, 100), F(1, 2))
    with pytest.raises(PlanningError, match="stated for"):
        printed_recipe(10**4, F(1), F(2))
    assert certify(CountProtocol(F(1), at_one.cell))


@pytest.mark.parametrize("said", [{"a": 1}, [1], "x", {"refused": 5}, {"rmse": "x"}])
def test_what_a_plan_says_of_printed_constants_is_checked(said: object) -> None:
    data = plan_count(100, 1).to_dict()
    assert describe_plan(Plan.from_dict(data), verbose=True)
    with pytest.raises(ParameterError, match="malformed"):
        Plan.from_dict({**data, "printed_constants": said})


def test_two_noises_beat_one() -> None:
    """MATH §2: with a = b the same error costs more pairs."""
    plan = plan_count(10**6, 1, cell="paper")
    cell = paper_cell(plan)
    same = CellTarget(
        users=10**6,
        expected=10**6,
        largest=1,
        up=cell.down_epsilon,
        down=F(1),
        mse=F(1.5 * central("1")),
    )
    one_noise = PaperCell(
        users=10**6,
        largest=1,
        up_epsilon=cell.down_epsilon,
        down_epsilon=cell.down_epsilon,
        mute_probability=cell.mute_probability,
        input_pairs=cell.input_pairs,
        flood_mean=cell.flood_mean,
    )
    assert (
        float(error_left(same, one_noise))
        < 0
        < float(
            error_left(
                CellTarget(
                    users=10**6,
                    expected=10**6,
                    largest=1,
                    up=F(1),
                    down=F(1),
                    mse=F(1.5 * central("1")),
                ),
                cell,
            )
        )
    )
    assert float(cheapest_cell(same).messages_per_user()) > 1.2 * plan.forecast.messages_per_user


def test_the_limit_of_the_family() -> None:
    """MATH §3: 84.5 messages at ε = 1, ρ = ½, n = 10⁶ and 19.4 at n = 100."""
    limits = [plan_count(users, 1, cell="paper").forecast.limit_messages for users in (10**6, 100)]
    assert limits == pytest.approx([84.5, 19.4], abs=0.05)


@pytest.mark.parametrize(("largest", "users"), [(2, 100), (3, 10**6), (10, 10**4), (60, 1000)])
def test_integers(largest: int, users: int) -> None:
    plan = plan_integer_sum(users, 1, largest, cell="paper")
    allowed = 1.5 * float(DiscreteLaplace(F(1, largest)).variance())
    assert plan.forecast.rmse**2 <= allowed * (1 + 1e-12)
    relative = plan_integer_sum(users, 1, largest, relative_error="0.02", cell="paper")
    assert relative.forecast.messages_per_user < plan.forecast.messages_per_user
    for total in (0, users // 100, users, users * largest):
        mse = float(paper_cell(relative).mean_squared_error(users, total))
        assert mse <= allowed + (0.02 * total) ** 2 * (1 + 1e-12)


def test_a_stand_in_for_muted_users_saves_messages() -> None:
    plan = plan_integer_sum(10**6, 1, 10, cell="paper")
    assert paper_cell(plan).stand_in == 5
    assert plan.forecast.messages_per_user < 0.95 * 808  # what ten values cost without one


def test_sums_that_64_bits_do_not_hold_are_refused() -> None:
    with pytest.raises(ParameterError, match="overflow 64-bit counts"):
        plan_integer_sum(10**13, 1, 10**6)
    with pytest.raises(ParameterError, match="overflow 64-bit counts"):
        plan_histogram(10**13, 1, 10**5)

"""Plans of bounded cells: proved, within the error, as cheap as was promised."""

import time
from fractions import Fraction
from functools import cache
from math import inf

import numpy as np
import pytest
from bounded_oracle import user_law

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.digit_search import bounded_cost, bounded_digits
from shuffledp.cells.bounded.proof import prove
from shuffledp.cells.bounded.search import (
    Pair,
    cheapest_bounded_cell,
    settle,
    short_decay,
    split_epsilon,
    worst_error,
)
from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.search import CellTarget
from shuffledp.errors import ParameterError, PlanningError, PrivacyViolation
from shuffledp.numbers.exact import ball, sign
from shuffledp.numbers.rounding import worst_rounding
from shuffledp.plans.target import laplace_variance

F = Fraction


def cheapest(
    users: int, expected: int, largest: int, up: F, down: F, mse: F, padded: bool
) -> BoundedCell:
    return cheapest_bounded_cell(task_of(users, expected, largest, up, down, mse, padded))


def task_of(
    users: int, expected: int, largest: int, up: F, down: F, mse: F, padded: bool
) -> CellTarget:
    return CellTarget(
        users=users,
        expected=expected,
        largest=largest,
        up=up,
        down=down,
        mse=mse,
        padded=int(padded),
    )


def sum_task(mse: F, users: int = 10**4, padded: bool = True) -> SumTarget:
    return SumTarget(users=users, expected=users, epsilon=F(1), mse=mse, padded=padded)


@cache
def planned(
    epsilon: str, overhead: str, users: int, largest: int = 1, padded: bool = True
) -> tuple[BoundedCell, F]:
    loss = F(epsilon)
    mse = (1 + F(overhead)) * laplace_variance(loss / largest)
    return cheapest(users, users, largest, loss, loss, mse, padded), mse


COUNTS = [
    ("1", "1/2", 100, 17),
    ("1", "1/2", 10**4, 27),
    ("1", "1/2", 10**6, 37),
    ("1", "1/10", 10**6, 41),
    ("1/10", "1/2", 10**4, 267),
    ("1/10", "1/2", 10**6, 367),
    ("1", "1/2", 10**9, 53),
    ("1", "1/2", 10**12, 69),
]


@pytest.mark.parametrize(("epsilon", "overhead", "users", "most"), COUNTS)
def test_counts_keep_their_error_and_their_number_of_messages(
    epsilon: str, overhead: str, users: int, most: int
) -> None:
    cell, mse = planned(epsilon, overhead, users)
    assert cell.most_messages <= most
    assert worst_error(cell, users) <= ball(mse)
    prove(cell, F(epsilon), F(epsilon))


@pytest.mark.parametrize(
    ("overhead", "users", "most"),
    [("1/2", 100, 8), ("1/2", 10**4, 13), ("1/2", 10**6, 18), ("1/10", 10**6, 20)],
)
def test_messages_on_average(overhead: str, users: int, most: int) -> None:
    """Of users who hold 0; those who hold 1 send one more."""
    cell, mse = planned("1", overhead, users, padded=False)
    assert cell.messages_per_user(0) <= most + ball(F(1, 1000))
    assert cell.messages_per_user(1) <= most + 1 + ball(F(1, 1000))
    assert worst_error(cell, users) <= ball(mse)


@pytest.mark.parametrize(("largest", "most"), [(2, 62), (3, 94), (5, 158), (9, 286), (15, 477)])
def test_integers(largest: int, most: int) -> None:
    cell, mse = planned("1", "1/2", 10**4, largest)
    assert cell.most_messages <= most
    assert worst_error(cell, 10**4) <= ball(mse)


@pytest.mark.parametrize(("users", "sent", "most"), [(10**4, 23, 60), (10**6, 30, 80)])
def test_buckets_of_a_histogram(users: int, sent: int, most: int) -> None:
    """Per bucket, ε = 1 in all; on average an empty bucket sends z_d + w_d."""
    mse = F(3, 2) * laplace_variance(F(1, 2))
    for padded in (True, False):
        task = split_epsilon(F(1), task_of(users, users, 1, F(1, 2), F(1, 2), mse, padded))
        assert task.up + task.down == 1
        cell = cheapest_bounded_cell(task)
        assert cell.most_messages <= most if padded else cell.base <= sent
        assert worst_error(cell, users) <= ball(mse)
    assert task.up < task.down  # what is sent on average depends on the way down alone


@pytest.mark.parametrize("users", [1, 2, 3, 5, 10, 30])
def test_a_handful_of_users(users: int) -> None:
    cell, mse = planned("1", "1/2", users)
    prove(cell, F(1), F(1))
    assert worst_error(cell, users) <= ball(mse)
    if users == 1:
        assert cell.most_messages == 1  # randomized response


def test_the_error_is_that_of_the_law() -> None:
    """Against the variance of every number of tokens, added up one by one, for every value."""
    for cell, _ in (planned("1", "1/2", 30), planned("1", "1/2", 20, 3)):
        worst, means = F(0), []
        for value in range(cell.largest + 1):
            weights = user_law(cell, value)
            law = [mass / sum(weights) for mass in weights]
            mean = sum((k * mass for k, mass in enumerate(law)), start=F(0))
            square = sum((k * k * mass for k, mass in enumerate(law)), start=F(0))
            worst = max(worst, square - mean**2)
            means.append(mean)
        kept = (means[-1] - means[0]) / cell.largest
        assert abs(worst_error(cell, 50) - ball(50 * worst / kept**2)) < 1e-12


def test_more_reports_than_are_sure_cost_more_error_and_so_more_messages() -> None:
    mse = F(3) * laplace_variance(F(1))
    few = cheapest(10**4, 10**4, 1, F(1), F(1), mse, True)
    many = cheapest(10**4, 2 * 10**4, 1, F(1), F(1), mse, True)
    assert few.most_messages < many.most_messages
    assert worst_error(many, 2 * 10**4) <= ball(mse) < worst_error(few, 4 * 10**4)


def test_no_pair_of_totals_is_cheaper() -> None:
    """Against all pairs of totals below the one that was found."""
    for users, largest in ((100, 1), (10**4, 1), (500, 2)):
        cell, mse = planned("1", "1/2", users, largest)
        pair = Pair(task_of(users, users, largest, F(1), F(1), mse, True))
        for total in range(cell.most_messages - largest):
            assert not any(pair.meets(up, total - up) for up in range(total + 1))


def test_floats_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that believes in smaller odds comes to nothing: no cell, rather than a wrong one."""
    from shuffledp.cells.bounded.search import Side

    honest = Side.share
    monkeypatch.setattr(Side, "share", lambda self, z, w, ratio: 1.01 * honest(self, z, w, ratio))
    mse = F(3, 2) * laplace_variance(F(1))
    pair = Pair(task_of(7777, 7777, 1, F(1), F(1), mse, True))
    assert settle(pair, 15, 15) is None
    with pytest.raises(PlanningError):
        cheapest(7777, 7777, 1, F(1), F(1), mse, True)


def test_short_numbers() -> None:
    cell, _ = planned("1", "1/2", 10**4, 5)
    for side in (cell.up, cell.down):
        assert side.decay.denominator <= 10**12
        assert all(odds.denominator <= 10**24 for odds in side.odds)
    for epsilon, largest in ((F(1), 1), (F(1, 3), 7), (F(1, 1000), 9), (F(5), 2)):
        decay = short_decay(epsilon, largest)
        _, slack, _ = sign(lambda: ball(decay).log() * largest + ball(epsilon))  # noqa: B023
        assert 0 < slack < 1e-9 * float(epsilon)


def test_an_error_below_the_noise_is_refused() -> None:
    mse = F(99, 100) * laplace_variance(F(1))
    with pytest.raises(PlanningError, match="allow a larger error"):
        cheapest(10**4, 10**4, 1, F(1), F(1), mse, True)
    with pytest.raises(PlanningError):
        split_epsilon(F(1), task_of(10**4, 10**4, 1, F(1, 2), F(1, 2), mse, True))
    with pytest.raises(PlanningError):
        bounded_digits(sum_task(F(1)))
    with pytest.raises(ParameterError):
        cheapest(10**4, 10**3, 1, F(1), F(1), F(3), True)


def test_a_plan_takes_no_time() -> None:
    begin = time.perf_counter()
    for users in (3 * 10**4, 3 * 10**8, 3 * 10**12):
        planned("1", "1/2", users)
        planned("1/10", "1/2", users)
    assert time.perf_counter() - begin < 6 * 0.5


def test_the_formula_for_the_cost_is_close() -> None:
    for epsilon, users, largest in (
        ("1", 10**4, 2),
        ("1", 10**6, 9),
        ("1/2", 10**4, 5),
        ("1/5", 10**6, 3),
        ("2", 10**5, 15),
    ):
        cell, mse = planned(epsilon, "1/2", users, largest)
        guess = bounded_cost(
            users, np.array(largest), np.array(float(F(epsilon))), np.array(float(mse))
        )
        assert abs(float(guess) / cell.most_messages - 1) < 0.03
    assert bounded_cost(10**4, np.array(1.0), np.array(1.0), np.array(1.0)) == inf


@pytest.mark.parametrize(("rmse", "most"), [("4.07", 258), ("2.714", 432)])
def test_sums_of_reals(rmse: str, most: int) -> None:
    task = sum_task(F(rmse) ** 2)
    digits = bounded_digits(task)
    cells = [cell for cell in digits.cells if isinstance(cell, BoundedCell)]
    assert len(cells) == len(digits.cells)
    assert task.padded and digits.cost <= most
    epsilon = sum(max(cell.up.epsilon, cell.down.epsilon) for cell in cells)
    assert epsilon <= 1
    radix = [cell.largest + 1 for cell in cells]
    grid = int(np.prod(radix)) - 1
    error, weight = ball(10**4 * worst_rounding(digits.dither) / grid**2), 1
    for base, cell in reversed(list(zip(radix, cells, strict=True))):
        assert cell.largest == base - 1
        prove(cell, cell.up.epsilon, cell.down.epsilon)
        error += worst_error(cell, 10**4) * ball(F(weight, grid) ** 2)
        weight *= base
    assert error <= ball(F(rmse) ** 2)
    with pytest.raises(PrivacyViolation):
        prove(cells[0], F(epsilon) / 2, F(epsilon) / 2)

"""The lower bound on messages that a plan prints holds for that plan, and for any design with the
same losses and errors (MATH §3 and §12)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from plan_parts import bounded_cell, paper_cell

from shuffledp import (
    plan_by_group,
    plan_count,
    plan_frequencies,
    plan_histogram,
    plan_integer_sum,
    plan_quantiles,
    plan_real_sum,
)
from shuffledp.cells.bounded.limit import least_offset
from shuffledp.cells.paper.limit import least_pairs
from shuffledp.errors import PlanningError
from shuffledp.plans.plan import Plan
from shuffledp.plans.text import describe_plan

Make = Callable[[], Plan[Any]]
CELLS = ("bounded", "paper")


def grid(users: tuple[int, ...], epsilons: tuple[str, ...]) -> Iterator[tuple[str, Make]]:
    """Targets of all kinds, for each number of users and ε."""
    for n in users:
        for epsilon in epsilons:
            yield f"count {n} {epsilon}", partial(plan_count, n, epsilon)
            for labels in (2, 20):
                name = f"histogram {n} {epsilon} {labels} pooled"
                yield name, partial(plan_histogram, n, epsilon, labels, cell="pooled")
            for cell in ("paper", "bounded"):
                for rho in ("0.1", "0.5", "4"):
                    options = {"mse_overhead": rho, "cell": cell}
                    yield (
                        f"count {n} {epsilon} {options}",
                        partial(plan_count, n, epsilon, mse_overhead=rho, cell=cell),
                    )
                for labels in (2, 3, 20):
                    yield (
                        f"histogram {n} {epsilon} {labels} {cell}",
                        partial(plan_histogram, n, epsilon, labels, cell=cell),
                    )
                for largest in (2, 7):
                    yield (
                        f"integers {n} {epsilon} {largest} {cell}",
                        partial(plan_integer_sum, n, epsilon, largest, cell=cell),
                    )


def scan(plans: Iterator[tuple[str, Make]]) -> tuple[int, int, list[str]]:
    """(plans, those with a bound, those that send fewer messages than their bound says)."""
    made, bounded, wrong = 0, 0, []
    for name, make in plans:
        try:
            forecast = make().forecast
        except PlanningError:
            continue
        made += 1
        if forecast.limit_messages is not None:
            bounded += 1
            if not 0 < forecast.limit_messages <= forecast.messages_per_user:
                wrong.append(f"{name}: {forecast.limit_messages} > {forecast.messages_per_user}")
    return made, bounded, wrong


def test_no_plan_sends_fewer_messages_than_its_bound() -> None:
    made, bounded, wrong = scan(grid((2, 1_000), ("5",)))
    assert not wrong and made > 20 and bounded > 0.7 * made


def test_no_plan_of_a_large_grid_sends_fewer_messages_than_its_bound() -> None:
    users = (2, 3, 5, 30, 300, 3_000, 10**5, 10**6)
    made, bounded, wrong = scan(grid(users, ("0.1", "0.5", "1", "2", "5")))
    assert not wrong and made > 600 and bounded > 0.7 * made


def targets_of(random: Random) -> tuple[str, list[Make]]:
    """One question, and plans for it with four targets of error."""
    n, epsilon = random.choice([2, 4, 20, 500, 20_000]), random.choice(["0.1", "1", "3", "8"])
    asked, cell = random.choice(["count", "histogram", "integers"]), random.choice(CELLS)
    size = random.choice([2, 3, 5])
    plans: dict[str, Callable[..., Plan[Any]]] = {
        "count": partial(plan_count, n, epsilon, cell=cell),
        "histogram": partial(plan_histogram, n, epsilon, size, cell=cell),
        "integers": partial(plan_integer_sum, n, epsilon, size, cell=cell),
    }
    rhos = ("0.1", "0.5", "2", "8")
    return f"{asked} {n} {epsilon} {cell} {size}", [
        partial(plans[asked], mse_overhead=rho) for rho in rhos
    ]


def crossed(found: list[tuple[float, float, float | None]], factor: float = 1) -> int:
    """How many pairs of plans (error, messages, bound) refute a bound: the other plan has at most
    the same error and sends fewer messages."""
    return sum(
        bound is not None and other <= error * (1 + 1e-12) and sent < bound * factor
        for error, _, bound in found
        for other, sent, _ in found
    )


def test_no_plan_with_a_smaller_error_sends_fewer_messages_than_another_ones_bound() -> None:
    random, made, twins = Random(14), 0, 0
    for _ in range(16):
        name, plans = targets_of(random)
        found = []
        for make in plans:
            try:
                forecast = make().forecast
            except PlanningError:
                continue
            found.append((forecast.rmse, forecast.messages_per_user, forecast.limit_messages))
        made += len(found)
        assert crossed(found) == 0, name
        twins += crossed(found, 8)
    assert made >= 50 and twins > 10  # the twin: bounds 8 times as large are refuted


def test_other_queries_print_a_bound_that_holds_or_none() -> None:
    for plan in (
        plan_real_sum(1_000, 1, bounds=(0, 10), rmse=100),
        plan_quantiles(1_000, 1, (0, 1), bins=8),
        plan_frequencies(10**4, 1, max_messages=60),
        plan_by_group(1_000, 1, ["a", "b"], answer="mean", bounds=(0, 1)),
    ):
        least = plan.forecast.limit_messages
        assert least is None or 0 < least <= plan.forecast.messages_per_user


def test_plans_come_near_their_bounds() -> None:
    """The twin of the scan: a bound of 0 would pass it."""
    for plan, part in (
        (plan_count(10**4, 1), 0.6),
        (plan_count(10**6, 1), 0.7),
        (plan_histogram(10**4, 1, 10, cell="bounded"), 0.5),
        (plan_histogram(10**4, 1, 10), 0.3),
        (plan_integer_sum(10**4, 1, 3), 0.5),
        (plan_count(10**6, 1, cell="paper"), 0.99),
    ):
        assert plan.forecast.limit_messages is not None
        assert plan.forecast.limit_messages > part * plan.forecast.messages_per_user


def test_a_plan_without_a_bound_prints_none() -> None:
    plan = plan_integer_sum(1_000, 1, 5, cell="paper")
    assert plan.forecast.limit_messages is None and "lower bound" not in parameters(plan)
    assert Plan.from_dict(plan.to_dict()).forecast == plan.forecast
    assert "lower bound for this design: 9.49" in parameters(plan_count(10**4, 1))


def parameters(plan: Plan[Any]) -> str:
    """What a plan prints with its parameters."""
    return "\n".join(text for _, text in describe_plan(plan, verbose=True))


def randomizers(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Laws of a user's messages at 0 and at 1, on 0..K: rare jumps around b and b + 1."""
    random = np.random.default_rng(seed)
    for _ in range(300):
        most = int(random.integers(2, 30))
        laws = []
        jumps = random.dirichlet(np.full(most + 1, random.choice([0.05, 1.0])))
        rare = 10.0 ** random.uniform(-6, -0.5)
        offset = int(random.integers(0, most))
        for held in (offset, offset + 1):
            law = rare * jumps
            law[held] += 1 - rare
            laws.append(law)
        yield laws[0], laws[1]


def moments(law: np.ndarray) -> tuple[float, float]:
    numbers = np.arange(len(law))
    mean = float(law @ numbers)
    return mean, float(law @ (numbers - mean) ** 2)


def test_random_designs_respect_the_bound() -> None:
    """The loss of each is at least what the tilt lemma says, ln of the largest ratio of generating
    functions. A variance that is too small by half breaks the bound of some."""
    tilts = np.exp(np.linspace(-40, 3, 2_000))
    kept, broken = 0, 0
    for zero, one in randomizers(7):
        powers = tilts[:, None] ** np.arange(len(zero))
        # a little more, for the tilts between those of the grid
        loss = float(np.abs(np.log(powers @ zero) - np.log(powers @ one)).max()) + 1e-3
        (low, spread), (high, spread_of_one) = moments(zero), moments(one)
        step = high - low
        if step <= 0 or loss > 6:
            continue
        variance = max(spread, spread_of_one) / step**2
        kept += least_offset(loss, variance) <= low / step * (1 + 1e-9) + 1e-9
        assert least_offset(loss, variance) <= low / step * (1 + 1e-9) + 1e-9
        broken += least_offset(loss / 2, variance / 20) > low / step
    assert kept > 100 and broken > 20


def test_the_pairs_that_no_flood_replaces() -> None:
    """At the least number of pairs the two sides are equal; one in a thousand less does not do."""
    cell = paper_cell(plan_count(10**4, 1, cell="paper"))
    odds = float(cell.mute_probability / (1 - cell.mute_probability))
    pairs = least_pairs(Fraction(1), cell.down_epsilon, cell.mute_probability, cell.input_pairs)

    def right(s: float) -> float:
        return float(s * math.exp(s * float(1 - cell.down_epsilon)) * (1 + 1 / s) ** (s + 1))

    left = 1 / (math.expm1(1) * odds)
    assert right(pairs) == pytest.approx(left, rel=1e-6) and right(0.999 * pairs) < left
    assert pairs <= cell.input_pairs < pairs + 3


def test_the_bound_uses_the_loss_and_the_error_of_the_cell() -> None:
    cell = bounded_cell(plan_count(10**4, 1))
    assert cell.fewest_messages(Fraction(1), 1) > cell.fewest_messages(Fraction(3, 2), 1)
    ten = cell.fewest_messages(Fraction(1), 10)
    assert ten == pytest.approx(10 * cell.fewest_messages(Fraction(1), 1) - 9, rel=1e-3)

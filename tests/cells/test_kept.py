"""The sparse cell that keeps its noise in a jump, which goes beside exact cells: against the exact
law of all its views, by the second program, and in what it draws and says."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_checkers import package_accepts, second_accepts
from message_masses import exact_masses, token_masses
from rows import for_each
from sparse_oracle import (
    Instance,
    Law,
    Value,
    largest_ratios,
    moved,
    tight_kept,
    together,
    user_law,
    whole,
)
from vector_entries import check_sparse

from shuffledp import SeededEntropy
from shuffledp.cells.registry import cell_from_dict, group_of_buckets
from shuffledp.cells.sparse.cell import KeptCell, SparseBuckets
from shuffledp.cells.sparse.kept_search import KeptTask, plan_kept
from shuffledp.cells.sparse.proof import prove_kept
from shuffledp.errors import ParameterError, PrivacyViolation

F = Fraction
GAINS = [(F(1, 2), F(1, 2)), (F(1, 5), F(1)), (F(1), F(1, 5))]
"""(e^u − 1, e^d − 1); the inequalities hold for any numbers above 0."""
GRID = [
    ((users, buckets, cut, decay), gains)
    for users, buckets, cut in ((1, 2, 1), (2, 1, 1), (2, 2, 0), (2, 2, 1), (3, 1, 1))
    for decay in (F(1, 3), F(9, 10))
    for gains in GAINS
]


def losses(one: Instance) -> tuple[F, F, F]:
    """The largest ratios of a value over none, of none over a value, and of two values."""
    found = largest_ratios(one, user_law)
    up = max(found[value, None] for value in range(one.buckets))
    down = max(found[None, value] for value in range(one.buckets))
    both = [found[a, b] for a, b in found if a is not None and b is not None]
    return up, down, max(both, default=F(1))


def test_no_view_tells_more_than_each_direction_allows() -> None:
    reached = Counter[str]()
    for shape, gains in GRID:
        up, down, both = losses(tight_kept(*shape, gains))
        assert up <= 1 + gains[0] and down <= 1 + gains[1]
        assert both <= (1 + gains[0]) * (1 + gains[1])
        reached.update(up=up > 1 + F(19, 20) * gains[0], down=down == 1 + gains[1])
    assert min(reached["up"], reached["down"]) > 5  # the bounds are not idle


SPOILT: dict[str, Callable[[Instance], Instance]] = {
    "muted 0.1 % too rarely": lambda one: moved(one, "muted", F(1, 1000)),
    "a tenth of the jumps": lambda one: moved(one, "jump", F(9, 10)),
    "no jump": lambda one: moved(one, "jump", F(1)),
    "noise that falls faster": lambda one: replace(one, decay=one.decay * F(4, 5)),
    "an urn without memory": lambda one: replace(one, weight=0),
    "noise that is not kept": lambda one: replace(one, keeps_noise=False),
}


@pytest.mark.parametrize("name", SPOILT)
def test_every_spoilt_variant_is_refuted(name: str) -> None:
    def broken(shape: tuple[int, int, int, F], gains: tuple[F, F]) -> bool:
        up, down, both = losses(SPOILT[name](tight_kept(*shape, gains)))
        allowed = (1 + gains[0], 1 + gains[1], (1 + gains[0]) * (1 + gains[1]))
        return any(found > most for found, most in zip((up, down, both), allowed, strict=True))

    assert any(broken(shape, gains) for shape, gains in GRID)


# Beside exact cells: every replacement, by brute force


def beside(odds: F) -> Callable[[Instance, Value], Law]:
    """The law of what a user sends to one exact cell (first) and to the buckets beside it; the
    value None is the label of the exact cell. That cell is randomized response: it sends what the
    user holds with these odds, so that `odds` is its ratio in both directions."""

    def law(one: Instance, value: Value) -> Law:
        held = int(value is None)
        own = {(held,): odds / (1 + odds), (1 - held,): 1 / (1 + odds)}
        return {(*a, *b): x * y for a, x in own.items() for b, y in user_law(one, value).items()}

    return law


def test_any_replacement_beside_an_exact_cell_costs_at_most_both_halves() -> None:
    gain = F(1, 2)
    for shape in ((2, 2, 1, F(1, 3)), (2, 1, 1, F(9, 10)), (1, 1, 1, F(1, 2))):
        one = tight_kept(*shape, (gain, gain))
        assert max(largest_ratios(one, beside(1 + gain)).values()) <= (1 + gain) ** 2
        assert max(largest_ratios(one, beside(F(2))).values()) > (1 + gain) ** 2


# The cell


def cell_of(
    users: int = 5, buckets: int = 3, messages: int = 5, up: str = "1/2", down: str = "1/2"
) -> KeptCell:
    task = KeptTask(
        users=users, buckets=buckets, up=F(up), down=F(down), expected=users, count=min(users, 10)
    )
    return plan_kept(task, messages)


def as_instance(cell: KeptCell) -> Instance:
    return Instance(
        users=cell.users, buckets=cell.buckets, decay=cell.decay, cut=cell.cut, data=cell.data,
        muted=cell.muted, jump=cell.jump, keeps_noise=True,
    )  # fmt: skip


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_the_law_and_the_moments_of_a_bucket_are_those_of_the_enumeration(buckets: int) -> None:
    cell = cell_of(4, buckets)
    one, known = as_instance(cell), cell.moments
    without, held = exact_masses(cell)
    for value, masses, mean, variance, shared in (
        (None, without, known.mean, known.variance, known.covariance),
        (0, held, known.mean + cell.data, known.variance_with, known.covariance_with),
    ):
        law = user_law(one, value)
        counted = [F(0)] * (cell.most_messages + 1)
        for vector, mass in law.items():
            counted[vector[0]] += mass
        assert counted == masses
        first = sum(vector[0] * mass for vector, mass in law.items())
        second = sum(vector[0] ** 2 * mass for vector, mass in law.items())
        assert (first, second - first**2) == (mean, variance)
        if buckets > 1:
            other = sum(vector[1] * mass for vector, mass in law.items())
            product = sum(vector[0] * vector[1] * mass for vector, mass in law.items())
            assert product - first * other == shared
        if value is None:
            sizes = [F(0)] * (cell.most_messages + 1)
            for vector, mass in law.items():
                sizes[sum(vector)] += mass
            assert sizes == token_masses(cell)


DRAWS: dict[str, Callable[[SparseBuckets, SeededEntropy], Any]] = {
    "one by one": lambda group, entropy: sum(
        group.randomize(code, entropy)[0] for code in (0, 1, -1)
    ),
    "together": lambda group, entropy: group.randomize_total(np.array([0, 1, -1]), entropy)[0],
    "in aggregate": lambda group, entropy: group.aggregate_with(np.array([1, 1]), 1, entropy)[0],
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_all_ways_draw_the_exact_law_of_the_view(
    draw: Callable[[SparseBuckets, SeededEntropy], Any],
) -> None:
    """χ² over the most likely views; the law without the noise in a jump is told apart."""
    cell = cell_of(3, 2, 3)
    assert cell.jump > F(1, 4)
    group, entropy, runs = SparseBuckets(cell=cell), SeededEntropy(5), 2_000
    seen = Counter(tuple(draw(group, entropy).tolist()) for _ in range(runs))
    statistics = []
    for one in (as_instance(cell), replace(as_instance(cell), keeps_noise=False)):
        laws = [user_law(one, value) for value in (0, 1, None)]
        scale = math.lcm(*(mass.denominator for law in laws for mass in law.values()))
        view = together(
            together(whole(laws[0], scale), whole(laws[1], scale)), whole(laws[2], scale)
        )
        chances = {key: mass / scale**3 for key, mass in view.items()}
        often = [key for key, chance in chances.items() if runs * chance >= 8]
        expected = np.array([runs * chances[key] for key in often])
        found = np.array([seen[key] for key in often])
        left, rest = runs - found.sum(), runs - expected.sum()
        statistic = ((found - expected) ** 2 / expected).sum() + (left - rest) ** 2 / rest
        statistics.append((statistic - len(often)) / math.sqrt(2 * len(often)))
    assert abs(statistics[0]) < 5 < statistics[1]


def test_a_user_sends_at_most_k_tokens() -> None:
    cell = cell_of(3, 8, 3)
    assert cell.cut == 1 and cell.jump > F(1, 3)
    group, entropy = SparseBuckets(cell=cell), SeededEntropy(2)
    sizes = [len(group.tokens(3, entropy)) for _ in range(500)]
    assert cell.most_messages == 2 * cell.cut + 1 and max(sizes) <= cell.most_messages
    assert max(sizes) > cell.cut + 1  # a jump that keeps its noise


@pytest.mark.parametrize("count", [0, 15, 80])
def test_estimates_are_unbiased_with_the_forecast_error_and_covered(count: int) -> None:
    """Six of thirty buckets hold `count` users each, the rest of 500 users hold none."""
    users, held, runs = 500, 6, 300
    cell = cell_of(users, 30, 15)
    group, entropy = SparseBuckets(cell=cell), SeededEntropy(count)
    tally = np.zeros(30, np.int64)
    tally[:held] = count
    without = users - held * count
    sums = [group.aggregate_with(tally, without, entropy)[0][:held] for _ in range(runs)]
    errors = cell.estimates(np.array(sums), users) - count
    rmse = cell.rmse(users, count)
    assert abs(errors.mean()) < 4 * rmse / math.sqrt(runs)
    assert 0.85 < np.sqrt(np.mean(errors**2)) / rmse < 1.15
    low, high = cell.intervals(users, np.concatenate(sums), 0.05)
    assert np.mean((low <= count) & (count <= high)) > 0.94


@pytest.mark.parametrize("up", ["1/10", "1/2", "5/2"])
@pytest.mark.parametrize(("users", "buckets", "messages"), [(10, 5, 1), (10**6, 10**6, 41)])
def test_every_plan_is_proved_and_read_back(
    up: str, users: int, buckets: int, messages: int
) -> None:
    cell = cell_of(users, buckets, messages, up=up, down=up)
    assert prove_kept(cell, F(up), F(up)).claims()["up"] == up
    assert cell_from_dict(cell.to_dict()) == cell
    assert cell.most_messages <= messages


def test_the_proof_refuses_what_does_not_hold() -> None:
    cell = cell_of(1000, 50, 9)
    quiet = cell.jump / 10
    for wrong in (
        replace(cell, jump=cell.jump - quiet, muted=cell.muted + quiet),
        replace(cell, decay=cell.decay * F(99, 100)),
        replace(cell, up=F(49, 100)),
    ):
        with pytest.raises(PrivacyViolation, match="fails"):
            prove_kept(wrong, F(1, 2), F(1, 2))
    loud = replace(cell_of(1000, 50, 25), data=F(9, 10), muted=F(9, 100), jump=F(1, 100))
    with pytest.raises(PrivacyViolation):
        prove_kept(loud, F(1, 2), F(1, 2))
    with pytest.raises(PrivacyViolation, match="only"):
        prove_kept(cell, F(1, 2), F(49, 100))
    with pytest.raises(ParameterError, match="heavy"):
        group_of_buckets(cell, 50, F(1, 2), F(1, 2))


# Vectors, and what two programs say of them

ENTRIES = json.loads((Path(__file__).parents[2] / "vectors/kept.json").read_text("utf-8"))


@for_each(ENTRIES, lambda entry: entry["name"])
def test_both_programs_say_what_the_vectors_say(entry: dict[str, Any]) -> None:
    def proved(cell: Any) -> int:
        assert isinstance(cell, KeptCell)
        prove_kept(cell, F(entry["up"]), F(entry["down"]))
        return cell.most_messages

    first, second = package_accepts(entry, proved), second_accepts(check_sparse, entry)
    assert first is second is entry["holds"]


def test_the_vectors_hold_every_attack() -> None:
    assert sum(entry["holds"] for entry in ENTRIES) == 5
    assert sum(not entry["holds"] for entry in ENTRIES) == 68

"""The sparse histogram against the exact law of all its views: instances that the theorem accepts
keep their ε, and every spoilt variant is refuted."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from message_masses import exact_masses, token_masses
from sparse_oracle import Instance, grid, largest_ratio, moved, tight, urn, user_law

from shuffledp.cells.sparse.cell import SparseBuckets, SparseCell
from shuffledp.cells.sparse.search import plan_sparse

F = Fraction
GAIN = F(3, 2)
"""e^ε − 1; the theorem holds for any number above 0."""


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    return [tight(*one, GAIN) for one in grid()]


def test_no_view_of_any_input_tells_more_than_epsilon(instances: list[Instance]) -> None:
    ratios = [largest_ratio(one) for one in instances]
    assert max(ratios) == 1 + GAIN  # never above, and reached
    assert min(ratios) > 1


def test_more_users_than_planned_hide_as_well() -> None:
    for one in (tight(2, 2, 1, F(1, 2), F(3, 5), GAIN), tight(1, 2, 1, F(9, 10), F(1), GAIN)):
        assert largest_ratio(one, one.users + 1) <= 1 + GAIN


def test_fewer_users_than_planned_do_not() -> None:
    one = tight(3, 2, 1, F(1, 2), F(1, 5), GAIN)
    assert largest_ratio(one, 2) > 1 + GAIN


SPOILT: dict[str, Callable[[Instance], Instance]] = {
    "muted 0.1 % too rarely": lambda one: moved(one, "muted", F(1, 1000)),
    "half the jumps": lambda one: moved(one, "jump", F(1, 2)),
    "no jump": lambda one: moved(one, "jump", F(1)),
    "jumps into one bucket": lambda one: replace(one, one_bucket=True),
    "a shorter cut": lambda one: replace(one, cut=one.cut - 1),
    "noise that falls faster": lambda one: replace(one, decay=one.decay * F(9, 10)),
    "an urn without memory": lambda one: replace(one, weight=0),
    "an urn that weighs too much": lambda one: replace(one, weight=3 * one.users),
}


@pytest.mark.parametrize("name", SPOILT)
def test_every_spoilt_variant_is_refuted(name: str) -> None:
    found = [
        largest_ratio(SPOILT[name](tight(users, 2, 1, decay, share, GAIN)))
        for users in (1, 2, 3)
        for decay in (F(1, 2), F(9, 10))
        for share in (F(1, 5), F(1))
    ]
    assert max(found) > 1 + GAIN


def test_half_the_weight_in_the_urn_is_refuted() -> None:
    """It takes three buckets and three tokens to tell."""
    one = tight(2, 3, 2, F(1, 2), F(1, 5), GAIN)
    assert largest_ratio(one) <= 1 + GAIN < largest_ratio(replace(one, weight=1))


def test_a_share_above_one_passes_both_inequalities_and_is_not_private() -> None:
    one = tight(2, 2, 1, F(9, 10), F(19, 10), GAIN)
    assert min(one.data, one.muted, one.jump) > 0
    assert largest_ratio(one) > 1 + GAIN


def test_a_planned_cell_keeps_its_word() -> None:
    cell = plan_sparse(3, 2, 1, max_messages=2, error_at=1)
    one = as_instance(cell)
    ratio = largest_ratio(one)
    assert ratio < F(27182818285, 10**10)
    assert ratio > F(27, 10)  # and wastes hardly anything


def as_instance(cell: SparseCell) -> Instance:
    return Instance(
        users=cell.users,
        buckets=cell.buckets,
        decay=cell.decay,
        cut=cell.cut,
        data=cell.data,
        muted=cell.muted,
        jump=cell.jump,
    )


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_the_law_and_the_moments_of_a_bucket_are_those_of_the_enumeration(buckets: int) -> None:
    cell = plan_sparse(4, buckets, 1, max_messages=4, error_at=1)
    one = as_instance(cell)
    without, held = exact_masses(cell)
    for law, masses in ((user_law(one, None), without), (user_law(one, 0), held)):
        counted = [F(0)] * (cell.cut + 2)
        for vector, mass in law.items():
            counted[vector[0]] += mass
        assert counted == masses
    known = cell.moments
    for value, mean, variance in (
        (None, known.mean, known.variance),
        (0, known.mean + cell.data, known.variance_with),
    ):
        law = user_law(one, value)
        first = sum(vector[0] * mass for vector, mass in law.items())
        second = sum(vector[0] ** 2 * mass for vector, mass in law.items())
        assert (first, second - first**2) == (mean, variance)
        if buckets > 1:
            other = sum(vector[1] * mass for vector, mass in law.items())
            product = sum(vector[0] * vector[1] * mass for vector, mass in law.items())
            together = known.covariance if value is None else known.covariance_with
            assert product - first * other == together
    tokens = sum(sum(vector) * mass for vector, mass in user_law(one, None).items())
    assert tokens == known.tokens
    masses = token_masses(cell)
    assert sum(masses) == 1 and sum(k * mass for k, mass in enumerate(masses)) == tokens


def test_the_urn_of_the_oracle_deals_negative_binomial_shares() -> None:
    law = urn(3, 5, 4)
    assert sum(law.values()) == 1
    r = F(1, 5)

    def share(j: int) -> F:
        found = F(1)
        for i in range(j):
            found *= (r + i) / (i + 1)
        return found

    weights = {v: share(v[0]) * share(v[1]) * share(v[2]) for v in law}
    total = sum(weights.values())
    assert law == {vector: weight / total for vector, weight in weights.items()}


def test_a_group_refuses_other_numbers_of_buckets() -> None:
    cell = plan_sparse(100, 5, 1, max_messages=4, error_at=10)
    assert SparseBuckets.of(cell, 5, F(1), F(0)).replacement_loss == 1

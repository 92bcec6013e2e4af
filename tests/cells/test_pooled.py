"""Draws, laws, intervals and plans of pooled cells."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from message_masses import message_masses
from numpy.typing import NDArray
from pooled_oracle import Instance, user_law
from sparse_oracle import Vector, together, whole
from view_draws import as_array, chi2, one_by_one

from shuffledp import SeededEntropy
from shuffledp.cells.bounded.cell import Direction
from shuffledp.cells.bounded.error import laws
from shuffledp.cells.pooled import draws
from shuffledp.cells.pooled.cell import PooledBuckets, PooledCell
from shuffledp.cells.pooled.proof import prove
from shuffledp.cells.pooled.search import search_buckets
from shuffledp.cells.registry import cell_from_dict
from shuffledp.cells.search import CellTarget
from shuffledp.errors import PlanningError, ValueOutOfRange
from shuffledp.numbers.entropy import Entropy
from shuffledp.plans.target import laplace_variance

F = Fraction
Counts = NDArray[np.int64]
NOISY = Instance(
    users=2, buckets=2, up=F(4, 5), tokens=2, drop=F(1, 2), down=F(7, 10), cut=1, muted_cut=1,
    odds=F(1, 2), ratio=F(1, 2),
)  # fmt: skip
"""Much of everything: drops, tokens and jumps."""
OTHERS = [
    replace(NOISY, drop=F(1)),
    replace(NOISY, tokens=1),
    replace(NOISY, ratio=F(1, 50)),
    replace(NOISY, odds=F(1, 5)),
    replace(NOISY, weight=0),
    replace(NOISY, down=F(1, 10)),
    replace(NOISY, up=F(2, 5)),
    replace(NOISY, keeps_noise=False),
]


def as_cell(one: Instance) -> PooledCell:
    up = Direction(
        epsilon=F(10), decay=one.up, cut=one.tokens, muted_cut=one.tokens, odds=(one.drop,)
    )
    down = Direction(
        epsilon=F(10), decay=one.down, cut=one.cut, muted_cut=one.muted_cut, odds=(one.odds,),
        ratio=one.ratio,
    )  # fmt: skip
    return PooledCell(users=one.users, buckets=one.buckets, up=up, down=down)


def planned(
    users: int, buckets: int, epsilon: str = "1", factor: str = "3/2", *, padded: bool = True
) -> PooledCell:
    half = F(epsilon) / 2
    target = CellTarget(
        users=users,
        expected=users,
        largest=1,
        up=half,
        down=half,
        mse=laplace_variance(half) * F(factor),
        padded=buckets if padded else 0,
    )
    cell = search_buckets(2 * half, target, None, buckets).cell
    assert isinstance(cell, PooledCell)
    return cell


@lru_cache
def exact_views(one: Instance, *codes: int | None) -> dict[Vector, float]:
    """The exact law of the view of users with these labels."""
    found: dict[Vector, int] = {(0,) * one.buckets: 1}
    for code in codes:
        found = together(found, whole(user_law(one, code), 10**40))
    total = sum(found.values())
    return {view: mass / total for view, mass in found.items()}


Draw = Callable[[PooledBuckets, list[int], SeededEntropy], Counts]


def in_aggregate(group: PooledBuckets, codes: list[int], entropy: SeededEntropy) -> Counts:
    return group.aggregate(np.bincount(codes, minlength=group.codes), entropy)[0]


def bucket_by_bucket(group: PooledBuckets, codes: list[int], entropy: SeededEntropy) -> Counts:
    """`in_aggregate` where too many users have noise to hold them all at the same time."""
    before = draws.EVENTS_AT_ONCE
    try:
        draws.EVENTS_AT_ONCE = 1
        return in_aggregate(group, codes, entropy)
    finally:
        draws.EVENTS_AT_ONCE = before


WAYS = [one_by_one, as_array, in_aggregate, bucket_by_bucket]


@pytest.mark.parametrize("draw", WAYS)
def test_all_ways_draw_the_exact_law_of_the_view(draw: Draw) -> None:
    group, entropy, runs = PooledBuckets(cell=as_cell(NOISY)), SeededEntropy(5), 3000
    drawn = [tuple(draw(group, [0, 1], entropy).tolist()) for _ in range(runs)]
    assert abs(chi2(drawn, exact_views(NOISY, 0, 1))) < 4
    # laws that are a little different must be told apart
    assert chi2(drawn, exact_views(NOISY, 0, 0)) > 8
    for other in OTHERS:
        assert chi2(drawn, exact_views(other, 0, 1)) > 4.5, other


def test_top_ups_are_users_without_a_label() -> None:
    group, entropy = PooledBuckets(cell=as_cell(NOISY)), SeededEntropy(6)
    drawn = [tuple(group.top_up(2, entropy)[0].tolist()) for _ in range(5000)]
    assert abs(chi2(drawn, exact_views(NOISY, None, None))) < 4
    assert chi2(drawn, exact_views(NOISY, None, 0)) > 8
    assert max(sum(view) for view in drawn) <= 2 * group.most_messages


class Given(Entropy):
    """These words, one after the other."""

    def __init__(self, words: list[str]) -> None:
        super().__init__()
        self.left = [int(word, 16) for word in words]

    def bits(self, count: int) -> int:
        assert count == 64
        return self.left.pop(0)


def test_one_users_draws_are_those_of_the_vectors() -> None:
    text = (Path(__file__).parents[2] / "vectors/pooled_draws.json").read_text("utf-8")
    for entry in json.loads(text):
        cell, entropy = cell_from_dict(entry["cell"]), Given(entry["words"])
        assert isinstance(cell, PooledCell)
        sent, minus = PooledBuckets(cell=cell).randomize(entry["code"], entropy)
        assert sent.tolist() == entry["sent"] and not minus.any() and not entropy.left


def test_codes_and_tallies_are_checked() -> None:
    group = PooledBuckets(cell=as_cell(NOISY))
    for wrong in (-1, 2):
        with pytest.raises(ValueOutOfRange, match="A code is a bucket's number"):
            group.randomize(wrong)
        with pytest.raises(ValueOutOfRange, match="A code is a bucket's number"):
            group.randomize_total(np.array([wrong]))
    with pytest.raises(ValueOutOfRange, match="one count for each bucket"):
        group.aggregate(np.zeros(3, np.int64))


# Errors of buckets, alone and together

USERS = 400
TALLY = np.array([250, 100, 0, 30, 20])


@pytest.fixture(scope="module")
def cell() -> PooledCell:
    """With much noise and many drops, so that buckets depend on each other visibly."""
    up = Direction(epsilon=F(1), decay=F(9, 10), cut=4, muted_cut=4, odds=(F(1, 5),))
    down = Direction(
        epsilon=F(1), decay=F(1, 2), cut=1, muted_cut=1, odds=(F(1, 200),), ratio=F(9, 10)
    )
    return PooledCell(users=USERS, buckets=5, up=up, down=down)


@pytest.fixture(scope="module")
def views(cell: PooledCell) -> Counts:
    group, entropy = PooledBuckets(cell=cell), SeededEntropy(7)
    return np.array([group.aggregate(TALLY, entropy)[0] for _ in range(4000)])


def test_estimates_are_unbiased_with_the_exact_variance(cell: PooledCell, views: Counts) -> None:
    errors = cell.estimates(views, USERS) - TALLY
    spread = np.array([cell.rmse(USERS, int(count)) for count in TALLY])
    runs = len(views)
    away = errors.mean(axis=0) / (spread / math.sqrt(runs))
    assert np.abs(away).max() < 4
    assert np.abs(errors.var(axis=0) / spread**2 - 1).max() < 0.12
    # the twins: an estimate that forgets the drops, a spread 15 % smaller
    assert np.abs((errors.mean(axis=0) + 0.01 * TALLY) / (spread / math.sqrt(runs))).max() > 4
    assert np.abs(errors.var(axis=0) / (0.85 * spread) ** 2 - 1).max() > 0.12


@pytest.mark.parametrize("buckets", [2, 3, 5])
def test_sums_of_buckets_have_the_exact_variance(
    cell: PooledCell, views: Counts, buckets: int
) -> None:
    total = int(TALLY[:buckets].sum())
    estimates = cell.estimates(views, USERS)[:, :buckets].sum(axis=1)
    variance = cell.variance_of_sum(buckets, USERS, total)
    assert abs(estimates.mean() - total) < 4 * math.sqrt(variance / len(views))
    assert abs(estimates.var() / variance - 1) < 0.1
    # the twin: independent buckets would have another variance
    alone = sum(cell.variance_at(USERS, int(one), int(one)) for one in TALLY[:buckets])
    assert abs(estimates.var() / alone - 1) > 0.1


@pytest.mark.parametrize("buckets", [1, 3])
def test_intervals_cover_and_half_of_them_do_not(
    cell: PooledCell, views: Counts, buckets: int
) -> None:
    total, runs = int(TALLY[:buckets].sum()), 1000
    sums = views[:runs, :buckets].sum(axis=1)
    for outside in (0.2, 0.05):
        low, high = cell.intervals_of_sum(buckets, USERS, sums, outside)
        inside = ((low <= total) & (total <= high)).mean()
        slack = 4 * math.sqrt(outside * (1 - outside) / runs)
        assert 1 - outside - slack < inside < 1 - outside / 2 + slack
        middle, half = (low + high) / 2, (high - low) / 4
        assert (np.abs(middle - total) <= half).mean() < 1 - outside - slack
    first, last = cell.error_range_of_sum(buckets, USERS, total, 0.1)
    errors = cell.estimates(sums, USERS) if buckets == 1 else None
    if errors is not None:
        inside = ((errors - total >= first) & (errors - total <= last)).mean()
        assert 0.9 - 4 * math.sqrt(0.09 / runs) < inside < 0.97


@pytest.mark.parametrize("users", [1, 2, 10])
def test_intervals_of_few_users_among_many_buckets(users: int) -> None:
    """The noise of a bucket is much wider than 0..n; few laws are computed."""
    cell = planned(users, 300, "1/2")
    counts, totals = np.arange(-200, 300), np.arange(users + 1)
    low, high = cell.intervals(users, counts + cell.base * users, 0.2)
    assert (low >= 0).all() and (low <= high).all() and (high <= users).all()
    known = laws(cell, users, totals)
    cumulative = known.at_most(counts - totals[:, None])
    missed = []
    for total, masses in enumerate(np.diff(cumulative, axis=1)):
        assert masses.sum() > 0.99
        outside = (total < low[1:]) | (total > high[1:])
        missed.append(masses[outside].sum())
    assert 0.05 < max(missed) <= 0.2


def test_the_law_of_a_bucket_is_that_of_a_convolution() -> None:
    """The float law of the error against the exact masses, convolved."""
    cell = planned(30, 3, factor="3")
    masses = [np.array([float(mass) for mass in message_masses(cell, x)]) for x in (0, 1)]
    for held in (0, 7, 30):
        exact = np.ones(1)
        for user in range(30):
            exact = np.convolve(exact, masses[user < held])
        errors, chances = cell.error_law(30, held)
        found = dict(zip(np.round(errors, 6).tolist(), chances.tolist(), strict=True))
        estimates = cell.estimates(np.arange(len(exact)), 30) - held
        likely = np.flatnonzero(exact > 1e-4)
        for place in likely:
            assert abs(found[round(float(estimates[place]), 6)] - exact[place]) < 1e-9


@pytest.mark.parametrize(("users", "buckets"), [(100, 10**5), (1000, 10**6)])
def test_the_law_fits_into_floats_with_many_more_buckets_than_users(
    users: int, buckets: int
) -> None:
    """Masses of the urn beyond every float: the error has the mean 0 and the exact variance."""
    cell = planned(users, buckets)
    law = laws(cell, users, np.array([0]))
    masses = np.diff(law.cumulative[0], prepend=0.0)
    counts = (law.first[0] + np.arange(masses.size)) * law.step
    known, mean = cell.moments(), float((masses * counts).sum())
    assert mean == pytest.approx(users * float(known.shift), rel=1e-6)
    variance = float((masses * (counts - mean) ** 2).sum())
    assert variance == pytest.approx(users * float(known.spread), rel=1e-6)
    low, high = cell.error_range(users, 0, 0.05)
    assert -4 * cell.rmse(users) < low < 0 < high < 4 * cell.rmse(users)


def test_all_messages_together_have_the_moments_that_plausibility_uses(cell: PooledCell) -> None:
    group, theta = PooledBuckets(cell=cell), np.array([-0.02, 0.01, 0.05])
    every = cell.merged(5)
    masses = [np.array([float(mass) for mass in message_masses(every, x)]) for x in (0, 1)]
    sent = np.arange(len(masses[0]))
    found = group.log_total_moment(theta, 10, 4)
    mean = 6 * (masses[0] @ sent) + 4 * (masses[1] @ sent)
    exact = [
        6 * np.log(np.exp(t * sent) @ masses[0]) + 4 * np.log(np.exp(t * sent) @ masses[1])
        - t * mean
        for t in theta
    ]  # fmt: skip
    assert found == pytest.approx(exact, abs=1e-11)


# Plans


@pytest.mark.parametrize(
    ("users", "buckets", "most", "average"),
    [
        (10**4, 10, 283, 21.101),
        (10**4, 100, 2181, 21.011),
        (10**6, 10, 391, 29.101),
        (10**6, 100, 3003, 29.011),
    ],
)
def test_reach(users: int, buckets: int, most: int, average: float) -> None:
    short = planned(users, buckets)
    few = planned(users, buckets, padded=False)
    for cell in (short, few):
        prove(cell, cell.up.epsilon, cell.down.epsilon)
        assert cell.up.epsilon + cell.down.epsilon == 1
        assert cell.rmse(users) ** 2 <= 1.5 * float(laplace_variance(F(1, 2)))
    assert PooledBuckets(cell=short).most_messages <= most
    assert float(PooledBuckets(cell=few).messages_per_user()) / buckets <= average


@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
@pytest.mark.parametrize(("users", "buckets"), [(1, 2), (2, 5), (100, 10**4), (10**9, 3)])
def test_every_plan_is_certified(epsilon: str, users: int, buckets: int) -> None:
    cell = planned(users, buckets, epsilon, "30")
    prove(cell, cell.up.epsilon, cell.down.epsilon)
    assert cell.rmse(users) ** 2 <= 30 * float(laplace_variance(F(epsilon) / 2))


@pytest.mark.parametrize("padded", [False, True])
def test_messages_are_kept_and_more_err_less(padded: bool) -> None:
    errors = []
    for messages in (130, 200, 300):
        target = CellTarget(
            users=1000, expected=1000, largest=1, up=F(1, 2), down=F(1, 2), mse=F(0),
            padded=8 if padded else 0,
        )  # fmt: skip
        found = search_buckets(F(1), target, messages, 8)
        assert found.cost <= messages
        errors.append(found.mse)
    assert errors[0] > errors[1] > errors[2] > laplace_variance(F(1, 2))


def test_what_cannot_be_reached_is_refused() -> None:
    with pytest.raises(
        PlanningError, match="No pooled cell for 1,000 users has an RMSE of at most"
    ):
        planned(1000, 5, factor="9/10")
    target = CellTarget(
        users=1000, expected=1000, largest=1, up=F(1, 2), down=F(1, 2), mse=F(0), padded=5
    )
    with pytest.raises(PlanningError, match="No plan uses so few messages"):
        search_buckets(F(1), target, 0.5, 5)

"""Draws, laws, intervals and plans of sparse cells."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from message_masses import exact_masses
from numpy.typing import NDArray
from sparse_oracle import Instance, Vector, together, user_law, whole
from view_draws import as_array, chi2, one_by_one

from shuffledp import SeededEntropy
from shuffledp.cells.search import CellTarget
from shuffledp.cells.sparse.cell import NO_VALUE, SparseBuckets, SparseCell
from shuffledp.cells.sparse.error import at_least, at_most, chernoff, laws
from shuffledp.cells.sparse.proof import prove
from shuffledp.cells.sparse.search import plan_sparse, search_buckets
from shuffledp.errors import ParameterError, PlanningError, ValueOutOfRange
from shuffledp.numbers.sampler import successes_by_bits

F = Fraction
Counts = NDArray[np.int64]
SMALL = plan_sparse(3, 2, 1, max_messages=3, error_at=1)
MIDDLE = plan_sparse(1000, 20, 1, max_messages=6, error_at=50)
TALLY = np.array([300, 200, *[20] * 17, 160])
CODES = np.repeat(np.arange(20), TALLY)


def exact_views(cell: SparseCell, codes: list[int]) -> dict[Vector, float]:
    """The exact law of the view of users with these codes."""
    one = Instance(
        users=cell.users,
        buckets=cell.buckets,
        decay=cell.decay,
        cut=cell.cut,
        data=cell.data,
        muted=cell.muted,
        jump=cell.jump,
    )
    found: dict[Vector, int] = {(0,) * cell.buckets: 1}
    scale = 10**40
    for code in codes:
        found = together(found, whole(user_law(one, None if code < 0 else code), scale))
    total = sum(found.values())
    return {view: mass / total for view, mass in found.items()}


Draw = Callable[[SparseBuckets, list[int], SeededEntropy], Counts]


def in_aggregate(group: SparseBuckets, codes: list[int], entropy: SeededEntropy) -> Counts:
    tally = np.bincount([c for c in codes if c >= 0], minlength=group.codes)
    return group.aggregate_with(tally, codes.count(NO_VALUE), entropy)[0]


@pytest.mark.parametrize("draw", [one_by_one, as_array, in_aggregate])
def test_all_three_ways_draw_the_exact_law_of_the_view(draw: Draw) -> None:
    codes, entropy, group = [0, 1, NO_VALUE], SeededEntropy(5), SparseBuckets(cell=SMALL)
    drawn = [tuple(draw(group, codes, entropy).tolist()) for _ in range(4000)]
    assert abs(chi2(drawn, exact_views(SMALL, codes))) < 4
    # a law that is a little different must be told apart: another user has a value
    assert chi2(drawn, exact_views(SMALL, [0, 1, 0])) > 20


@pytest.mark.parametrize("draw", [one_by_one, as_array, in_aggregate])
def test_a_wrong_urn_is_told_apart(draw: Draw) -> None:
    """The exact law of the view with many noise tokens and many jumps, against its twins."""
    cell = SparseCell(
        users=2,
        buckets=3,
        epsilon=F(1),
        decay=F(9, 10),
        cut=2,
        share=F(1, 2),
        data=F(1, 5),
        muted=F(2, 5),
        jump=F(2, 5),
    )
    group, entropy = SparseBuckets(cell=cell), SeededEntropy(6)
    drawn = [tuple(draw(group, [0, 2], entropy).tolist()) for _ in range(4000)]
    assert abs(chi2(drawn, exact_views(cell, [0, 2]))) < 4
    for other in ({"users": 1}, {"cut": 1}, {"data": F(2, 5), "muted": F(1, 5)}):
        assert chi2(drawn, exact_views(replace(cell, **other), [0, 2])) > 8


@pytest.mark.parametrize("aggregated", [False, True])
def test_means_variances_and_covariances_are_those_of_the_moments(aggregated: bool) -> None:
    group, entropy, runs = SparseBuckets(cell=MIDDLE), SeededEntropy(7), 1500
    views = np.array(
        [
            group.aggregate(TALLY, entropy)[0] if aggregated else as_array(group, CODES, entropy)  # type: ignore[arg-type]
            for _ in range(runs)
        ]
    )
    known = MIDDLE.moments
    mean = 1000 * float(known.mean) + float(MIDDLE.data) * TALLY
    variance = TALLY * float(known.variance_with) + (1000 - TALLY) * float(known.variance)
    away = (views.mean(axis=0) - mean) / np.sqrt(variance / runs)
    assert np.abs(away).max() < 4.5 and 0.3 < (away**2).mean() < 2.2
    assert np.abs(views.var(axis=0) / variance - 1).max() < 0.2
    # the twin: 2 % more tokens would have been seen
    assert np.abs((views.mean(axis=0) * 1.02 - mean) / np.sqrt(variance / runs)).max() > 4.5


def test_a_user_sends_at_most_k_tokens_and_codes_are_checked() -> None:
    group, entropy = SparseBuckets(cell=MIDDLE), SeededEntropy(8)
    owners, buckets = group.tokens_of_all(CODES, entropy)
    sent = np.bincount(owners, minlength=1000)
    assert sent.max() <= group.most_messages == MIDDLE.cut + 1 == 6
    assert buckets.min() >= 0 and buckets.max() < 20
    assert max(len(group.tokens(3, entropy)) for _ in range(500)) <= 6
    for wrong in (-2, 20):
        with pytest.raises(ValueOutOfRange, match="A code is a bucket's number"):
            group.tokens(wrong)
        with pytest.raises(ValueOutOfRange, match="A code is a bucket's number"):
            group.tokens_of_all(np.array([wrong]))
    with pytest.raises(ValueOutOfRange, match="one count for each bucket"):
        group.aggregate(np.zeros(19, np.int64))


def test_a_device_never_visits_all_buckets() -> None:
    """A million buckets and a few tokens: what a device draws does not grow with the buckets."""
    cell = plan_sparse(10**6, 2**26, 1, max_messages=25, error_at=100)
    group, entropy = SparseBuckets(cell=cell), SeededEntropy(9)
    assert all(len(group.tokens(2**26 - 1, entropy)) <= 25 for _ in range(50))


def test_successes_by_bits_are_binomial() -> None:
    entropy = SeededEntropy(10)
    for chance in (F(1, 3), F(440187316671, 10**12), F(1, 1000), F(999, 1000)):
        drawn = np.array([successes_by_bits(1000, chance, entropy) for _ in range(2000)])
        spread = math.sqrt(1000 * float(chance * (1 - chance)))
        assert abs(drawn.mean() - 1000 * float(chance)) < 4.5 * spread / math.sqrt(2000)
        assert abs(drawn.var() / spread**2 - 1) < 0.2
        wrong = float(chance) + 0.3 * spread / 1000  # the twin
        assert abs(drawn.mean() - 1000 * wrong) > 4.5 * spread / math.sqrt(2000)
    assert successes_by_bits(10, F(1), entropy) == 10
    assert successes_by_bits(10, F(0), entropy) == 0


# The law of a bucket


def convolved(masses: list[F], times: int) -> NDArray[np.float64]:
    found = np.ones(1)
    for _ in range(times):
        found = np.convolve(found, [float(mass) for mass in masses])
    return found


@pytest.mark.parametrize("count", [0, 1, 7, 30])
def test_the_law_of_a_bucket_is_that_of_a_convolution(count: int) -> None:
    cell = plan_sparse(30, 5, 1, max_messages=5, error_at=5)
    without, held = exact_masses(cell)
    exact = np.convolve(convolved(without, 30 - count), convolved(held, count))
    tokens = np.arange(len(exact))
    counts = np.full(len(exact), count)
    assert np.allclose(at_most(cell.bucket_law, 30, counts, tokens), np.cumsum(exact), atol=1e-12)
    tails = np.cumsum(exact[::-1])[::-1]
    assert np.allclose(at_least(cell.bucket_law, 30, counts, tokens), tails, atol=1e-12)
    known = laws(cell.bucket_law, 30, np.array([count]))
    assert math.isclose(known.masses.sum(), 1, rel_tol=1e-12)
    # Chernoff's bounds lie above both tails
    assert (chernoff(cell.bucket_law, 30, counts, tokens, 1) >= tails - 1e-12).all()
    assert (chernoff(cell.bucket_law, 30, counts, tokens, -1) >= np.cumsum(exact) - 1e-12).all()


@pytest.mark.parametrize("outside", [0.3, 0.05, 1e-6])
def test_intervals_are_the_counts_that_explain_the_tokens(outside: float) -> None:
    cell = plan_sparse(400, 6, 1, max_messages=5, error_at=50)
    tokens = np.arange(0, 300, 7)
    low, high = cell.intervals(400, tokens, outside)

    def at(side: Callable[..., NDArray[np.float64]], counts: Counts) -> NDArray[np.float64]:
        return side(cell.bucket_law, 400, counts, tokens)

    assert (at(at_least, low) > outside / 2).all()
    assert (at(at_least, low - 1) <= outside / 2).all()
    assert (at(at_most, high) > outside / 2).all()
    assert (at(at_most, high + 1) <= outside / 2).all()


def test_the_law_fits_into_floats_with_many_more_buckets_than_users() -> None:
    """The masses of the urn exceed every float; those of the law have the exact moments."""
    cell = plan_sparse(100, 10**6, 1, max_messages=1000, error_at=10)
    law, tokens = cell.bucket_law, np.arange(cell.most_messages + 1)
    for masses in (law.noise, law.jumped):
        assert masses.sum() == pytest.approx(1)
    mean = (1 - law.jump) * (law.noise @ tokens[:-1]) + law.jump * (law.jumped @ tokens)
    assert mean == pytest.approx(float(cell.moments.mean))


def test_intervals_for_tiny_chances_are_wider() -> None:
    tokens = np.arange(0, 300, 25)
    low, high = MIDDLE.intervals(1000, tokens, 1e-9)
    lower, higher = MIDDLE.intervals(1000, tokens, 1e-13)
    assert (lower < low).all() and (higher > high).all()


@pytest.mark.parametrize("users", [1, 2, 10])
def test_intervals_of_few_users_among_many_buckets(users: int) -> None:
    """One token is rare whatever the count, so that no count explains two of them."""
    cell = plan_sparse(users, 10**5, 1, max_messages=100, error_at=1)
    low, high = cell.intervals(users, np.arange(6), 0.05)
    assert (low <= high).all()
    furthest = 4 * users * (cell.most_messages + 2) + 5  # the search goes no further
    assert max(abs(low).max(), abs(high).max()) <= furthest


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
@pytest.mark.parametrize("users", [50, 20_000])
def test_estimates_are_unbiased_with_the_forecast_error_and_covered(
    epsilon: str, users: int
) -> None:
    """Rare, medium and dominating labels."""
    cell = plan_sparse(users, 40, epsilon, max_messages=12, error_at=users // 10)
    held = np.zeros(40, np.int64)
    held[:3] = users - users // 4 - 2, users // 4, 2
    group, entropy, runs = SparseBuckets(cell=cell), SeededEntropy(f"{epsilon} {users}"), 400
    views = np.array([group.aggregate(held, entropy)[0] for _ in range(runs)])
    estimates = cell.estimates(views, users)
    spread = np.array([cell.rmse(users, int(count)) for count in held])
    away = (estimates.mean(axis=0) - held) / (spread / math.sqrt(runs))
    assert np.abs(away).max() < 4.5
    error = (estimates - held) ** 2
    for bucket in range(3):
        assert abs(error[:, bucket].mean() / spread[bucket] ** 2 - 1) < 0.5
    assert abs(error[:, 3:].mean() / spread[3] ** 2 - 1) < 0.25
    low, high = (side.reshape(runs, 40) for side in cell.intervals(users, views.ravel(), 0.05))
    inside = (low <= held) & (held <= high)
    assert inside[:, :3].mean(axis=0).min() > 0.95 - 4 * math.sqrt(0.05 * 0.95 / runs)
    assert inside[:, 3:].mean() > 0.945
    # twins: half as wide intervals miss, and a biased estimate is seen
    middle, half = (low + high) / 2, (high - low) / 4
    assert (np.abs(middle - held) <= half)[:, 0].mean() < 0.9
    assert np.abs((estimates.mean(axis=0) + spread - held) / (spread / math.sqrt(runs))).max() > 4.5


def test_jumps_into_one_bucket_happen_and_are_covered() -> None:
    """A user may put Z+1 tokens into one bucket: an error of (Z+1)/p, which intervals expect."""
    cell = SparseCell(
        users=100,
        buckets=2,
        epsilon=F(1),
        decay=F(1, 2),
        cut=9,
        share=F(1, 2),
        data=F(2, 5),
        muted=F(59, 100),
        jump=F(1, 100),
    )
    group, entropy, runs = SparseBuckets(cell=cell), SeededEntropy(12), 2000
    seen = [group.tokens(NO_VALUE, entropy) for _ in range(4000)]
    jumps = [sent for sent in seen if len(sent) == 10]
    whole_jumps = [sent for sent in jumps if len(set(sent)) == 1]
    assert 15 < len(jumps) < 80 and len(whole_jumps) > len(jumps) / 2
    views = np.array([group.aggregate(np.array([10, 90]), entropy)[0][0] for _ in range(runs)])
    jumped = np.abs(cell.estimates(views, 100) - 10) > 20
    assert jumped.mean() > 0.05  # they are seen …
    low, high = cell.intervals(100, views, 0.05)
    assert ((low <= 10) & (high >= 10)).mean() > 0.95 - 4 * math.sqrt(0.05 * 0.95 / runs)
    # … and the normal interval would miss more of them than it may
    narrow = plan_sparse(100, 2, 1, max_messages=30, error_at=10)
    low, high = narrow.intervals(100, np.maximum(views, 0), 0.05)
    assert ((low <= 10) & (high >= 10)).mean() < 0.95 - 4 * math.sqrt(0.05 * 0.95 / runs)


# Plans


@pytest.mark.parametrize(
    ("users", "buckets", "count", "at_count", "at_zero", "average"),
    [
        (10**6, 10**4, 1000, 36.5, 7, 0.5),
        (10**6, 10**6, 1000, 38.5, 5.7, 1.55),
        (10**6, 10**4, 100, 12.3, 3.6, 0.45),
        (10**6, 10**6, 100, 12.8, 3.8, 1.25),
        (10**5, 10**4, 1000, 35, 7, 0.65),
    ],
)
def test_reach(
    users: int, buckets: int, count: int, at_count: float, at_zero: float, average: float
) -> None:
    cell = plan_sparse(users, buckets, 1, max_messages=25, error_at=count)
    prove(cell, F(1), F(1))
    assert cell.most_messages <= 25
    assert cell.rmse(users, count) <= at_count
    assert cell.rmse(users, 0) <= at_zero
    assert float(cell.messages_per_user()) <= average


@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
@pytest.mark.parametrize(("users", "buckets"), [(1, 1), (2, 5), (100, 10**4), (10**9, 3)])
@pytest.mark.parametrize("messages", [1, 2, 25, 300])
def test_every_plan_is_certified(epsilon: str, users: int, buckets: int, messages: int) -> None:
    cell = plan_sparse(users, buckets, epsilon, max_messages=messages, error_at=10)
    prove(cell, cell.epsilon, cell.epsilon)
    assert cell.most_messages <= messages


def test_more_messages_never_err_more_and_useless_ones_are_not_taken() -> None:
    cells = [
        plan_sparse(10**5, 1000, 1, max_messages=k, error_at=100) for k in (5, 10, 25, 45, 900)
    ]
    errors = [cell.rmse(10**5, 100) for cell in cells]
    assert all(b <= a * 1.001 for a, b in itertools.pairwise(errors))
    assert cells[-1].most_messages < 300


def test_long_cuts_are_as_good_as_short_ones_with_a_large_epsilon() -> None:
    """Where the noise falls fast, a long cut needs jumps rarer than any float."""
    short, long = (plan_sparse(1000, 300, 12, max_messages=k, error_at=100) for k in (25, 1024))
    assert long.rmse(1000, 100) < 1.001 * short.rmse(1000, 100)
    none, some = (plan_sparse(10**4, 100, 20, max_messages=k, error_at=10) for k in (1, 5))
    assert some.rmse(10**4, 10) <= none.rmse(10**4, 10)  # without noise, the error is least here
    target = CellTarget(
        users=1000, expected=1000, largest=1, up=F(6), down=F(6), mse=F(1, 5), error_at=100
    )
    found = search_buckets(F(12), target, None, 300)
    assert found is not None and found.mse <= F(1, 5)
    assert isinstance(found.cell, SparseCell) and prove(found.cell, F(12), F(12))


def test_limits_on_averages_and_jumps_are_kept() -> None:
    free = plan_sparse(10**6, 10**6, 1, error_at=1000)
    calm = plan_sparse(10**6, 10**6, 1, error_at=1000, max_jumps=1000)
    assert float(free.jump) * 10**6 > 1000 >= float(calm.jump) * 10**6
    target = CellTarget(
        users=10**6, expected=10**6, largest=1, up=F(1), down=F(1), mse=F(1), error_at=1000
    )
    found = search_buckets(F(1), target, 0.9, 10**6)
    assert found is not None
    assert float(found.cell.messages_per_user()) <= 0.9 < float(free.messages_per_user())
    with pytest.raises(PlanningError, match="No sparse cell meets these limits"):
        plan_sparse(10**6, 10**6, 1, max_jumps=0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"users": 0}, "users must be a whole number, at least 1"),
        ({"buckets": 2**27}, "buckets must be a whole number"),
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"error_at": -1}, "error_at must be a whole number, at least 0"),
        ({"max_messages": 0}, "max_messages must be a whole number, at least 1"),
    ],
)
def test_bad_requests_get_one_sentence(wrong: dict[str, int], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        plan_sparse(**{"users": 100, "buckets": 10, "epsilon": 1, **wrong})

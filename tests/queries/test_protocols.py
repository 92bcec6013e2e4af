"""Histograms, sums and quantiles: private by brute force, unbiased, with honest intervals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from paper_oracle import largest_log_ratio, max_divergence, noise_plane, with_user
from plan_parts import histogram, integer_sum, paper_cell, paper_cells

from shuffledp import plan_count, plan_histogram, plan_integer_sum, plan_quantiles, plan_real_sum
from shuffledp.cells.base import Values
from shuffledp.cells.paper import error as paper_error
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.error import chances_at_most, intervals
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.plans.plan import Plan
from shuffledp.protocols.bounds import outermost_floats
from shuffledp.protocols.results import Estimate
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.real_sum.protocol import RealSumProtocol

F = Fraction
RNG = np.random.default_rng(7)  # makes test data, never noise


Codes = tuple[int, ...]
"""One user's value in every cell."""


def joint_loss(
    cells: Sequence[PaperCell],
    before: Codes,
    after: Codes,
    size: int,
    others: tuple[Codes, ...] = (),
) -> float:
    """max ln(P/Q) over the joint view of several cells; given everybody's values the cells are
    independent, so the largest ratio of the whole is the product of the largest ratios."""
    loss = 0.0
    for number, cell in enumerate(cells):
        view = noise_plane(cell, size)
        for other in others:
            view = with_user(view, cell, other[number])
        x, y = before[number], after[number]
        loss += largest_log_ratio(with_user(view, cell, x), with_user(view, cell, y))[0]
    return loss


def worst_loss(cells: Sequence[PaperCell], values: Sequence[Codes], users: int, size: int) -> float:
    """Over every replacement and every choice of the other users' values."""
    crowds = list(combinations_with_replacement(values, users - 1))
    return max(
        joint_loss(cells, x, y, size, crowd)
        for crowd in crowds
        for x, y in product(values, repeat=2)
        if x != y
    )


def test_two_bucket_histogram_by_brute_force() -> None:
    plan = plan_histogram(4, 1, 2, mse_overhead=1, cell="paper")
    cells, labels = paper_cells(plan), [(1, 0), (0, 1)]
    assert 0.95 < worst_loss(cells, labels, 1, 220) <= 1 + 1e-9
    for users in (2, 3, 4):
        assert worst_loss(cells, labels, users, 160) <= 1 + 1e-9
    fewer = [replace(cell, input_pairs=cell.input_pairs - 1) for cell in cells]
    assert worst_loss(fewer, labels, 1, 220) > 1


def test_two_digit_sum_by_brute_force() -> None:
    plan = plan_real_sum(30, 2, radix=(3, 2), mse_overhead=4, cell="paper")
    cells = paper_cells(plan)
    values = list(product(*(range(cell.largest + 1) for cell in cells)))
    assert 1.95 < worst_loss(cells, values, 1, 200) <= 2 + 1e-9
    assert worst_loss(cells, values, 2, 120) <= 2 + 1e-9
    fewer = [replace(cell, input_pairs=max(0, cell.input_pairs - 1)) for cell in cells]
    assert worst_loss(fewer, values, 1, 200) > 2


def test_one_mute_for_all_buckets_would_not_do() -> None:
    """MATH §7: the reason why each bucket mutes on its own is that the parts are independent."""
    cell = paper_cell(plan_histogram(4, 1, 2, mse_overhead=1, cell="paper"))
    assert max_divergence(cell, 1, 200).up <= float(cell.up_epsilon) + 1e-9


Case = tuple[Callable[[], Plan[Estimate]], Values]

PLANS: dict[str, Case] = {
    "count": (lambda: plan_count(300, 1, cell="paper"), RNG.integers(0, 2, 300)),
    "count with more users": (lambda: plan_count(300, 1, cell="paper"), RNG.integers(0, 2, 700)),
    "count, relative": (
        lambda: plan_count(3000, 1, relative_error="0.05"),
        RNG.integers(0, 2, 3000),
    ),
    "integers": (lambda: plan_integer_sum(300, 1, 6, cell="paper"), RNG.integers(0, 7, 300)),
    "sum": (
        lambda: plan_real_sum(300, 1, bounds=(-2, 3), cell="paper"),
        RNG.uniform(-2, 3, 300),
    ),
    "count, bounded": (lambda: plan_count(300, 1, cell="bounded"), RNG.integers(0, 2, 300)),
    "count with more users, bounded": (
        lambda: plan_count(300, 1, cell="bounded"),
        RNG.integers(0, 2, 700),
    ),
    "integers, bounded": (
        lambda: plan_integer_sum(300, 1, 6, cell="bounded"),
        RNG.integers(0, 7, 300),
    ),
    "sum, bounded": (
        lambda: plan_real_sum(300, 1, bounds=(-2, 3), mse_overhead=8, cell="bounded"),
        RNG.uniform(-2, 3, 300),
    ),
    "sum, relative": (
        lambda: plan_real_sum(3000, 2, relative_error="0.05"),
        RNG.uniform(0, 1, 3000),
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_unbiased_with_forecast_error_and_coverage(name: str) -> None:
    make, values = PLANS[name]
    plan = make()
    truth, runs = float(values.sum()), 400 if name.startswith("sum") else 1200
    entropy = SeededEntropy(name)
    found = [plan.analyze(plan.release(plan.aggregate(values, entropy))) for _ in range(runs)]
    errors = np.array([estimate.value for estimate in found]) - truth
    rmse = float(np.sqrt(np.mean(errors**2)))
    assert abs(errors.mean()) < 4.5 * errors.std() / runs**0.5
    assert rmse < 1.1 * found[0].rmse and rmse < 1.1 * plan.protocol.rmse(len(values))
    if name.startswith("count"):
        assert rmse == pytest.approx(integer_sum(plan).rmse(len(values), truth), rel=0.08)
    covered = np.mean([estimate.low <= truth <= estimate.high for estimate in found])
    assert covered > 0.925
    # the twin: an interval that is a third narrower does not cover
    narrow = [abs(e.value - truth) < (e.high - e.low) / 6 for e in found]
    assert np.mean(narrow) < 0.93


@pytest.mark.parametrize(
    "name",
    ["count", "integers", "sum", "count, bounded", "integers, bounded", "sum, bounded"],
)
def test_one_by_one_is_the_same_protocol(name: str) -> None:
    make, values = PLANS[name]
    plan = make()
    entropy = SeededEntropy(f"each {name}")
    errors = [
        plan.analyze(plan.release(plan.randomize_all(values, entropy))).value - values.sum()
        for _ in range(300)
    ]
    assert abs(np.mean(errors)) < 4.5 * np.std(errors) / 300**0.5
    assert np.std(errors) < 1.15 * plan.protocol.rmse(len(values))


@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_histogram_estimates_and_both_intervals(cell: str) -> None:
    plan = plan_histogram(500, 1, ["a", "b", "c", "d"], other="rest", cell=cell)
    values = np.array(["a"] * 200 + ["b"] * 150 + ["c"] * 100 + ["x"] * 30 + ["y"] * 20)
    truth = np.array([200, 150, 100, 0, 50])
    entropy = SeededEntropy("histogram")
    errors, single, joint = [], [], []
    for run in range(1400):
        path = plan.aggregate if run % 7 else plan.randomize_all
        estimate = plan.analyze(plan.release(path(values, entropy)))
        errors.append(estimate.values - truth)
        single.append((estimate.low <= truth) & (truth <= estimate.high))
        joint.append(((estimate.joint_low <= truth) & (truth <= estimate.joint_high)).all())
    found = np.array(errors)
    assert (np.abs(found.mean(axis=0)) < 4.5 * found.std(axis=0) / 1400**0.5).all()
    # four standard errors of a standard deviation, for errors with a kurtosis of 15
    for bucket, count in enumerate(truth):
        assert found[:, bucket].std() == pytest.approx(histogram(plan).rmse(500, count), rel=0.2)
    assert np.mean(single) > 0.935 and np.mean(joint) > 0.93
    assert np.mean(np.all(single, axis=1)) < 0.93  # the single ones do not hold all at once


@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_quantiles_and_ranges(cell: str) -> None:
    plan = plan_quantiles(5000, 1, (0, 100), bins=32, cell=cell)
    values = RNG.normal(50, 15, 5000).clip(0, 100)
    entropy = SeededEntropy("quantiles")
    hits, errors = [], []
    for _ in range(300):
        estimate = plan.run(values, entropy)
        median = estimate.quantile(0.5)
        hits.append(median.low <= np.quantile(values, 0.5) <= median.high)
        part = estimate.between(25, 75)
        errors.append(part.value - ((values >= 25) & (values < 75)).sum())
        hits.append(abs(errors[-1]) <= (part.high - part.low) / 2)
    assert np.mean(hits) > 0.93
    assert abs(np.mean(errors)) < 4.5 * np.std(errors) / 300**0.5
    assert np.std(errors) == pytest.approx(part.rmse, rel=0.15)
    with pytest.raises(ParameterError):
        estimate.quantile(1.5)
    with pytest.raises(ParameterError):
        estimate.between(50, 50)


def test_the_interval_is_the_exact_one() -> None:
    """Coverage computed, not simulated, for counting: at least 95 % at every count."""
    cell = paper_cell(plan_count(40, 1, cell="paper"))
    for total in (0, 1, 20, 39, 40):
        sums = np.arange(-61, 110)
        chances = np.diff(chances_at_most(cell, 40, np.array([total]), sums))
        low, high = intervals(cell, 40, sums[1:], 0.05)
        inside = chances[(low <= total) & (total <= high)].sum()
        assert chances.sum() == pytest.approx(1)
        assert 0.95 <= inside < 0.99


@pytest.mark.parametrize(
    "make",
    [
        lambda: plan_count(40, 1, mse_overhead=20, cell="paper"),
        lambda: plan_integer_sum(40, 3, 4, cell="paper"),
    ],
    ids=["count", "integers"],
)
def test_chances_against_a_plain_sum_over_everything(make: Callable[[], Plan[Estimate]]) -> None:
    """Two noises and the muted users one by one, with exact masses."""
    cell, users, plain_sum = paper_cell(make()), 40, 5
    total = 3 * cell.largest + 1
    q, h = float(cell.mute_probability), cell.stand_in
    masses = [
        [float(law.pmf(k)) for k in range(120)] for law in (cell.plus_noise, cell.minus_noise)
    ]
    noise = {
        d: sum(masses[0][k + d] * masses[1][k] for k in range(120) if 0 <= k + d < 120)
        for d in range(-119, 120)
    }
    held = [cell.largest] * (total // cell.largest) + [total % cell.largest]
    held += [0] * (users - len(held))
    law = {0: 1.0}  # of what muted users held beyond the stand-in
    for value in held:
        after: dict[int, float] = {}
        for lost, chance in law.items():
            for change, weight in ((0, 1 - q), (value - h, q)):
                after[lost + change] = after.get(lost + change, 0.0) + chance * weight
        law = after
    plain = sum(
        chance * weight
        for lost, chance in law.items()
        for d, weight in noise.items()
        if total - users * h - lost + d <= plain_sum - users * h
    )
    found = chances_at_most(cell, users, np.array([total]), np.array([plain_sum - users * h]))
    assert found[0] == pytest.approx(plain, abs=1e-9)


def test_intervals_side_by_side_are_those_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = paper_cell(plan_count(1000, 1, cell="paper"))
    sums = np.array([700, -4, 0, 700, 31, 2])
    one_by_one = [
        tuple(int(end[0]) for end in intervals(cell, 1000, np.array([s]), 0.05)) for s in sums
    ]
    for at_once in (paper_error.MASSES_AT_ONCE, 200):
        monkeypatch.setattr(paper_error, "MASSES_AT_ONCE", at_once)
        assert list(zip(*intervals(cell, 1000, sums, 0.05), strict=True)) == one_by_one


@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_coverage_of_integers_for_other_data_than_the_widest(cell: str) -> None:
    """The interval assumes that users hold 0 or D; data that is spread out is covered no worse."""
    plan = plan_integer_sum(200, 1, 4, cell=cell)
    for values in (np.full(200, 2), np.full(200, 1), RNG.integers(0, 5, 200), np.full(200, 4)):
        entropy = SeededEntropy(f"spread {values.sum()}")
        found = [plan.run(values, entropy) for _ in range(500)]
        covered = np.mean([e.low <= values.sum() <= e.high for e in found])
        assert covered > 0.925


def test_nothing_is_clamped_silently() -> None:
    plan = plan_count(50, "0.2")
    found = [plan.run(np.zeros(50, int), SeededEntropy(run)) for run in range(60)]
    negative = next(e for e in found if e.value < 0)
    assert negative.low == negative.clipped == 0 and not negative.clamped
    cut = negative.clamp(0, 50)
    assert cut.value == 0 and cut.clamped and "[clamped]" in str(cut)


def test_rounding_is_exact_at_the_grid_and_between() -> None:
    plan = plan_real_sum(100, 1, bounds=("0.1", "0.7"), mse_overhead=20)
    protocol = plan.protocol
    assert isinstance(protocol, RealSumProtocol)
    edges = list(outermost_floats(protocol.low, protocol.high))
    codes = protocol.encode(np.array(edges * 500), SeededEntropy(1)) // protocol.dither
    assert set(codes) <= {0, protocol.grid} and codes.min() == 0 and codes.max() == protocol.grid
    value = 0.1 + 0.6 * 0.37
    codes = protocol.encode(np.full(40_000, value), SeededEntropy(2)) // protocol.dither
    mean = float(protocol.low) + codes.mean() * float(protocol.step)
    assert abs(mean - value) < 4 * float(protocol.step) / 2 / 40_000**0.5


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -0.001, 1.001])
def test_values_outside_the_bounds(bad: float) -> None:
    protocol = plan_real_sum(10, 1).protocol
    with pytest.raises(ValueOutOfRange, match="outside"):
        protocol.encode(np.array([0.5, bad]))


def test_unknown_labels_are_never_dropped() -> None:
    protocol = plan_histogram(10, 1, ["a", "b"]).protocol
    assert isinstance(protocol, HistogramProtocol)
    with pytest.raises(ValueOutOfRange, match="not on the list of labels"):
        protocol.encode(np.array(["a", "z"]))
    numbered = plan_histogram(10, 1, 3, other=2).protocol
    assert numbered.encode(np.array([0, 1, 7, -3])).tolist() == [0, 1, 2, 2]


def test_a_seed_marks_everything_that_comes_of_it() -> None:
    estimate = plan_count(10, 1).run(np.ones(10, int), SeededEntropy(1))
    assert estimate.seeded and estimate.to_dict()["privacy"].startswith("none")
    assert "not private" in str(estimate)
    assert not plan_count(10, 1).run(np.ones(10, int)).seeded

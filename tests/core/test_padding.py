"""K comes from the exact tail (must hold 1 and 2)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from shuffledp import plan_count, plan_histogram, plan_integers, plan_quantiles, plan_sum
from shuffledp.cell import Cell
from shuffledp.protocols import padding
from shuffledp.protocols.counting import Counting


def counting(users=4, a="1", b="1/2", pairs=3, flood=5):
    cell = Cell(users, 1, Fraction(a), Fraction(b), Fraction(1, 100), pairs, Fraction(flood))
    return Counting(Fraction(1), cell)


def test_tail_is_that_of_the_count_of_messages():
    """Against a plain convolution of the three laws."""
    protocol, most = counting(), 200
    cell = protocol.cell
    laws = [(cell.plus_noise.share(4), 1), (cell.minus_noise.share(4), 1), (cell.flood.share(4), 2)]
    masses = np.array([1.0])
    for law, step in laws:
        one = np.zeros(most + 1)
        one[::step] = [float(law.pmf(k)) for k in range(len(one[::step]))]
        masses = np.convolve(masses, one)[: most + 1]
    tails = padding.noise_tail(protocol.uses, most)
    for k in (0, 1, 2, 5, 10, 20, 40):
        assert float(tails[k]) == pytest.approx(1 - masses[: k + 1].sum(), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("reports", [4, 1000, 10**6])
def test_k_is_the_least_that_keeps_a_batch_below_two_to_minus_64(reports):
    protocol = counting()
    messages = padding.report_capacity(protocol.uses, reports)
    reserve = messages - padding.most_input(protocol.uses)
    tails = padding.noise_tail(protocol.uses, reserve)
    limit = arb(2) ** -64
    assert reports * tails[reserve] <= limit
    assert reports * tails[reserve - 1] > limit


def test_k_grows_by_about_44_over_b():
    """SERVICE: about 44/b messages above the input's 2s + 1, for planned counts."""
    protocol = plan_count(10_000, 1).protocol
    reserve = padding.report_capacity(protocol.uses, 10_000) - padding.most_input(protocol.uses)
    expected = 44.4 / float(protocol.cell.down_epsilon)
    assert 0.7 * expected < reserve < 1.1 * expected


def test_most_input_of_counts_and_integers():
    assert padding.most_input(counting(pairs=3).uses) == 7
    protocol = plan_integers(100, 4, 5, mse_overhead=2).protocol
    assert padding.most_input(protocol.uses) == 2 * protocol.cell.input_pairs + 5


@pytest.mark.parametrize("plan, values", [
    (plan_histogram(100, 2, ["a", "b", "c"]), np.array(["a", "b", "c"], object)),
    (plan_quantiles(100, 2, (0, 8), bins=8), np.arange(8) + 0.5),
    (plan_sum(100, 2, mse_overhead=20), np.linspace(0, 1, 101)),
], ids=["histogram", "quantiles", "sum"])
def test_of_a_users_copies_one_holds_a_value(plan, values):
    """What `most_input` rests on."""
    protocol = plan.protocol
    codes = protocol.encode(values)
    held = np.array([protocol.split(codes, cell) for cell in range(len(protocol.cells))])
    begin = 0
    for use in protocol.uses:
        copies = held[begin : begin + use.copies]
        assert ((copies > 0).sum(axis=0) <= 1).all() and copies.max() <= use.cell.largest
        begin += use.copies


def test_observed_counts_stay_within_k():
    protocol = plan_count(20, 2, mse_overhead=2).protocol
    most = padding.report_capacity(protocol.uses, 20)
    plus, minus = protocol.randomize_each(np.ones(20_000, np.int64))
    assert (plus + minus).max() <= most


def test_top_up_capacity_covers_the_exact_tail():
    """Chernoff's bound may not be below the exact answer, and not far above it."""
    protocol = counting(users=1)
    exact = padding.report_capacity(protocol.uses, 1) - padding.most_input(protocol.uses)
    bound = padding.top_up_capacity(protocol.uses, Fraction(1))
    assert exact <= bound <= exact + 30

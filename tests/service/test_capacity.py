"""K comes from the exact tail (must hold 1 and 2)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from service_trio import small_plan

from shuffledp.cell import Cell
from shuffledp.planning.counting import plan_count, plan_integers
from shuffledp.protocols import protocol_from_dict
from shuffledp.protocols.counting import Counting
from shuffledp.service import capacity
from shuffledp.service.errors import TaskError
from shuffledp.service.wire import MOST_MESSAGES


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
    tails = capacity.noise_tail(protocol, most)
    for k in (0, 1, 2, 5, 10, 20, 40):
        assert float(tails[k]) == pytest.approx(1 - masses[: k + 1].sum(), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("reports", [4, 1000, 10**6])
def test_k_is_the_least_that_keeps_a_batch_below_two_to_minus_64(reports):
    protocol = counting()
    messages = capacity.report_capacity(protocol, reports)
    reserve = messages - capacity.most_input(protocol)
    tails = capacity.noise_tail(protocol, reserve)
    limit = arb(2) ** -64
    assert reports * tails[reserve] <= limit
    assert reports * tails[reserve - 1] > limit


def test_k_grows_by_about_44_over_b():
    """SERVICE: about 44/b messages above the input's 2s + 1, for planned counts."""
    protocol = plan_count(10_000, 1).protocol
    reserve = capacity.report_capacity(protocol, 10_000) - capacity.most_input(protocol)
    expected = 44.4 / float(protocol.cell.down_epsilon)
    assert 0.7 * expected < reserve < 1.1 * expected


def test_most_input_of_counts_and_integers():
    assert capacity.most_input(counting(pairs=3)) == 7
    protocol = plan_integers(100, 4, 5, mse_overhead=2).protocol
    assert capacity.most_input(protocol) == 2 * protocol.cell.input_pairs + 5


def test_what_does_not_fit_is_refused():
    protocol = counting(users=1000, a="1/10000", b="1/10000")
    with pytest.raises(TaskError, match="more than 65,535"):
        capacity.report_capacity(protocol, 1000)


def test_observed_counts_stay_within_k():
    protocol = protocol_from_dict(small_plan()["certificate"]["protocol"])
    most = capacity.report_capacity(protocol, 20)
    plus, minus = protocol.randomize_each(np.ones(20_000, np.int64))
    assert (plus + minus).max() <= most <= MOST_MESSAGES


def test_top_up_capacity_covers_the_exact_tail():
    """Chernoff's bound may not be below the exact answer, and not far above it."""
    protocol = counting(users=1)
    exact = capacity.report_capacity(protocol, 1) - capacity.most_input(protocol)
    bound = capacity.top_up_capacity(protocol, Fraction(1))
    assert exact <= bound <= exact + 30

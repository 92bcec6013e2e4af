"""K comes from the exact tail of the number of messages, or from the largest number possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from bounded_laws import RARE
from flint import arb
from plan_parts import held, integer_sum, paper_cell

from shuffledp import plan_count, plan_histogram, plan_quantiles, plan_real_sum
from shuffledp.cells.base import CellGroup, Copies, Values
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.report_size import (
    EXACT,
    RESERVE,
    message_laws,
    most_messages,
    padded_size,
    padding_of,
    reserve_size,
)
from shuffledp.numbers import message_law
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.message_law import chernoff_capacity, tails
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol


def noise_tail(groups: Sequence[CellGroup], most: int) -> list[arb]:
    """P(a user's noise takes more than k messages) for k = 0..most."""
    return tails(message_laws(groups)[1], most)


def most_input(groups: Sequence[CellGroup]) -> int:
    """The most messages that a value itself can take."""
    return message_laws(groups)[0]


def counting(
    users: int = 4, a: str = "1", b: str = "1/2", pairs: int = 3, flood: int = 5
) -> CountProtocol:
    cell = PaperCell(
        users=users,
        largest=1,
        up_epsilon=Fraction(a),
        down_epsilon=Fraction(b),
        mute_probability=Fraction(1, 100),
        input_pairs=pairs,
        flood_mean=Fraction(flood),
    )
    return CountProtocol(Fraction(1), cell)


def test_tail_is_that_of_the_count_of_messages() -> None:
    """Against a plain convolution of the three laws."""
    protocol, most = counting(), 200
    cell = protocol.cell
    assert isinstance(cell, PaperCell)
    laws = [(cell.plus_noise.share(4), 1), (cell.minus_noise.share(4), 1), (cell.flood.share(4), 2)]
    masses = np.array([1.0])
    for law, step in laws:
        one = np.zeros(most + 1)
        one[::step] = [float(law.pmf(k)) for k in range(len(one[::step]))]
        masses = np.convolve(masses, one)[: most + 1]
    found = noise_tail(protocol.cell_groups, most)
    for k in (0, 1, 2, 5, 10, 20, 40):
        assert float(found[k]) == pytest.approx(1 - masses[: k + 1].sum(), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("reports", [4, 1000, 10**6])
def test_k_is_the_least_that_keeps_a_batch_below_two_to_minus_64(reports: int) -> None:
    protocol = counting()
    messages = reserve_size(protocol.cell_groups, reports)
    reserve = messages - most_input(protocol.cell_groups)
    found = noise_tail(protocol.cell_groups, reserve)
    limit = arb(2) ** -64
    assert reports * found[reserve] <= limit
    assert reports * found[reserve - 1] > limit


def test_k_grows_by_about_44_over_b() -> None:
    """SERVICE: about 44/b messages above the input's 2s + 1, for planned counts."""
    plan = plan_count(10_000, 1, cell="paper")
    groups = plan.protocol.cell_groups
    reserve = reserve_size(groups, 10_000) - most_input(groups)
    expected = 44.4 / float(paper_cell(plan).down_epsilon)
    assert 0.7 * expected < reserve < 1.1 * expected


def test_tail_of_many_copies_and_of_several_cells() -> None:
    """Each against a plain convolution, copy by copy."""
    one, other = counting(users=3).cell, counting(users=3, a="2", b="1/3", flood=1).cell
    assert isinstance(one, PaperCell) and isinstance(other, PaperCell)
    groups = (
        Copies(cell=one, copies=3, up=Fraction(1), down=Fraction(1)),
        Copies(cell=other, copies=1, up=Fraction(1), down=Fraction(1)),
    )
    most, masses = 150, np.array([1.0])
    for cell in (one, one, one, other):
        for law, step in ((cell.plus_noise, 1), (cell.minus_noise, 1), (cell.flood, 2)):
            alone = np.zeros(most + 1)
            alone[::step] = [float(law.share(3).pmf(k)) for k in range(len(alone[::step]))]
            masses = np.convolve(masses, alone)[: most + 1]
    found = noise_tail(groups, most)
    for k in (0, 1, 3, 10, 30, 60):
        assert float(found[k]) == pytest.approx(1 - masses[: k + 1].sum(), rel=1e-9, abs=1e-13)


def test_masses_left_out_only_raise_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = counting().cell_groups
    exact = noise_tail(groups, 300)
    monkeypatch.setattr(message_law, "NEGLIGIBLE_BITS", 40)
    rough = noise_tail(groups, 300)
    assert all(r.upper() >= e.lower() for r, e in zip(rough, exact, strict=True))
    assert rough[300] > exact[300] and rough[300] < exact[300] + arb(2) ** -36


def test_most_input_counts_pairs_stand_ins_and_one_value_per_use() -> None:
    assert most_input(counting(pairs=3).cell_groups) == 7
    one = Fraction(1)
    cell = PaperCell(
        users=10,
        largest=5,
        up_epsilon=one,
        down_epsilon=one,
        mute_probability=Fraction(1, 100),
        input_pairs=4,
        flood_mean=one,
        stand_in=2,
    )
    assert most_input((Copies(cell=cell, copies=1, up=one, down=one),)) == 2 * 4 + 2 + 5
    assert most_input((Copies(cell=cell, copies=3, up=one, down=one),)) == 3 * (2 * 4 + 2) + 5
    assert (
        most_input((Copies(cell=cell, copies=3, up=one, down=one), *counting(pairs=3).cell_groups))
        == 35 + 7
    )


def test_nobody_ever_sends_more_than_most_input_without_noise() -> None:
    """Users at the largest value, with noise and flood all but off."""
    quiet, one = Fraction(60), Fraction(1)
    cell = PaperCell(
        users=10,
        largest=5,
        up_epsilon=quiet,
        down_epsilon=quiet,
        mute_probability=Fraction(1, 2),
        input_pairs=4,
        flood_mean=Fraction(1, 10**9),
        stand_in=2,
    )
    sent = [sum(cell.randomize(5)) for _ in range(4000)]
    assert max(sent) == most_input(IntegerSumProtocol(one, cell).cell_groups)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda: plan_histogram(100, 2, ["a", "b", "c"]), np.array(["a", "b", "c"], object)),
        (lambda: plan_quantiles(100, 2, (0, 8), bins=8), np.arange(8) + 0.5),
        (lambda: plan_real_sum(100, 2, mse_overhead=20), np.linspace(0, 1, 101)),
    ],
    ids=["histogram", "quantiles", "sum"],
)
def test_of_a_users_copies_one_holds_a_value(
    make: Callable[[], Plan[Result]], values: Values
) -> None:
    """What `most_input` rests on."""
    protocol = make().protocol
    codes = protocol.encode(values)
    rows, begin = held(protocol, codes), 0
    for member in protocol.members:
        copies = rows[begin : begin + member.copies]
        assert ((copies > 0).sum(axis=0) <= 1).all() and copies.max() <= member.cell.largest
        begin += member.copies


def test_observed_counts_stay_within_k() -> None:
    protocol = integer_sum(plan_count(20, 2, mse_overhead=2, cell="paper"))
    most = reserve_size(protocol.cell_groups, 20)
    assert max(sum(protocol.cell.randomize(1)) for _ in range(20_000)) <= most


def test_chernoffs_bound_covers_the_exact_tail() -> None:
    """It may not be below the exact answer, and not far above it."""
    groups = counting(users=1).cell_groups
    exact = reserve_size(groups, 1) - most_input(groups)
    assert exact <= chernoff_capacity(message_laws(groups)[1], 1) <= exact + 30


def test_a_reserve_holds_the_noise_of_as_many_missing_users() -> None:
    """Their noise fits where their reports would fit: more often than not by far."""
    protocol, entropy = counting(users=20), SeededEntropy("reserve")
    most = 20 * reserve_size(protocol.cell_groups, 20)
    drawn = [protocol.top_up(20, entropy) for _ in range(500)]
    assert max(int(one.plus.sum() + one.minus.sum()) for one in drawn) < most


def test_padding_is_exact_wherever_there_is_a_longest_report() -> None:
    """Whatever the number of buckets; the paper's cells have no such report."""
    for cell in ("bounded", "pooled"):
        protocol = plan_histogram(100, 1, 3, cell=cell).protocol
        assert protocol.padding == padding_of(protocol.cell_groups) == EXACT
        assert protocol.report_size(100) == protocol.report_size(10**6) == protocol.most_messages
    groups = (Copies(cell=RARE, copies=200, up=Fraction(1), down=Fraction(1)),)
    assert padding_of(groups) == EXACT
    assert padded_size(groups, 100) == most_messages(groups) == 200 * RARE.most_messages
    paper = counting()
    assert paper.padding == RESERVE and most_messages(paper.cell_groups) is None
    assert paper.report_size(100) == reserve_size(paper.cell_groups, 100)

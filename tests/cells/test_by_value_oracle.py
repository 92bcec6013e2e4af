"""Counts whose odds depend on the user's value (MATH §21), against the exact law of the view.

Proved cells keep their word for all values of all users, and the oracle sees what a proof must
refuse."""

from dataclasses import replace
from fractions import Fraction

import pytest
from bounded_oracle import Ratios, all_ratios, first_violation, ratios, user_law

from shuffledp.cells.bounded.cell import BoundedCell, Direction
from shuffledp.cells.bounded.proof import prove
from shuffledp.cells.bounded.search import Side, cheapest_bounded_cell
from shuffledp.cells.search import CellTarget
from shuffledp.errors import CertificateError, ParameterError
from shuffledp.numbers.exact import round_to
from shuffledp.plans.target import laplace_variance

F = Fraction


def limit(users: int, decay: F, cut: int, muted_cut: int, ratio: F) -> Direction:
    """A direction whose odds are at the limit of what is proved."""
    side = Side(users, 1, float(decay), cut + 4, float(ratio))
    muting = side.muting(cut, muted_cut)
    assert muting is not None
    odds = round_to(muting.first_odds * (1 + 1e-8), 9, up=True)
    return Direction(
        epsilon=F(10), decay=decay, cut=cut, muted_cut=muted_cut, odds=(odds,), ratio=ratio
    )


def symmetric(
    users: int, decay: F, cut: int, muted_cut: int, ratio: F | None = None
) -> BoundedCell:
    side = limit(users, decay, cut, muted_cut, decay if ratio is None else ratio)
    return BoundedCell(users=users, largest=1, up=side, down=side)


def unequal(users: int, up: F, down: F, cuts: tuple[int, int, int, int]) -> BoundedCell:
    """Two different directions; the odds of one of them are raised until totals are equal."""
    high = limit(users, up, cuts[0], cuts[1], down)
    low = limit(users, down, cuts[2], cuts[3], up)
    if high.lost_odds > low.lost_odds:
        low = replace(low, odds=(high.lost_odds / (1 - low.ratio),))
    else:
        high = replace(high, odds=(low.lost_odds / (1 - high.ratio),))
    return BoundedCell(users=users, largest=1, up=high, down=low)


def scaled(cell: BoundedCell, factor: F) -> BoundedCell:
    """All odds this many times as large; totals stay equal."""
    up, down = (replace(s, odds=(s.odds[0] * factor,)) for s in (cell.up, cell.down))
    return replace(cell, up=up, down=down)


def accepted(cell: BoundedCell) -> bool:
    try:
        prove(cell, F(10), F(10))
    except CertificateError:
        return False
    return True


def kept(cell: BoundedCell, found: Ratios) -> bool:
    return found.within(cell) == (True, True)


SMALL = [
    # users, β, z, w, κ
    (1, F(2, 5), 0, 0, F(2, 5)),
    (2, F(3, 5), 2, 2, F(3, 5)),
    (3, F(1, 2), 3, 3, F(3, 4)),
    (4, F(2, 5), 6, 6, F(2, 5)),
    (5, F(1, 10), 10, 6, F(1, 10)),
    (8, F(2, 5), 8, 4, F(2, 5)),
    (12, F(2, 5), 5, 1, F(2, 5)),
    (12, F(2, 5), 5, 2, F(7, 10)),
    (16, F(1, 5), 4, 1, F(1, 5)),
    (24, F(37, 100), 6, 1, F(37, 100)),
]


@pytest.mark.parametrize(("users", "decay", "cut", "muted_cut", "ratio"), SMALL)
def test_proved_cells_keep_their_word_whatever_the_others_hold(
    users: int, decay: F, cut: int, muted_cut: int, ratio: F
) -> None:
    cell = symmetric(users, decay, cut, muted_cut, ratio)
    assert accepted(cell)
    assert kept(cell, all_ratios(cell, users))
    assert kept(cell, all_ratios(cell, users + 1))  # more users than planned


@pytest.mark.parametrize(
    ("users", "up", "down", "cuts"),
    [
        (2, F(2, 5), F(3, 5), (2, 2, 4, 4)),
        (6, F(1, 2), F(2, 5), (4, 4, 4, 4)),
        (12, F(2, 5), F(1, 2), (5, 1, 8, 3)),
        (20, F(37, 100), F(1, 5), (6, 1, 5, 1)),
    ],
)
def test_two_different_directions_keep_their_word(
    users: int, up: F, down: F, cuts: tuple[int, int, int, int]
) -> None:
    cell = unequal(users, up, down, cuts)
    assert cell.up.lost_odds == cell.down.lost_odds
    assert accepted(cell)
    assert kept(cell, all_ratios(cell, users))


@pytest.mark.parametrize(
    ("users", "decay", "cut"), [(1, F(2, 5), 0), (4, F(2, 5), 3), (4, F(2, 5), 6), (5, F(1, 2), 4)]
)
def test_the_oracle_sees_odds_at_nine_tenths_of_the_rule(users: int, decay: F, cut: int) -> None:
    """Equal cuts, for which the rule is nearly tight."""
    cell = scaled(symmetric(users, decay, cut, cut), F(9, 10))
    assert not accepted(cell)
    assert not kept(cell, all_ratios(cell, users))


@pytest.mark.parametrize(("users", "decay", "cut"), [(4, F(2, 5), 6)])
def test_a_ratio_a_tenth_below_the_decay_breaks_the_word(users: int, decay: F, cut: int) -> None:
    cell = symmetric(users, decay, cut, cut, decay * F(9, 10))
    assert not accepted(cell)
    assert not kept(cell, all_ratios(cell, users))


def test_unequal_totals_break_the_word() -> None:
    """Odds above the rule in one direction alone: the totals differ, and so do the laws."""
    cell = symmetric(4, F(2, 5), 3, 3)
    cell = replace(cell, down=replace(cell.down, odds=(cell.down.odds[0] * 2,)))
    assert not accepted(cell)
    laws = [user_law(cell, value) for value in (0, 1)]
    assert sum(laws[0]) != sum(laws[1])
    zero, one = ([mass / sum(law) for mass in law] for law in laws)
    found = [max(a / b for a, b in zip(*pair, strict=True)) for pair in ((one, zero), (zero, one))]
    assert max(found) > 1 / cell.up.decay
    with pytest.raises(ParameterError, match="muted more often"):
        cell.randomize(0)


def test_values_above_1_have_no_ratio() -> None:
    side = replace(limit(4, F(2, 5), 3, 3, F(2, 5)), odds=(F(1), F(1)))
    with pytest.raises(ParameterError, match="0 and 1"):
        BoundedCell(users=4, largest=2, up=side, down=side)


def planned(users: int) -> BoundedCell:
    task = CellTarget(
        users=users,
        expected=users,
        largest=1,
        up=F(1),
        down=F(1),
        mse=F(3, 2) * laplace_variance(F(1)),
        padded=1,
    )
    return cheapest_bounded_cell(task)


def others(users: int) -> list[list[int]]:
    return [[users - 1, 0], [0, users - 1], [users - 1 - users // 2, users // 2]]


def test_the_plan_for_a_hundred_users_in_exact_polynomials() -> None:
    cell = planned(100)
    assert cell.most_messages == 17 and cell.up.ratio == cell.down.decay
    assert all(kept(cell, ratios(cell, held)) for held in others(100))
    less = scaled(cell, F(1, 2))
    assert not accepted(less)
    assert not all(kept(less, ratios(less, held)) for held in others(100))


@pytest.mark.parametrize(("users", "size"), [(10**4, 27), (10**6, 37)])
def test_plans_of_full_size(users: int, size: int) -> None:
    """The smallest views of real plans. Of one direction alone, in weights, 5 % less is too little
    already: nothing of the other direction helps there."""
    cell = planned(users)
    assert cell.most_messages == size
    views = 2 * (cell.up.cut + cell.down.cut)
    silent = Direction(epsilon=F(10), decay=F(1, 2), cut=0, muted_cut=0, odds=(F(1, 10**60),))
    alone = replace(cell, down=silent)
    less = replace(alone, up=replace(cell.up, odds=(cell.up.odds[0] * F(95, 100),)))
    for held in (0, 1):
        assert first_violation(cell, held, views) is None
        assert first_violation(alone, held, views) is None
    assert first_violation(less, 0, views) is not None

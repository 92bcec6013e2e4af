"""The bounded cell against the exact law of its view: proved cells keep their word, and the oracle
sees what a proof must refuse."""

from dataclasses import replace
from fractions import Fraction

import pytest
from bounded_oracle import all_ratios, first_violation, ratios, user_law

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.direction import Direction
from shuffledp.cells.bounded.proof import prove, prove_direction
from shuffledp.cells.bounded.side import Side
from shuffledp.errors import PrivacyViolation
from shuffledp.numbers.exact import round_to

F = Fraction
TINY = F(1, 10**60)


def limit(users: int, largest: int, decay: F, cut: int, muted_cut: int) -> Direction:
    """A direction whose odds are at the limit of what is proved."""
    muting = Side(users, largest, float(decay), cut + 4).muting(cut, muted_cut)
    assert muting is not None
    first = muting.first_odds * (1 + 1e-8)
    odds = [round_to(first * float(decay) ** y, 9, up=True) for y in range(largest)]
    return Direction(epsilon=F(10), decay=decay, cut=cut, muted_cut=muted_cut, odds=tuple(odds))


def halved(side: Direction) -> Direction:
    return replace(side, odds=tuple(odds / 2 for odds in side.odds))


def silent(largest: int) -> Direction:
    """A direction that does nothing: it leaves the other one no cover. It is not private."""
    return Direction(epsilon=F(10), decay=F(1, 2), cut=0, muted_cut=0, odds=(TINY,) * largest)


SMALL = [
    # users, D, β, z, w
    (1, 1, F(2, 5), 0, 0),
    (2, 2, F(3, 5), 2, 2),
    (3, 3, F(3, 5), 5, 5),
    (4, 1, F(2, 5), 6, 6),
    (5, 1, F(1, 10), 10, 6),
    (5, 3, F(1, 2), 4, 4),
    (8, 1, F(2, 5), 8, 4),
    (8, 2, F(1, 5), 12, 6),
    (12, 1, F(2, 5), 5, 2),
    (12, 2, F(2, 5), 9, 4),
]


@pytest.mark.parametrize(("users", "largest", "decay", "cut", "muted_cut"), SMALL)
def test_proved_cells_keep_their_word_whatever_the_others_hold(
    users: int, largest: int, decay: F, cut: int, muted_cut: int
) -> None:
    side = limit(users, largest, decay, cut, muted_cut)
    cell = BoundedCell(users=users, largest=largest, up=side, down=side)
    prove(cell, F(10), F(10))
    assert all_ratios(cell, users).within(cell) == (True, True)
    assert all_ratios(cell, users + 1).within(cell) == (True, True)  # more users than planned


@pytest.mark.parametrize(("users", "largest", "decay", "cut", "muted_cut"), SMALL)
def test_one_direction_alone_keeps_its_word(
    users: int, largest: int, decay: F, cut: int, muted_cut: int
) -> None:
    """Nothing of the other direction helps here; and the mirror image is the same."""
    side = limit(users, largest, decay, cut, muted_cut)
    up = BoundedCell(users=users, largest=largest, up=side, down=silent(largest))
    down = BoundedCell(users=users, largest=largest, up=silent(largest), down=side)
    prove_direction(up, "up", side, F(10))
    found, mirrored = all_ratios(up, users), all_ratios(down, users)
    assert found.within(up)[0] and mirrored.within(down)[1]
    assert found.up == mirrored.down


@pytest.mark.parametrize(
    ("users", "largest", "decay", "cut", "muted_cut"),
    [(1, 1, F(2, 5), 0, 0), (2, 2, F(3, 5), 2, 2), (4, 1, F(2, 5), 6, 6), (5, 3, F(1, 2), 4, 4)],
)
def test_the_oracle_sees_halved_odds(
    users: int, largest: int, decay: F, cut: int, muted_cut: int
) -> None:
    side = halved(limit(users, largest, decay, cut, muted_cut))
    cell = BoundedCell(users=users, largest=largest, up=side, down=silent(largest))
    assert not all_ratios(cell, users).within(cell)[0]
    with pytest.raises(PrivacyViolation):
        prove_direction(cell, "up", side, F(10))


def test_fewer_users_than_planned_break_the_word() -> None:
    side = limit(12, 1, F(2, 5), 5, 2)
    cell = BoundedCell(users=12, largest=1, up=side, down=silent(1))
    assert not all_ratios(cell, 2).within(cell)[0]


def others(users: int) -> list[list[int]]:
    return [[users - 1, 0], [0, users - 1], [users - 1 - users // 2, users // 2]]


def test_a_hundred_users() -> None:
    """Odds at the limit hold; a tenth less does not; without noise in the muted branch nothing."""
    side = limit(100, 1, F(37, 100), 8, 2)
    cell = BoundedCell(users=100, largest=1, up=side, down=silent(1))
    prove_direction(cell, "up", side, F(10))
    for held in others(100):
        assert ratios(cell, held).within(cell)[0]
    less = replace(cell, up=replace(side, odds=(side.odds[0] * F(9, 10),)))
    assert not all(ratios(less, held).within(less)[0] for held in others(100))
    bare = replace(cell, up=replace(side, muted_cut=0))
    assert not all(ratios(bare, held).within(bare)[0] for held in others(100))
    with pytest.raises(PrivacyViolation):
        prove_direction(bare, "up", bare.up, F(10))


@pytest.mark.parametrize(
    ("users", "largest", "decay", "cut", "muted_cut", "enough"),
    [
        (10**4, 1, F(368, 1000), 14, 1, F(99, 100)),
        (10**4, 1, F(368, 1000), 13, 2, F(99, 100)),
        (10**6, 1, F(368, 1000), 19, 1, F(99, 100)),
        (10**4, 2, F(607, 1000), 26, 4, F(80, 100)),
        (10**4, 3, F(717, 1000), 40, 6, F(60, 100)),
        (10**6, 2, F(607, 1000), 36, 4, F(80, 100)),
    ],
)
def test_plans_of_full_size(
    users: int, largest: int, decay: F, cut: int, muted_cut: int, enough: F
) -> None:
    """The cuts of real plans. Odds at the limit hold; for counts 1 % less is too little already,
    for larger values the proof leaves some room; a shorter cut with the same odds never holds."""
    side = limit(users, largest, decay, cut, muted_cut)
    cell = BoundedCell(users=users, largest=largest, up=side, down=silent(largest))
    prove_direction(cell, "up", side, F(10))
    views = 4 * (cut + largest)
    for held in {0, largest}:
        assert first_violation(cell, held, views) is None
    less = replace(side, odds=tuple(odds * enough for odds in side.odds))
    shorter = replace(side, cut=cut - largest)
    bare = replace(side, muted_cut=0)
    for wrong in (less, shorter, bare):
        assert first_violation(replace(cell, up=wrong), 0, views) is not None


def test_a_muted_branch_is_not_spent_twice() -> None:
    """Where the muted cut is long, the inequalities place by place alone would allow φ above 1.
    The proof does not: a muted branch cannot pay more than itself."""
    side = limit(1000, 1, F(37, 100), 16, 8)
    cell = BoundedCell(users=1000, largest=1, up=side, down=silent(1))
    proof = prove_direction(cell, "up", side, F(10))
    alone, shared = (float(entry.left) for entry in proof.inequalities)
    assert alone > 0.999 and shared < 0.95
    assert first_violation(cell, 0, 70) is None
    less = replace(side, odds=(side.odds[0] * F(95, 100),))
    with pytest.raises(PrivacyViolation, match=r"φ\(1\+rh\) ≤ 1"):
        prove_direction(cell, "up", less, F(10))


def test_the_law_of_a_user() -> None:
    side = limit(12, 2, F(2, 5), 9, 4)
    cell = BoundedCell(users=12, largest=2, up=side, down=side)
    for value in range(3):
        law = user_law(cell, value)
        assert len(law) == cell.most_messages + 1
        assert law[0] > 0 and law[-1] > 0  # never below 0, never above K, and both occur
        assert sum(law) == 1 + sum(side.odds) * 2

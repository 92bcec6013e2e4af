"""Cells that share their way up against the exact law of their whole view: proved cells keep their
word, and the oracle sees what a proof must refuse."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from digits_oracle import View, all_changes
from shared_groups import TINY, downwards, fitted, group

from shuffledp.cells.bounded.proof import decide
from shuffledp.cells.digits.cell import SharedCell, SharedDigits
from shuffledp.cells.digits.proof import SHARED, prove, shared_way_up
from shuffledp.errors import PrivacyViolation

F = Fraction
Group = list[SharedCell]
UPWARDS = [
    # users, D of each cell, Z, β of each cell
    (1, (2, 2), 2, (F(3, 5), F(1, 2))),
    (2, (1, 1), 2, (F(1, 2), F(2, 5))),
    (2, (2, 1), 3, (F(3, 5), F(1, 2))),
    (2, (2, 2), 2, (F(3, 5), F(3, 5))),
    (3, (1, 1), 2, (F(1, 2), F(2, 5))),
    (3, (1, 1), 4, (F(9, 10), F(1, 5))),
    (1, (1, 2, 1), 3, (F(1, 2), F(2, 5), F(3, 5))),
]
BOTH_WAYS = [
    # and w = z, β of each cell downwards
    (2, (1, 1), 2, (F(1, 2), F(2, 5)), 1, (F(1, 2), F(2, 5))),
    (2, (2, 1), 2, (F(3, 5), F(2, 5)), 1, (F(1, 2), F(2, 5))),
    (1, (2, 2), 3, (F(1, 2), F(4, 5)), 2, (F(4, 5), F(1, 2))),
    (1, (1, 1, 1), 3, (F(1, 2), F(2, 5), F(3, 5)), 1, (F(1, 2), F(2, 5), F(1, 2))),
]
SMALL = UPWARDS[1]


def both_ways(
    users: int,
    largest: tuple[int, ...],
    cut: int,
    decays: tuple[F, ...],
    below: int,
    down_decays: tuple[F, ...],
) -> Group:
    pairs = zip(largest, down_decays, strict=True)
    downs = [downwards(users, d, decay, below) for d, decay in pairs]
    return group(users, largest, cut, decays, downs)


def prove_upwards(cells: Group) -> None:
    for cell in cells:
        decide(cell, "up", cell.up, None, {SHARED: shared_way_up(cell.way_up)})


def scaled(cells: Group, factor: F) -> Group:
    """All own odds by a factor."""
    ups = [replace(cell.up, odds=tuple(o * factor for o in cell.up.odds)) for cell in cells]
    return fitted([replace(cell, up=up) for cell, up in zip(cells, ups, strict=True)])


def strays(cells: Group, factor: F) -> Group:
    """All stray odds by a factor."""
    return [
        replace(
            cell,
            way_up=replace(
                cell.way_up, stray_odds=tuple(o * factor for o in cell.way_up.stray_odds)
            ),
        )
        for cell in cells
    ]


def others_as_one(cells: Group) -> Group:
    """Odds as if the other cells had one value only, and the cells saying so."""
    alone = [
        replace(
            cell,
            up=replace(cell.up, odds=tuple(o / cell.way_up.others for o in cell.up.odds)),
            way_up=replace(cell.way_up, others=1),
        )
        for cell in cells
    ]
    return fitted(alone)


@pytest.mark.parametrize(("users", "largest", "cut", "decays"), UPWARDS)
def test_the_way_up_keeps_its_word_without_any_cover_from_below(
    users: int, largest: tuple[int, ...], cut: int, decays: tuple[F, ...]
) -> None:
    cells = group(users, largest, cut, decays)
    SharedDigits(tuple(cells))
    prove_upwards(cells)
    changes = all_changes(cells, users)
    assert changes.within("up")
    for loss, cell in zip(changes.losses("up"), cells, strict=True):  # and nothing is given away
        assert loss == pytest.approx(-cell.largest * math.log(cell.up.decay), rel=1e-6)


def test_three_cells_and_two_users() -> None:
    cells = group(2, (1, 1, 1), 3, (F(1, 2), F(2, 5), F(3, 5)))
    prove_upwards(cells)
    assert all_changes(cells, 2).within("up")
    assert not all_changes(scaled(cells, F(9, 10)), 2).within("up")


@pytest.mark.parametrize(("users", "largest", "cut", "decays", "below", "down_decays"), BOTH_WAYS)
def test_both_ways_keep_their_word(
    users: int,
    largest: tuple[int, ...],
    cut: int,
    decays: tuple[F, ...],
    below: int,
    down_decays: tuple[F, ...],
) -> None:
    cells = both_ways(users, largest, cut, decays, below, down_decays)
    SharedDigits(tuple(cells))
    for cell in cells:
        prove(cell, F(20), F(20))
    changes = all_changes(cells, users)
    assert changes.within("up") and changes.within("down")


def test_downwards_too_little_is_seen() -> None:
    """The twin of the test above: with a tenth of the odds downwards."""
    cells = both_ways(*BOTH_WAYS[0])
    downs = [replace(cell.down, odds=tuple(o / 10 for o in cell.down.odds)) for cell in cells]
    wrong = [replace(cell, down=down) for cell, down in zip(cells, downs, strict=True)]
    changes = all_changes(wrong, 2)
    assert changes.within("up") and not changes.within("down")
    with pytest.raises(PrivacyViolation):
        prove(wrong[0], F(20), F(20))


@pytest.mark.parametrize("number", range(len(UPWARDS)))
@pytest.mark.parametrize(
    "damage",
    [
        lambda cells: scaled(cells, F(1, 2)),
        lambda cells: scaled(cells, F(99, 100)),
        lambda cells: strays(cells, TINY),
        others_as_one,
    ],
    ids=["half the own odds", "own odds 1 % too low", "no stray jumps", "others as one"],
)
def test_the_oracle_sees_too_little(number: int, damage: Callable[[Group], Group]) -> None:
    wrong = damage(group(*UPWARDS[number]))
    assert not all_changes(wrong, UPWARDS[number][0]).within("up")
    with pytest.raises(PrivacyViolation):
        prove_upwards(wrong if damage is not others_as_one else told(wrong))


def told(cells: Group) -> Group:
    """The cells with the number of the others' combinations as it is."""
    codes = math.prod(cell.largest + 1 for cell in cells)
    return [
        replace(cell, way_up=replace(cell.way_up, others=codes // (cell.largest + 1)))
        for cell in cells
    ]


def test_others_as_one_is_seen_by_the_cells_together() -> None:
    """Each cell alone cannot know; `SharedDigits` must refuse what the oracle refutes."""
    wrong = others_as_one(group(*SMALL))
    with pytest.raises(Exception, match="do not share one way up"):
        SharedDigits(tuple(wrong))


def test_every_single_jump_is_needed() -> None:
    cells = group(*UPWARDS[2])
    for place, cell in enumerate(cells):
        for y in range(cell.largest):
            odds = list(cell.up.odds)
            odds[y] = TINY
            wrong = list(cells)
            wrong[place] = replace(cell, up=replace(cell.up, odds=tuple(odds)))
            assert not all_changes(fitted(wrong), 2).within("up")


def test_stray_jumps_are_what_the_common_cut_costs() -> None:
    """Without them cells whose noise is cut each on its own would keep their word; but then a user
    may send more than the report holds."""
    cells = strays(group(*SMALL), TINY)
    assert all_changes(cells, 2, "each cell on its own").within("up")
    assert not all_changes(cells, 2).within("up")
    assert most_drawn(cells, "together") == SharedDigits(tuple(cells)).most_messages
    assert most_drawn(cells, "each cell on its own") > SharedDigits(tuple(cells)).most_messages


def test_noise_is_drawn_whatever_happened_to_the_values() -> None:
    cells = group(*SMALL)
    assert all_changes(cells, 2).within("up")
    assert not all_changes(cells, 2, "own values only").within("up")


def most_drawn(cells: Group, noise: str) -> int:
    """The most messages to all cells that one user sends with a chance above 0."""
    view = View(cells, 1, noise)  # type: ignore[arg-type]
    sizes = [cell.most_messages + 1 for cell in cells]
    found = 0
    for law in view.laws.values():
        for power, mass in enumerate(law.coeffs()):
            if mass:
                digits, left = [], power
                for size in sizes:
                    left, digit = divmod(left, size)
                    digits.append(digit)
                assert left == 0
                found = max(found, sum(digits))
    return found


def test_users_beyond_those_planned_help_and_missing_ones_break_the_word() -> None:
    cells = group(*UPWARDS[4])
    assert all_changes(cells, 4).within("up")
    assert not all_changes(cells, 2).within("up")
    assert not all_changes(cells, 1).within("up")


def test_the_law_of_a_user() -> None:
    cells = both_ways(*BOTH_WAYS[1])
    view = View(cells, 1)
    scale = {sum(int(mass) for mass in law.coeffs()) for law in view.laws.values()}
    assert len(scale) == 1 and len(view.laws) == 6  # all inputs, all scaled alike
    assert most_drawn(cells, "together") == SharedDigits(tuple(cells)).most_messages
    assert all(int(law[0]) > 0 for law in view.laws.values())  # nothing at all may be sent

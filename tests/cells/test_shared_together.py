"""Cells that share their way up: what drawing them together adds to an error, groups that do not
fit, and cells that are used alone."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest
from bounded_laws import BIT, variance_of
from shared_laws import BITS, DIGITS, RARE, inputs, of_one_cell, sent

from shuffledp.cells.base import Copies, IndependentCell
from shuffledp.cells.digits.cell import SharedCell, SharedDigits
from shuffledp.cells.registry import cell_from_dict, group_of_buckets
from shuffledp.errors import ParameterError

F = Fraction
Group = tuple[SharedCell, ...]
GROUPS = pytest.mark.parametrize("cells", [DIGITS, BITS, RARE], ids=["digits", "bits", "rare"])


# The error of a weighted sum


@pytest.mark.parametrize("cells", [DIGITS, BITS, RARE], ids=["digits", "bits", "rare"])
def test_drawing_together_adds_no_more_variance_than_is_said(cells: Group) -> None:
    """Of one user's share of the sum of estimates, with the exact common law."""
    codes = prod(cell.largest + 1 for cell in cells)
    weights, left = [], codes
    for cell in cells:
        left //= cell.largest + 1
        weights.append(F(left))
    most = SharedDigits(cells).joint_variance(weights)
    factors = [w / cell.data_probability for w, cell in zip(weights, cells, strict=True)]
    for values in inputs(cells):
        law = sent(cells, values)
        each = sum(
            f**2 * variance_of(of_one_cell(sent(cells, values, noise_together=False), place))
            for place, f in enumerate(factors)
        )
        whole: dict[Fraction, Fraction] = {}
        for messages, mass in law.items():
            place = sum((f * k for f, k in zip(factors, messages, strict=True)), start=F(0))
            whole[place] = whole.get(place, F(0)) + mass
        added = variance_of(whole) - each  # type: ignore[arg-type]
        assert added <= most
        assert abs(added) > most / 10**4  # and the bound is not empty


# Cells that do not fit, or are used alone


def test_a_shared_cell_is_not_drawn_alone() -> None:
    cell, loss = DIGITS[1], DIGITS[1].up_loss
    assert not isinstance(cell, IndependentCell)
    for name in ("randomize", "randomize_total", "aggregate", "top_up"):
        assert not hasattr(cell, name) and hasattr(BIT, name)
    with pytest.raises(ParameterError, match="drawn together"):
        Copies(cell=cell, up=loss, down=loss)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="drawn together"):
        group_of_buckets(cell, 2, loss, loss)


def changed(number: int, **change: object) -> list[SharedCell]:
    """The group with one cell that says something else of the others."""
    cells = list(DIGITS)
    cells[number] = replace(cells[number], way_up=replace(cells[number].way_up, **change))  # type: ignore[arg-type]
    return cells


@pytest.mark.parametrize(
    "cells",
    [
        DIGITS[:1],
        (*DIGITS, DIGITS[1]),
        changed(0, others=3),
        changed(1, others=2),
        changed(1, decay=F(9, 10)),
        changed(0, other_odds=F(1, 100)),
        changed(1, stray_odds=(F(1, 4),)),
        [DIGITS[0], replace(DIGITS[1], users=4)],
        [DIGITS[0], replace(DIGITS[1], up=replace(DIGITS[1].up, cut=3, muted_cut=3))],
        [DIGITS[0], replace(DIGITS[1], up=replace(DIGITS[1].up, odds=(F(1, 8),)))],
    ],
)
def test_cells_that_were_not_made_for_each_other_are_refused(cells: Sequence[SharedCell]) -> None:
    SharedDigits(tuple(DIGITS))
    with pytest.raises(ParameterError, match="do not share one way up"):
        SharedDigits(tuple(cells))


@pytest.mark.parametrize(
    "change",
    [
        {"cells": 1, "stray_odds": ()},
        {"cells": 25, "stray_odds": (F(1),) * 24},
        {"cells": 3},
        {"others": 0},
        {"others": 2**24 + 1},
        {"decay": F(1)},
        {"decay": F(1, 3**3000)},
        {"other_odds": F(0)},
        {"other_odds": 0.5},
        {"stray_odds": ()},
        {"stray_odds": (F(0),)},
        {"stray_odds": (F(-1),)},
        {"cells": 3, "stray_odds": (F(1), F(1))},
    ],
    ids=str,
)
def test_impossible_groups_are_refused(change: dict[str, object]) -> None:
    """The last one: more cells than the cut."""
    with pytest.raises(ParameterError):
        changed(0, **change)


def test_unequal_cuts_are_refused() -> None:
    with pytest.raises(ParameterError, match="equal cuts"):
        replace(DIGITS[0], up=replace(DIGITS[0].up, muted_cut=1))


@GROUPS
def test_json_and_back(cells: Group) -> None:
    for cell in cells:
        assert cell_from_dict(cell.to_dict()) == cell

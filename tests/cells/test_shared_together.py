"""Cells that share their way up: what drawing them together adds to an error, groups that do not
fit, and cells that are used alone."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from bounded_laws import variance_of
from shared_laws import BITS, DIGITS, RARE, inputs, of_one_cell, sent

from shuffledp.cells import cell_from_dict
from shuffledp.cells.digits.cell import SharedCell
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
    most = SharedCell.joint_variance(cells, weights)
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
    cell, row = DIGITS[1], np.array([0, 1])
    for draw in (
        lambda: cell.randomize(0),
        lambda: cell.randomize_each(row),
        lambda: cell.randomize_total(row),
        lambda: cell.aggregate(row),
        lambda: cell.aggregate_copies(row, 2),
        lambda: cell.top_up(1, 1),
    ):
        with pytest.raises(ParameterError, match="drawn together"):
            draw()


def changed(number: int, **change: object) -> list[SharedCell]:
    """The group with one cell that says something else of the others."""
    cells = list(DIGITS)
    cells[number] = replace(cells[number], together=replace(cells[number].together, **change))  # type: ignore[arg-type]
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
    SharedCell.check_together(DIGITS)
    with pytest.raises(ParameterError, match="do not share one way up"):
        SharedCell.check_together(cells)


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

"""What the JSON of a cell may hold."""

from __future__ import annotations

from fractions import Fraction

from shuffledp.cells.base import (
    LARGEST_EPSILON_OF_CELL,
    LARGEST_VALUE,
    MOST_USERS,
    SMALLEST_EPSILON_OF_CELL,
)
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.direction import LARGEST_ODDS, MOST_BOUNDED_VALUE, MOST_CUT
from shuffledp.cells.digits.cell import MOST_COMBINATIONS, MOST_TOGETHER, SharedCell
from shuffledp.cells.paper.cell import LARGEST_FLOOD_MEAN, MOST_INPUT_PAIRS, PaperCell
from shuffledp.documents.schema import Choice, Listing, Rational, Record, Tagged, Whole

CELL_EPSILON = Rational(SMALLEST_EPSILON_OF_CELL, LARGEST_EPSILON_OF_CELL)
PROBABILITY = Rational(Fraction(0), Fraction(1))
"""That it is neither 0 nor 1 is checked by the cell itself."""

PAPER_CELL = Record(
    {
        "kind": Choice((PaperCell.kind,)),
        "users": Whole(1, MOST_USERS),
        "largest": Whole(1, LARGEST_VALUE),
        "up_epsilon": CELL_EPSILON,
        "down_epsilon": CELL_EPSILON,
        "mute_probability": PROBABILITY,
        "input_pairs": Whole(0, MOST_INPUT_PAIRS),
        "flood_mean": Rational(Fraction(0), LARGEST_FLOOD_MEAN),
        "stand_in": Whole(0, LARGEST_VALUE),
    }
)
ODDS = Rational(Fraction(0), LARGEST_ODDS)
DIRECTION = Record(
    {
        "epsilon": CELL_EPSILON,
        "decay": PROBABILITY,
        "cut": Whole(0, MOST_CUT),
        "muted_cut": Whole(0, MOST_CUT),
        "odds": Listing(ODDS, 1, MOST_BOUNDED_VALUE),
    }
)
BOUNDED_FIELDS = {
    "users": Whole(1, MOST_USERS),
    "largest": Whole(1, MOST_BOUNDED_VALUE),
    "up": DIRECTION,
    "down": DIRECTION,
}
BOUNDED_CELL = Record({"kind": Choice((BoundedCell.kind,)), **BOUNDED_FIELDS})
TOGETHER = Record(
    {
        "cells": Whole(2, MOST_TOGETHER),
        "others": Whole(1, MOST_COMBINATIONS),
        "decay": PROBABILITY,
        "other_odds": ODDS,
        "stray_odds": Listing(ODDS, 1, MOST_TOGETHER - 1),
    }
)
SHARED_CELL = Record({"kind": Choice((SharedCell.kind,)), **BOUNDED_FIELDS, "together": TOGETHER})
CELL = Tagged(
    "kind",
    {BoundedCell.kind: BOUNDED_CELL, SharedCell.kind: SHARED_CELL, PaperCell.kind: PAPER_CELL},
)

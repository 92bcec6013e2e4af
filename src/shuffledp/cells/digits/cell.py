"""The shared cell: a bounded cell that shares its way up with the other cells of its protocol, so
that a user sends hardly more at most than on average (MATH §18 of docs/mathematics.md).

A user's cells hold the values x_1..x_k. Write Z for the cut, the same in all cells, r = 1/users,
c_j as in `shuffledp.cells.bounded.cell`. A user draws, for all cells together,

    which values    with odds 1 its own, x; otherwise values ζ that say nothing about x, and an
                    addition n with n_1 + … + n_k = Z+1:
                      up y of cell s (its odds o_y): ζ_s = y−1, n_s = Z+1, the other ζ uniform
                      stray q (odds s_q): ζ uniform, n uniform among those with q parts above 0
    noise upwards   Z₊ of every cell, negative binomial shares given that their sum is at most Z

and then each cell on its own, with odds 1 : o^d_1 … o^d_D,

    kept    v = ζ           − Z₋,    Z₋ ~ μ_z of down        (ζ = x where the values are its own)
    down y  v = D − z_d − y − Z₋,    Z₋ ~ μ_w of down

and sends z_d + w_d + v + n + Z₊ messages: over all cells at most Σ(z_d + w_d + D) + 2Z + 1.

Everything here about one cell alone (moments, error laws) treats its Z₊ as cut at Z by itself; the
noise of some user's cells adds up to more than Z with a probability of at most
2k(k−1)·(1+Z)·β^(Z+1)/(m·(1−β)), if there are at least k users, β the largest of all cells (§18).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from shuffledp.cells.base import (
    PROBABILITY,
    CellGroup,
    Counts,
    Member,
    Parameters,
    Values,
    only_plus,
)
from shuffledp.cells.bounded.cell import (
    CUT_FIELDS,
    LARGEST_ODDS,
    MOST_BITS,
    ODDS,
    CutCell,
)
from shuffledp.cells.digits import draws
from shuffledp.cells.digits import law as shared_law
from shuffledp.documents.schema import Listing, OneOf, Record, Whole
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import probability, whole
from shuffledp.numbers.finite import Finite
from shuffledp.numbers.laws import Bernoulli, Binomial
from shuffledp.numbers.message_law import NoiseMessages

MOST_TOGETHER = 24
"""The most cells that may share their way up."""
MOST_COMBINATIONS = 1 << 24
"""The most combinations of the values of a user's cells."""


@dataclass(frozen=True, kw_only=True)
class SharedWayUp(Parameters):
    """What a cell must know about the cells with which it shares its way up."""

    cells: int
    """k: how many there are, itself included."""
    others: int
    """How many combinations of values the other cells have."""
    decay: Fraction
    """The largest β upwards of all of them."""
    other_odds: Fraction
    """The odds of all jumps of the other cells."""
    stray_odds: tuple[Fraction, ...]
    """s_2..s_k."""

    def __post_init__(self) -> None:
        whole(self.cells, "the number of cells together", least=2, most=MOST_TOGETHER)
        whole(self.others, "the other cells' combinations", most=MOST_COMBINATIONS)
        probability(self.decay, "decay")
        if len(self.stray_odds) != self.cells - 1:
            raise ParameterError("Stray odds are needed for 2, 3, … up to all of the cells.")
        for odds in (self.other_odds, *self.stray_odds):
            if not isinstance(odds, Fraction) or not 0 < odds <= LARGEST_ODDS:
                raise ParameterError("Odds must be fractions above 0.")
        if any(n.denominator.bit_length() > MOST_BITS for n in (self.decay, *self.stray_odds)):
            raise ParameterError(f"Odds and decay may have at most {MOST_BITS:,} bits; round them.")


@dataclass(frozen=True, kw_only=True)
class SharedCell(CutCell):
    """A bounded cell that is drawn at once with the other cells of its group, `SharedDigits`."""

    kind: ClassVar[str] = "shared"

    way_up: SharedWayUp = field(metadata={"json": "together"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.up.ratio != 1 or self.down.ratio != 1:
            raise ParameterError("The odds of shared cells do not depend on the value: ratio is 1.")
        if not self.way_up.cells <= self.up.cut == self.up.muted_cut:
            raise ParameterError(
                "Cells that share their way up have equal cuts upwards, at least as large as "
                "there are cells."
            )

    @property
    def most_messages(self) -> int:
        """The most messages that a user sends to this cell; see `SharedDigits` for all cells."""
        return self.base + self.largest + 2 * self.up.cut + 1

    @property
    def proof_steps(self) -> float:
        return 2 * super().proof_steps

    # The laws of the cells' common draw, and of this cell alone

    @cached_property
    def up_odds(self) -> Fraction:
        """The odds of all jumps of all cells, against 1 for a user's own values."""
        own = sum(self.up.odds, start=Fraction(0))
        return own + self.way_up.other_odds + sum(self.way_up.stray_odds, start=Fraction(0))

    @cached_property
    def down_odds(self) -> Fraction:
        return sum(self.down.odds, start=Fraction(0))

    @cached_property
    def data_probability(self) -> Fraction:
        return 1 / ((1 + self.up_odds) * (1 + self.down_odds))

    @cached_property
    def down_mute(self) -> Binomial:
        """1 with the probability that a jump downwards replaces a value."""
        return Bernoulli(self.down_odds / (1 + self.down_odds))

    @cached_property
    def down_jumps(self) -> Finite:
        """Which jump downwards: 0..D−1 for 1..D."""
        return Finite.of(self.down.odds)

    moments = shared_law.moments
    user_parts = shared_law.user_parts


@dataclass(frozen=True)
class SharedDigits(CellGroup):
    """The digits of a number, drawn at once. The code is the number itself."""

    cells: tuple[SharedCell, ...]
    """Most significant digit first."""
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuses cells that were not made for each other: the proof of one holds only together
        with the others."""
        codes = prod(cell.largest + 1 for cell in self.cells)
        odds = sum((sum(cell.up.odds) for cell in self.cells), start=Fraction(0))
        decay = max(cell.up.decay for cell in self.cells)
        first = self.cells[0]
        for cell in self.cells:
            known = cell.way_up
            if (
                known.cells != len(self.cells)
                or known.others * (cell.largest + 1) != codes
                or known.decay != decay
                or known.other_odds != odds - sum(cell.up.odds)
                or known.stray_odds != first.way_up.stray_odds
                or (cell.up.cut, cell.users) != (first.up.cut, first.users)
            ):
                raise ParameterError(
                    "These cells do not share one way up: their users, cuts, odds or numbers of "
                    "values do not fit together."
                )

    @cached_property
    def members(self) -> tuple[Member, ...]:
        return tuple(
            Member(cell=cell, copies=1, up=cell.up_loss, down=cell.up_loss) for cell in self.cells
        )

    @cached_property
    def radix(self) -> tuple[int, ...]:
        """The base of each digit."""
        return tuple(cell.largest + 1 for cell in self.cells)

    @property
    def codes(self) -> int:
        return prod(self.radix)

    def held(self, codes: Values, counter: int) -> Values:
        return codes // prod(self.radix[counter + 1 :]) % self.radix[counter]

    def _rows(self, codes: Values) -> list[Values]:
        return [self.held(codes, counter) for counter in range(len(self.cells))]

    def randomize(self, code: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        values = [int(row[0]) for row in self._rows(np.array([code]))]
        return only_plus(draws.randomize(self.cells, values, entropy))

    def randomize_total(self, codes: Values, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        return only_plus(draws.randomize_total(self.cells, self._rows(codes), entropy))

    def aggregate(self, tally: Counts, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        rows = self._rows(np.arange(len(tally)))
        return only_plus(draws.aggregate(self.cells, rows, tally, entropy))

    def top_up(self, absent: int, entropy: Entropy = SYSTEM) -> tuple[Counts, Counts]:
        """The messages of `absent` users with the value 0 in every cell."""
        nothing = [np.zeros(1, np.int64)] * len(self.cells)
        return only_plus(draws.aggregate(self.cells, nothing, np.array([absent]), entropy))

    @property
    def most_messages(self) -> int:
        return sum(cell.base + cell.largest for cell in self.cells) + 2 * self.cells[0].up.cut + 1

    def message_laws(self) -> tuple[int, list[NoiseMessages]]:
        return self.most_messages, []

    def joint_variance(self, weights: Sequence[Fraction]) -> Fraction:
        """A jump moves several cells at once."""
        cut, kept = self.cells[0].up.cut, min(cell.data_probability for cell in self.cells)
        pairs = list(zip(weights, self.cells, strict=True))
        reach = sum((weight * cell.largest for weight, cell in pairs), Fraction(0))
        stray = sum(self.cells[0].way_up.stray_odds)
        total = stray * ((cut + 1) * max(weights) + reach) ** 2
        for weight, cell in pairs:
            rest = reach - weight * cell.largest
            far = weight * (cut + 1 + cell.largest)
            total += sum(cell.up.odds) * (2 * far * rest + rest**2)
        return total / kept**2


SCHEMA = Record(
    {
        "kind": OneOf((SharedCell.kind,)),
        **CUT_FIELDS,
        "together": Record(
            {
                "cells": Whole(2, MOST_TOGETHER),
                "others": Whole(1, MOST_COMBINATIONS),
                "decay": PROBABILITY,
                "other_odds": ODDS,
                "stray_odds": Listing(ODDS, 1, MOST_TOGETHER - 1),
            }
        ),
    }
)
"""The JSON schema of a shared cell."""

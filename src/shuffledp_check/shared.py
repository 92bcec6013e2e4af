"""Cells that share their way up. What is checked, and why it is enough: docs/mathematics.md, "Cells
that share their way up". Every quantity is bounded on its unsafe side."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb, prod
from typing import Any

from shuffledp_check.bounded import BoundedCell, High, Rejected

SHARED = "shared way up"


class SharedCell(BoundedCell):
    """A shared cell's numbers; downwards it is a bounded cell."""

    kind = "shared"

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        known = data["together"]
        self.cells, self.others = known["cells"], known["others"]
        self.decay, self.other_odds = Fraction(known["decay"]), Fraction(known["other_odds"])
        self.stray_odds = [Fraction(odds) for odds in known["stray_odds"]]
        self.cut = self.up.z
        if not self.cells <= self.cut == self.up.w:
            raise Rejected("the cuts upwards must be equal, and at least the number of cells")
        if len(self.stray_odds) != self.cells - 1 or min(self.stray_odds) <= 0:
            raise Rejected("stray odds above 0 are needed for 2, 3, … up to all cells")
        if not self.up.beta <= self.decay < 1 or self.other_odds <= 0:
            raise Rejected("the largest decay or the others' odds are outside their domain")
        self.most_messages = self.down.z + self.down.w + self.largest + 2 * self.cut + 1

    def check_up(self) -> str:
        self.up.check_loss()
        if (self.up.share() * self.others).exceeds(1):
            raise Rejected("the odds of the cell's own jumps are too small")
        for parts, odds in enumerate(self.stray_odds, start=2):
            if (self.stray_claim(parts) * (1 / odds)).exceeds(1):
                raise Rejected(f"the odds of stray jumps with {parts} parts are too small")
        return SHARED

    def stray_claim(self, parts: int) -> High:
        """At least m(rρ)^q·β*^(Z+1)·C(k,q)·C(Z,q−1)·N(D+1) / ((Z+2−q)·A), q parts, A = 1−β^D."""
        m, cut = self.users, self.cut
        share = self.up.ratios()[cut].scaled(1, m)  # r·ρ
        claim = High(m * self.others * (self.largest + 1))
        claim = claim * comb(self.cells, parts) * comb(cut, parts - 1)
        for _ in range(parts):
            claim = claim * share
        for _ in range(cut + 1):
            claim = claim * self.decay
        found: High = claim / self.up.spare() / (cut + 2 - parts)
        return found


def check_together(cells: Sequence[SharedCell]) -> None:
    """Raises `Rejected` unless what every cell says of the others is true."""
    codes = prod(cell.largest + 1 for cell in cells)
    odds = sum((sum(cell.up.odds) for cell in cells), start=Fraction(0))
    decay = max(cell.up.beta for cell in cells)
    first = cells[0]
    for cell in cells:
        if cell.cells != len(cells) or cell.others * (cell.largest + 1) != codes:
            raise Rejected("the cells together are not those that a cell was made for")
        if cell.decay != decay or cell.other_odds != odds - sum(cell.up.odds):
            raise Rejected("the other cells' noise or odds differ from what a cell says")
        if (cell.users, cell.cut, cell.stray_odds) != (first.users, first.cut, first.stray_odds):
            raise Rejected("the cells together differ in their users, cuts or stray odds")

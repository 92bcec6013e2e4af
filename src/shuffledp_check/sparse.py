"""Sparse and kept cells. What is checked, and why it is enough: docs/mathematics.md, "Sparse
histograms". Everything is recomputed in fractions from users, buckets and the cell's numbers; e^ε
is bounded from below by the first terms of its series."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shuffledp_check.bounded import Rejected, exponential_below

MOST_BITS = 256
RULE, KEPT_RULE = "sparse histogram", "sparse histogram beside exact cells"


class UrnCell:
    """The numbers that both kinds have: m, B, β, Z, p, q and o."""

    kind: str
    losses: tuple[str, ...]
    largest = 1

    def __init__(self, data: dict[str, Any]) -> None:
        self.users, self.buckets, self.cut = (data[name] for name in ("users", "buckets", "cut"))
        self.beta, self.p, self.q, self.o = (
            Fraction(data[name]) for name in ("decay", "data", "muted", "jump")
        )
        losses = [Fraction(data[name]) for name in self.losses]
        self.up_loss, self.down_loss = losses[0], losses[-1]
        self.check_short([*losses, self.beta, self.p, self.q, self.o])
        if not 0 < self.beta < 1:
            raise Rejected("the decay is outside its domain")
        if min(self.p, self.q, self.o) <= 0 or self.p + self.q + self.o != 1:
            raise Rejected("the three branches must have chances above 0 that add up to 1")

    def check_short(self, numbers: list[Fraction]) -> None:
        """Refuses numbers that are too long."""
        if max(part.bit_length() for one in numbers for part in one.as_integer_ratio()) > MOST_BITS:
            raise Rejected("a number is too long")

    def terms(self) -> tuple[Fraction, Fraction]:
        """(s_(Z+1), C): what the cut leaves out first, and what it keeps; s_0 = 1."""
        rho = Fraction(self.buckets, self.users)
        term, kept = Fraction(1), Fraction(0)
        for j in range(self.cut + 1):
            kept += term
            term = term * self.beta * (rho + j) / (j + 1)
        return term, kept


class SparseCell(UrnCell):
    """A cell for all buckets of a histogram: ε and φ besides."""

    kind = "sparse"
    losses = ("epsilon",)

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.phi = Fraction(data["share"])
        self.check_short([self.phi])
        if self.phi == 0:
            raise Rejected("the share of the jumps must lie above 0")
        self.most_messages = self.cut + 1

    def spill(self) -> Fraction:
        """s_(Z+1)/C."""
        term, kept = self.terms()
        return term / kept

    def check(self, up: Fraction, down: Fraction) -> dict[str, Any]:
        """What a proof says that replacing any value, or none, costs at most `up` and `down`;
        raises `Rejected` if there is none."""
        if self.up_loss > up or self.up_loss > down:
            raise Rejected("the cell's loss exceeds what a replacement may cost")
        low = exponential_below(self.up_loss)
        m, gain = self.users, low.m * Fraction(2) ** low.e - 1
        if self.p * m * self.spill() > self.phi * self.o * self.beta * gain:
            raise Rejected("there are too few jumps for the cut of the noise")
        if self.p * m > (m - self.phi * (m - 1)) * self.q * self.beta * gain:
            raise Rejected("too few users are muted")
        return {"rule": RULE, "replacement": str(self.up_loss)}


class KeptCell(UrnCell):
    """A cell for use together with exact cells. A user may have none of its buckets. A value
    instead of none costs u, none instead of a value d. A user that jumps keeps its noise."""

    kind = "kept"
    losses = ("up", "down")

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.most_messages = 2 * self.cut + 1

    def check(self, up: Fraction, down: Fraction) -> dict[str, Any]:
        """What a proof says that a value instead of none costs at most `up`, and none instead of a
        value at most `down`; raises `Rejected` if there is none."""
        if self.up_loss > up or self.down_loss > down:
            raise Rejected("the cell's losses exceed what a change may cost")
        taken, given = (
            low.m * Fraction(2) ** low.e
            for low in map(exponential_below, (self.up_loss, self.down_loss))
        )
        if self.p + self.q * self.beta > taken * self.beta * (self.p + self.q):
            raise Rejected("the noise falls too fast to hide a value that is taken up")
        if self.p * self.users * self.terms()[0] > self.beta * (taken - 1) * self.o:
            raise Rejected("there are too few jumps for the cut of the noise")
        if self.p + self.q > given * self.q:
            raise Rejected("too few users are muted")
        return {"rule": KEPT_RULE, "up": str(self.up_loss), "down": str(self.down_loss)}

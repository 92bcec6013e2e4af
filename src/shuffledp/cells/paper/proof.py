"""The proof of the paper's cell: one inequality, decided in ball arithmetic (MATH §3 and §8).

A cell loses at most L downwards if for every change δ = 1..D, every lower value x = 0..D−δ and
every integer m ≥ 0, with t = min(x, h),

    g(m) = (e^L − 1) A e^(−(a(x−t) + b(h−t))/D) r(m) + e^(L − bδ/D) m(m−1)⋯(m−δ+1)/λ^δ  ≥  1,
    A = q/(1−q),   r(m) = λ^(s+t) m!/(m+s+t)!

The proof is in docs/mathematics.md; h = 0 is MATH §8. In x the muted term is log-concave up to h
and falls beyond, so x = 0 and x = D−δ decide about all x. In m, r is log-convex and the falling
factorial has non-negative second differences, so g is convex: to the left of a strict fall and to
the right of a strict rise nothing can be smaller, and a handful of evaluations decide about all m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from flint import arb, ctx

from shuffledp.cells.paper.cell import PaperCell
from shuffledp.errors import PrivacyViolation, Undecided
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.exact import (
    LAST_PRECISION,
    as_fraction,
    at_precision,
    ball,
    precisions,
    show,
)

FARTHEST_STEP = 1 << 64  # g rises from a few times the flood on
MOST_CANDIDATES = 8  # integers between the strict fall and the strict rise (1 or 2 in fact)


@dataclass(frozen=True, kw_only=True)
class PaperProof:
    """What was proved about a paper's cell: up by its +1 noise, down by the inequality, which comes
    closest to failing here."""

    shift: int
    """δ: by how much the value changes."""
    value: int
    """x: the lower of the two values."""
    at: int
    """m: the integer at which g is least."""
    margin: Fraction
    """A lower bound on g(m) − 1."""
    precision: int
    """Bits of working precision that decided it."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.claims(),
            "margin": f"{_decimal(self.margin):.6e}",
            "precision_bits": self.precision,
        }

    def claims(self) -> dict[str, Any]:
        """`to_dict` without the digits that depend on the arithmetic library."""
        return {"inequality": "down", "shift": self.shift, "value": self.value, "at": self.at}

    def summary(self) -> str:
        return (
            f"tightest at m = {self.at} for a change by {self.shift}: margin "
            f"{_decimal(self.margin):.3g}, decided with {self.precision} bits"
        )


def g(cell: PaperCell, loss: Fraction, shift: int, low: int, m: int) -> arb:
    """g(m) for a change by `shift` from the lower value `low`, at the current precision."""
    d, a, b = cell.largest, cell.up_epsilon, cell.down_epsilon
    q, t = cell.mute_probability, min(low, cell.stand_in)
    s = cell.input_pairs + t
    fade = (a * (low - t) + b * (cell.stand_in - t)) / d
    lift = ball(loss).expm1() * ball(q / (1 - q)) * (-ball(fade)).exp()
    if cell.flood_mean == 0:
        return lift  # no flood, no pairs: r = 1, and m = 0 is all there is
    log_flood = ball(cell.flood_mean).log()
    log_m = arb(m + 1).lgamma()
    muted = lift * (s * log_flood + log_m - arb(m + s + 1).lgamma()).exp()
    if m < shift:
        return muted
    falling = log_m - arb(m - shift + 1).lgamma() - shift * log_flood
    return muted + (ball(loss - b * shift / d) + falling).exp()


def tightest(
    cell: PaperCell, loss: Fraction, progress: Callable[[int], None] | None = None
) -> PaperProof:
    """Where the inequality is tightest, over all shifts and all integers.

    Ensures: returns only if g(m) > 1 holds for every δ, x and m; raises `PrivacyViolation` with the
    witness if it fails, `Undecided` if the precision limit is reached first.
    """
    found: PaperProof | None = None
    guess = int(cell.flood_mean)
    for shift in range(1, cell.largest + 1):
        for low in {0, cell.largest - shift} if cell.stand_in else {cell.largest - shift}:
            here = _tightest_of_change(cell, loss, shift, low, guess)
            guess = here.at
            if found is None or here.margin < found.margin:
                found = here
        if progress:
            progress(1)
    assert found is not None
    return found


def _tightest_of_change(
    cell: PaperCell, loss: Fraction, shift: int, low: int, guess: int
) -> PaperProof:
    for bits in precisions():
        known: dict[int, arb] = {}

        def value(m: int, bits: int = bits, known: dict[int, arb] = known) -> arb:
            if m not in known:
                known[m] = at_precision(bits, lambda: g(cell, loss, shift, low, m))
            return known[m]

        places = [0] if cell.flood_mean == 0 else _candidates(value, _descend(value, guess))
        for m in places:
            if value(m) < 1:
                raise PrivacyViolation(
                    f"The parameters are not certified for a downward loss of {show(loss)}: "
                    f"the inequality fails between {low} and {low + shift} at m = {m}; "
                    "raise flood_mean, input_pairs or mute_probability, or allow a larger epsilon.",
                    {"shift": shift, "value": low, "at": m, "g": value(m).str(12, radius=False)},
                )
        if places and all(value(m) > 1 for m in places):
            least = min(places, key=lambda m: float(value(m)))
            with ctx.workprec(bits):
                margin = as_fraction((value(least) - 1).lower())
            return PaperProof(shift=shift, value=low, at=least, margin=margin, precision=bits)
    raise Undecided(
        f"Whether the parameters are {show(loss)}-private downwards was not decided at "
        f"{LAST_PRECISION} bits; raise flood_mean slightly and certify again."
    )


def _descend(value: Callable[[int], arb], guess: int) -> int:
    """An integer near the minimum of g, by doubling steps downhill and bisection on the slope."""

    def rises(m: int) -> bool:
        return bool(value(m + 1) > value(m))

    low, high, step = -1, max(guess, 0), 1  # falls at low, rises at high
    while not rises(high):
        low, high, step = high, high + step, 2 * step
        if step > FARTHEST_STEP * (guess + 1):
            return high  # no rise at this precision: `_candidates` will report it
    step = 1
    while high - low > 1 and low < 0:
        lower = max(high - step, 0)
        if not rises(lower):
            low = lower
        elif lower == 0:
            return 0
        else:
            high, step = lower, 2 * step
    return first_whole(rises, low, high)


def _candidates(value: Callable[[int], arb], near: int) -> list[int]:
    """Integers outside of which g is certainly larger: left of them it falls strictly, right of
    them it rises strictly. Empty if this precision does not show them."""
    left = right = near
    while left > 0 and not value(left - 1) > value(left):
        left -= 1
        if near - left > MOST_CANDIDATES:
            return []
    while not value(right + 1) > value(right):
        right += 1
        if right - near > MOST_CANDIDATES:
            return []
    return list(range(left, right + 1))


def _decimal(number: Fraction) -> float | Decimal:
    """A number for printing, however large it is."""
    try:
        return float(number)
    except OverflowError:
        return Decimal(number.numerator) / Decimal(number.denominator)


def prove(
    cell: PaperCell, up: Fraction, down: Fraction, progress: Callable[[int], None] | None = None
) -> PaperProof:
    """The proof that a change upwards costs at most `up` and one downwards at most `down`.

    Ensures: returns only if up_epsilon ≤ up and the inequality holds for `down` (see `tightest`).
    """
    if cell.up_epsilon > up:
        raise PrivacyViolation(
            f"up_epsilon = {show(cell.up_epsilon)} exceeds the {show(up)} that a change "
            "upwards may cost; lower it.",
            {"up_epsilon": str(cell.up_epsilon), "up": str(up)},
        )
    return tightest(cell, down, progress)

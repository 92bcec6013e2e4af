"""The inequality behind every certificate, decided in ball arithmetic (MATH §3 and §8).

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
from fractions import Fraction

from flint import arb

from shuffledp.cells.paper import Cell
from shuffledp.errors import PrivacyViolation, Undecided
from shuffledp.exact.numbers import FIRST_PRECISION, LAST_PRECISION, at_precision, ball, show

FARTHEST = 1 << 64  # g rises from a few times the flood on
WIDEST_FLOOR = 8  # integers between the strict fall and the strict rise at most (1 or 2 in fact)


@dataclass(frozen=True)
class Tightest:
    """Where the inequality comes closest to failing."""

    shift: int
    """δ: by how much the value changes."""
    value: int
    """x: the lower of the two values."""
    place: int
    """m: the integer at which g is least."""
    margin: Fraction
    """A lower bound on g(m) − 1."""
    precision: int
    """Bits of working precision that decided it."""


def g(cell: Cell, loss: Fraction, shift: int, low: int, m: int) -> arb:
    """g(m) for a change by `shift` from the lower value `low`, at the current precision."""
    d, a, b = cell.largest, cell.up_epsilon, cell.down_epsilon
    q, t = cell.mute_probability, min(low, cell.stand_in)
    s = cell.input_pairs + t
    fade = (a * (low - t) + b * (cell.stand_in - t)) / d
    lift = ball(loss).expm1() * ball(q / (1 - q)) * (-ball(fade)).exp()
    if cell.flood_mean == 0:
        return lift  # no flood: m = 0 is the only place, and there are no pairs (r = 1)
    log_flood = ball(cell.flood_mean).log()
    log_m = arb(m + 1).lgamma()
    muted = lift * (s * log_flood + log_m - arb(m + s + 1).lgamma()).exp()
    if m < shift:
        return muted
    falling = log_m - arb(m - shift + 1).lgamma() - shift * log_flood
    return muted + (ball(loss - b * shift / d) + falling).exp()


def tightest(cell: Cell, loss: Fraction, progress: Callable[[int], None] | None = None) -> Tightest:
    """The tightest place of the inequality over all shifts and all integers.

    Ensures: returns only if g(m) > 1 holds for every δ, x and m; raises `PrivacyViolation` with the
    witness where it fails, `Undecided` where the precision limit comes first.
    """
    found: Tightest | None = None
    guess = int(cell.flood_mean)
    for shift in range(1, cell.largest + 1):
        for low in {0, cell.largest - shift} if cell.stand_in else {cell.largest - shift}:
            here = _tightest_of_change(cell, loss, shift, low, guess)
            guess = here.place
            if found is None or here.margin < found.margin:
                found = here
        if progress:
            progress(1)
    assert found is not None
    return found


def _tightest_of_change(cell: Cell, loss: Fraction, shift: int, low: int, guess: int) -> Tightest:
    bits = FIRST_PRECISION
    while bits <= LAST_PRECISION:
        known: dict[int, arb] = {}

        def value(m: int, bits: int = bits, known: dict[int, arb] = known) -> arb:
            if m not in known:
                known[m] = at_precision(bits, lambda: g(cell, loss, shift, low, m))
            return known[m]

        floor = [0] if cell.flood_mean == 0 else _floor(value, _descend(value, guess))
        verdict = _judge(loss, (shift, low), bits, floor, value)
        if verdict is not None:
            return verdict
        bits *= 2
    raise Undecided(
        f"Whether the parameters are {show(loss)}-private downwards was not decided at "
        f"{LAST_PRECISION} bits; raise flood_mean slightly and certify again."
    )


def _judge(
    loss: Fraction,
    change: tuple[int, int],
    bits: int,
    floor: list[int] | None,
    value: Callable[[int], arb],
) -> Tightest | None:
    """The verdict on one change, or None if this precision does not tell."""
    shift, low = change
    places = floor or []
    for m in places:
        if value(m) < 1:
            raise PrivacyViolation(
                f"The parameters are not certified for a downward loss of {show(loss)}: "
                f"the inequality fails between {low} and {low + shift} at m = {m}; "
                "raise flood_mean, input_pairs or mute_probability, or allow a larger epsilon.",
                {"shift": shift, "value": low, "place": m, "g": value(m).str(12, radius=False)},
            )
    if not places or not all(value(m) > 1 for m in places):
        return None
    least = min(places, key=lambda m: float(value(m)))
    margin = at_precision(bits, lambda: (value(least) - 1).lower())
    mantissa, exponent = margin.man_exp()
    return Tightest(shift, low, least, Fraction(int(mantissa)) * Fraction(2) ** int(exponent), bits)


def _descend(value: Callable[[int], arb], guess: int) -> int:
    """Near the least place, by doubling steps downhill and then bisection on the slope."""

    def rises(m: int) -> bool:
        return bool(value(m + 1) > value(m))

    low, high, step = -1, max(guess, 0), 1  # falls at low, rises at high
    while not rises(high):
        low, high, step = high, high + step, 2 * step
        if step > FARTHEST * (guess + 1):
            return high  # this precision shows no rise, however far: `_floor` will say so
    step = 1
    while high - low > 1 and low < 0:
        lower = max(high - step, 0)
        if not rises(lower):
            low = lower
        elif lower == 0:
            return 0
        else:
            high, step = lower, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rises(middle) else (middle, high)
    return high


def _floor(value: Callable[[int], arb], near: int) -> list[int] | None:
    """Integers outside of which g is certainly larger: left of them it falls strictly, right of
    them it rises strictly. None if this precision does not show them."""
    left = right = near
    while left > 0 and not value(left - 1) > value(left):
        left -= 1
        if near - left > WIDEST_FLOOR:
            return None
    while not value(right + 1) > value(right):
        right += 1
        if right - near > WIDEST_FLOOR:
            return None
    return list(range(left, right + 1))

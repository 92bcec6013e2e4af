"""The paper's cell. What is proved: docs/mathematics.md, "The inequality".

Reals are enclosed between integers over 2^BITS; e^x comes from its Taylor series with the remainder
added, r(m) from its product.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from shuffledp_check.bounded import Rejected

BITS = 320
ONE = 1 << BITS
MOST_STEPS = 4_000_000
"""The most factors that are multiplied for one certificate: a few seconds."""


class Work:
    """How many more steps a certificate may take."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Rejected("too long for this program to check")


class Real:
    """A real number between low/2^BITS and high/2^BITS."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, number: Fraction | int) -> Real:
        scaled = Fraction(number) * ONE
        floor = scaled.numerator // scaled.denominator
        return cls(floor, floor + (scaled.denominator != 1))

    def __add__(self, other: Real) -> Real:
        return Real(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Real) -> Real:
        """For numbers that are not negative."""
        return Real(self.low * other.low >> BITS, -(-self.high * other.high >> BITS))

    def above(self, other: Real) -> bool:
        return self.low > other.high

    def nearest(self) -> float:
        """A float close to it; infinite if it is too large."""
        try:
            return self.low / ONE
        except OverflowError:
            return math.inf


class Float:
    """A real, not negative, between two integers over a shared power of two; for long products."""

    def __init__(self, low: int, high: int, exponent: int) -> None:
        spare = max(0, high.bit_length() - BITS)
        self.low, self.high = low >> spare, -(-high >> spare)
        self.exponent = exponent + spare

    def times(self, numerator: int, denominator: int) -> Float:
        more = 64 + max(0, denominator.bit_length() - numerator.bit_length())
        low = (self.low * numerator << more) // denominator
        high = -((-self.high * numerator << more) // denominator)
        return Float(low, high, self.exponent - more)

    def __mul__(self, other: Float) -> Float:
        return Float(self.low * other.low, self.high * other.high, self.exponent + other.exponent)

    def real(self) -> Real:
        shift = self.exponent + BITS
        if shift >= 0:
            return Real(self.low << shift, self.high << shift)
        return Real(self.low >> -shift, -(-self.high >> -shift))


def exponential(x: Fraction) -> Float:
    """e^x: halve the argument until it is small, add up the series, square back."""
    if x < 0:
        inverse = exponential(-x)
        one = inverse.high.bit_length() + BITS
        low, high = (1 << one) // inverse.high, -(-(1 << one) // inverse.low)
        return Float(low, high, -one - inverse.exponent)
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 8)
    small = Real.of(x / 2**halvings)
    total, term, k = Real.of(1), Real.of(1), 0
    while term.high > 1 and k < 4 * BITS:
        k += 1
        product = term * small
        term = Real(product.low // k, -(-product.high // k))
        total = total + term
    total.high += 2 * term.high + 2  # the rest of the series is below twice the last term
    for _ in range(halvings):
        total = total * total
    return Float(total.low, total.high, -BITS)


class Cell:
    """One cell's numbers from the certificate."""

    kind = "paper"

    def __init__(self, data: dict[str, Any]) -> None:
        self.users, self.largest = data["users"], data["largest"]
        self.up_loss = Fraction(data["up_epsilon"])
        self.b = Fraction(data["down_epsilon"])
        self.q = Fraction(data["mute_probability"])
        self.s, self.h = data["input_pairs"], data["stand_in"]
        self.flood = Fraction(data["flood_mean"])
        if not 0 < self.q < 1 or self.h > self.largest:
            raise Rejected("parameters outside their domain")
        if self.flood == 0 and (self.s > 0 or self.h > 0):
            raise Rejected("no flood to hide the pairs")

    def check(self, up: Fraction, down: Fraction, work: Work) -> dict[str, Any]:
        """What a proof says: up_epsilon ≤ up, and the downward inequality for every change (x = 0
        and x = D − δ decide); raises `Rejected` if there is none."""
        if self.up_loss > up or down <= 0:
            raise Rejected("up_epsilon exceeds what a change upwards may cost")
        found: list[Least] = []
        guess = int(self.flood)
        for delta in range(1, self.largest + 1):
            highest = self.largest - delta
            for x in sorted({0, highest}) if self.h else [highest]:
                found.append(Inequality(self, down, delta, x, work).check(guess))
                guess = found[-1].at
        least = min(found, key=lambda one: one.value.low)
        return {"inequality": "down", "shift": least.delta, "value": least.x, "at": least.at}


class Least(NamedTuple):
    """Where g is least for one change."""

    delta: int
    x: int
    at: int
    value: Real


class Inequality:
    """g for one cell, one loss, one change from x to x + delta."""

    def __init__(self, cell: Cell, loss: Fraction, delta: int, x: int, work: Work) -> None:
        self.cell, self.delta, self.x, self.work = cell, delta, x, work
        t = min(x, cell.h)
        self.pairs = cell.s + t
        fade = (cell.up_loss * (x - t) + cell.b * (cell.h - t)) / cell.largest
        grown = exponential(loss).real()
        lift = Float(grown.low - ONE, grown.high - ONE, -BITS) * exponential(-fade)
        odds = cell.q / (1 - cell.q)
        self.lift = lift.times(odds.numerator, odds.denominator)
        self.data = exponential(loss - cell.b * delta / cell.largest)
        self.known: dict[int, Real] = {}

    def __call__(self, m: int) -> Real:
        """g(m); raises `Rejected` where it is below 1."""
        if m not in self.known:
            self.work.spend(self.pairs + self.delta + 1)
            self.known[m] = self._value(m)
            if self.known[m].high < ONE:
                raise Rejected(f"the inequality fails at m = {m}")
        return self.known[m]

    def _value(self, m: int) -> Real:
        if self.cell.flood == 0:
            return self.lift.real()  # no flood, no pairs: m = 0 is all there is
        top, bottom = self.cell.flood.numerator, self.cell.flood.denominator
        muted = self.lift
        for k in range(1, self.pairs + 1):
            muted = muted.times(top, bottom * (m + k))
        if m < self.delta:
            return muted.real()
        falling = self.data
        for k in range(self.delta):
            falling = falling.times((m - k) * bottom, top)
        return muted.real() + falling.real()

    def check(self, guess: int) -> Least:
        """Where g is least; raises `Rejected` unless g > 1 at every integer, by convexity."""
        places = [0] if self.cell.flood == 0 else self.lowest_places(guess)
        if not all(self(m).above(Real.of(1)) for m in places):
            raise Rejected("the inequality is undecided")
        at = min(places, key=lambda m: self(m).nearest())
        return Least(self.delta, self.x, at, self(at))

    def lowest_places(self, guess: int) -> list[int]:
        """Integers to the left of which g falls strictly, and to the right of which it rises."""
        place = last = self.first_rise(guess)
        while place > 0 and not self(place - 1).above(self(place)):
            place -= 1
            if last - place > 8:
                raise Rejected("no strict fall found to the left of the least place")
        return list(range(place, last + 1))

    def first_rise(self, guess: int) -> int:
        """The least m at which g certainly rises to m + 1, looked for from a guess on."""
        left, right, step = -1, guess, 1  # no rise at left, a rise at right
        while not self.rises(right):
            left, right, step = right, right + step, 2 * step
            if step > (guess + 1) << 64:
                raise Rejected("no rising place found")
        step = 1
        while left < 0 < right:
            lower = max(right - step, 0)
            if self.rises(lower):
                right, step = lower, 2 * step
            else:
                left = lower
        while right - left > 1:
            middle = (left + right) // 2
            left, right = (left, middle) if self.rises(middle) else (middle, right)
        return right

    def rises(self, m: int) -> bool:
        return self(m + 1).above(self(m))

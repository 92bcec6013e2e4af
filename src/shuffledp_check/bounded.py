"""Bounded cells. What is checked, and why it is enough: docs/mathematics.md, "The bounded cell".

Every quantity is bounded on its unsafe side by a number of 256 significant bits; the only function
that is not rational, e^ε, is bounded from below by the first terms of its series.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any, ClassVar, Self

BITS = 256
MOST_BITS = 4_096
"""The most bits of the odds' common denominator."""
EQUAL_CUTS, CLOSED_FORM, PER_INDEX = "equal cuts", "closed form", "per index"


class Rejected(Exception):
    """The cell is not shown to be private."""


class Rounded:
    """A number of BITS significant bits, m·2^e ≥ 0, rounded in one direction after every step."""

    __slots__ = ("e", "m")
    up: ClassVar[bool]

    def __init__(self, top: int, bottom: int = 1, e: int = 0) -> None:
        shift = BITS - top.bit_length() + bottom.bit_length()
        if shift > 0:
            top <<= shift
        else:
            bottom <<= -shift
        self.m = -(-top // bottom) if self.up else top // bottom
        self.e = e - shift

    @classmethod
    def of(cls, number: Fraction | int) -> Self:
        return cls(number.numerator, number.denominator)

    def scaled(self, top: int, bottom: int = 1) -> Self:
        """This number times top/bottom."""
        return type(self)(self.m * top, bottom, self.e)

    def __mul__(self, other: Rounded | Fraction | int) -> Self:
        if isinstance(other, Rounded):
            assert type(other) is type(self)
            return type(self)(self.m * other.m, 1, self.e + other.e)
        return self.scaled(other.numerator, other.denominator)

    def __truediv__(self, other: Rounded | int) -> Self:
        if isinstance(other, int):
            return self.scaled(1, other)
        assert type(other) is not type(self)
        if other.m == 0:
            raise Rejected("the decay is too close to 1")
        return type(self)(self.m, other.m, self.e - other.e)

    def __add__(self, other: Rounded) -> Self:
        assert isinstance(other, type(self))
        if not self.m or not other.m:
            return self if self.m else other
        one, two = (self, other) if self.e >= other.e else (other, self)
        far = one.e - two.e
        if far > 2 * BITS:  # `two` is below a unit of `one`
            return type(self)(one.m + self.up, 1, one.e)
        return type(self)((one.m << far) + two.m, 1, two.e)

    def minus(self, other: Rounded) -> Self:
        """The difference, or 0 if it is negative."""
        assert type(other) is not type(self)
        if not self.m or not other.m:
            return self
        least = min(self.e, other.e)
        if abs(self.e - other.e) > 4 * BITS:
            if self.e < other.e:
                return type(self)(0)
            return type(self)(self.m - (not self.up), 1, self.e)
        top = (self.m << (self.e - least)) - (other.m << (other.e - least))
        return type(self)(max(top, 0), 1, least)

    def above(self, other: Rounded) -> bool:
        """Whether it is the larger of two numbers of the same kind."""
        assert type(other) is type(self)
        if not self.m or not other.m or abs(self.e - other.e) > 2 * BITS:
            return self.m > 0 and (not other.m or self.e > other.e)
        least = min(self.e, other.e)
        return self.m << (self.e - least) > other.m << (other.e - least)

    def exceeds(self, number: int) -> bool:
        return self.m > number << -self.e if self.e < 0 else self.m << self.e > number


class High(Rounded):
    """At least the true number."""

    __slots__ = ()
    up = True


class Low(Rounded):
    """At most the true number."""

    __slots__ = ()
    up = False


def exponential_below(x: Fraction) -> Low:
    """At most e^x, for x > 0: the first terms of the series."""
    total, term, k = Low(1), Low(1), 0
    while term.e + BITS > total.e - BITS:
        k += 1
        term = term.scaled(x.numerator, x.denominator * k)
        total = total + term
    return total


class Direction:
    """One direction's numbers from a certificate."""

    def __init__(self, users: int, largest: int, data: dict[str, Any]) -> None:
        self.m, self.d = users, largest
        self.epsilon, self.beta = Fraction(data["epsilon"]), Fraction(data["decay"])
        self.z, self.w = data["cut"], data["muted_cut"]
        self.odds = [Fraction(odds) for odds in data["odds"]]
        self.ratio = Fraction(data.get("ratio", 1))  # κ
        if self.w > self.z:
            raise Rejected("the cuts are outside their domain")
        if not 0 < self.beta < 1:
            raise Rejected("the decay is outside its domain")
        if "ratio" in data and (not 0 < self.ratio < 1 or largest > 1):
            raise Rejected("the ratio is outside its domain")
        if len(self.odds) != largest or min(self.odds) <= 0:
            raise Rejected("one odds above 0 is needed for each value above 0")
        common = 1
        for odds in self.odds:
            common = lcm(common, odds.denominator)
            if common.bit_length() > MOST_BITS:
                raise Rejected("the odds have no common denominator of a length that can be drawn")

    def check_loss(self) -> None:
        """D·ln(1/β) ≤ ε; raises `Rejected` otherwise."""
        bound = exponential_below(self.epsilon)  # β^D e^ε ≥ 1
        for _ in range(self.d):
            bound = bound * self.beta
        if not bound.exceeds(1):
            raise Rejected("the noise falls too fast for its loss")

    def check(self) -> str:
        """The rule by which the odds are large enough, and D·ln(1/β) ≤ ε; raises `Rejected`
        otherwise."""
        self.check_loss()
        share = self.share()
        if self.w == self.z:
            if share.exceeds(1):
                raise Rejected("the odds are too small for equal cuts")
            return EQUAL_CUTS
        if self.m < 3 or self.w < self.d - 1 or self.z < self.w + self.d:
            raise Rejected("no rule covers these cuts")
        rho = self.ratios()
        if self.closed_form(share, rho):
            return CLOSED_FORM
        self.check_places(share, rho)
        return PER_INDEX

    def share(self) -> High:
        """At least φ = max over y of m·c_{z+1}·(C_w/C_z)·β^(y−D−1)/(o_y(β^(−D) − κ))."""
        top, bottom = self.beta.numerator, self.beta.denominator * self.m
        high, low = High(1), Low(1)  # c_j between low and high
        upper, lower, at_w = High(0), Low(0), High(0)
        for j in range(self.z + 1):
            upper, lower = upper + high, lower + low
            if j == self.w:
                at_w = upper
            step = top * (1 + j * self.m), bottom * (j + 1)
            high, low = high.scaled(*step), low.scaled(*step)
        claim = high * at_w * self.m / lower
        claim = claim * (1 / self.beta) / self.spare()  # β^(y−1) is left to multiply
        found = High(0)
        for odds in self.odds:
            claim = claim * self.beta
            here = claim * (1 / odds)
            if here.above(found):
                found = here
        return found

    def power(self, x: int) -> High:
        """At least β^x."""
        result = High(1)
        for _ in range(x):
            result = result * self.beta
        return result

    def spare(self) -> Low:
        """At most A = 1 − κβ^D."""
        return Low(1).minus(self.power(self.d) * self.ratio)

    def ratios(self) -> list[High]:
        """At least ρ_0, ρ_1, …, ρ_z."""
        rho = [High(1)]
        for i in range(1, self.z + 1):
            rho.append(rho[-1].scaled(self.m * i + 1, self.m * i))
        return rho

    def past(self, rho: list[High]) -> High:
        """At least h = ρ_w Σ_{s=1..D} z/((z+1−s)(z−w+1−s))."""
        z, w, total = self.z, self.w, High(0)
        for s in range(1, self.d + 1):
            total = total + High(z, (z + 1 - s) * (z - w + 1 - s))
        found: High = rho[w] * total
        return found

    def noisy(self, rho: list[High], last: int) -> High:
        """At least κ: what swapped users with their noise cost."""
        w, d, harmonic = self.w, self.d, High(0)
        for i in range(1, d + 1):
            harmonic = harmonic + High(1, i)
        found: High = rho[w] * rho[last] * harmonic / self.spare()
        return found.scaled(w + d + 1, self.m * (w + 2))

    def closed_form(self, share: High, rho: list[High]) -> bool:
        """Whether the three inequalities of the rule "closed form" hold."""
        m, d, z, w = self.m, self.d, self.z, self.w
        share = share.scaled(m + 1, m)
        weight, between = Low(1), High(0)
        for i in range(1, w + 1):
            weight = weight.scaled(m - 2 + i * m, m * i)
        for i in range(w + 1, w + d + 1):
            between = between + High(1, i)
        kappa = self.noisy(rho, z)
        below = rho[w] * between * (w + d) / self.spare() / weight
        beyond = self.past(rho) / self.spare()
        lefts = (
            share,
            share.scaled(z + 1, z + w + 2 - d) + below + kappa,
            share.scaled(z + 1, 2 * z + 1 - d) + beyond + kappa,
        )
        return not any(left.exceeds(1) for left in lefts)

    def check_places(self, share: High, rho: list[High]) -> None:
        """φ(1+rh) ≤ 1, and φ(1+rh)(z+1)/(z+1+I−x) + β^x·η(I) ≤ 1 for every I > w and x = 0..D: the
        left side is convex in x and falls beyond I = z+1, so that x = 0 and x = D decide."""
        d, z, w = self.d, self.z, self.w
        share = share + share * self.past(rho) / self.m
        if share.exceeds(1):
            raise Rejected("the odds are too small: a muted branch is used up")
        kappa = self.noisy(rho, max(z - w - 2, 0))
        factor, fade = rho[w] / self.spare(), self.power(d)
        for place, asked in self.asked(rho[w]):
            eta = kappa + factor * asked
            for x, faded in ((0, eta), (d, eta * fade)):
                if (share.scaled(z + 1, z + 1 + place - x) + faded).exceeds(1):
                    raise Rejected(f"the odds are too small at I = {place}, x = {x}")

    def asked(self, rho: High) -> list[tuple[int, High]]:
        """(I, at least e(I)) for I = w+1 .. z+1."""
        m, d, z, w = self.m, self.d, self.z, self.w
        first = Fraction(m - 2, m)
        # Σ_{k<n} N_k/(k+w+1), at least and at most, for n = 0..z−w
        most, fewest, sums, lower = High(1), Low(1), [High(0)], [Low(0)]
        for n in range(z - w):
            sums.append(sums[-1] + most / (n + w + 1))
            lower.append(lower[-1] + fewest / (n + w + 1))
            step = m - 2 + n * m, m * (n + 1)
            most, fewest = most.scaled(*step), fewest.scaled(*step)
        least, covered = Low(1), Low(0)  # u_n and U_I
        found: list[tuple[int, High]] = []
        for place in range(1, z + 1):
            n = place - 1
            covered = covered + least
            least = least.scaled(m - 2 + n * m, m)
            if n >= w:
                least = least.minus(rho * first)
            least = least / (n + 1)
            if place > w:
                total = sums[place - w].minus(lower[max(place - w - d, 0)])
                found.append((place, total * place / covered))
        total = High(0)
        for s in range(1, d + 1):
            total = total + High(z + 1, (z + 2 - s) * (z - w - s + 1))
        return [*found, (z + 1, total)]


class BoundedCell:
    """A bounded cell's numbers."""

    kind = "bounded"

    def __init__(self, data: dict[str, Any]) -> None:
        self.users, self.largest = data["users"], data["largest"]
        self.up = Direction(self.users, self.largest, data["up"])
        self.down = Direction(self.users, self.largest, data["down"])
        self.up_loss = self.up.epsilon
        self.most_messages = sum(s.z + s.w for s in (self.up, self.down)) + self.largest

    def check(self, up: Fraction, down: Fraction) -> dict[str, Any]:
        """What a proof says that changes cost at most `up` and `down`; raises `Rejected` if there
        is none."""
        if self.up.epsilon > up or self.down.epsilon > down:
            raise Rejected("a direction's loss exceeds what it may cost")
        if self.up.ratio < self.down.beta or self.down.ratio < self.up.beta:
            raise Rejected("a direction's ratio is below the other one's decay")
        if (1 - self.up.ratio) * self.up.odds[0] != (1 - self.down.ratio) * self.down.odds[0]:
            raise Rejected("users with one value are muted more often than those with the other")
        return {
            "most_messages": self.most_messages,
            "up": {"rule": self.check_up()},
            "down": {"rule": self.down.check()},
        }

    def check_up(self) -> str:
        """The rule by which the way up keeps its loss; raises `Rejected` if it does not."""
        return self.up.check()

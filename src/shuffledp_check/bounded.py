"""An independent check of a bounded cell: fractions from the standard library, nothing else.

    python -m shuffledp_check.bounded FILE     (a list of entries like vectors/bounded.json)

It shares no code and no arithmetic library with shuffledp. Every quantity is bounded on its
unsafe side by a fraction of 256 significant bits; the only function that is not rational, e^ε, is
bounded from below by the first terms of its series. What is checked, and why it is enough, is
stated in docs/mathematics.md, "The bounded cell".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

BITS = 256
LONGEST = 1 << 20  # no cut, no largest value beyond this


class Rejected(Exception):
    """The cell is not shown to be private."""


def rounded(number: Fraction, up: bool) -> Fraction:
    """The number with about BITS significant bits; for numbers that are not negative."""
    if number.denominator.bit_length() <= BITS:
        return number
    shift = BITS + number.denominator.bit_length() - number.numerator.bit_length()
    scaled = number * (1 << shift) if shift >= 0 else number / (1 << -shift)
    units = -(-scaled.numerator // scaled.denominator) if up else scaled.__floor__()
    return Fraction(units, 1 << shift) if shift >= 0 else Fraction(units << -shift)


def below(number: Fraction) -> Fraction:
    """At most the number, by less than 2^(1−BITS) of it."""
    return rounded(number, up=False)


def above(number: Fraction) -> Fraction:
    """At least the number, by less than 2^(1−BITS) of it."""
    return rounded(number, up=True)


def exponential_below(x: Fraction) -> Fraction:
    """At most e^x, for x > 0: the first terms of the series."""
    total, term, k = Fraction(1), Fraction(1), 0
    while term * (1 << BITS) > total:
        k += 1
        term = below(term * x / k)
        total = below(total + term)
    return total


class Direction:
    """One direction's numbers, as a certificate gives them."""

    def __init__(self, users: int, largest: int, data: dict[str, Any]) -> None:
        self.m, self.d = users, largest
        self.epsilon, self.beta = Fraction(data["epsilon"]), Fraction(data["decay"])
        self.z, self.w = data["cut"], data["muted_cut"]
        self.odds = [Fraction(odds) for odds in data["odds"]]
        if not (type(self.z) is int and type(self.w) is int and 0 <= self.w <= self.z <= LONGEST):
            raise Rejected("the cuts are outside their domain")
        if not (0 < self.beta < 1 and 0 < self.epsilon <= 1000):
            raise Rejected("the decay or the loss is outside its domain")
        if len(self.odds) != largest or min(self.odds) <= 0:
            raise Rejected("one odds above 0 is needed for each value above 0")
        self.r = Fraction(1, users)

    def check_loss(self) -> None:
        """D·ln(1/β) ≤ ε; raises `Rejected` otherwise."""
        bound = exponential_below(self.epsilon)  # β^D e^ε ≥ 1
        for _ in range(self.d):
            bound = below(bound * self.beta)
        if bound < 1:
            raise Rejected("the noise falls too fast for its loss")

    def check(self) -> None:
        """D·ln(1/β) ≤ ε, and the odds are large enough; raises `Rejected` otherwise."""
        self.check_loss()
        share = self.share()
        if self.w == self.z:
            if share > 1:
                raise Rejected("the odds are too small for equal cuts")
            return
        if self.m < 3 or self.w < self.d - 1 or self.z < self.w + self.d:
            raise Rejected("no rule covers these cuts")
        self.check_places(share)

    def share(self) -> Fraction:
        """At least φ = max over y of m·c_{z+1}·(C_w/C_z)·β^(y−D−1)/(o_y(β^(−D) − 1))."""
        high = low = Fraction(1)  # c_j between low and high
        upper: list[Fraction] = []
        lower = Fraction(0)
        for j in range(self.z + 1):
            upper.append(above((upper[-1] if upper else 0) + high))
            lower = below(lower + low)
            step = self.beta * (self.r + j) / (j + 1)
            high, low = above(high * step), below(low * step)
        claim = above(self.m * high * upper[self.w] / lower)
        power = above(self.power(self.d))
        claim = above(claim / (self.beta * (1 - power)))  # β^(y−1) is left to multiply
        found = Fraction(0)
        for odds in self.odds:
            claim = above(claim * self.beta)
            found = max(found, claim / odds)
        return above(found)

    def power(self, x: int) -> Fraction:
        """At least β^x."""
        result = Fraction(1)
        for _ in range(x):
            result = above(result * self.beta)
        return result

    def check_places(self, share: Fraction) -> None:
        """φ(1+rh) ≤ 1, and φ(1+rh)(z+1)/(z+1+k) + β^x·η(k+x) ≤ 1 for every k ≥ 0 and x = 0..D with
        k + x > w (beyond k = z+1 the left side falls)."""
        m, d, z, w, r = self.m, self.d, self.z, self.w, self.r
        rho = [Fraction(1)]
        for i in range(1, z + 1):
            rho.append(above(rho[-1] * (1 + r / i)))
        terms = (Fraction(z, (z + 1 - s) * (z - w + 1 - s)) for s in range(1, d + 1))
        share = above(share * (1 + r * above(rho[w] * sum(terms))))
        if share > 1:
            raise Rejected("the odds are too small: a muted branch is used up")
        spare = 1 - self.power(d)
        kappa = r * rho[w] * rho[max(z - w - 2, 0)] * sum(Fraction(1, i) for i in range(1, d + 1))
        kappa = above(kappa * (w + d + 1) / (w + 2) / spare)
        asked = self.asked(rho[w], Fraction(m - 2, m))
        eta = {place: above(kappa + rho[w] / spare * ask) for place, ask in asked.items()}
        fading = [self.power(x) for x in range(d + 1)]
        for k in range(max(0, w + 1 - d), z + 2):
            own = above(share * (z + 1) / (z + 1 + k))
            for x in range(max(0, w + 1 - k), d + 1):
                if own + above(fading[x] * eta[k + x]) > 1:
                    raise Rejected(f"the odds are too small at k = {k}, x = {x}")

    def asked(self, rho: Fraction, first: Fraction) -> dict[int, Fraction]:
        """At least e(I), for I = w+1 .. z+1+D."""
        d, z, w = self.d, self.z, self.w
        most = [Fraction(1)]  # N_n, rounded up
        for n in range(z):
            most.append(above(most[-1] * (first + n) / (n + 1)))
        least, covered = Fraction(1), Fraction(0)  # u_n and U_I, rounded down
        found: dict[int, Fraction] = {}
        for place in range(1, z + 1):
            n = place - 1
            covered = below(covered + least)
            rest = least * (n + first) - (first * rho if n >= w else 0)
            least = below(max(rest, Fraction(0)) / (n + 1))
            if place > w:
                total = Fraction(0)
                for s in range(1, min(d, place - w) + 1):
                    total = above(total + most[place - w - s] * place / (place + 1 - s))
                found[place] = above(total / covered)
        for place in range(z + 1, z + 2 + d):
            total = Fraction(0)
            for s in range(1, d + 1):
                total = above(total + Fraction(place, (place + 1 - s) * (z - w - s + 1)))
            found[place] = total
        return found


class BoundedCell:
    """A bounded cell's numbers."""

    kind = "bounded"

    def __init__(self, data: dict[str, Any]) -> None:
        if data.get("kind") != self.kind:
            raise Rejected(f"not a {self.kind} cell")
        self.users, self.largest = data["users"], data["largest"]
        if type(self.users) is not int or type(self.largest) is not int:
            raise Rejected("users and the largest value must be whole numbers")
        if self.users < 1 or not 1 <= self.largest <= LONGEST:
            raise Rejected("users or the largest value is outside its domain")
        self.up = Direction(self.users, self.largest, data["up"])
        self.down = Direction(self.users, self.largest, data["down"])
        self.up_loss = self.up.epsilon
        self.most_messages = sum(s.z + s.w for s in (self.up, self.down)) + self.largest

    def check(self, up: Fraction, down: Fraction) -> None:
        """Raises `Rejected` unless changes cost at most `up` and `down`."""
        if self.up.epsilon > up or self.down.epsilon > down:
            raise Rejected("a direction's loss exceeds what it may cost")
        self.check_up()
        self.down.check()

    def check_up(self) -> None:
        """Raises `Rejected` unless the way up keeps its loss."""
        self.up.check()


def check(entry: dict[str, Any]) -> None:
    """Raises `Rejected` unless an entry of vectors/bounded.json holds."""
    cell = BoundedCell(entry["cell"])
    if cell.users != entry["users"]:
        raise Rejected("the number of users differs")
    if cell.most_messages != entry["most_messages"]:
        raise Rejected("the largest number of messages is not what is claimed")
    cell.check(Fraction(entry["up"]), Fraction(entry["down"]))


def check_files(check: Callable[[dict[str, Any]], None]) -> int:
    """Checks the named files; 1 if an entry's verdict differs from its `holds`, otherwise 0."""
    status = 0
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            entries = json.load(file)
        for entry in entries:
            try:
                check(entry)
                verdict = True
            except (Rejected, ArithmeticError, LookupError, TypeError, ValueError):
                verdict = False
            if verdict != entry["holds"]:
                print(f"{entry['name']}: wrongly {'accepted' if verdict else 'rejected'}")
                status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(check_files(check))

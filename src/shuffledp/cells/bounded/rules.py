"""The rules by which a bounded cell's odds are judged, each as inequalities `left` ≤ 1 (MATH §12).

`shuffledp.cells.bounded.proof` states them and decides; here they are computed, in balls at the
current precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from math import comb
from typing import Any

from flint import arb

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.direction import Direction
from shuffledp.cells.digits.cell import Together
from shuffledp.numbers.deadline import check_time
from shuffledp.numbers.exact import ball, fraction_above

EQUAL_CUTS = "equal cuts"
CLOSED_FORM = "closed form"
PER_INDEX = "per index"
SHARED = "shared way up"

STATEMENTS = {
    "share": "φ ≤ 1",
    "muted branch": "φ(1+r) ≤ 1",
    "up to the cut": "φ(1+r)(z+1)/(z+w+2−D) + (ρ_w/A)(w+D)(H_{w+D}−H_w)/W + κ ≤ 1",
    "beyond the cut": "φ(1+r)(z+1)/(2z+1−D) + (ρ_w/A) Σ z/((z+1−s)(z−w+1−s)) + κ ≤ 1",
    "muted branch alone": "φ(1+rh) ≤ 1",
    "muted branch shared": "φ(1+rh)(z+1)/(z+1+I−x) + β^x η(I) ≤ 1",
    "own jump": "N·φ ≤ 1",
    "stray jump": "m(rρ_Z)^q β*^(Z+1) C(k,q) C(Z,q−1) N(D+1) / ((Z+2−q) A s_q) ≤ 1",
}


@dataclass(frozen=True)
class Inequality:
    """One inequality of a rule: `left` ≤ 1."""

    name: str
    left: arb
    index: tuple[int, int] | None = None
    """(I, x) where the rule has an inequality for each."""

    def to_dict(self) -> dict[str, Any]:
        index = {} if self.index is None else {"I": self.index[0], "x": self.index[1]}
        left = {"left": rounded_up(self.left), "right": "1"}
        return {"statement": STATEMENTS[self.name], **index, **left}


class Scale:
    """What the rules are written in, for one direction."""

    def __init__(self, cell: BoundedCell, direction: Direction) -> None:
        self.users, self.d = cell.users, cell.largest
        self.z, self.w = direction.cut, direction.muted_cut
        self.beta = ball(direction.decay)
        self.r = arb(1) / self.users
        self.spare = 1 - self.beta**self.d  # A
        self.rho = [arb(1)]
        for i in range(1, self.z + 1):
            self.rho.append(self.rho[-1] * (1 + self.r / i))

    def share(self, odds: tuple[Fraction, ...]) -> arb:
        """φ: what the noise's cut uses up of a muted branch with these odds."""
        c, total, totals = arb(1), arb(0), []
        for j in range(self.z + 1):
            total += c
            totals.append(total)
            c *= self.beta * (self.r + j) / (j + 1)
        claim = self.users * c * totals[self.w] / totals[self.z]  # c is c_{z+1} by now
        claim /= self.beta ** (self.d + 1) * (self.beta ** (-self.d) - 1)
        share = arb(0)
        for y, weight in enumerate(odds, start=1):
            share = share.max(claim * self.beta**y / ball(weight))
        return share

    def harmonic(self, above: int, last: int) -> arb:
        """1/(above+1) + … + 1/last."""
        return sum((arb(1) / i for i in range(above + 1, last + 1)), start=arb(0))

    def past(self) -> arb:
        """h = ρ_w Σ_{s=1..D} z/((z+1−s)(z−w+1−s))."""
        z, w = self.z, self.w
        terms = (arb(z) / ((z + 1 - s) * (z - w + 1 - s)) for s in range(1, self.d + 1))
        return self.rho[w] * sum(terms, start=arb(0))

    def noisy(self, last: int) -> arb:
        """κ: the part of the muted users' cut where the swapped user has noise of its own."""
        w, d = self.w, self.d
        factor = self.r / self.spare * self.rho[w] * self.rho[last] * self.harmonic(0, d)
        return factor * (w + d + 1) / (w + 2)


def equal_cuts(scale: Scale, share: arb) -> Iterator[Inequality]:
    """w = z: the share alone."""
    yield Inequality("share", share)


def closed_form(scale: Scale, share: arb) -> Iterator[Inequality]:
    """Rule B′ of MATH §12: coarse constants, three inequalities."""
    z, w, d = scale.z, scale.w, scale.d
    first = 1 - 2 * scale.r  # s₀ = (users − 2)/users
    weight = arb(1)  # W
    for i in range(1, w + 1):
        weight *= (first + i) / i
    kappa = scale.noisy(z)
    share = share * (1 + scale.r)
    below = scale.rho[w] / scale.spare * (w + d) * scale.harmonic(w, w + d) / weight
    yield Inequality("muted branch", share)
    yield Inequality("up to the cut", share * (z + 1) / (z + w + 2 - d) + below + kappa)
    beyond = scale.past() / scale.spare
    yield Inequality("beyond the cut", share * (z + 1) / (2 * z + 1 - d) + beyond + kappa)


def per_index(scale: Scale, share: arb) -> Iterator[Inequality]:
    """The shares of every payer compared index by index (MATH §12, "Sharper, same proof")."""
    z, d = scale.z, scale.d
    share = share * (1 + scale.r * scale.past())
    yield Inequality("muted branch alone", share)
    fade = scale.beta**d
    for index, claim in swapped_claims(scale):
        for x, fallen in ((0, arb(1)), (d, fade)):
            left = share * (z + 1) / (z + 1 + index - x) + fallen * claim
            yield Inequality("muted branch shared", left, (index, x))


def swapped_claims(scale: Scale) -> Iterator[tuple[int, arb]]:
    """(I, η(I)) for I = w+1 .. z+1: what the muted users' cut asks of a swapped muted branch."""
    z, w, d = scale.z, scale.w, scale.d
    first = 1 - 2 * scale.r  # s₀
    kappa = scale.noisy(max(z - w - 2, 0))
    factor = scale.rho[w] / scale.spare
    most, sums = arb(1), [arb(0)]  # N_n: the others' masses at most; Σ_{k<n} N_k/(k+w+1)
    for n in range(z - w):
        sums.append(sums[-1] + most / (n + w + 1))
        most = most * (first + n) / (n + 1)
    least, covered = arb(1), arb(0)  # u_n: the others' masses at least; U_I: their sum below I
    for index in range(1, z + 1):
        check_time()
        n = index - 1
        covered += least
        least = least * (n + first) - (first * scale.rho[w] if n >= w else 0)
        least = least.max(arb(0)) / (n + 1)
        if index > w:
            terms = sums[index - w] - sums[max(index - w - d, 0)]
            yield index, kappa + factor * index * terms / covered
    terms = (arb(z + 1) / ((z + 2 - s) * (z - w - s + 1)) for s in range(1, d + 1))
    yield z + 1, kappa + factor * sum(terms, start=arb(0))


def shared_way_up(together: Together) -> Rule:
    """The jumps of cells that share their way up: a cell's own, and the stray ones (MATH §18)."""

    def inequalities(scale: Scale, share: arb) -> Iterator[Inequality]:
        yield Inequality("own jump", share * together.others)
        cut, k = scale.z, together.cells
        for parts, odds in enumerate(together.stray_odds, start=2):
            left = scale.users * (scale.r * scale.rho[cut]) ** parts
            left *= ball(together.decay) ** (cut + 1) * together.others * (scale.d + 1)
            left *= comb(k, parts) * comb(cut, parts - 1)
            yield Inequality("stray jump", left / ((cut + 2 - parts) * scale.spare * ball(odds)))

    return inequalities


def rounded_up(number: arb, digits: int = 20) -> str:
    """A number that the true value is at most, as decimal text."""
    bound = fraction_above(number)
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return str(context.divide(bound.numerator, bound.denominator))


Rule = Callable[[Scale, arb], Iterator[Inequality]]
"""From what a rule is written in and the share φ to the rule's inequalities."""

"""The oracle of cells that share their way up: the exact law of the view of all of them, for small
protocols.

The view is one number for each cell, the messages of all users. Its law is the coefficients of a
product of one polynomial per user, in one variable for each cell; they are multiplied as
polynomials in one variable t, a message to the next cell being t to a power that no cell before it
can reach. The oracle knows nothing of the proof: it lists what a user may draw, one by one,
multiplies integers and takes the largest ratios. It tests the certificate and never replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Literal

from bounded_oracle import Masses, Ratios, largest_ratio, noise
from flint import fmpq, fmpq_poly, fmpz_poly

from shuffledp.cells.digits.cell import SharedCell

Values = tuple[int, ...]
Cells = Sequence[SharedCell]
Found = tuple[Fraction | None, int]
"""A ratio and where it was found."""
Noise = Literal["together", "each cell on its own", "own values only"]
"""The randomizer's noise upwards is drawn together; the others are wrong ways to draw it, for
comparison: without the common cut, or none for a user whose values are replaced."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The largest ratios when one cell's value changes, with everything else fixed."""

    cells: tuple[SharedCell, ...]
    ratios: tuple[Ratios, ...]
    """For each cell; where one was found is a number that stands for the view of all cells."""

    def within(self, direction: str) -> bool:
        """Whether a change of any one cell in this direction keeps the bound β^(−D) of the proof;
        decided exactly."""
        place = ("up", "down").index(direction)
        pairs = zip(self.cells, self.ratios, strict=True)
        return all(ratios.within(cell)[place] for cell, ratios in pairs)

    def losses(self, direction: str) -> list[float]:
        return [ratios.loss(direction) for ratios in self.ratios]


class View:
    """Polynomials whose coefficients are the law of the view of so many users."""

    def __init__(self, cells: Cells, users: int, noise_upwards: Noise = "together") -> None:
        self.cells = tuple(cells)
        sizes = [users * cell.most_messages + 1 for cell in cells]
        self.strides = [math.prod(sizes[:place]) for place in range(len(cells))]
        self.inputs = list(product(*(range(cell.largest + 1) for cell in cells)))
        apart = noise_upwards == "each cell on its own"
        up = self.sum_of((self.at(n), mass) for n, mass in up_noise(cells, not apart))
        jumps = (
            fmpq_of(odds) * self.down(values) * self.at_power(added)
            for values, added, odds in replacements(cells)
        )
        replaced = sum(jumps, start=fmpq_poly([0]))
        if noise_upwards != "own values only":
            replaced *= up
        laws = [up * self.down(values) + replaced for values in self.inputs]
        scale = math.lcm(*(int(law.denom()) for law in laws))
        self.laws = {
            values: fmpz_poly([int(c.p) * (scale // int(c.q)) for c in law.coeffs()])
            for values, law in zip(self.inputs, laws, strict=True)
        }
        """Of one user with these values, all scaled by the same number."""

    def at(self, messages: Sequence[int]) -> int:
        """The power of t that stands for so many messages to each cell."""
        return sum(count * stride for count, stride in zip(messages, self.strides, strict=True))

    def at_power(self, messages: Sequence[int]) -> fmpq_poly:
        """t to that power."""
        return fmpq_poly([0] * self.at(messages) + [1])

    @staticmethod
    def sum_of(terms: Iterator[tuple[int, Fraction]]) -> fmpq_poly:
        """The polynomial with these powers and coefficients."""
        masses: dict[int, Fraction] = {}
        for power, mass in terms:
            masses[power] = masses.get(power, Fraction(0)) + mass
        powers = range(max(masses) + 1)
        return fmpq_poly([fmpq_of(masses.get(power, Fraction(0))) for power in powers])

    def down(self, values: Values) -> fmpq_poly:
        """What the ways down make of these values."""
        law = fmpq_poly([1])
        for cell, value, stride in zip(self.cells, values, self.strides, strict=True):
            law *= self.sum_of((k * stride, mass) for k, mass in enumerate(way_down(cell, value)))
        return law


def fmpq_of(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)


def up_noise(cells: Cells, together: bool = True) -> Iterator[tuple[Values, Fraction]]:
    """The law of one user's noise upwards; for a comparison, one whose cells are cut each on its
    own."""
    cut = cells[0].up.cut
    masses = [noise(cell.users, cell.up, cut) for cell in cells]
    drawn = [n for n in product(range(cut + 1), repeat=len(cells)) if not together or sum(n) <= cut]
    one = Fraction(1)
    weights = [math.prod((m[j] for m, j in zip(masses, n, strict=True)), start=one) for n in drawn]
    total = sum(weights)
    for n, weight in zip(drawn, weights, strict=True):
        yield n, weight / total


def replacements(cells: Cells) -> Iterator[tuple[Values, Values, Fraction]]:
    """(ζ, n, odds) of every way to replace a user's values."""
    cut, k = cells[0].up.cut, len(cells)
    everything = list(product(*(range(cell.largest + 1) for cell in cells)))
    for place, cell in enumerate(cells):
        added = tuple((cut + 1) * (number == place) for number in range(k))
        for y, odds in enumerate(cell.up.odds, start=1):
            chosen = [values for values in everything if values[place] == y - 1]
            for values in chosen:
                yield values, added, odds / len(chosen)
    for parts, odds in enumerate(cells[0].together.stray_odds, start=2):
        vectors = [
            n
            for n in product(range(cut + 2), repeat=k)
            if sum(n) == cut + 1 and sum(part > 0 for part in n) == parts
        ]
        for values, added in product(everything, vectors):
            yield values, added, odds / (len(everything) * len(vectors))


def way_down(cell: SharedCell, value: int) -> Masses:
    """The law of z_d + w_d + what the way down makes of a value."""
    down, base = cell.down, cell.down.cut + cell.down.muted_cut
    law = [Fraction(0)] * (base + cell.largest + 1)
    chance = 1 / sum(down.odds, start=Fraction(1))
    for j, mass in enumerate(noise(cell.users, down, down.cut)):
        law[base + value - j] += chance * mass
    muted = noise(cell.users, down, down.muted_cut)
    for y, odds in enumerate(down.odds, start=1):
        for j, mass in enumerate(muted):
            law[base + cell.largest - down.cut - y - j] += chance * odds * mass
    return law


def all_changes(cells: Cells, users: int, noise_upwards: Noise = "together") -> Changes:
    """The largest ratios over all values of all users, when one user changes one cell's value."""
    view, k = View(cells, users, noise_upwards), len(cells)
    found: list[dict[str, list[Found]]] = [{"up": [], "down": []} for _ in range(k)]
    for others in combinations_with_replacement(view.inputs, users - 1):
        rest = math.prod((view.laws[values] for values in others), start=fmpz_poly([1]))
        views = _possible({values: rest * law for values, law in view.laws.items()})
        for low, high in product(view.inputs, repeat=2):
            changed = [place for place in range(k) if low[place] != high[place]]
            if len(changed) == 1 and low < high:
                ways = found[changed[0]]
                ways["up"].append(largest_ratio(views[high], views[low]))
                ways["down"].append(largest_ratio(views[low], views[high]))
    return Changes(cells=view.cells, ratios=tuple(_largest(ways) for ways in found))


def _possible(views: dict[Values, fmpz_poly]) -> dict[Values, fmpz_poly]:
    """The same laws without the views that no values can give: most powers stand for none."""
    size = max(len(law) for law in views.values())
    rows = [law.coeffs() + [0] * (size - len(law)) for law in views.values()]
    kept = [column for column in zip(*rows, strict=True) if any(column)]
    return dict(zip(views, map(fmpz_poly, map(list, zip(*kept, strict=True))), strict=True))


def _largest(ways: dict[str, list[Found]]) -> Ratios:
    def size(way: Found) -> Fraction | float:
        return math.inf if way[0] is None else way[0]

    (up, up_at), (down, down_at) = (max(ways[name], key=size) for name in ("up", "down"))
    return Ratios(up=up, down=down, up_at=up_at, down_at=down_at)

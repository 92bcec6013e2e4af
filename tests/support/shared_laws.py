"""The law of one user of cells that share their way up, written down from MATH §18 branch by
branch, in fractions; nothing of the package's own arithmetic is used."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import comb, prod
from typing import Any

import numpy as np
from bounded_laws import direction, mu
from shared_groups import fitted

from shuffledp.cells.bounded.cell import Direction
from shuffledp.cells.digits.cell import SharedCell, SharedWayUp

F = Fraction
Values = tuple[int, ...]
Law = dict[Values, Fraction]
Cells = Sequence[SharedCell]


def plus(*laws: Law) -> Law:
    """The law of a sum of independent draws."""
    found: Law = {(0,) * len(next(iter(laws[0]))): F(1)}
    for law in laws:
        longer: Law = {}
        for (a, p), (b, q) in product(found.items(), law.items()):
            both = tuple(i + j for i, j in zip(a, b, strict=True))
            longer[both] = longer.get(both, F(0)) + p * q
        found = longer
    return found


def noise_upwards(cells: Cells, together: bool = True) -> Law:
    """Z₊ of all cells; or, for a twin, without the common cut."""
    cut = cells[0].up.cut
    masses = [mu(cell.up.decay, cell.users, cut) for cell in cells]
    drawn = product(range(cut + 1), repeat=len(cells))
    law = {
        n: prod((m[j] for m, j in zip(masses, n, strict=True)), start=F(1))
        for n in drawn
        if not together or sum(n) <= cut
    }
    total = sum(law.values())
    return {n: mass / total for n, mass in law.items()}


def rejected(cells: Cells) -> Fraction:
    """The chance that noise drawn cell by cell adds up to more than the cut."""
    return sum(
        (p for n, p in noise_upwards(cells, together=False).items() if sum(n) > cells[0].up.cut),
        start=F(0),
    )


def joint_chance(cell: SharedCell) -> float:
    """An upper bound on the probability that in one batch of `users` some user's noise upwards,
    drawn cell by cell, adds up to more than Z; it treats all cells like the widest one."""
    k, cut, beta = cell.way_up.cells, cell.up.cut, float(cell.way_up.decay)
    if cell.users < k:
        return 1.0
    # with r ≤ 1/k: Σ_{t>Z} β^t [(kr)_t − k(r)_t]/t! ≤ k(k−1)r²·β^(Z+1)·2(1+Z)/(1−β), see §18
    tail = beta ** (cut + 1) / (1 - beta)
    return min(1.0, 4 * comb(k, 2) * tail * (1 + cut) / cell.users)


def first_steps(
    cells: Cells, values: Values, keep_others: bool
) -> Iterator[tuple[F, Values, Values]]:
    """(odds, ζ, n) of every branch of the first step; `keep_others` is for a twin in which the own
    jump of a cell leaves the other cells' values alone."""
    k, cut = len(cells), cells[0].up.cut
    ranges = [range(cell.largest + 1) for cell in cells]
    yield F(1), values, (0,) * k
    for place, cell in enumerate(cells):
        added = tuple(cut + 1 if other == place else 0 for other in range(k))
        for y in range(1, cell.largest + 1):
            free = [[values[c]] if keep_others else list(ranges[c]) for c in range(k)]
            free[place] = [y - 1]
            ways = list(product(*free))
            for zeta in ways:
                yield cell.up.odds[y - 1] / len(ways), zeta, added
    for q in range(2, k + 1):
        vectors = [
            n
            for n in product(range(cut + 2), repeat=k)
            if sum(n) == cut + 1 and k - n.count(0) == q
        ]
        pairs = list(product(product(*ranges), vectors))
        for zeta, added in pairs:
            yield cells[0].way_up.stray_odds[q - 2] / len(pairs), zeta, added


def way_down(cell: SharedCell, value: int) -> dict[int, F]:
    """z_d + w_d + what leaves the way down, for a value that enters it."""
    down, d = cell.down, cell.largest
    branches = [(F(1), value, down.cut)]
    branches += [(o, d - down.cut - y, down.muted_cut) for y, o in enumerate(down.odds, 1)]
    total = sum((odds for odds, *_ in branches), start=F(0))
    law: dict[int, F] = {}
    for odds, middle, cut in branches:
        for j, p in enumerate(mu(down.decay, cell.users, cut)):
            place = down.cut + down.muted_cut + middle - j
            law[place] = law.get(place, F(0)) + odds / total * p
    return law


def sent(
    cells: Cells, values: Values, *, noise_together: bool = True, keep_others: bool = False
) -> Law:
    """The law of the messages to all cells, or of a twin that is slightly wrong."""
    law: Law = {}
    steps = list(first_steps(cells, values, keep_others))
    total = sum((odds for odds, *_ in steps), start=F(0))
    ways = [[way_down(cell, x) for x in range(cell.largest + 1)] for cell in cells]
    for odds, zeta, added in steps:
        for each in product(*(ways[c][x].items() for c, x in enumerate(zeta))):
            place = tuple(k + n for (k, _), n in zip(each, added, strict=True))
            mass = prod((p for _, p in each), start=odds / total)
            law[place] = law.get(place, F(0)) + mass
    return plus(law, noise_upwards(cells, noise_together))


def inputs(cells: Cells) -> list[Values]:
    """The values at both ends and one in between."""
    least, most = [0] * len(cells), [cell.largest for cell in cells]
    return [tuple(least), tuple(most), (1, *least[1:])]


def of_one_cell(law: Law, place: int) -> dict[int, F]:
    """What one cell gets."""
    found: dict[int, F] = {}
    for messages, mass in law.items():
        found[messages[place]] = found.get(messages[place], F(0)) + mass
    return found


def distance(one: dict[int, F], other: dict[int, F]) -> F:
    """The total variation distance."""
    places = one.keys() | other.keys()
    return sum((abs(one.get(k, F(0)) - other.get(k, F(0))) for k in places), start=F(0)) / 2


class Numbered:
    """Messages to all cells as one number, for χ² tests."""

    def __init__(self, cells: Cells, users: int) -> None:
        self.sizes = [users * cell.most_messages + 1 for cell in cells]

    def number(self, messages: Sequence[int]) -> int:
        found = 0
        for count, size in zip(messages, self.sizes, strict=True):
            found = found * size + int(count)
        return found

    def chances(self, *laws: Law) -> np.ndarray:
        """The law of the sum of independent draws, one from each law."""
        found = np.ones(1)
        for law in laws:
            masses = np.zeros(self.number(tuple(map(max, zip(*law, strict=True)))) + 1)
            for messages, mass in law.items():
                masses[self.number(messages)] += float(mass)
            found = np.convolve(found, masses)
        return found


def code_of(cells: Cells, values: Any) -> Any:
    """The number with these digits, or those of many users from a row for each cell."""
    code = 0
    for cell, value in zip(cells, values, strict=True):
        code = code * (cell.largest + 1) + value
    return code


def together(
    users: int, sides: Sequence[tuple[Direction, Direction]], *stray: Fraction
) -> tuple[SharedCell, ...]:
    """Cells with these ways up and down, fitted together; likely jumps, and not private."""
    codes = prod(len(up.odds) + 1 for up, _ in sides)
    decay = max(up.decay for up, _ in sides)
    cells = [
        SharedCell(
            users=users,
            largest=len(up.odds),
            up=up,
            down=down,
            way_up=SharedWayUp(
                cells=len(sides),
                others=codes // (len(up.odds) + 1),
                decay=decay,
                other_odds=F(1),
                stray_odds=stray,
            ),
        )
        for up, down in sides
    ]
    return tuple(fitted(cells))


DIGITS = together(
    3,
    [
        (direction(F(4, 5), 2, 2, F(1, 6), F(1, 9)), direction(F(3, 5), 2, 1, F(1, 12), F(1, 8))),
        (direction(F(7, 10), 2, 2, F(1, 7)), direction(F(1, 2), 1, 1, F(1, 9))),
    ],
    F(1, 5),
)
BITS = together(
    4,
    [
        (direction(F(1, 2), 3, 3, F(1, 9)), direction(F(3, 5), 1, 0, F(1, 12))),
        (direction(F(3, 5), 3, 3, F(1, 10)), direction(F(1, 2), 1, 1, F(1, 9))),
        (direction(F(2, 5), 3, 3, F(1, 11)), direction(F(2, 5), 0, 0, F(1, 8))),
    ],
    F(1, 6),
    F(1, 8),
)
RARE = together(
    400,
    [
        (direction(F(1, 2), 5, 5, F(1, 900)), direction(F(2, 5), 3, 1, F(1, 800))),
        (
            direction(F(2, 5), 5, 5, F(1, 1000), F(1, 1500)),
            direction(F(1, 2), 2, 2, *[F(1, 900)] * 2),
        ),
    ],
    F(1, 1200),
)

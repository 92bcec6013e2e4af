"""The law of one user of a bounded cell, written down from MATH §12 branch by branch, in fractions;
nothing of the package's own arithmetic is used."""

from fractions import Fraction
from itertools import product

import numpy as np

from shuffledp.cells.bounded.cell import BoundedCell, Direction

F = Fraction
ONE = F(1)


def mu(decay: Fraction, users: int, cut: int) -> list[Fraction]:
    """μ_cut: c_j/C_cut."""
    weights = [F(1)]
    for j in range(cut):
        weights.append(weights[-1] * decay * (F(1, users) + j) / (j + 1))
    return [weight / sum(weights) for weight in weights]


def branches(cell: BoundedCell, x: int) -> list[tuple[Fraction, int, int, int]]:
    """(odds, what stands for the value, cut of Z₊, cut of Z₋) of every branch."""
    u, d, D = cell.up, cell.down, cell.largest
    found = [(F(1), x, u.cut, d.cut)]
    for y in range(1, D + 1):
        rise = u.odds[y - 1] * (u.ratio if x == D else 1)
        fall = d.odds[y - 1] * (d.ratio if x == 0 else 1)
        found.append((rise, u.cut + y, u.muted_cut, d.cut))
        found.append((fall, D - d.cut - y, u.cut, d.muted_cut))
    return found


def sent(cell: BoundedCell, x: int, *, muted_like_others: bool = False) -> dict[int, Fraction]:
    """The law of the number of messages; or, for a twin, one in which muted users' noise is cut
    no shorter than others'."""
    all_branches = branches(cell, x)
    total = sum(odds for odds, *_ in all_branches)
    law: dict[int, Fraction] = {}
    for odds, value, up_cut, down_cut in all_branches:
        if muted_like_others:
            up_cut, down_cut = cell.up.cut, cell.down.cut
        ups = enumerate(mu(cell.up.decay, cell.users, up_cut))
        downs = list(enumerate(mu(cell.down.decay, cell.users, down_cut)))
        for (up, p), (down, q) in product(ups, downs):
            messages = cell.down.cut + cell.down.muted_cut + value + up - down
            law[messages] = law.get(messages, F(0)) + odds / total * p * q
    return law


def mean_of(law: dict[int, Fraction]) -> Fraction:
    return sum((k * p for k, p in law.items()), start=F(0))


def variance_of(law: dict[int, Fraction]) -> Fraction:
    return sum((k * k * p for k, p in law.items()), start=F(0)) - mean_of(law) ** 2


def masses(law: dict[int, Fraction], most: int) -> np.ndarray:
    """P(0), …, P(most) in floats."""
    return np.array([float(law.get(k, F(0))) for k in range(most + 1)])


def sums(cell: BoundedCell, values: list[int], **twin: bool) -> np.ndarray:
    """The law of all users' messages together."""
    found = np.ones(1)
    for x in values:
        found = np.convolve(found, masses(sent(cell, x, **twin), cell.most_messages))
    return found


def direction(
    decay: Fraction, cut: int, muted_cut: int, *odds: Fraction, ratio: Fraction = ONE
) -> Direction:
    return Direction(
        epsilon=F(1), decay=decay, cut=cut, muted_cut=muted_cut, odds=odds, ratio=ratio
    )


DIGIT = BoundedCell(
    users=3,
    largest=2,
    up=direction(F(1, 2), 4, 1, F(1, 9), F(1, 13)),
    down=direction(F(3, 5), 3, 1, F(1, 12), F(1, 8)),
)
BIT = BoundedCell(
    users=4,
    largest=1,
    up=direction(F(1, 2), 5, 1, F(1, 11)),
    down=direction(F(2, 5), 4, 1, F(1, 9)),
)
RARE = BoundedCell(
    users=400,
    largest=1,
    up=direction(F(1, 2), 6, 2, F(1, 2000)),
    down=direction(F(2, 5), 5, 1, F(1, 1500)),
)
BY_VALUE = BoundedCell(
    users=4,
    largest=1,
    up=direction(F(1, 2), 5, 1, F(1, 10), ratio=F(2, 5)),
    down=direction(F(2, 5), 4, 1, F(3, 25), ratio=F(1, 2)),
)
"""Odds that depend on the value: (1 − κ)·o is 3/50 in both directions."""

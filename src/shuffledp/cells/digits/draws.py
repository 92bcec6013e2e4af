"""Draws of cells that share their way up: for one user, and for many users at once with the same
distribution.

Jumps and noise are rare, so only users who draw something other than 0 are processed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.cells.base import Counts, Values
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.finite import Finite
from shuffledp.numbers.laws import Bernoulli
from shuffledp.numbers.sampler import events, sampler, successes, tallies, total_of

if TYPE_CHECKING:
    from shuffledp.cells.digits.cell import SharedCell

Cells = Sequence["SharedCell"]
EVENTS_AT_ONCE = 1 << 18
"""About how many users with noise are in memory at the same time."""


class Jumps:
    """The branches in which a user's values are replaced, for all cells together."""

    def __init__(self, cells: Cells) -> None:
        self.cells, self.cut = cells, cells[0].up.cut
        own = [(place, y) for place, cell in enumerate(cells) for y in range(cell.largest)]
        odds = [cells[place].up.odds[y] for place, y in own]
        stray = cells[0].way_up.stray_odds
        self.own = own
        self.branches = Finite.of((*odds, *stray))
        """First the jumps of each cell, y = 1..D, then the stray ones by their number of parts."""
        total = sum((*odds, *stray), start=Fraction(0))
        self.mute = Bernoulli(total / (1 + total))
        self.uniform = [Finite((1,) * (cell.largest + 1)) for cell in cells]

    def draw(self, branch: int, entropy: Entropy) -> tuple[list[int], list[int]]:
        """(ζ, n) of one user in a branch."""
        values = [-1] * len(self.cells)
        added = [0] * len(self.cells)
        if branch < len(self.own):
            place, y = self.own[branch]
            values[place], added[place] = y, self.cut + 1
        else:
            parts = branch - len(self.own) + 2
            for place, part in zip(*self.stray(parts, entropy), strict=True):
                added[place] = part
        for place, law in enumerate(self.uniform):
            if values[place] < 0:
                values[place] = sampler(law).draw_one(entropy)
        return values, added

    def stray(self, parts: int, entropy: Entropy) -> tuple[tuple[int, ...], list[int]]:
        """Which cells get something, and how much each: uniform among all ways to write Z+1 as
        a sum of `parts` numbers above 0: the gaps between parts − 1 distinct places in 1..Z."""
        count = len(self.cells)
        chosen = sampler(Finite((1,) * comb(count, parts))).draw_one(entropy)
        support = list(combinations(range(count), parts))[chosen]
        place = sampler(Finite((1,) * self.cut))
        while True:
            places = [place.draw_one(entropy) + 1 for _ in range(parts - 1)]
            if len(set(places)) == len(places):
                break
        ends = [0, *sorted(places), self.cut + 1]
        return support, [after - before for before, after in pairwise(ends)]

    def draw_many(self, size: int, entropy: Entropy) -> tuple[list[Counts], Counts]:
        """(ζ of each cell, for the users whose values are replaced, the sum of their n)."""
        values = [uniform_below(cell.largest + 1, size, entropy) for cell in self.cells]
        added = np.zeros(len(self.cells), np.int64)
        counts = tallies(self.branches, size, entropy)
        begin = 0
        for branch in np.flatnonzero(counts):
            here = slice(begin, begin := begin + int(counts[branch]))
            if branch < len(self.own):
                place, y = self.own[branch]
                values[place][here] = y
                added[place] += int(counts[branch]) * (self.cut + 1)
                continue
            for _ in range(int(counts[branch])):
                support, parts = self.stray(int(branch) - len(self.own) + 2, entropy)
                added[list(support)] += np.array(parts)
        return values, added


@lru_cache(maxsize=16)
def _jumps(cells: tuple[SharedCell, ...]) -> Jumps:
    return Jumps(cells)


def randomize(cells: Cells, values: Sequence[int], entropy: Entropy) -> list[int]:
    """One user's messages to each cell; see `shuffledp.cells.digits.cell`.

    Ensures: an exact draw of the law that the certificate is about; never more in all than
    `SharedDigits.most_messages`.
    """
    jumps = _jumps(tuple(cells))
    added = [0] * len(cells)
    if sampler(jumps.mute).draw_one(entropy):
        branch = sampler(jumps.branches).draw_one(entropy)
        values, added = jumps.draw(branch, entropy)
    noise = noise_of_one(cells, entropy)
    sent = []
    for place, cell in enumerate(cells):
        v, down = values[place], cell.down_noise
        if sampler(cell.down_mute).draw_one(entropy):
            v = cell.down_jump(sampler(cell.down_jumps).draw_one(entropy) + 1)
            down = cell.down_muted_noise
        v -= sampler(down).draw_one(entropy)
        sent.append(cell.base + v + added[place] + noise[place])
    return sent


def noise_of_one(cells: Cells, entropy: Entropy) -> list[int]:
    """Z₊ of one user's cells: drawn cell by cell, all again while their sum exceeds the cut."""
    while True:
        noise = [sampler(cell.up_noise).draw_one(entropy) for cell in cells]
        if sum(noise) <= cells[0].up.cut:
            return noise


def noise_of_many(cells: Cells, users: int, entropy: Entropy) -> Counts:
    """The sum of Z₊ over `users` users, for each cell."""
    total = np.zeros(len(cells), np.int64)
    step = max(1, int(EVENTS_AT_ONCE / sum(cell.eventful for cell in cells)))
    for begin in range(0, users, step):
        total += _noise_of_part(cells, min(step, users - begin), entropy)
    return total


def _noise_of_part(cells: Cells, users: int, entropy: Entropy) -> Counts:
    found = [events(cell.up_noise, users, entropy) for cell in cells]
    total = np.array([int(noise.sum()) for _, noise in found], np.int64)
    who, place = np.unique(np.concatenate([users for users, _ in found]), return_inverse=True)
    noise = np.concatenate([noise for _, noise in found])
    together = np.bincount(place, noise, minlength=len(who)).astype(np.int64)
    for user in who[together > cells[0].up.cut]:  # all of this user's noise is drawn again
        for number, (users_here, drawn) in enumerate(found):
            total[number] -= int(drawn[users_here == user].sum())
        total += np.array(noise_of_one(cells, entropy))
    return total


def randomize_total(cells: Cells, values: Sequence[Values], entropy: Entropy) -> list[int]:
    """The sums of `randomize` over many users, drawn independently; a row of values per cell."""
    jumps, size = _jumps(tuple(cells)), len(values[0])
    replaced = sampler(jumps.mute).hits(size, entropy)
    others, added = jumps.draw_many(replaced.size, entropy)
    total = added + noise_of_many(cells, size, entropy)
    for number, cell in enumerate(cells):
        own = cell.checked(values[number])
        here = own.astype(np.int64)
        here[replaced] = others[number]
        total[number] += _down_total(cell, here, entropy)
    return [int(count) for count in total]


def _down_total(cell: SharedCell, values: Counts, entropy: Entropy) -> int:
    """The messages of many users' values after the way down, each drawn independently."""
    muted = sampler(cell.down_mute).hits(values.size, entropy)
    total = cell.base * values.size + int(values.sum()) - int(values[muted].sum())
    jumps = cell.down_jump(1) - sampler(cell.down_jumps).draw(muted.size, entropy)
    total += int(jumps.sum())
    total -= int(sampler(cell.down_muted_noise).draw(muted.size, entropy).sum())
    indices, noise = sampler(cell.down_noise).events(values.size, entropy)
    return total - int(noise[~np.isin(indices, muted)].sum())  # muted users have separate noise


def aggregate(cells: Cells, values: Sequence[Values], tally: Counts, entropy: Entropy) -> list[int]:
    """The sums of `randomize` over all users of a tally, of whom tally[c] hold values[·][c], at a
    cost that does not grow with their number."""
    jumps, users = _jumps(tuple(cells)), int(tally.sum())
    left = tally.copy()
    for code in np.flatnonzero(tally):
        left[code] -= successes(int(tally[code]), jumps.mute.probability, entropy)
    others, added = jumps.draw_many(users - int(left.sum()), entropy)
    total = added + noise_of_many(cells, users, entropy)
    for number, cell in enumerate(cells):
        held = np.bincount(others[number], minlength=cell.largest + 1).astype(np.int64)
        np.add.at(held, values[number], left)
        total[number] += _down_aggregate(cell, held, entropy)
    return [int(count) for count in total]


def _down_aggregate(cell: SharedCell, tally: Counts, entropy: Entropy) -> int:
    """The same for a tally, at a cost that does not grow with the users."""
    users, muted, total = int(tally.sum()), 0, 0
    for value in np.flatnonzero(tally):
        holders = int(tally[value])
        gone = successes(holders, cell.down_mute.probability, entropy)
        total += int(value) * (holders - gone)
        muted += gone
    counts = tallies(cell.down_jumps, muted, entropy)
    total += sum(int(count) * cell.down_jump(y) for y, count in enumerate(counts, start=1))
    total -= total_of(cell.down_noise, users - muted, entropy)
    total -= total_of(cell.down_muted_noise, muted, entropy)
    return cell.base * users + total

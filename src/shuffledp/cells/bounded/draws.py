"""Draws for many users of a bounded cell at once, with the same distribution as one by one.

Noise and muting are rare, so only users who draw something other than 0 are processed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.cells.base import Counts, Values
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.finite import Finite
from shuffledp.numbers.sampler import events, sampler, successes, tallies, total_of

if TYPE_CHECKING:
    from shuffledp.cells.bounded.cell import BoundedCell

MOST_SLOTS = 1 << 62
"""The most users times copies that one 64-bit number can distinguish."""
EVENTS_AT_ONCE = 1 << 18
"""About how many users with noise are in memory at the same time."""


def muted_values(cell: BoundedCell, values: Values, entropy: Entropy) -> Counts:
    """v of muted users with these values: a jump, and noise with a shorter cut in its direction.

    Ensures: each is an independent draw of v, given that the user is muted.
    """
    branch = _branches(cell, values, entropy)
    v = cell.jump_values[branch]
    ups, downs = np.flatnonzero(branch < cell.largest), np.flatnonzero(branch >= cell.largest)
    v[ups] += sampler(cell.up_muted_noise).draw(ups.size, entropy)
    v[ups] -= sampler(cell.down_noise).draw(ups.size, entropy)
    v[downs] += sampler(cell.up_noise).draw(downs.size, entropy)
    v[downs] -= sampler(cell.down_muted_noise).draw(downs.size, entropy)
    return v


def _branches(cell: BoundedCell, values: Values, entropy: Entropy) -> Counts:
    """The branch of each muted user with these values."""
    if not cell.by_value:
        return sampler(cell.jumps(0)).draw(values.size, entropy)
    found = np.empty(values.size, np.int64)
    for value in (0, 1):
        holders = np.flatnonzero(values == value)
        found[holders] = sampler(cell.jumps(value)).draw(holders.size, entropy)
    return found


def randomize_total(cell: BoundedCell, values: Values, entropy: Entropy) -> int:
    """See `IndependentCell.randomize_total`."""
    size = len(values)
    muted = sampler(cell.mute).hits(size, entropy)
    total = cell.base * size + int(values.sum(dtype=np.int64))
    total += int(muted_values(cell, values[muted], entropy).sum())
    total -= int(values[muted].sum(dtype=np.int64))
    for law, sign in ((cell.up_noise, 1), (cell.down_noise, -1)):
        indices, noise = sampler(law).events(size, entropy)
        total += sign * int(noise[~np.isin(indices, muted)].sum())  # muted users draw their own
    return total


def aggregate(cell: BoundedCell, tally: Counts, entropy: Entropy) -> int:
    """See `IndependentCell.aggregate`."""
    users, total = int(tally.sum()), 0
    muted_by = Counter[Finite]()  # by the law of their branch
    for value in np.flatnonzero(tally).tolist():
        holders = int(tally[value])
        muted = successes(holders, cell.mute.probability, entropy)
        total += value * (holders - muted)
        muted_by[cell.jumps(value)] += muted
    branches = sum(tallies(law, muted, entropy) for law, muted in muted_by.items())
    branches = branches + np.zeros(2 * cell.largest, np.int64)
    total += int((branches * cell.jump_values).sum())
    ups, downs = int(branches[: cell.largest].sum()), int(branches[cell.largest :].sum())
    total += total_of(cell.up_noise, users - ups, entropy)
    total += total_of(cell.up_muted_noise, ups, entropy)
    total -= total_of(cell.down_noise, users - downs, entropy)
    total -= total_of(cell.down_muted_noise, downs, entropy)
    return cell.base * users + total


def aggregate_copies(cell: BoundedCell, ones: Counts, users: int, entropy: Entropy) -> Counts:
    """See `IndependentCell.aggregate_copies`.

    Ensures: position b is an independent draw of `aggregate` with that tally.
    """
    ones = np.asarray(ones, np.int64)
    if cell.largest != 1 or ones.ndim != 1 or not ((ones >= 0) & (ones <= users)).all():
        raise ValueOutOfRange("Copies are for cells with values 0 and 1, at most one per user.")
    return _copies(cell, ones, users, entropy)


def _copies(cell: BoundedCell, ones: Counts, users: int, entropy: Entropy) -> Counts:
    """Copies of any bounded cell in which ones[c] users have the value 1 and all others 0."""
    step = int(min(MOST_SLOTS, EVENTS_AT_ONCE / cell.eventful) / max(users, 1))
    if step == 0:  # too many users with noise to keep in memory
        tally = np.zeros((ones.size, cell.largest + 1), np.int64)
        tally[:, 0], tally[:, 1] = users - ones, ones
        return np.array([aggregate(cell, row, entropy) for row in tally], np.int64)
    sent = cell.base * users + ones
    for begin in range(0, ones.size, step):
        part = slice(begin, begin + step)
        _add_copies(cell, sent[part], ones[part], users, entropy)
    return sent


def _add_copies(
    cell: BoundedCell, sent: Counts, ones: Counts, users: int, entropy: Entropy
) -> None:
    """Adds noise and muting to copies that contain only the values. Number c·users + i is user i in
    copy c; the first ones[c] users have the value 1."""
    slots = ones.size * users
    muted, _ = events(cell.mute, slots, entropy)
    copies = muted // max(users, 1)
    held = muted - copies * users < ones[copies]
    np.add.at(sent, copies, muted_values(cell, held.astype(np.int64), entropy) - held)
    for law, sign in ((cell.up_noise, 1), (cell.down_noise, -1)):
        slot, noise = events(law, slots, entropy)
        kept = ~np.isin(slot, muted)  # muted users draw separate noise
        np.add.at(sent, slot[kept] // max(users, 1), sign * noise[kept])


def copies_of_zero(cell: BoundedCell, copies: int, users: int, entropy: Entropy) -> Counts:
    """The messages of `users` users with the value 0, for each of the copies."""
    if cell.largest == 1 or copies > 1:
        return _copies(cell, np.zeros(copies, np.int64), users, entropy)
    tally = np.zeros(cell.largest + 1, np.int64)
    tally[0] = users
    return np.array([aggregate(cell, tally, entropy) for _ in range(copies)], np.int64)

"""Draws of the pooled cell: one user, an array of users, and a whole tally in one go.

All three draw the same law exactly. First labels are dropped and noise is dealt; then the remaining
values go through the ways down. Noise and jumps are rare, so only users and buckets that draw
something other than 0 are processed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shuffledp.cells.base import Counts, Values
from shuffledp.cells.urn import dealt, urn
from shuffledp.numbers.arrangement import subset
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.sampler import events, sampler, successes, tallies, total_of

if TYPE_CHECKING:
    from shuffledp.cells.pooled.cell import PooledCell

MOST_SLOTS = 1 << 62
"""The most users times buckets that one 64-bit number can distinguish."""
EVENTS_AT_ONCE = 1 << 18
"""About how many users with noise are in memory at the same time."""


# One user


def randomize(cell: PooledCell, code: int, entropy: Entropy) -> list[int]:
    """One user's messages to each bucket: drop, tokens, then the buckets one after the other, each
    with its jump and its noise, in this order in every language."""
    kept = sampler(cell.drop).draw_one(entropy) == 0
    sent = [0] * cell.buckets
    dealt = [] if kept else urn(cell, cell.up.cut + 1, entropy)
    dealt += urn(cell, sampler(cell.tokens).draw_one(entropy), entropy)
    for bucket in dealt:
        sent[bucket] += 1
    for bucket in range(cell.buckets):
        value = int(kept and bucket == code)
        if sampler(cell.jump(value)).draw_one(entropy):
            left = cell.down.muted_cut - sampler(cell.down_muted_noise).draw_one(entropy)
        else:
            left = cell.base + value - sampler(cell.down_noise).draw_one(entropy)
        sent[bucket] += left
    return sent


# Many users


def randomize_total(cell: PooledCell, codes: Values, entropy: Entropy) -> Counts:
    """The sums of `randomize` over many users, each drawn independently."""
    users = len(codes)
    dropped = sampler(cell.drop).hits(users, entropy)
    left = np.delete(codes, dropped)
    _, sizes = sampler(cell.tokens).events(users, entropy)
    counts = enumerate(np.bincount(sizes).tolist())
    total = dealt(cell, [*counts, (cell.up.cut + 1, dropped.size)], entropy)
    ones = np.bincount(left, minlength=cell.buckets).astype(np.int64)
    return total + ways_down(cell, ones, users, entropy)


def aggregate(cell: PooledCell, tally: Counts, without: int, entropy: Entropy) -> Counts:
    """The sums of `randomize` over all users of a tally, and over `without` users who have none of
    the buckets, at a cost that does not grow with their number."""
    tally = np.asarray(tally, np.int64)
    users = int(tally.sum()) + without
    gone = successes(users, cell.drop.probability, entropy)
    left = tally - among(tally, without, gone, entropy)
    counts = enumerate(tallies(cell.tokens, users, entropy).tolist())
    total = dealt(cell, [*counts, (cell.up.cut + 1, gone)], entropy)
    return total + ways_down(cell, left, users, entropy)


def among(tally: Counts, without: int, chosen: int, entropy: Entropy) -> Counts:
    """How many of `chosen` users, drawn without replacement from a tally and `without` others, have
    each bucket."""
    ends = np.cumsum(tally)
    users = (int(ends[-1]) if ends.size else 0) + without
    places = subset(users, chosen, entropy)
    owners = np.searchsorted(ends, places, side="right")
    return np.bincount(owners, minlength=len(tally) + 1)[: len(tally)].astype(np.int64)


# The ways down


def ways_down(cell: PooledCell, ones: Counts, users: int, entropy: Entropy) -> Counts:
    """The messages of all buckets after the ways down, if `ones[b]` of the users have b. Each
    bucket of each user is drawn independently."""
    step = int(min(MOST_SLOTS, EVENTS_AT_ONCE / _eventful(cell)) / max(users, 1))
    if step == 0:  # too many users with noise to keep in memory
        rows = [_one_way_down(cell, int(held), users, entropy) for held in ones]
        return np.array(rows, np.int64)
    sent = cell.base * users + ones
    for begin in range(0, ones.size, step):
        part = slice(begin, begin + step)
        _add_ways_down(cell, sent[part], ones[part], users, entropy)
    return sent


def _eventful(cell: PooledCell) -> float:
    """Roughly the probability that a bucket jumps or draws nonzero noise."""
    return 1e-12 + float(cell.jump(1).probability) + 1 - float(cell.down_noise.pmf(0))


def _add_ways_down(
    cell: PooledCell, sent: Counts, ones: Counts, users: int, entropy: Entropy
) -> None:
    """Adds noise and jumps to buckets that contain only the values. Number b·users + i is user i in
    bucket b; the first ones[b] users have the value 1."""
    share = max(users, 1)
    empty, _ = events(cell.jump(0), ones.size * users, entropy)
    empty = empty[empty % share >= ones[empty // share]]  # users with a 1 have separate jumps
    starts = np.cumsum(ones) - ones
    held, _ = events(cell.jump(1), int(ones.sum()), entropy)
    owners = np.searchsorted(starts, held, side="right") - 1
    jumped = np.concatenate([empty, owners * share + held - starts[owners]])
    moved = -cell.down.cut - sampler(cell.down_muted_noise).draw(jumped.size, entropy)
    moved[empty.size :] -= 1  # the value is lost
    np.add.at(sent, jumped // share, moved)
    slot, noise = events(cell.down_noise, ones.size * users, entropy)
    kept = ~np.isin(slot, jumped)  # a bucket that jumps draws separate noise
    np.add.at(sent, slot[kept] // share, -noise[kept])


def _one_way_down(cell: PooledCell, ones: int, users: int, entropy: Entropy) -> int:
    """The same for one bucket, at a cost that does not grow with the users."""
    lost = successes(ones, cell.jump(1).probability, entropy)
    jumped = lost + successes(users - ones, cell.jump(0).probability, entropy)
    total = cell.base * users + ones - lost - cell.down.cut * jumped
    total -= total_of(cell.down_noise, users - jumped, entropy)
    return total - total_of(cell.down_muted_noise, jumped, entropy)

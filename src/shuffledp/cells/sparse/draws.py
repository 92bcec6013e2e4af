"""Draws of the sparse cell: one user, an array of users, and a whole tally in one go.

All three draw the same law exactly. The cost goes by tokens: no step visits every bucket for every
user.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.cells.base import Counts, Values
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.sampler import sampler, successes_by_bits
from shuffledp.numbers.uniform import uniform_whole

if TYPE_CHECKING:
    from shuffledp.cells.sparse.cell import UrnCell

DATA, JUMP = 0, 2
"""Branches of `UrnCell.branches`."""
FEW_HOLDERS = 4_096
"""Up to this many users of a bucket, drawing each is faster than one binomial draw."""
TOKENS_AT_ONCE = 1 << 22
"""About how many noise tokens are held at the same time."""


def tokens(cell: UrnCell, code: int, entropy: Entropy) -> list[int]:
    """One user's tokens: branch, number of noise tokens, urn, in this order in every language."""
    branch, sent = sampler(cell.branches).draw_one(entropy), []
    if branch != JUMP or cell.keeps_noise:
        sent = urn(cell, sampler(cell.noise).draw_one(entropy), entropy)
    if branch == JUMP:
        sent += urn(cell, cell.cut + 1, entropy)
    return [*sent, code] if branch == DATA and code >= 0 else sent


def urn(cell: UrnCell, count: int, entropy: Entropy) -> list[int]:
    """The buckets of `count` tokens by Pólya's urn.

    A number below B + i·m is a bucket if it is below B; the others are m for each earlier token.
    """
    found: list[int] = []
    for i in range(count):
        number = uniform_whole(cell.buckets + i * cell.users, entropy)
        found.append(
            number if number < cell.buckets else found[(number - cell.buckets) // cell.users]
        )
    return found


def tokens_of_all(cell: UrnCell, codes: Values, entropy: Entropy) -> tuple[Counts, Counts]:
    """(users, buckets) of the tokens of many users, each drawn on its own."""
    branch = sampler(cell.branches).draw(len(codes), entropy)
    jumpers = np.flatnonzero(branch == JUMP)
    noisy, sizes = sampler(cell.noise).events(len(codes), entropy)
    if not cell.keeps_noise:
        kept = branch[noisy] != JUMP
        noisy, sizes = noisy[kept], sizes[kept]
    senders = np.flatnonzero((branch == DATA) & (codes >= 0))
    drawn = urns(cell, np.concatenate([sizes, np.full(jumpers.size, cell.cut + 1)]), entropy)
    owners = np.concatenate([noisy, jumpers])[drawn[0]]
    users = np.concatenate([senders, owners])
    return users, np.concatenate([np.asarray(codes)[senders].astype(np.int64), drawn[1]])


def urns(cell: UrnCell, sizes: Counts, entropy: Entropy) -> tuple[Counts, Counts]:
    """(urn, bucket) of every token of many urns, `sizes[u]` tokens in the urn u."""
    order = np.argsort(-sizes, kind="stable")  # those that go on are always the first ones
    ordered = sizes[order]
    longest = int(ordered[0]) if ordered.size else 0
    going = np.searchsorted(-ordered, -np.arange(1, longest + 1), side="right")
    starts = np.concatenate([[0], np.cumsum(going)]).astype(np.int64)
    buckets, owners = np.empty((2, int(starts[-1])), np.int64)
    for i, count in enumerate(going.tolist()):
        numbers = uniform_below(cell.buckets + i * cell.users, count, entropy)
        copied = np.flatnonzero(numbers >= cell.buckets)
        earlier = (numbers[copied] - cell.buckets) // cell.users
        numbers[copied] = buckets[starts[earlier] + copied]
        buckets[starts[i] : starts[i + 1]] = numbers
        owners[starts[i] : starts[i + 1]] = order[:count]
    return owners, buckets


def aggregate(cell: UrnCell, tally: Counts, without: int, entropy: Entropy) -> Counts:
    """The tokens in each bucket, from users of whom `tally[b]` hold b and `without` no value.

    A user's branch and noise do not depend on its value. So three things are drawn: who sends its
    value, bucket by bucket; how many of the other holders jump, each with probability o/(q+o), and
    of those without a value, each with probability o; how many of the rest (of all, if a jump keeps
    the noise) have J noise tokens.
    """
    plus = sent_values(cell, tally, entropy)
    silent = int(tally.sum()) - int(plus.sum())
    jumps = successes_by_bits(silent, cell.jump / (cell.jump + cell.muted), entropy)
    jumps += successes_by_bits(without, cell.jump, entropy)
    quiet = 0 if cell.keeps_noise else jumps
    noisy = noise_sizes(cell, int(tally.sum()) + without - quiet, entropy)
    for size, users in [*enumerate(noisy), (cell.cut + 1, jumps)]:
        step = max(1, TOKENS_AT_ONCE // max(size, 1))
        for begin in range(0, users if size else 0, step):
            _, buckets = urns(cell, np.full(min(step, users - begin), size), entropy)
            plus += np.bincount(buckets, minlength=cell.buckets)
    return plus


def noise_sizes(cell: UrnCell, users: int, entropy: Entropy) -> list[int]:
    """How many of `users` users have J noise tokens, for J = 0..Z: one binomial draw after the
    other, each among those that are left."""
    weights = cell.noise.whole_weights()
    left, counts = sum(weights), []
    for weight in weights:
        counts.append(successes_by_bits(users, Fraction(weight, left), entropy) if users else 0)
        users, left = users - counts[-1], left - weight
    return counts


def sent_values(cell: UrnCell, tally: Counts, entropy: Entropy) -> Counts:
    """How many holders of each bucket send their value: Bin(tally[b], p), independently."""
    tally = np.asarray(tally, np.int64)
    plus = np.zeros(len(tally), np.int64)
    for bucket in np.flatnonzero(tally > FEW_HOLDERS):
        plus[bucket] = successes_by_bits(int(tally[bucket]), cell.data, entropy)
    few = np.flatnonzero((tally > 0) & (tally <= FEW_HOLDERS))
    ends = np.cumsum(tally[few])
    if few.size:
        senders = sampler(cell.sends_value).hits(int(ends[-1]), entropy)
        owners = few[np.searchsorted(ends, senders, side="right")]
        plus += np.bincount(owners, minlength=len(tally))
    return plus

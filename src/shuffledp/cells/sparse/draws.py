"""Draws of the sparse cell: one user, an array of users, and a whole tally in one go.

All three draw the same law exactly. The cost depends on the number of tokens: no step visits every
bucket for every user.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shuffledp.cells.base import Counts, Values
from shuffledp.cells.urn import dealt, urn, urns
from shuffledp.numbers.entropy import Entropy
from shuffledp.numbers.sampler import sampler, successes_by_bits

if TYPE_CHECKING:
    from shuffledp.cells.sparse.cell import UrnCell

DATA, JUMP = 0, 2
"""Branches of `UrnCell.branches`."""
FEW_HOLDERS = 4_096
"""The largest number of users in a bucket for which drawing each is faster than one binomial."""


def tokens(cell: UrnCell, code: int, entropy: Entropy) -> list[int]:
    """One user's tokens: branch, number of noise tokens, urn, in this order in every language."""
    branch, sent = sampler(cell.branches).draw_one(entropy), []
    if branch != JUMP or cell.keeps_noise:
        sent = urn(cell, sampler(cell.noise).draw_one(entropy), entropy)
    if branch == JUMP:
        sent += urn(cell, cell.cut + 1, entropy)
    return [*sent, code] if branch == DATA and code >= 0 else sent


def tokens_of_all(cell: UrnCell, codes: Values, entropy: Entropy) -> tuple[Counts, Counts]:
    """(users, buckets) of the tokens of many users, each drawn independently."""
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


def aggregate(cell: UrnCell, tally: Counts, without: int, entropy: Entropy) -> Counts:
    """The tokens in each bucket, if `tally[b]` users have b and `without` users have no value.

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
    return plus + dealt(cell, [*enumerate(noisy), (cell.cut + 1, jumps)], entropy)


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

"""Uniformly random orders and subsets, drawn with cryptographic bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.entropy import SYSTEM, Entropy


def permutation(size: int, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
    """A uniformly random permutation of 0..size−1: the order of distinct random 64-bit keys.

    Ensures: uniform exactly; keys that collide (probability < size²/2⁶⁵) are all drawn again.
    """
    while True:
        keys = entropy.words(size, np.uint64)
        order = np.argsort(keys)
        ordered = keys[order]
        if size < 2 or not (ordered[1:] == ordered[:-1]).any():
            return order


def uniform_below(
    bound: int | NDArray[np.int64], count: int, entropy: Entropy = SYSTEM
) -> NDArray[np.int64]:
    """`count` independent uniform integers in 0..bound−1, by rejection, without bias; each below
    its own bound if there are several."""
    limits = np.asarray(bound, np.uint64)
    most = np.uint64(2**64 - 1)
    fair = most - (most % limits + np.uint64(1)) % limits  # words up to here split evenly
    words = entropy.words(count, np.uint64)
    while (wrong := np.flatnonzero(words > fair)).size:
        words[wrong] = entropy.words(wrong.size, np.uint64)
    return (words % limits).astype(np.int64)


def subset(size: int, count: int, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
    """`count` distinct numbers among 0..size−1, uniformly random as a set.

    Numbers are drawn uniformly and repeats are drawn again.
    """
    if 2 * count > size:  # too many repeats to draw again
        return permutation(size, entropy)[:count]
    chosen = np.empty(0, np.int64)
    while chosen.size < count:
        fresh = uniform_below(size, (count - chosen.size) * 9 // 8 + 8, entropy)
        together = np.concatenate([chosen, fresh])
        _, first_seen = np.unique(together, return_index=True)
        chosen = together[np.sort(first_seen)]  # in drawing order: truncating adds no bias
    return chosen[:count]


def arrange(plus: int, minus: int, entropy: Entropy = SYSTEM) -> NDArray[np.int8]:
    """`plus` times +1 and `minus` times −1 in uniformly random order.

    Fair signs are drawn first, and the surplus of one sign is flipped at random positions. Given
    their numbers, independent fair signs are in uniform order, and a uniform flip keeps that. This
    costs about one bit per message; a permutation costs 64.
    """
    size = plus + minus
    bits = np.unpackbits(entropy.words((size + 7) // 8, np.uint8), count=size)
    surplus = int(np.count_nonzero(bits)) - plus
    if surplus:
        places = np.flatnonzero(bits == (surplus > 0))
        bits[places[subset(places.size, abs(surplus), entropy)]] ^= 1
    return 2 * bits.view(np.int8) - np.int8(1)

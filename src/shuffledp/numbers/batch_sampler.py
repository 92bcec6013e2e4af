"""Many draws at once, at a cost that does not grow with their number, and still exact.

A uniform number's leading 64 bits are a word. A law's thresholds split the words into those that
decide for 0, for 1, …, and a few that do not decide; how many of n words fall into one part is
binomial with a rational chance. So the words that a part needs are never drawn, only counted.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.numbers.arrangement import subset, uniform_below
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.laws import Binomial, Law
from shuffledp.numbers.sampler import Sampler, sampler
from shuffledp.numbers.uniform import Uniform, invert

Integers = NDArray[np.int64]

FEW_DRAWS = 1 << 14  # up to so many, drawing each is faster than counting


def successes(trials: int, chance: Fraction, entropy: Entropy = SYSTEM) -> int:
    """How many of so many independent trials succeed."""
    if trials == 0 or chance == 0:
        return 0
    if 2 * chance > 1:  # failures are fewer: counting these is faster
        return trials - successes(trials, 1 - chance, entropy)
    return invert(Binomial(trials, chance), Uniform(entropy.bits(64), 64, entropy))


def events(law: Law, size: int, entropy: Entropy = SYSTEM) -> tuple[Integers, Integers]:
    """(positions, draws) of those among `size` independent draws that are not 0, in any order.

    Requires: a law on 0, 1, …; the expected number of draws other than 0 fits in memory.
    Ensures: the joint law of `size` draws, exactly; only what is not 0 costs anything.
    """
    source = sampler(law)
    if law.first != 0 or source.start != 0:
        raise ParameterError("Events are drawn for laws on 0, 1, … that are mostly 0.")
    first, words = int(source.table.lower[0]), 1 << source.fine_bits
    count = successes(size, Fraction(words - first, words), entropy)
    values = _values(source, first, count, entropy)
    places = subset(size, count, entropy)
    kept = np.flatnonzero(values)  # an undecided word may give 0 all the same
    return places[kept], values[kept]


def tallies(law: Law, size: int, entropy: Entropy = SYSTEM) -> Integers:
    """How many of `size` independent draws are 0, 1, …, up to the law's last value.

    Requires: a law on 0..last.
    Ensures: the multinomial law of these counts, exactly.
    """
    source = sampler(law)
    counts = np.zeros((law.last or 0) + 1, np.int64)
    table, words, begin = source.table, 1 << source.fine_bits, 0
    for place, (low, high) in enumerate(zip(table.lower, table.upper, strict=True)):
        if size <= FEW_DRAWS:
            break
        value = source.start + place
        for decided, top in ((place > 0 or table.from_first, int(low)), (False, int(high) + 1)):
            end = max(begin, top)  # two thresholds may share a word
            here = successes(size, Fraction(end - begin, words - begin), entropy)
            if decided:
                counts[value] += here
            else:
                _count(counts, _values(source, begin, here, entropy, end))
            size, begin = size - here, end
    _count(counts, _values(source, begin, size, entropy))
    return counts


def total_of(law: Law, size: int, entropy: Entropy = SYSTEM) -> int:
    """The sum of `size` independent draws, at a cost that does not grow with their number."""
    counts = tallies(law, size, entropy)
    return sum(int(value) * int(counts[value]) for value in np.flatnonzero(counts))


def _values(
    source: Sampler, begin: int, count: int, entropy: Entropy, end: int | None = None
) -> Integers:
    """The draws of `count` uniform numbers whose words lie in begin..end−1 (to the top if None)."""
    if count == 0:
        return np.empty(0, np.int64)
    if begin == 0 and end is None:
        return source.draw(count, entropy)
    width = ((1 << source.fine_bits) if end is None else end) - begin
    above = uniform_below(width, count, entropy).view(np.uint64)
    return source.start + source.decide(source.table, np.uint64(begin) + above, entropy)


def _count(counts: Integers, values: Integers) -> None:
    counts += np.bincount(values, minlength=len(counts))

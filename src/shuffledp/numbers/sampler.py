"""One exact sampler for every law: inversion of a uniform number whose bits are drawn on demand.

X is the number of cumulative probabilities F(first), F(first+1), … that are at most U, a uniform
number. U is never complete: 16 bits decide almost every draw through a look-up table. If they equal
the leading bits of some F(k), 64 bits are compared with 64-bit thresholds. If these tie, too, or U
is beyond the table, more bits of U are drawn, and `arb` encloses F(k) more tightly, until the
comparison is certain. No float is used between a parameter and a draw, and every value is possible
(MATH §10).

`events`, `tallies` and `total_of` make many draws at once, at a cost that does not grow with their
number, and still exactly. A law's thresholds split the 64-bit words into those that mean 0, those
that mean 1, …, and a few undecided ones. How many of n words fall into one part is binomial with a
rational probability, so the words of a part are never drawn, only counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.numbers.arrangement import subset, uniform_below
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import to_float
from shuffledp.numbers.laws import Binomial, Law
from shuffledp.numbers.uniform import Uniform, invert

CHUNK_WORDS = 1 << 18  # draws per pass: words and results stay in the L2 cache
MOST_THRESHOLDS = 1 << 16  # the most thresholds in a table
THRESHOLDS_PER_DRAW = 500  # thresholds that cost as much as one draw without a table
FEW_OPEN_WORDS = 256  # open words of 65,536 up to which rare events are drawn instead of words …
SPARSE_BATCH = 1 << 14  # … in batches of at least this size; a device draws fewer
UNDECIDED = 0xFFFF  # table entry: 16 bits do not decide
RARE_FROM = 0.99  # if the first value is this likely, only the other draws are processed


def thresholds(law: Law, start: int, width: int, bits: int) -> list[tuple[int, int]]:
    """⌊2^bits F(k)⌋ for k = start, start+1, …, as (at least, at most), until F is within 2^−bits of
    1 or `width` thresholds are there. The two differ only where a ball straddles an integer."""
    pairs: list[tuple[int, int]] = []
    top = (1 << bits) - 1
    with ctx.workprec(bits + 96):
        scale = arb(2) ** bits
        total, mass = law.cdf(start), law.pmf(start)
        for k in range(start, start + width):
            scaled = total * scale
            low, high = (int(end.floor().unique_fmpz()) for end in (scaled.lower(), scaled.upper()))
            pairs.append((min(low, top), min(high, top)))
            if low >= top or k == law.last:
                break
            mass = mass * law.ratio(k)
            total = total + mass
    return pairs


class Table:
    """A law's thresholds in 64 bits, and the look-up table by their leading 16 bits."""

    def __init__(self, law: Law, start: int, width: int, coarse_bits: int, fine_bits: int) -> None:
        pairs = thresholds(law, start, width, fine_bits)
        self.exact_lower = [low for low, _ in pairs]
        self.exact_upper = [high for _, high in pairs]
        self.lower = np.array(self.exact_lower, np.uint64)
        self.upper = np.array(self.exact_upper, np.uint64)
        self.shift = np.uint64(fine_bits - coarse_bits)
        self.from_first = start == law.first
        words = 1 << coarse_bits
        self.first_word = int(self.lower[0] >> self.shift)
        self.rare = self.from_first and start == 0 and self.first_word >= RARE_FROM * words
        self.coarse = self._look_up(words)

    def _look_up(self, words: int) -> NDArray[np.uint16]:
        low, high = self.lower >> self.shift, self.upper >> self.shift
        table = np.searchsorted(low, np.arange(words, dtype=np.uint64), side="right")
        table[table >= len(low)] = UNDECIDED
        if not self.from_first:
            table[: int(low[0])] = UNDECIDED
        for first, last in zip(low.tolist(), high.tolist(), strict=True):
            table[first : last + 1] = UNDECIDED
        return table.astype(np.uint16)

    def open_words(self, coarse_bits: int) -> int:
        """How many words do not immediately mean the first value."""
        return (1 << coarse_bits) - self.first_word

    def place(self, fine: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each 64-bit prefix of U: the value above the start, and which ones are undecided."""
        value = np.searchsorted(self.lower, fine, side="right")
        tied = (value > 0) & (fine <= self.upper[np.maximum(value, 1) - 1])
        outside = (value == len(self.lower)) | ((value == 0) & (not self.from_first))
        return value, np.flatnonzero(tied | outside)


class Sampler:
    """Exact draws from one law. Tests use smaller word sizes to force ties."""

    def __init__(self, law: Law, coarse_bits: int = 16, fine_bits: int = 64) -> None:
        self.law = law
        self.coarse_bits = coarse_bits
        self.fine_bits = fine_bits
        self._table: Table | None = None
        deviation = to_float(law.variance) ** 0.5
        start = int(to_float(law.mean) - 10 * deviation) - 16
        self.start = start if law.first is None else max(start, law.first)
        self.width = min(max(int(24 * deviation), law.tail()) + 64, MOST_THRESHOLDS)

    def draw(self, size: int, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
        """An array of `size` independent draws."""
        values = np.zeros(size, np.int64)
        self.add_draws(entropy, values)
        return values

    def draw_one(self, entropy: Entropy = SYSTEM) -> int:
        """A single draw, as on devices; the same in every language (docs/protocol.md).

        Ensures: the value k with F(k−1) ≤ U < F(k). U's bits are drawn in words of 64, another one
        only if the previous ones do not decide. A table, if there is one, changes nothing.
        """
        word = entropy.bits(64)
        table = self._table
        if self.fine_bits != 64:
            table = None
        elif self._table_pays(1):
            table = self.table
        if table is not None:
            place = bisect_right(table.exact_lower, word)
            if (0 < place < len(table.exact_lower) or (place == 0 and table.from_first)) and (
                place == 0 or word > table.exact_upper[place - 1]
            ):
                return self.start + place
        return invert(self.law, Uniform(word, 64, entropy))

    def add_draws(self, entropy: Entropy, *targets: NDArray[np.int64]) -> None:
        """Adds the same fresh draws, one per entry, to every target array.

        Requires: targets of one length, one-dimensional.
        Ensures: every entry gets an independent draw of the law, exactly.
        """
        for begin, size in _chunks(targets[0].size):
            places, values, common = self._chunk(size, entropy)
            for target in targets:
                part = target[begin : begin + size]
                if common is not None:
                    part += common
                if self.start:
                    part += self.start
                part[places] += values

    def total(self, size: int, entropy: Entropy = SYSTEM) -> int:
        """The sum of `size` independent draws, each drawn independently."""
        found = self.start * size
        for _, part in _chunks(size):
            _, values, common = self._chunk(part, entropy)
            found += int(values.sum()) + (0 if common is None else int(common.sum(dtype=np.int64)))
        return found

    def hits(self, size: int, entropy: Entropy = SYSTEM) -> NDArray[np.int64]:
        """Which of `size` independent draws are not 0, by their positions."""
        return self.events(size, entropy)[0]

    def events(
        self, size: int, entropy: Entropy = SYSTEM
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(positions, draws) of those among `size` independent draws that are not 0."""
        found = [np.empty((2, 0), np.int64)]
        for begin, part in _chunks(size):
            places, values, common = self._chunk(part, entropy)
            if common is not None or self.start:
                draws = np.full(part, self.start, np.int64)
                draws += 0 if common is None else common
                draws[places] += values
                places, values = np.arange(part), draws
            events = np.flatnonzero(values)
            found.append(np.stack([begin + places[events], values[events]]))
        where, drawn = np.concatenate(found, axis=1)
        return where, drawn

    def _chunk(
        self, size: int, entropy: Entropy
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint16] | None]:
        """Draws minus the first value, as (positions, values there) and the common rest: an array,
        or None if it is all zeros."""
        if not self._table_pays(size):
            draws = [self.draw_one(entropy) for _ in range(size)]
            return np.arange(size), np.array(draws, np.int64) - self.start, None
        table = self.table
        if (
            table.rare
            and size >= SPARSE_BATCH
            and table.open_words(self.coarse_bits) <= FEW_OPEN_WORDS
        ):
            places, few = self._open_places(table, size, entropy)
            return places, self._resolve(table, few, entropy), None
        words = entropy.words(size, np.uint16)
        if self.coarse_bits < 16:
            words = words >> np.uint16(16 - self.coarse_bits)
        if table.rare:
            places = np.flatnonzero(words >= table.first_word)
            return places, self._resolve(table, words[places], entropy), None
        common = np.take(table.coarse, words, mode="clip")
        places = np.flatnonzero(common == UNDECIDED)
        common[places] = 0
        return places, self._resolve(table, words[places], entropy), common

    def _open_places(
        self, table: Table, size: int, entropy: Entropy
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The positions whose word does not mean the first value, and their words, without drawing
        all other words: their number is binomial, their positions are a uniform subset, and each
        word is uniform among the open words. The joint distribution is the same."""
        few = table.open_words(self.coarse_bits)
        chance = Binomial(size, Fraction(few, 1 << self.coarse_bits))
        count = sampler(chance).draw_one(entropy)
        words = table.first_word + uniform_below(few, count, entropy)
        return subset(size, count, entropy), words.astype(np.uint64)

    def _table_pays(self, size: int) -> bool:
        """Whether drawing without a table would cost more than building one. Which bits are used
        depends on this, and never on whether an earlier draw has built the table."""
        return (size + 1) * THRESHOLDS_PER_DRAW >= self.width

    @property
    def table(self) -> Table:
        """The table, built now if necessary."""
        if self._table is None:
            self._table = Table(self.law, self.start, self.width, self.coarse_bits, self.fine_bits)
        return self._table

    def _resolve(
        self, table: Table, words: NDArray[np.unsignedinteger], entropy: Entropy
    ) -> NDArray[np.int64]:
        """The values, minus the first value, for given leading words of U."""
        more = entropy.words(words.size, np.uint64) >> np.uint64(64 - int(table.shift))
        return self.decide(table, (words.astype(np.uint64) << table.shift) | more, entropy)

    def decide(self, table: Table, fine: NDArray[np.uint64], entropy: Entropy) -> NDArray[np.int64]:
        """The values, minus the first value, for given leading `fine_bits` bits of U."""
        values, undecided = table.place(fine)
        for place in undecided:
            uniform = Uniform(int(fine[place]), self.fine_bits, entropy)
            values[place] = invert(self.law, uniform) - self.start
        return values


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    """(begin, length) of the passes over an array of this size."""
    return ((begin, min(CHUNK_WORDS, size - begin)) for begin in range(0, size, CHUNK_WORDS))


@lru_cache(maxsize=256)
def sampler(law: Law) -> Sampler:
    """The sampler of a law (cached, with its table)."""
    return Sampler(law)


Integers = NDArray[np.int64]

FEW_DRAWS = 1 << 14  # up to here, drawing each trial is faster than counting


def successes(trials: int, chance: Fraction, entropy: Entropy = SYSTEM) -> int:
    """How many of `trials` independent trials succeed: a draw of Bin(trials, chance)."""
    if trials == 0 or chance == 0:
        return 0
    if 2 * chance > 1:  # failures are fewer: counting these is faster
        return trials - successes(trials, 1 - chance, entropy)
    return invert(Binomial(trials, chance), Uniform(entropy.bits(64), 64, entropy))


def successes_by_bits(trials: int, chance: Fraction, entropy: Entropy = SYSTEM) -> int:
    """`successes` for probabilities that are not small, at about a quarter byte of entropy per
    trial.

    Each trial compares a uniform number with the probability bit by bit. Trials whose bits have
    been equal so far continue; the others are only counted.
    """
    found, (rest, whole) = 0, chance.as_integer_ratio()
    while trials and rest:
        rest *= 2
        ones = _ones(trials, entropy)
        if rest >= whole:  # the probability's bit is 1: a 0 is below it
            found, trials, rest = found + trials - ones, ones, rest - whole
        else:
            trials -= ones
    return found


def _ones(count: int, entropy: Entropy) -> int:
    """How many of `count` fair bits are 1."""
    found, (words, bits) = 0, divmod(count, 64)
    for begin in range(0, words, CHUNK_WORDS):
        part = entropy.words(min(CHUNK_WORDS, words - begin), np.uint64)
        found += int(np.bitwise_count(part).sum(dtype=np.int64))
    return found + (entropy.bits(bits).bit_count() if bits else 0)


def events(law: Law, size: int, entropy: Entropy = SYSTEM) -> tuple[Integers, Integers]:
    """(positions, draws) of those among `size` independent draws that are not 0, in any order.

    Requires: a law on 0, 1, …; the expected number of draws other than 0 fits in memory.
    Ensures: exactly the joint law of `size` draws; only draws other than 0 cost time.
    """
    source = sampler(law)
    if law.first != 0 or source.start != 0:
        raise ParameterError("Events are drawn for laws on 0, 1, … that are mostly 0.")
    first, words = int(source.table.lower[0]), 1 << source.fine_bits
    count = successes(size, Fraction(words - first, words), entropy)
    values = _values(source, first, count, entropy)
    places = subset(size, count, entropy)
    kept = np.flatnonzero(values)  # an undecided word may still mean 0
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

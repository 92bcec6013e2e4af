"""Words as sequences of 5-bit units, and the bucket to which each unit belongs.

Frequent characters take few units, and any text has exactly one sequence:

    a … z                    one unit, 0 … 25
    160 further characters   two: 26 + i // 32, then i % 32, for the character i of `TWO_UNITS`
    any other code point     six: 31, then its 25 bits from the highest down
    the empty text           one: 31

Row r of a word carries its unit r, plus 32 if it is the last; rows up to the third that a short
word does not fill carry 0. A word's number, some bits of its hash, says in which block of 64
buckets each row is, and by how much its 64 values are turned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffledp.queries.frequencies.hashing import label_hashes

Counts = NDArray[np.int64]
Numbers = NDArray[np.uint64]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TWO_UNITS = (
    "0123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "ßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ"
    "абвгдежзийклмнопрстуфхцчшщъыьэюяё"
    "čćěřšžůłąęśźżńőűğışœ’–€“”…"
)
PAIR, ESCAPE = 26, 31
"""The first unit of a character of two units (from here on), and of one of six."""
UNIT_BITS, ESCAPED_UNITS = 5, 5
LAST = 32
"""Added to a word's last unit."""
BLOCK = 64
"""Buckets of a block: the values of a row."""
LEAST_ROWS = 3
HIGHEST_CODE_POINT = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)

ONE_UNIT, TWO, SIX = 1, 2, 1 + ESCAPED_UNITS
"""How many units a character takes."""


def _tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """For each code point how many units it takes, and its number among those that take as many."""
    sizes = np.full(HIGHEST_CODE_POINT + 1, SIX, np.uint8)
    numbers = np.zeros(HIGHEST_CODE_POINT + 1, np.uint8)
    for size, letters in ((ONE_UNIT, LETTERS), (TWO, TWO_UNITS)):
        codes = [ord(letter) for letter in letters]
        sizes[codes], numbers[codes] = size, np.arange(len(codes))
    return sizes, numbers


SIZES, NUMBERS = _tables()


def word_of(units: Sequence[int]) -> str | None:
    """The word with these units; None if there is none."""
    if list(units) == [ESCAPE]:
        return ""
    letters, at = [], 0
    while at < len(units):
        size = ONE_UNIT if units[at] < PAIR else TWO if units[at] < ESCAPE else SIX
        if at + size > len(units):
            return None
        letter = _letter(units[at : at + size])
        if letter is None:
            return None
        letters.append(letter)
        at += size
    return "".join(letters)


def _letter(units: Sequence[int]) -> str | None:
    """The character with these units; None if there is none, or if it takes fewer."""
    if len(units) == ONE_UNIT:
        return LETTERS[units[0]]
    if len(units) == TWO:
        return TWO_UNITS[(units[0] - PAIR) * 32 + units[1]]
    code = 0
    for unit in units[1:]:
        code = code << UNIT_BITS | unit
    if code > HIGHEST_CODE_POINT or code in SURROGATES or SIZES[code] < SIX:
        return None
    return chr(code)


def rows_of(units: int) -> int:
    """L: how many rows a word of `units` units has."""
    return max(LEAST_ROWS, units)


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """Many words as one array of code points, to look up single rows."""

    codes: NDArray[np.uint32]
    """The code points of all words, one after the other."""
    ends: Counts
    """Units up to the end of each code point."""
    first: Counts
    """Units before each word."""
    units: Counts
    """Of each word."""

    @classmethod
    def of(cls, words: Sequence[str]) -> Words:
        """The words as arrays. Requires: texts without halves of surrogate pairs."""
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
        ends = np.cumsum(SIZES[codes], dtype=np.int64)
        bounds = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(lengths)])]
        units = np.maximum(np.diff(bounds), 1)
        return cls(codes=codes, ends=ends, first=bounds[:-1], units=units)

    @property
    def rows(self) -> Counts:
        """L of each word."""
        return np.maximum(self.units, LEAST_ROWS)

    def symbols(self, words: Counts, rows: Counts) -> Counts:
        """The symbols of rows of words; words are given by their position."""
        units = self.units[words]
        at = self.first[words] + rows
        letter = np.searchsorted(self.ends, at, side="right")
        found = np.full(len(at), ESCAPE)  # the empty word
        inside = np.flatnonzero((letter < len(self.codes)) & (rows < units))
        inside = inside[self._filled[words[inside]]]
        codes = self.codes[letter[inside]].astype(np.int64)
        sizes, numbers = SIZES[codes], NUMBERS[codes].astype(np.int64)
        part = at[inside] - (self.ends[letter[inside]] - sizes)
        pair = np.where(part == 0, PAIR + (numbers >> UNIT_BITS), numbers & 31)
        shift = UNIT_BITS * np.maximum(ESCAPED_UNITS - part, 0)
        six = np.where(part == 0, ESCAPE, codes >> shift & 31)
        found[inside] = np.where(sizes == ONE_UNIT, numbers, np.where(sizes == TWO, pair, six))
        found += LAST * (rows == units - 1)
        return np.where(rows < units, found, 0)

    @cached_property
    def _filled(self) -> NDArray[np.bool_]:
        """Which words are not empty."""
        after = np.append(self.first[1:], self.ends[-1] if len(self.ends) else 0)
        return np.asarray(after > self.first)


GOLDEN, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


@dataclass(frozen=True)
class Layout:
    """Where the rows of words are in a table, by a public seed."""

    seed: bytes
    buckets: int
    """A power of two, at least `BLOCK`."""
    id_bits: int
    """Bits of a word's number."""

    @property
    def blocks(self) -> int:
        """How many blocks the table has."""
        return self.buckets // BLOCK

    @cached_property
    def _key(self) -> np.uint64:
        digest = hashlib.sha256(b"shuffledp rows " + self.seed).digest()
        return np.uint64(int.from_bytes(digest[:8], "little"))

    def ids(self, words: Iterable[str]) -> Counts:
        """The number of each word."""
        hashes = label_hashes(words, self.seed)[:, 0]
        return (hashes & np.uint64((1 << self.id_bits) - 1)).astype(np.int64)

    def places(self, ids: Counts, rows: Counts | int) -> tuple[Counts, Counts]:
        """(block, turn) of rows of words with these numbers: a 64-bit mix of both, as in
        SplitMix64."""
        mixed = (ids.astype(np.uint64) << np.uint64(32)) | np.asarray(rows).astype(np.uint64)
        mixed = self._key + mixed * GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * SECOND
        mixed ^= mixed >> np.uint64(31)
        block = (mixed >> np.uint64(6)) & np.uint64(self.blocks - 1)
        return block.astype(np.int64), (mixed & np.uint64(BLOCK - 1)).astype(np.int64)

    def buckets_of(self, ids: Counts, rows: Counts, symbols: Counts) -> Counts:
        """The buckets of rows that carry these symbols."""
        block, turn = self.places(ids, rows)
        return block * BLOCK + (symbols + turn) % BLOCK

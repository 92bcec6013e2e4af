"""Public hash functions from any label to a few cells, one function for each group of users.

A label becomes a number of 64 bits, and a group's function maps it to one of k = 2^l cells:

    whole numbers   the number itself, modulo 2⁶⁴
    texts           a polynomial over the field of p = 2⁶¹ − 1 elements, at a random point r: the
                    coefficients are the text's UTF-8 bytes and a final 1, seven at a time
    cell            A·x + c over the field of two elements, A a random matrix of l × 64 bits, c of l

A·x + c is exactly three-wise independent: distinct x, y, v differ by vectors that are not 0 and
not equal, hence linearly independent over two elements, and a random A maps these to independent
uniform vectors. Two texts of at most m bytes become the same number for at most m/7 + 2 of the p
points. All coefficients are read from the seed, which is public and drawn independently of the
data; privacy does not depend on them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.queries.histogram.protocol import Label

Numbers = NDArray[np.uint64]
Counts = NDArray[np.int64]

SEED_BYTES = 32
MOST_CANDIDATES = 10**5
PRIME = (1 << 61) - 1
CHUNK_BYTES = 7
"""Bytes of a text in one coefficient: below 2⁵⁶, and so below the prime."""
BYTES_AT_ONCE = 1 << 25
"""Bytes of texts that are looked at together."""
PAIRS_AT_ONCE = 1 << 22
"""Labels times groups that are hashed together."""


def checked_seed(seed: object) -> bytes:
    """The seed behind its hexadecimal text."""
    try:
        found = bytes.fromhex(seed) if isinstance(seed, str) else b""
    except ValueError:
        found = b""
    if len(found) != SEED_BYTES or found.hex() != seed:
        raise ParameterError(f"The seed of a hash must be {2 * SEED_BYTES} hexadecimal digits.")
    return found


def checked_candidates(labels: object) -> tuple[Label, ...]:
    """Distinct texts, or distinct whole numbers of at most 64 bits."""
    if isinstance(labels, str) or not hasattr(labels, "__iter__"):
        raise ParameterError("candidates must be a list of texts or of whole numbers.")
    names = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    if len(names) > MOST_CANDIDATES:
        raise ParameterError(
            f"At most {MOST_CANDIDATES:,} candidates can be named; ask the result about others."
        )
    types = {type(name) for name in names}
    if not (types <= {str} or types <= {int}):
        raise ParameterError("Candidates must all be texts, or all be whole numbers.")
    if types == {int} and not (min(names) >= -(2**63) and max(names) < 2**64):
        raise ParameterError("Candidates must be whole numbers of at most 64 bits.")
    if len({name % 2**64 if isinstance(name, int) else name for name in names}) < len(names):
        raise ParameterError("Two candidates are the same; name each once.")
    return names


def new_hash_seed(entropy: Entropy = SYSTEM) -> str:
    """A new public seed of the groups' hash functions."""
    return entropy.words(SEED_BYTES, np.uint8).tobytes().hex()


def _expanded(seed: bytes, use: bytes, size: int) -> bytes:
    """So many bytes for one use of the seed: SHA-256 hashes of it with a counter, which every
    platform has and whose blocks can be computed one by one (docs/protocol.md)."""
    head = hashlib.sha256(b"shuffledp hash " + use + b" " + seed)
    blocks = []
    for counter in range(-(-size // head.digest_size)):
        block = head.copy()
        block.update(counter.to_bytes(4, "big"))
        blocks.append(block.digest())
    return b"".join(blocks)[:size]


def times(a: Numbers, b: int) -> Numbers:
    """a·b modulo the prime, for arrays of numbers below it: products of halves of at most 32 bits,
    because 2⁶¹ is 1."""
    low, high = np.uint64(b & 0x7FFFFFFF), np.uint64(b >> 31)  # 31 and 30 bits
    a_low, a_high = a & np.uint64(0x7FFFFFFF), a >> np.uint64(31)
    middle = a_low * high + a_high * low  # below 2⁶²; stands for middle·2³¹
    top = a_high * high  # below 2⁶⁰; stands for top·2⁶² = 2·top
    middle = _reduced(middle)
    shifted = (middle >> np.uint64(30)) + ((middle & np.uint64(0x3FFFFFFF)) << np.uint64(31))
    return _reduced(_reduced(a_low * low) + _reduced(shifted) + _reduced(top << np.uint64(1)))


def _reduced(a: Numbers) -> Numbers:
    """Any 64-bit numbers modulo the prime."""
    folded = (a & np.uint64(PRIME)) + (a >> np.uint64(61))
    return np.where(folded >= np.uint64(PRIME), folded - np.uint64(PRIME), folded)


def text_numbers(texts: Sequence[str], point: int) -> Numbers:
    """The polynomial of each text at a point, modulo the prime."""
    encoded = [text.encode("utf-8", "surrogatepass") + b"\x01" for text in texts]
    widths = -(-np.array([len(one) for one in encoded], np.int64) // CHUNK_BYTES) * CHUNK_BYTES
    found = np.empty(len(encoded), np.uint64)
    for width in np.unique(widths).tolist():  # texts that fill the same number of coefficients
        places, step = np.flatnonzero(widths == width), max(1, BYTES_AT_ONCE // width)
        for begin in range(0, len(places), step):
            part = places[begin : begin + step]
            found[part] = _polynomials([encoded[place] for place in part], width, point)
    return found


def _polynomials(encoded: list[bytes], width: int, point: int) -> Numbers:
    """r^m + c₁ r^(m−1) + … + c_m for texts whose bytes fill `width`, by Horner's rule."""
    rows = np.frombuffer(b"".join(one.ljust(width, b"\0") for one in encoded), np.uint8)
    chunks = rows.reshape(len(encoded), -1, CHUNK_BYTES)
    words = np.zeros((len(encoded), chunks.shape[1], 8), np.uint8)
    words[:, :, :CHUNK_BYTES] = chunks
    coefficients = words.view("<u8")[:, :, 0].astype(np.uint64)
    total = np.ones(len(encoded), np.uint64)
    for at in range(coefficients.shape[1]):
        total = _reduced(times(total, point) + coefficients[:, at])
    return total


@dataclass(frozen=True)
class GroupHashes:
    """The hash functions of all groups: from labels to 2^bits cells, one function per group."""

    seed: bytes
    groups: int
    bits: int

    @cached_property
    def matrices(self) -> Numbers:
        """Row j of group g's matrix, as the bits of a number: shape (groups, bits)."""
        size = 8 * self.groups * self.bits
        drawn = np.frombuffer(_expanded(self.seed, b"matrices", size), "<u8")
        return drawn.astype(np.uint64).reshape(self.groups, self.bits)

    @cached_property
    def shifts(self) -> Counts:
        """c of each group."""
        drawn = np.frombuffer(_expanded(self.seed, b"shifts", 4 * self.groups), "<u4")
        return (drawn & ((1 << self.bits) - 1)).astype(np.int64)

    @cached_property
    def point(self) -> int:
        """r: uniform in 0..p−1, the first of a stream that is not p itself."""
        drawn = np.frombuffer(_expanded(self.seed, b"point", 64), "<u8") & np.uint64(PRIME)
        return int(drawn[drawn < PRIME][0])

    def part(self, chosen: Counts) -> GroupHashes:
        """The functions of some of the groups, numbered anew."""
        found = GroupHashes(self.seed, len(chosen), self.bits)
        known = {"matrices": self.matrices[chosen], "shifts": self.shifts[chosen]}
        found.__dict__.update(known, point=self.point)
        return found

    def numbers(self, labels: Any) -> Numbers:
        """The number of each label in an array or sequence of texts or whole numbers."""
        if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
            return labels.astype(np.uint64)
        values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        kinds = set(map(type, values))
        if kinds <= {int} and all(-(2**63) <= value < 2**64 for value in values):
            return np.array([value % 2**64 for value in values], np.uint64)
        if not kinds <= {str}:
            raise ValueOutOfRange(
                "Values must all be texts, or all be whole numbers of at most 64 bits; nothing was "
                "randomized: give every value the same type."
            )
        distinct = list(dict.fromkeys(values))
        table = dict(zip(distinct, text_numbers(distinct, self.point).tolist(), strict=True))
        return np.fromiter(map(table.__getitem__, values), np.uint64, len(values))

    def cells(self, numbers: Numbers, groups: Counts) -> Counts:
        """The cell of each number under the function of its group; shapes are broadcast."""
        found = self.shifts[groups]
        for bit in range(self.bits):
            odd = np.bitwise_count(self.matrices[groups, bit] & numbers) & np.uint8(1)
            found = found ^ (odd.astype(np.int64) << bit)
        return found

    def sums(self, table: NDArray[np.float64], numbers: Numbers) -> NDArray[np.float64]:
        """Σ_g table[g, cell of the number in group g], for each number."""
        found = np.empty(len(numbers))
        every = np.arange(self.groups)
        step = max(1, PAIRS_AT_ONCE // self.groups)
        for begin in range(0, len(numbers), step):
            part = numbers[begin : begin + step, None]
            found[begin : begin + step] = table[every, self.cells(part, every)].sum(axis=1)
        return found

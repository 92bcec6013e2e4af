"""A client written from docs/protocol.md alone, in the plainest way: it makes the vectors.

It shares no code with the package. Rational laws are inverted in fractions, the others with mpmath
at a precision far above what a comparison needs; how messages are encrypted is in
`naive_encryption.py`. It is slow, and it is no client for real people: its random words are given.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath

Data = dict[str, Any]
F = Fraction
DUMMY = 0xFFFFFFFF
SPARE_BITS = 400
"""Of precision beyond the bits that are compared."""


class Words:
    """A stream of 64-bit words that counts how many were taken."""

    def __init__(self, source: Iterator[int]) -> None:
        self._source, self.taken = source, list[int]()

    def next(self) -> int:
        word = next(self._source)
        self.taken.append(word)
        return word


# Exact sampling


class Law:
    """A law on 0, 1, … by its cumulative probabilities: fractions, or as real numbers at a given
    precision."""

    def __init__(
        self, last: int | None, cumulative: Callable[[int], Fraction | mpmath.mpf]
    ) -> None:
        self._last, self._cumulative = last, cumulative

    def scaled(self, k: int, bits: int) -> Fraction:
        """2^bits · F(k); exact for rational laws, else close enough to compare with whole
        numbers."""
        if self._last is not None and k >= self._last:
            return F(1 << bits)
        with mpmath.workprec(bits + SPARE_BITS):
            value = self._cumulative(k)
            if isinstance(value, Fraction):
                return value * (1 << bits)
            scaled = mpmath.ldexp(value, bits)
            distance = abs(scaled - mpmath.nint(scaled))
            assert distance > mpmath.mpf(2) ** -(SPARE_BITS // 2), "too close to a whole number"
            sign, mantissa, exponent, _ = scaled._mpf_
            assert sign == 0
            return F(int(mantissa)) * F(2) ** int(exponent)

    def draw(self, words: Words) -> int:
        """k with F(k−1) ≤ U < F(k); another word only while some F(k) lies strictly inside."""
        value, bits, k = words.next(), 64, 0
        while True:
            bound = self.scaled(k, bits)
            if bound >= value + 1:
                return k
            if bound <= value:
                k += 1
            else:
                value, bits = (value << 64) | words.next(), bits + 64


def sums(weights: list[Any]) -> list[Any]:
    found, total = [], weights[0] * 0
    for weight in weights:
        total = total + weight
        found.append(total)
    return found


def finite(weights: list[Fraction]) -> Law:
    totals = sums(weights)
    return Law(len(weights) - 1, lambda k: F(totals[k]) / totals[-1])


def bernoulli(chance: Fraction) -> Law:
    return finite([1 - chance, chance])


def cut_negative_binomial(shape: Fraction, beta: Fraction, cut: int) -> Law:
    weights = [F(1)]
    for j in range(cut):
        weights.append(weights[-1] * beta * (shape + j) / (j + 1))
    return finite(weights)


def real(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def negative_binomial(shape: Fraction, decay: Fraction) -> Law:
    def cumulative(k: int) -> mpmath.mpf:
        r, e = real(shape), mpmath.exp(-real(decay))
        mass = total = (1 - e) ** r
        for j in range(k):
            mass = mass * e * (r + j) / (j + 1)
            total += mass
        return total

    return Law(None, cumulative)


def poisson(mean: Fraction) -> Law:
    def cumulative(k: int) -> mpmath.mpf:
        mass = total = mpmath.exp(-real(mean))
        for j in range(k):
            mass = mass * real(mean) / (j + 1)
            total += mass
        return total

    return Law(0 if mean == 0 else None, cumulative)


LAWS: dict[str, Callable[[Data], Law]] = {
    "bernoulli": lambda law: bernoulli(F(law["probability"])),
    "finite": lambda law: finite([F(weight) for weight in law["weights"]]),
    "cut negative binomial": lambda law: cut_negative_binomial(
        F(law["shape"]), F(law["beta"]), law["cut"]
    ),
    "negative binomial": lambda law: negative_binomial(F(law["shape"]), F(law["decay"])),
    "poisson": lambda law: poisson(F(law["mean"])),
}


# Cells


def bounded_cell(cell: Data, value: int, words: Words) -> tuple[int, int]:
    up, down, largest, share = cell["up"], cell["down"], cell["largest"], F(1, cell["users"])
    odds = [F(text) for text in up["odds"] + down["odds"]]
    up_cut, down_cut, v = up["cut"], down["cut"], value
    if bernoulli(1 - 1 / sum(odds, start=F(1))).draw(words):
        branch = finite(odds).draw(words)
        if branch < largest:
            v, up_cut = up["cut"] + branch + 1, up["muted_cut"]
        else:
            v, down_cut = largest - down["cut"] - (branch - largest + 1), down["muted_cut"]
    v += cut_negative_binomial(share, F(up["decay"]), up_cut).draw(words)
    v -= cut_negative_binomial(share, F(down["decay"]), down_cut).draw(words)
    return down["cut"] + down["muted_cut"] + v, 0


def paper_cell(cell: Data, value: int, words: Words) -> tuple[int, int]:
    share, largest = F(1, cell["users"]), cell["largest"]
    pairs, stand_in = cell["input_pairs"], cell["stand_in"]
    muted = bernoulli(F(cell["mute_probability"])).draw(words)
    plus, minus = (0, 0) if muted else (pairs + value, pairs + stand_in)
    plus += negative_binomial(share, F(cell["up_epsilon"]) / largest).draw(words)
    minus += negative_binomial(share, F(cell["down_epsilon"]) / largest).draw(words)
    both = poisson(F(cell["flood_mean"]) * share).draw(words)
    return plus + both, minus + both


CELLS = {"bounded": bounded_cell, "paper": paper_cell}

# Queries: the cells in the order of their numbers, each with the value that it holds


PRIME = (1 << 61) - 1


def expanded(protocol: Data, use: str, begin: int, size: int) -> int:
    """The number in bytes begin..begin+size−1 of a use of the seed, little-endian."""
    head = f"shuffledp hash {use} ".encode() + bytes.fromhex(protocol["hash_seed"])
    blocks = range(begin // 32, (begin + size - 1) // 32 + 1)
    data = b"".join(hashlib.sha256(head + at.to_bytes(4, "big")).digest() for at in blocks)
    at = begin - begin // 32 * 32
    return int.from_bytes(data[at : at + size], "little")


def label_number(protocol: Data, value: str | int) -> int:
    """A label as a number of 64 bits."""
    if isinstance(value, int):
        return value % 2**64
    point = next(
        number
        for at in range(8)
        if (number := expanded(protocol, "point", 8 * at, 8) & PRIME) < PRIME
    )
    text, total = value.encode() + b"\x01", 1
    for at in range(0, len(text), 7):
        total = (total * point + int.from_bytes(text[at : at + 7], "little")) % PRIME
    return total


def frequencies(protocol: Data, value: str | int, words: Words) -> list[tuple[int, int]]:
    """What every cell and every counter of the roll call sends."""
    groups, k = protocol["groups"], protocol["cells_per_group"]
    while (word := words.next()) >= 2**64 // groups * groups:
        pass
    group, bits = word % groups, k.bit_length() - 1
    place = expanded(protocol, "shifts", 4 * group, 4) & (k - 1)
    number = label_number(protocol, value)
    for bit in range(bits):
        row = expanded(protocol, "matrices", 8 * (group * bits + bit), 8)
        place ^= ((row & number).bit_count() & 1) << bit
    held = [int(place == cell) for cell in range(k)] if k > 2 else [place]
    sent = [(0, 0)] * (groups * len(held))
    for cell, one in enumerate(held):
        kind = CELLS[protocol["cell"]["kind"]]
        sent[group * len(held) + cell] = kind(protocol["cell"], one, words)
    return sent + [(int(one == group), 0) for one in range(groups)]


def encoded(protocol: Data, value: Any, words: Words) -> list[tuple[Data, int]]:
    query = protocol["query"]
    if query in ("count", "integer-sum"):
        return [(protocol["cell"], value)]
    if query == "histogram":
        labels = protocol["labels"]
        known = [
            at for at, label in enumerate(labels) if type(label) is type(value) and label == value
        ]
        place = known[0] if known else labels.index(protocol["other"])
        return [(protocol["cell"], int(number == place)) for number in range(len(labels))]
    if query == "by-group":
        return by_group(protocol, value, words)
    return real_sum(protocol, value, words) if query == "real-sum" else quantiles(protocol, value)


def by_group(protocol: Data, value: list[Any], words: Words) -> list[tuple[Data, int]]:
    label, number = value
    labels, cells = protocol["labels"], [digit["cell"] for digit in protocol["digits"]]
    own = next(at for at, one in enumerate(labels) if type(one) is type(label) and one == label)
    if protocol["answer"] in ("count", "integer-sum"):
        held = [(cells[0], number)]
    else:
        held = real_sum({**protocol, "digits": cells}, number, words)
    if "sizes" in protocol:
        held.append((protocol["sizes"]["cell"], 1))
    return [
        (cell, digit if group == own else 0) for cell, digit in held for group in range(len(labels))
    ]


def real_sum(protocol: Data, value: float, words: Words) -> list[tuple[Data, int]]:
    digits, low, high = protocol["digits"], F(protocol["low"]), F(protocol["high"])
    grid = math.prod(cell["largest"] + 1 for cell in digits) - 1
    place = (F(value) - low) * grid / (high - low)
    code = math.floor(place)
    code += bernoulli(place - code).draw(words)
    found = []
    for cell in reversed(digits):
        code, digit = divmod(code, cell["largest"] + 1)
        found.append((cell, digit))
    return found[::-1]


def quantiles(protocol: Data, value: Any) -> list[tuple[Data, int]]:
    low, high, levels = F(protocol["low"]), F(protocol["high"]), protocol["levels"]
    bins = levels[-1]["buckets"]
    if protocol.get("unit"):
        moment = datetime.datetime.fromisoformat(value) - datetime.datetime(1970, 1, 1)
        value = moment // datetime.timedelta(**{protocol["unit"] + "s": 1})
    if protocol.get("points"):
        bin_number = (F(value) - low) // math.ceil((high - low + 1) / bins)
    else:
        bin_number = min(math.floor((F(value) - low) * bins / (high - low)), bins - 1)
    return [
        (level["cell"], int(bin_number // (bins // level["buckets"]) == bucket))
        for level in levels
        for bucket in range(level["buckets"])
    ]


# Reports


def randomized(protocol: Data, value: Any, words: Words) -> list[tuple[int, int]]:
    """How many +1 and −1 each cell sends."""
    if protocol["query"] == "frequencies":
        return frequencies(protocol, value, words)
    return [
        CELLS[cell["kind"]](cell, held, words) for cell, held in encoded(protocol, value, words)
    ]


def numbers_of(sent: list[tuple[int, int]]) -> list[int]:
    plus = [2 * cell + 1 for cell, (count, _) in enumerate(sent) for _ in range(count)]
    return plus + [2 * cell for cell, (_, count) in enumerate(sent) for _ in range(count)]


def report_numbers(task: Data, value: Any, words: Words) -> tuple[list[tuple[int, int]], list[int]]:
    """(what the cells send, the numbers in the report's messages in their order)."""
    size = task["report_size"]
    sent = randomized(task["certificate"]["protocol"], value, words)
    while len(numbers_of(sent)) > size:
        sent = randomized(task["certificate"]["protocol"], value, words)
    numbers = numbers_of(sent)
    numbers += [DUMMY] * (size - len(numbers))
    keys = [words.next() for _ in range(size)]
    while len(set(keys)) < size:
        keys = [words.next() for _ in range(size)]
    return sent, [number for _, number in sorted(zip(keys, numbers, strict=True))]

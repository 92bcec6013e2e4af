"""A client written from docs/protocol.md alone, in the plainest way: it makes the vectors.

It shares no code with the package. Laws are in `naive_laws.py`, cells that share their way up in
`naive_shared.py`; how messages are encrypted is in `naive_encryption.py`. It is slow, and it is no
client for real people: its random words are given.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from typing import Any

from naive_laws import (
    Data,
    F,
    Law,
    Words,
    bernoulli,
    cut_negative_binomial,
    finite,
    negative_binomial,
    poisson,
)
from naive_shared import shared_cells

DUMMY = 0xFFFFFFFF

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


def encoded(protocol: Data, value: Any) -> list[tuple[Data, int]]:
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
    return quantiles(protocol, value)


def real_sum(
    protocol: Data, value: float, words: Words
) -> tuple[list[tuple[Data, int]], list[tuple[int, int]]]:
    """What the digits' cells hold, and what the counter of the dither gets, if there is one."""
    digits, low, high = protocol["digits"], F(protocol["low"]), F(protocol["high"])
    grid = math.prod(cell["largest"] + 1 for cell in digits) - 1
    place = (F(value) - low) * grid / (high - low)
    # T in [0, 1) matters only as far as it lies between two of these
    k = protocol.get("dither", 1)
    cuts = {F(part, k) for part in range(1, k)} | {1 - place % 1} - {F(1)}
    edges = [F(0), *sorted(cuts)]
    least = edges[Law(len(cuts), lambda number: edges[number + 1]).draw(words)]
    code, dither = math.floor(place + least), math.floor(k * least)
    found = []
    for cell in reversed(digits):
        code, digit = divmod(code, cell["largest"] + 1)
        found.append((cell, digit))
    return found[::-1], [(dither, 0)] * (k > 1)


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
    """How many +1 and −1 each cell sends, and after the cells what public counters get."""
    if protocol["query"] == "frequencies":
        return frequencies(protocol, value, words)
    public: list[tuple[int, int]] = []
    if protocol["query"] == "real-sum":
        cells, public = real_sum(protocol, value, words)
    else:
        cells = encoded(protocol, value)
    if cells[0][0]["kind"] == "shared":
        return shared_cells(cells, words) + public
    return [CELLS[cell["kind"]](cell, held, words) for cell, held in cells] + public


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

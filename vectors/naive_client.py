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
    rise, fall = F(up.get("ratio", 1)), F(1)
    if value == 0:
        rise, fall = F(1), F(down.get("ratio", 1))
    odds = [rise * F(text) for text in up["odds"]] + [fall * F(text) for text in down["odds"]]
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


def label_hash(protocol: Data, value: str | int) -> bytes:
    seed = bytes.fromhex(protocol["hash_seed"])
    if isinstance(value, int):
        label = b"\x01" + (value % 2**64).to_bytes(8, "little")
    else:
        label = b"\x00" + value.encode()
    return hashlib.sha256(b"shuffledp label " + seed + label).digest()


def number_at(data: bytes, index: int) -> int:
    """The number in eight bytes, the least significant first."""
    return int.from_bytes(data[8 * index : 8 * index + 8], "little")


def below(bound: int, words: Words) -> int:
    while (word := words.next()) >= 2**64 // bound * bound:
        pass
    return word % bound


LETTERS = "abcdefghijklmnopqrstuvwxyz"
TWO_UNITS = (
    "0123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "ßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ"
    "абвгдежзийклмнопрстуфхцчшщъыьэюяё"
    "čćěřšžůłąęśźżńőűğışœ’–€“”…"
)


def symbols(word: str) -> list[int]:
    """What each row of a word carries."""
    units: list[int] = []
    for letter in word:
        if letter in LETTERS:
            units.append(LETTERS.index(letter))
        elif letter in TWO_UNITS:
            units += [26 + TWO_UNITS.index(letter) // 32, TWO_UNITS.index(letter) % 32]
        else:
            units += [31, *(ord(letter) >> shift & 31 for shift in (20, 15, 10, 5, 0))]
    units = units or [31]
    units[-1] += 32
    return units + [0] * (3 - len(units))


def hashed_bucket(protocol: Data, value: str | int, words: Words) -> int:
    """The bucket of a label in one of two rows, or of one row of a word."""
    buckets, digest = int(protocol["cell"]["buckets"]), label_hash(protocol, value)
    if protocol["query"] == "frequencies":
        row = below(2, words)
        return row * buckets // 2 + number_at(digest, row) % (buckets // 2)
    assert isinstance(value, str)
    carried = symbols(value)
    row, word_id = below(len(carried), words), number_at(digest, 0) % 2 ** int(protocol["id_bits"])
    seed = bytes.fromhex(protocol["hash_seed"])
    key = number_at(hashlib.sha256(b"shuffledp rows " + seed).digest(), 0)
    z = (key + (word_id * 2**32 + row) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    return int(64 * ((z >> 6) % (buckets // 64)) + (carried[row] + z) % 64)


def whole_below(bound: int, words: Words) -> int:
    """⌊U·bound⌋ of a uniform U, with as many words as it takes to know it."""
    value, bits = words.next(), 64
    while value * bound >> bits != ((value + 1) * bound - 1) >> bits:
        value, bits = value << 64 | words.next(), bits + 64
    return value * bound >> bits


def sparse_cell(cell: Data, bucket: int | None, words: Words) -> list[tuple[int, int]]:
    """What a user sends to every bucket of a sparse or kept cell; a kept one may hold none."""
    buckets, users, cut = cell["buckets"], cell["users"], cell["cut"]
    branch = finite([F(cell[name]) for name in ("data", "muted", "jump")]).draw(words)
    found: list[int] = []
    if branch < 2 or cell["kind"] == "kept":
        size = cut_negative_binomial(F(buckets, users), F(cell["decay"]), cut).draw(words)
        found += urn(buckets, users, size, words)
    if branch == 2:
        found += urn(buckets, users, cut + 1, words)
    if branch == 0 and bucket is not None:
        found.append(bucket)
    return [(found.count(one), 0) for one in range(buckets)]


def urn(buckets: int, users: int, size: int, words: Words) -> list[int]:
    """The buckets of tokens by Pólya's urn."""
    tokens: list[int] = []
    for at in range(size):
        number = whole_below(buckets + at * users, words)
        tokens.append(number if number < buckets else tokens[(number - buckets) // users])
    return tokens


def heavy_labels(protocol: Data, value: Any, words: Words) -> list[tuple[int, int]]:
    """What a user sends to the cells of heavy labels, and then to those of all others."""
    heavy, labels = protocol["heavy"]["labels"], protocol["labels"]
    label = value if value in labels else protocol["other"]
    others = [one for one in labels if one not in heavy]
    exact = protocol["heavy"]["cell"]
    sent = [CELLS[exact["kind"]](exact, int(one == label), words) for one in heavy]
    bucket = None if label in heavy else others.index(label)
    return sent + sparse_cell(protocol["cell"], bucket, words)


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


def by_group(protocol: Data, value: list[Any], words: Words) -> list[tuple[Data, int]]:
    label, number = value
    labels, cells = protocol["labels"], [digit["cell"] for digit in protocol["digits"]]
    own = next(at for at, one in enumerate(labels) if type(one) is type(label) and one == label)
    if protocol["answer"] in ("count", "integer-sum"):
        held = [(cells[0], number)]
    else:
        held, _ = real_sum({**protocol, "digits": cells}, number, words)
    if "sizes" in protocol:
        held.append((protocol["sizes"]["cell"], 1))
    return [
        (cell, digit if group == own else 0) for cell, digit in held for group in range(len(labels))
    ]


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
    if protocol["query"] in ("frequencies", "heavy-hitters"):
        return sparse_cell(protocol["cell"], hashed_bucket(protocol, value, words), words)
    if "heavy" in protocol:
        return heavy_labels(protocol, value, words)
    if protocol["query"] == "by-group" and protocol["digits"][0]["cell"]["kind"] == "sparse":
        label, number = value
        bucket = protocol["labels"].index(label) if number else len(protocol["labels"])
        return sparse_cell(protocol["digits"][0]["cell"], bucket, words)
    public: list[tuple[int, int]] = []
    if protocol["query"] == "real-sum":
        cells, public = real_sum(protocol, value, words)
    elif protocol["query"] == "by-group":
        cells = by_group(protocol, value, words)
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

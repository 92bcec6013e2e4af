"""The public hash functions: exactly three-wise independent, and a family that is not is caught."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from chi2 import p_value

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.queries.frequencies.hashing import (
    PRIME,
    GroupHashes,
    checked_candidates,
    checked_seed,
    text_numbers,
    times,
)

WORDS = 8
"""Labels of three bits, few enough to look at every function."""


def with_coefficients(rows: tuple[int, ...], shift: int) -> GroupHashes:
    """One group's function with this matrix and shift."""
    found = GroupHashes(bytes(32), 1, len(rows))
    found.__dict__["matrices"] = np.array([rows], np.uint64)
    found.__dict__["shifts"] = np.array([shift])
    return found


def all_functions(bits: int) -> Iterable[list[int]]:
    """The cells of the eight labels under every matrix and every shift."""
    labels = np.arange(WORDS, dtype=np.uint64)
    for rows in itertools.product(range(WORDS), repeat=bits):
        for shift in range(1 << bits):
            yield with_coefficients(rows, shift).cells(labels, np.zeros(WORDS, int)).tolist()


def lowest_bits(bits: int) -> Iterable[list[int]]:
    """A family that is not independent: (a·x + b) modulo the number of cells."""
    cells = 1 << bits
    for a, b in itertools.product(range(WORDS), repeat=2):
        yield [(a * x + b) % cells for x in range(WORDS)]


def multiply_and_drop(bits: int) -> Iterable[list[int]]:
    """Another one: (a·x + b) modulo a prime, modulo the number of cells."""
    for a, b in itertools.product(range(11), repeat=2):
        yield [(a * x + b) % 11 % (1 << bits) for x in range(WORDS)]


def independent(family: Iterable[list[int]], bits: int, labels: int) -> bool:
    """Whether any so many distinct labels fall into every combination of cells equally often."""
    functions = list(family)
    for chosen in itertools.combinations(range(WORDS), labels):
        seen = Counter(tuple(cells[label] for label in chosen) for cells in functions)
        if set(seen.values()) != {len(functions) >> bits * labels}:
            return False
    return True


@pytest.mark.parametrize("bits", [1, 2])
def test_all_functions_together_are_pairwise_and_three_wise_independent(bits: int) -> None:
    assert independent(all_functions(bits), bits, 2)
    assert independent(all_functions(bits), bits, 3)
    assert not independent(all_functions(bits), bits, 4)  # 0 + 1 + 2 + 3 is 0, bit by bit


@pytest.mark.parametrize("family", [lowest_bits, multiply_and_drop])
def test_a_family_that_is_not_pairwise_independent_is_caught(
    family: Callable[[int], Iterable[list[int]]],
) -> None:
    assert not independent(family(2), 2, 2)


def collisions(cells: Callable[[np.ndarray, np.ndarray], np.ndarray], groups: int) -> float:
    """The p-value of how many groups put like pairs of labels into the same of four cells."""
    first = np.arange(200, dtype=np.uint64)[:, None] * np.uint64(4)
    every = np.arange(groups)
    found = []
    for apart in (1, 4, 1 << 40):
        same = cells(first, every) == cells(first + np.uint64(apart), every)
        found.append(same.sum(axis=0))  # per group, of 200 pairs that differ by the same
    hit = np.concatenate([(np.array(one) > 0).astype(int) for one in found])
    return p_value(hit, [3 / 4, 1 / 4])


def test_the_coefficients_of_a_seed_collide_as_random_ones_do() -> None:
    hashes = GroupHashes(bytes(range(32)), 3_000, 2)

    def multiplied(numbers: np.ndarray, groups: np.ndarray) -> np.ndarray:
        return np.asarray((numbers * hashes.matrices[groups, 0]) % np.uint64(4))

    def xored(numbers: np.ndarray, groups: np.ndarray) -> np.ndarray:
        return hashes.cells(numbers, groups)

    assert collisions(multiplied, 3_000) < 1e-9  # numbers that differ by 4 always collide
    pairs = hashes.cells(np.arange(2, dtype=np.uint64)[:, None], np.arange(3_000))
    assert p_value(pairs[0] * 4 + pairs[1], [1 / 16] * 16) > 1e-4
    same = hashes.cells(np.zeros(1, np.uint64), np.arange(3_000))
    assert p_value(same, [1 / 4] * 4) > 1e-4
    assert xored(np.array([5], np.uint64), np.array([7])).shape == (1,)


def test_multiplication_and_polynomials_are_those_of_python() -> None:
    rng = np.random.default_rng(1)
    a = np.append(rng.integers(0, PRIME, 200), [0, 1, PRIME - 1]).astype(np.uint64)
    for b in [0, 1, 2**31, PRIME - 1, *map(int, rng.integers(0, PRIME, 20))]:
        assert times(a, b).tolist() == [int(x) * b % PRIME for x in a]

    def slow(text: str, point: int) -> int:
        data, total = text.encode() + b"\x01", 1
        for at in range(0, len(data), 7):
            total = (total * point + int.from_bytes(data[at : at + 7], "little")) % PRIME
        return total

    texts = ["", "a", "\0", "\0\0", "ab", "1234567", "東京", "e\u0301", "é", "x" * 1000]
    assert text_numbers(texts, 12_345).tolist() == [slow(text, 12_345) for text in texts]
    assert len(set(text_numbers(texts, 12_345).tolist())) == len(texts)


def test_a_million_distinct_texts_stay_distinct() -> None:
    texts = [f"label {number}" for number in range(10**6)]
    assert len(np.unique(text_numbers(texts, 2**60 + 7))) == 10**6


def test_numbers_of_labels() -> None:
    hashes = GroupHashes(bytes(32), 2, 1)
    assert hashes.numbers([1, -1, 2**64 - 2]).tolist() == [1, 2**64 - 1, 2**64 - 2]
    assert hashes.numbers(np.array([-1])).tolist() == [2**64 - 1]
    assert (
        hashes.numbers(np.array(["a", "b", "a"])).tolist()[0::2] == [hashes.numbers(["a"])[0]] * 2
    )
    for wrong in ([1, "a"], [None], [1.5], [2**64], [True]):
        with pytest.raises(ValueOutOfRange, match="same type"):
            hashes.numbers(np.array(wrong, object))


@pytest.mark.parametrize("seed", ["", "00", "0" * 63, "g" * 64, "A" * 64, 5, None])
def test_a_bad_seed_is_refused(seed: object) -> None:
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        checked_seed(seed)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ("abc", "a list"),
        (5, "a list"),
        (["a", 1], "all be texts"),
        ([True, False], "all be texts"),
        ([2**64], "64 bits"),
        ([-(2**63) - 1], "64 bits"),
        (["a", "a"], "the same"),
        ([-1, 2**64 - 1], "the same"),
        (range(10**5 + 1), "100,000"),
    ],
)
def test_bad_candidates_get_one_sentence(labels: object, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        checked_candidates(labels)

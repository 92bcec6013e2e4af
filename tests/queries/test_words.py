"""Words as units, their places in a table, and the decoder's test and search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp.queries.heavy_hitters.decoder import (
    FALSE_PER_ROUND,
    Decoder,
    log_gamma_tail,
    log_weight,
    passes,
)
from shuffledp.queries.heavy_hitters.units import (
    BLOCK,
    LAST,
    LETTERS,
    TWO_UNITS,
    Layout,
    Words,
    word_of,
)

LAYOUT = Layout(bytes(range(32)), 1 << 14, 16)


def units_of(word: str) -> list[int]:
    """The units of a word, in the plainest way."""
    found: list[int] = []
    for letter in word:
        if letter in LETTERS:
            found.append(LETTERS.index(letter))
        elif letter in TWO_UNITS:
            found += [26 + TWO_UNITS.index(letter) // 32, TWO_UNITS.index(letter) % 32]
        else:
            found += [31, *(ord(letter) >> shift & 31 for shift in (20, 15, 10, 5, 0))]
    return found or [31]


def symbols_of(word: str) -> list[int]:
    units = units_of(word)
    units[-1] += LAST
    return units + [0] * (3 - len(units))


@given(st.lists(st.text(max_size=12), max_size=5))
def test_rows_carry_units_and_units_give_the_word_back(words: list[str]) -> None:
    known = Words.of(words)
    for at, word in enumerate(words):
        assert word_of(units_of(word)) == word
        rows = int(known.rows[at])
        assert known.symbols(np.full(rows, at), np.arange(rows)).tolist() == symbols_of(word)


@given(st.lists(st.integers(0, 31), min_size=1, max_size=14))
def test_every_sequence_of_units_is_one_words_or_none(units: list[int]) -> None:
    word = word_of(units)
    assert word is None or units_of(word) == units


def test_a_character_has_one_code_only() -> None:
    assert len(set(LETTERS + TWO_UNITS)) == 26 + 160
    a, seven = ord("a"), ord("7")
    for code in (a, seven, 0xD800, 0x110000):  # shorter elsewhere, half of a pair, none
        assert word_of([31, *(code >> shift & 31 for shift in (20, 15, 10, 5, 0))]) is None
    assert word_of([26]) is None and word_of([31, 0]) is None


def test_places_are_even_and_differ_from_row_to_row() -> None:
    ids = np.arange(1 << 16)
    (first, turns), (second, _) = LAYOUT.places(ids, 0), LAYOUT.places(ids, 1)
    for numbers, size in ((first, LAYOUT.blocks), (turns, BLOCK)):
        counts = np.bincount(numbers, minlength=size)
        assert ((counts - counts.mean()) ** 2).sum() / counts.mean() < size + 5 * math.sqrt(
            2 * size
        )
    assert (first == second).mean() < 3 / LAYOUT.blocks
    other = Layout(bytes(32), 1 << 14, 16).places(ids, 0)[0]
    assert (first == other).mean() < 3 / LAYOUT.blocks


def test_weights_keep_krafts_inequality() -> None:
    logs = (units * math.log(32) - log_weight(units) for units in range(1, 2_000))
    total = sum(map(math.exp, logs))
    assert 0.99 < total <= 1 + 1e-9


def test_the_gamma_tail() -> None:
    rng = np.random.default_rng(1)
    for rows in (3, 8):
        sums = rng.exponential(size=(200_000, rows)).sum(axis=1)
        for score in (rows + 1.0, 2.0 * rows):
            exact = math.exp(log_gamma_tail(rows, np.array([score]))[0])
            assert exact == pytest.approx((sums >= score).mean(), rel=0.05)
    assert log_gamma_tail(3, np.array([1.0]))[0] == 0  # below the mean nothing is unlikely


def test_words_by_chance_pass_as_rarely_as_promised() -> None:
    """Uniform P values, and ones that are too small by a tenth of a power, which must be seen."""
    rng = np.random.default_rng(2)
    units, runs = 1, 2_000_000
    scores = rng.exponential(size=(runs, 3))
    price = math.log(FALSE_PER_ROUND) - log_weight(units)  # far below what can be counted here …
    shift = -(price - math.log(1e-3)) / 3  # … so scores are moved to a price of a thousandth
    rate = passes(units, scores.min(axis=1) + shift, scores.sum(axis=1) + 3 * shift).mean()
    assert rate <= 1e-3 * 1.2
    tilted = 1.5 * scores
    assert passes(units, tilted.min(axis=1) + shift, tilted.sum(axis=1) + 3 * shift).mean() > 2e-3


def table_of(words: dict[str, int], noise: float, seed: int) -> np.ndarray:
    """A table with this many tokens in each row of the words, and Poisson noise."""
    tokens = np.random.default_rng(seed).poisson(noise, LAYOUT.buckets)
    known, ids = Words.of(list(words)), LAYOUT.ids(words)
    for at, held in enumerate(words.values()):
        rows = np.arange(int(known.rows[at]))
        places = np.full(len(rows), at)
        tokens[LAYOUT.buckets_of(ids[places], rows, known.symbols(places, rows))] += held
    return tokens


def tail_of(noise: float) -> np.ndarray:
    masses = [math.exp(-noise) * noise**k / math.factorial(k) for k in range(60)]
    return np.cumsum(masses[::-1])[::-1]


WORDS = {"the": 900, "of": 700, "their": 60, "日本": 90, "": 80, "a": 50, "the end": 45}


@pytest.mark.parametrize("seed", range(4))
def test_words_are_found_through_noise_and_each_once(seed: int) -> None:
    decoder = Decoder(layout=LAYOUT, tokens=table_of(WORDS, 0.5, seed), empty_tail=tail_of(0.5))
    assert sorted(word.text for word in decoder.decode()) == sorted(WORDS)


def test_a_row_that_another_word_covers_does_not_hide_a_word() -> None:
    tokens = table_of(WORDS, 0.5, 1)
    known, ids = Words.of(["their"]), LAYOUT.ids(["their"])
    rows = np.arange(5)
    held = LAYOUT.buckets_of(ids[np.zeros(5, int)], rows, known.symbols(np.zeros(5, int), rows))
    tokens[held[2]] += 3_000
    decoder = Decoder(layout=LAYOUT, tokens=tokens, empty_tail=tail_of(0.5))
    assert "their" in {word.text for word in decoder.decode()}
    tokens[held[:3]] = 0  # but nothing is found of which three rows are missing
    decoder = Decoder(layout=LAYOUT, tokens=tokens, empty_tail=tail_of(0.5))
    assert "their" not in {word.text for word in decoder.decode()}


def test_noise_alone_and_large_buckets_by_chance_are_no_words() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        tokens = rng.poisson(0.5, LAYOUT.buckets)
        tokens[rng.integers(0, LAYOUT.buckets, 60)] += 25  # as jumps do
        decoder = Decoder(layout=LAYOUT, tokens=tokens, empty_tail=tail_of(0.5))
        assert decoder.decode() == []
    empty = np.zeros(LAYOUT.buckets, np.int64)
    assert Decoder(layout=LAYOUT, tokens=empty, empty_tail=np.ones(1)).decode() == []

"""Labels of any domain, at the sizes that the documents state: error, coverage, words found."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import wordfreq
from numpy.typing import NDArray

from shuffledp import SeededEntropy, plan_frequencies, plan_heavy_hitters, samples
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.heavy_hitters.result import HeavyHittersResult

MILLION = 10**6
FULL = os.environ.get("SHUFFLEDP_COVERAGE") == "full"
"""`make coverage` takes as many runs as the documents state, other calls a tenth of them."""
Numbers = NDArray[Any]


def shown(labels: Numbers, counts: Numbers, asked: Numbers, seed: int) -> tuple[Numbers, float]:
    """(errors, coverage) for some labels of a million users with these labels, at ε = 1."""
    entropy = SeededEntropy(seed)
    plan = plan_frequencies(MILLION, 1).renewed(entropy)
    assert isinstance(plan.protocol, FrequenciesProtocol) and plan.report_size <= 25
    batch = plan.aggregate(np.repeat(labels, counts), entropy)
    found = plan.protocol.analyze(plan.release(batch)).showing(asked.tolist())
    known = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    true = np.array([known.get(label, 0) for label in asked.tolist()])
    return found.values - true, float(((found.low <= true) & (true <= found.high)).mean())


SEEDS = range(1, 6 if FULL else 2)
"""Of runs with other labels, other hash functions and other noise."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_thousand_equal_labels_of_2_64(seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 2**63, 1_000)
    errors, inside = shown(labels, np.full(1_000, 1_000), labels, seed)
    assert np.sqrt(np.mean(errors**2)) <= 42 and inside >= 0.95
    assert np.sqrt(np.mean((2 * errors) ** 2)) > 42


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hundred_thousand_labels_by_zipfs_law(seed: int) -> None:
    weights = 1 / np.arange(1, 10**5 + 1)
    counts = np.random.default_rng(seed + 1).multinomial(MILLION, weights / weights.sum())
    labels, nobody = np.arange(10**5), np.arange(10**6, 10**6 + 3_000)
    asked = np.concatenate([labels[counts > 0][:20_000], nobody])
    true = np.concatenate([counts[counts > 0][:20_000], np.zeros(3_000, int)])
    errors, inside = shown(labels, counts, asked, seed + 1)
    for least, most, allowed in ((0, 0, 6), (10, 99, 10), (100, 999, 24)):
        some = (least <= true) & (true <= most)
        assert np.sqrt(np.mean(errors[some] ** 2)) <= allowed
    assert inside >= 0.95


def found_in(words: Numbers, epsilon: Any, seeds: range) -> Iterator[HeavyHittersResult]:
    plan = plan_heavy_hitters(len(words), epsilon)
    assert plan.report_size <= 25
    for seed in seeds:
        entropy = SeededEntropy(seed)
        one = plan.renewed(entropy)
        yield one.analyze(one.release(one.aggregate(words, entropy)))


def english(users: int) -> tuple[Numbers, dict[str, int]]:
    """Words of English in the proportions of the package wordfreq, and their counts."""
    words = wordfreq.top_n_list("en", 20_000)
    shares = np.array([wordfreq.word_frequency(word, "en") for word in words])
    counts = np.random.default_rng(3).multinomial(users, shares / shares.sum())
    return np.repeat(np.array(words, object), counts), dict(zip(words, counts, strict=True))


@pytest.mark.parametrize(
    ("users", "runs", "sure"), [(10**5, 100 if FULL else 10, 300), (10**6, 10 if FULL else 1, 400)]
)
def test_english_words_are_found_and_none_is_invented(users: int, runs: int, sure: int) -> None:
    words, counts = english(users)
    missed = inside = shown = frequent = 0
    for found in found_in(words, 1, range(runs)):
        names = set(map(str, found.labels))
        assert names <= set(counts) and len(names) == len(found.labels)
        assert not {word for word, count in counts.items() if count >= sure} - names
        often = {word for word, count in counts.items() if count >= 300}
        missed, frequent = missed + len(often - names), frequent + len(often)
        true = np.array([counts[str(word)] for word in found.labels])
        inside += int(((found.low <= true) & (true <= found.high)).sum())
        shown += len(true)
    assert missed <= 0.05 * frequent
    assert inside / shown > 0.94


def few_words(data: str) -> Numbers:
    """10,000 users with few different words, some of them alike."""
    if data == "sample:commute":
        with open(samples.commute(), encoding="utf-8") as file:
            return np.array([row["way"] for row in csv.DictReader(file)], object)
    shares = {
        "prefixes": {"zu": 6_000, "zum": 4_000},
        "scripts": {"日本語": 3_000, "čaj": 3_000, "a b": 2_000, "42": 2_000},
        "one word": {"yes": 10_000},
        "long words": {"https://example.org/a/long/path": 5_000, "no": 5_000},
    }[data]
    return np.repeat(np.array(list(shares), object), list(shares.values()))


@pytest.mark.parametrize("epsilon", ["0.5", 1, 2, 5, 8])
@pytest.mark.parametrize(
    "data", ["sample:commute", "prefixes", "scripts", "one word", "long words"]
)
def test_searches_of_few_words_find_exactly_these(data: str, epsilon: Any) -> None:
    words = few_words(data)
    true = sorted(Counter(words.tolist()))
    runs = 100 if FULL else 10 if data == "sample:commute" else 2
    exact = sum(sorted(found.labels) == true for found in found_in(words, epsilon, range(runs)))
    assert exact >= 0.99 * runs


@pytest.mark.parametrize("size", [3, 5, 7, 10, 30])
def test_words_as_frequent_as_the_plan_says_are_found(size: int) -> None:
    """Twelve words of each length, among others by Zipf's law: 95 % of them, up to chance."""
    users, rng = 50_000, np.random.default_rng(size)
    least = plan_heavy_hitters(users, 2).to_dict()["found_from"][str(size)]
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    planted = ["".join(row) for row in rng.choice(letters, (12, size))]
    left = users - 12 * least
    weights = 1 / np.arange(1, 10_001)
    others = rng.multinomial(left, weights / weights.sum())
    names = np.array([f"other{n}" for n in range(10_000)], object)
    words = np.concatenate([np.repeat(np.array(planted, object), least), np.repeat(names, others)])
    hits = [word in found.labels for found in found_in(words, 2, range(4)) for word in planted]
    assert np.mean(hits) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / len(hits))

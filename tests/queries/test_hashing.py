"""The public hash of labels, and exact draws of rows."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from shuffledp import SeededEntropy
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.queries.frequencies.hashing import (
    checked_candidates,
    checked_seed,
    distinct,
    label_hashes,
    new_hash_seed,
)

SEED = bytes(range(32))


def test_a_hash_is_sha_256_of_seed_kind_and_label() -> None:
    for label, kind, written in (("ä", 0, b"\xc3\xa4"), ("", 0, b""), (-1, 1, b"\xff" * 8)):
        digest = hashlib.sha256(b"shuffledp label " + SEED + bytes([kind]) + written).digest()
        (found,) = label_hashes([label], SEED)
        assert found.astype("<u8").tobytes() == digest


def test_numbers_and_their_digits_differ_and_numbers_are_taken_modulo_2_64() -> None:
    one, text = (label_hashes([label], SEED) for label in (7, "7"))
    assert (one != text).all()
    assert (label_hashes([2**64 - 1], SEED) == label_hashes([-1], SEED)).all()
    assert label_hashes([], SEED).shape == (0, 4)


@pytest.mark.parametrize("labels", [[1, "a"], [1.5], [True], [2**64], [None]])
def test_other_labels_are_refused(labels: list[object]) -> None:
    with pytest.raises(ValueOutOfRange, match="convert all values to one type"):
        label_hashes(labels, SEED)


def test_half_of_a_surrogate_pair_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueOutOfRange, match="surrogate") as refused:
        label_hashes(["secret\ud800"], SEED)
    assert "secret" not in str(refused.value)


def test_distinct_values_with_their_positions() -> None:
    for values in (np.array(["b", "a", "b"], object), np.array(["b", "a", "b"])):
        names, places = distinct(values)
        assert [names[place] for place in places] == ["b", "a", "b"] and len(names) == 2
    names, places = distinct(np.array([5, -3, 5]))
    assert [names[place] for place in places] == [5, -3, 5]
    with pytest.raises(ValueOutOfRange):
        distinct(np.array([[1]]))


def test_seeds() -> None:
    assert checked_seed(new_hash_seed()) and new_hash_seed() != new_hash_seed()
    for wrong in ("zz" * 32, "5A" * 32, "5a", 7):
        with pytest.raises(ParameterError, match="hexadecimal"):
            checked_seed(wrong)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [("abc", "a list"), ([1, "a"], "all be"), ([2**64], "from −2⁶³ to"), ([1, 1], "the same")],
)
def test_candidates_that_are_refused(labels: object, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        checked_candidates(labels)


def test_draws_below_different_bounds_are_uniform() -> None:
    bounds = np.repeat([1, 3, 7], 20_000)
    drawn = uniform_below(bounds, len(bounds), SeededEntropy(1))
    assert (drawn < bounds).all() and not drawn[:20_000].any()
    for bound in (3, 7):
        counts = np.bincount(drawn[bounds == bound], minlength=bound)
        far = ((counts - 20_000 / bound) ** 2).sum() / (20_000 / bound)
        assert far < 3 * bound + 20
        skewed = counts + np.arange(bound) * 200
        assert ((skewed - 20_000 / bound) ** 2).sum() / (20_000 / bound) > 3 * bound + 20

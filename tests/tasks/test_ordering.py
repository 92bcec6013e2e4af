"""The order of a batch does not depend on who sent what; on disk: `service/test_parts.py`."""

from __future__ import annotations

import os
from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from shuffledp.tasks.ordering import Rows, ordered
from shuffledp.tasks.wire import MESSAGE_BYTES


def messages(count: int) -> Rows:
    return np.frombuffer(os.urandom(count * MESSAGE_BYTES), np.uint8).reshape(-1, MESSAGE_BYTES)


@pytest.mark.attack("an order that reveals who sent what")
def test_canonical_order_forgets_the_order_of_arrival() -> None:
    rows = messages(500)
    mixed = rows[np.random.default_rng(1).permutation(500)]
    assert (ordered(rows) == ordered(mixed)).all()
    texts = [row.tobytes() for row in ordered(rows)]
    assert texts == sorted(texts)


@pytest.mark.attack("an order that reveals who sent what")
def test_uniform_order_depends_on_nothing_but_the_secret() -> None:
    """Over many secrets every order of 4 messages is equally likely, whatever the arrival."""
    rows = messages(4)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(6000):
        order = ordered(rows, os.urandom(32))
        counts[tuple(int(np.flatnonzero((rows == row).all(1))[0]) for row in order)] += 1
    assert set(counts) == set(permutations(range(4)))
    chi = sum((count - 250) ** 2 / 250 for count in counts.values())
    assert chi < 70  # 23 degrees of freedom: beyond 70 once in 10⁶


def test_uniform_order_is_the_same_after_a_retry() -> None:
    rows, secret = messages(100), os.urandom(32)
    mixed = rows[::-1]
    assert (ordered(rows, secret) == ordered(mixed, secret)).all()
    assert (ordered(rows, secret) != ordered(rows, os.urandom(32))).any()

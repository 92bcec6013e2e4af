"""The order of a batch does not depend on who sent what, in memory and on disk."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from shuffledp.tasks.ordering import Rows, order_file, ordered
from shuffledp.tasks.wire import MESSAGE_BYTES


def messages(count: int) -> Rows:
    return np.frombuffer(os.urandom(count * MESSAGE_BYTES), np.uint8).reshape(-1, MESSAGE_BYTES)


@pytest.mark.attack("an order that tells who sent what")
def test_canonical_order_forgets_the_order_of_arrival() -> None:
    rows = messages(500)
    mixed = rows[np.random.default_rng(1).permutation(500)]
    assert (ordered(rows) == ordered(mixed)).all()
    texts = [row.tobytes() for row in ordered(rows)]
    assert texts == sorted(texts)


@pytest.mark.attack("an order that tells who sent what")
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


@pytest.mark.parametrize("secret", [None, bytes(range(32))])
@pytest.mark.parametrize("skewed", [False, True])
def test_the_order_on_disk_is_the_one_in_memory(
    tmp_path: Path, secret: bytes | None, skewed: bool
) -> None:
    rows = messages(20_000).copy()
    if skewed:  # clients may choose their bytes: all into one bucket, copies included
        rows[:15_000, :6] = 7
        rows[:3000] = rows[0]
    raw, target = tmp_path / "raw", tmp_path / "target"
    raw.write_bytes(rows.tobytes())
    digest = order_file(raw, target, b"header", 200_000, secret)
    data = target.read_bytes()
    assert digest == hashlib.sha256(data).digest()
    assert data == b"header" + ordered(rows, secret).tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw", "target"]

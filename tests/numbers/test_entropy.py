"""The keystream: forgets its key, differs between threads and forks, has no visible pattern."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import numpy as np
import pytest
from chi2 import p_value

from shuffledp.numbers.arrangement import arrange, permutation, subset
from shuffledp.numbers.entropy import (
    BLOCK_BYTES,
    SYSTEM,
    Entropy,
    Keystream,
    SecretEntropy,
    SeededEntropy,
)


def test_the_key_is_replaced_with_every_block() -> None:
    stream = Keystream(bytes(48))
    secrets = set()
    for _ in range(3):
        stream.fill(np.empty(BLOCK_BYTES, np.uint8))
        secrets.add(stream._secret)
    assert len(secrets) == 3 and bytes(48) not in secrets


def test_handed_out_bytes_are_wiped_from_the_pool() -> None:
    stream = Keystream(os.urandom(48))
    got = np.empty(64, np.uint8)
    stream.fill(got)
    assert got.any() and not stream._pool[:64].any()


def test_large_and_small_requests_differ_from_each_other() -> None:
    entropy = Entropy()
    chunks = [
        entropy.words(size, np.uint8).tobytes() for size in (16, 16, 5000, 5000, 3 * BLOCK_BYTES)
    ]
    assert len({chunk[:16] for chunk in chunks}) == len(chunks)
    big = np.frombuffer(chunks[-1], np.uint8)
    assert not (big[:BLOCK_BYTES] == big[BLOCK_BYTES : 2 * BLOCK_BYTES]).all()


def test_threads_have_streams_of_their_own() -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(SYSTEM.words(32, np.uint8).tobytes()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8


def _send(pipe: Connection) -> None:
    pipe.send(SYSTEM.words(32, np.uint8).tobytes())


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    SYSTEM.bits(8)  # the parent's stream exists before the fork
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_send, args=(theirs,))
    child.start()
    from_child = ours.recv()
    child.join()
    assert from_child != SYSTEM.words(32, np.uint8).tobytes()


def test_bytes_are_uniform_and_a_bias_is_found() -> None:
    draws = SeededEntropy(1).words(400_000, np.uint8).astype(np.int64)
    assert p_value(draws, [1 / 256] * 256) > 1e-4
    biased = np.where(draws == 17, 18, draws)
    assert p_value(biased, [1 / 256] * 256) < 1e-12


def test_below_is_uniform() -> None:
    entropy = SeededEntropy(2)
    draws = np.array([entropy.below(5) for _ in range(20_000)])
    assert p_value(draws, [0.2] * 5) > 1e-4
    assert entropy.below(1) == 0


def test_permutations_of_four_are_equally_likely() -> None:
    entropy = SeededEntropy(3)
    orders = [tuple(permutation(4, entropy)) for _ in range(24_000)]
    numbers = {order: number for number, order in enumerate(sorted(set(orders)))}
    draws = np.array([numbers[order] for order in orders])
    assert len(numbers) == 24 and p_value(draws, [1 / 24] * 24) > 1e-4
    assert p_value(np.where(draws == 0, 1, draws), [1 / 24] * 24) < 1e-12


def test_arrangements_of_three_and_two_are_equally_likely() -> None:
    entropy = SeededEntropy(4)
    seen = [tuple(arrange(3, 2, entropy)) for _ in range(20_000)]
    assert all(sum(order) == 1 for order in seen)
    numbers = {order: number for number, order in enumerate(sorted(set(seen)))}
    draws = np.array([numbers[order] for order in seen])
    assert len(numbers) == 10 and p_value(draws, [0.1] * 10) > 1e-4


def test_subsets_are_distinct_and_equally_likely() -> None:
    entropy = SeededEntropy(5)
    draws = [tuple(sorted(subset(5, 3, entropy))) for _ in range(20_000)]
    numbers = {choice: number for number, choice in enumerate(sorted(set(draws)))}
    assert len(numbers) == 10 and all(len(set(choice)) == 3 for choice in numbers)
    assert p_value(np.array([numbers[c] for c in draws]), [0.1] * 10) > 1e-4


def test_arrange_keeps_the_counts_of_lopsided_bags() -> None:
    for plus, minus in ((0, 5), (5, 0), (1, 999), (0, 0)):
        signs = arrange(plus, minus)
        assert (signs == 1).sum() == plus and (signs == -1).sum() == minus


def test_a_secret_repeats_and_gives_its_bits_to_one_thread_of_one_process() -> None:
    first, second = (SecretEntropy(bytes(48)).words(10_000, np.uint64) for _ in range(2))
    assert (first == second).all() and not SecretEntropy(bytes(48)).seeded
    assert SecretEntropy(bytes(47) + b"1").bits(256) != SecretEntropy(bytes(48)).bits(256)
    with pytest.raises(ValueError):
        SecretEntropy(bytes(32))
    entropy = SecretEntropy(bytes(48))
    entropy.bits(8)
    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="Another thread"):
        pool.submit(entropy.bits, 8).result()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_send_from, args=(theirs, entropy))
    child.start()
    assert ours.recv() == "refused"
    child.join()
    assert entropy.bits(8) >= 0


def _send_from(pipe: Connection, entropy: SecretEntropy) -> None:
    try:
        pipe.send(entropy.bits(8))
    except RuntimeError:
        pipe.send("refused")


def test_seeds_repeat_and_are_marked() -> None:
    first, second = (SeededEntropy(9).words(100, np.uint64) for _ in range(2))
    assert (first == second).all() and SeededEntropy(9).seeded and not SYSTEM.seeded

"""GMPS21: its privacy computed for D = 2, where a view is four numbers; less noise is caught."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp.baselines import Setting
from shuffledp.baselines.protocols.gmps21 import GMPS21, parts, shares
from shuffledp.numbers.laws import NegativeBinomial

SIZE = 130


def masses(law: NegativeBinomial, size: int = SIZE) -> NDArray[np.float64]:
    return np.array([float(law.pmf(k)) for k in range(size)])


def ones_plane(protocol: GMPS21) -> NDArray[np.float64]:
    """P(how many +1, how many −1) from pairs and geometric noises: the triples are left out."""
    pairs = np.convolve(masses(protocol.pairs), masses(protocol.splits[0]))[:SIZE]
    noise = masses(protocol.noise)
    plane = np.zeros((SIZE, SIZE))
    for count in range(SIZE):
        rest = SIZE - count
        plane[count:, count:] += pairs[count] * np.outer(noise[:rest], noise[:rest])
    return plane


def view(protocol: GMPS21, value: int) -> NDArray[np.float64]:
    """The view, but for the −2, which only noise sends: axes (2, +1, −1 beyond two per triple)."""
    plane, triples = ones_plane(protocol), masses(protocol.splits[1], 60)
    moved = np.zeros((61, SIZE, SIZE))
    if value == 2:  # one more 2, which looks like a triple whose two −1 are missing
        moved[1:, :, : SIZE - 2] = triples[:, None, None] * plane[None, :, 2:]
        return moved
    shifted = np.zeros_like(plane)
    shifted[value:] = plane[: SIZE - value]
    moved[:60] = triples[:, None, None] * shifted
    return moved


def worst_delta(protocol: GMPS21, epsilon: float) -> float:
    grow = math.exp(epsilon)
    views = [view(protocol, value) for value in (0, 1, 2)]
    sticks = [
        np.maximum(left - grow * right, 0.0).sum()
        for left in views
        for right in views
        if left is not right
    ]
    return float(max(sticks))


def test_calibrated_noise_keeps_delta() -> None:
    protocol = GMPS21.calibrated(Setting.of(100, 6, "0.05"), 2, gamma=Fraction(1, 2))
    # views with fewer than no −1 beyond the triples are cut: they are part of δ, so add them
    cut = 1 - view(protocol, 2).sum()
    assert worst_delta(protocol, 6.0) + cut <= 0.05
    assert protocol.claim.basis == "computed"


def test_less_noise_is_caught() -> None:
    protocol = GMPS21.calibrated(Setting.of(100, 6, "0.05"), 2, gamma=Fraction(1, 2))
    thin = tuple(NegativeBinomial(law.shape / 20, law.decay) for law in protocol.splits)
    few = NegativeBinomial(protocol.pairs.shape / 20, protocol.pairs.decay)
    assert worst_delta(replace(protocol, pairs=few, splits=thin), 6.0) > 0.05


@pytest.mark.parametrize("units", [3, 7, 20])
def test_every_value_is_a_sum_of_zero_sum_noises(units: int) -> None:
    """Copies of {i, ⌊−i/2⌋, ⌈−i/2⌉} and the messages ±1 left over give back the message."""
    for value in range(1, units + 1):
        bag: dict[int, int] = {}
        for size, copies in parts(value).items():
            whole = (size,) if abs(size) == 1 else (size, -size // 2, -(size // 2))
            assert abs(size) == 1 or sum(whole) == 0
            for message in whole:
                bag[message] = bag.get(message, 0) + copies
        assert {message: count for message, count in bag.items() if count} == {value: 1}


def test_published_constants_hold_and_are_loose() -> None:
    setting = Setting.of(10_000, 1, "1e-6")
    ours, theirs = GMPS21.plan(setting), GMPS21.published(setting)
    assert theirs.claim.basis == "computed"
    assert theirs.messages_per_user() > 5 * ours.messages_per_user()
    assert ours.forecast().rmse == theirs.forecast().rmse


def test_bounds_on_shifts_cover_all_pairs() -> None:
    found = shares(20)
    keys = range(-20, 21)
    vectors = [np.array([parts(x).get(k, 0) if x else 0 for k in keys]) for x in range(21)]
    sizes = np.array([abs(k) if abs(k) > 1 else 0 for k in keys])
    worst = max(int(np.abs(a - b) @ sizes) for a in vectors for b in vectors)
    assert worst <= found.weighted

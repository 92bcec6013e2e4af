"""How uneven users are inside the bins of quantiles, as far as the counts of bins show it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.queries.quantiles.axis import Axis, roundest
from shuffledp.queries.quantiles.unevenness import finer_squares, lump_squares, lumps_of

RNG = np.random.default_rng(4)


def test_a_lump_is_what_a_bin_has_beyond_the_bins_around_it() -> None:
    counts = np.full(40, 200.0)
    counts[[7, 20, 21, 39]] += 5_000
    shares, others = lumps_of(counts, np.zeros(40))
    assert np.flatnonzero(shares).tolist() == [7, 20, 21, 39]
    assert shares[[7, 20, 21, 39]] == pytest.approx(5_000 / 5_200, rel=0.01)
    assert others == pytest.approx(np.full(40, 200.0), rel=0.1)


def test_slopes_and_chance_are_no_lumps() -> None:
    """The twin: ten times the chance variation is, if it cannot be noise."""
    slope, none = np.linspace(1_000, 3_000, 40), np.zeros(40)
    assert not lumps_of(slope, none).shares.any()
    drawn = [lumps_of(RNG.poisson(slope).astype(float), none).shares for _ in range(200)]
    assert np.mean(np.square(drawn)) < 1e-4
    spiked = slope.copy()
    spiked[20] += 10 * math.sqrt(2_000)
    assert lumps_of(spiked, none).shares[20] > 0.1
    assert not lumps_of(spiked, np.full(40, 300.0**2)).shares.any()


def test_few_users_are_as_uneven_as_independent_values() -> None:
    """The mean square of how far a quantile in a bin of k random values is from an even spread is
    1/(6k); noise in the counts is taken away."""
    users, noise = 100, 15.0
    counts = RNG.poisson(users, 400).astype(float)
    noisy = counts + RNG.normal(0, noise, 400)
    steps = np.full(399, 2 * noise**2)
    found = [finer_squares(noisy, noisy, steps, near, slice(near, near + 1)) for near in range(400)]
    assert np.mean(found) == pytest.approx(1 / (6 * users), rel=0.2)
    without = [finer_squares(noisy, noisy, 0 * steps, k, slice(k, k + 1)) for k in range(400)]
    assert np.mean(without) > 2 / (6 * users)  # the twin: noise taken for users
    values = np.sort(RNG.random((2_000, users)), axis=1)
    ranks = (np.arange(users) + 0.5) / users
    assert np.mean((values - ranks) ** 2) == pytest.approx(1 / (6 * users), rel=0.1)


def test_the_error_at_a_lump_is_that_of_its_two_possible_places() -> None:
    ahead = np.array([0.25, 3.0, -1.0])
    drawn = RNG.random(400_000)[:, None]
    anywhere = np.mean((ahead - drawn) ** 2, axis=0)
    assert lump_squares(ahead, np.full(3, np.nan)) == pytest.approx(anywhere, rel=0.01)
    expected = (2 * anywhere + (ahead - 0.5) ** 2) / 3
    assert lump_squares(ahead, np.full(3, 0.5)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("start", "width", "number"),
    [
        ("14.7", "0.75", "15"),
        ("99.9", "0.2", "100"),
        ("-0.3", "0.5", "0"),
        ("0", "0.25", "0"),
        ("7.3", "0.4", "7.5"),
        ("17.99", "0.02", "18"),
        ("19999", "40", "20000"),
        ("-26", "3", "-25"),
        ("0.00012", "0.00001", "0.00012"),
    ],
)
def test_the_roundest_number(start: str, width: str, number: str) -> None:
    assert roundest(Fraction(start), Fraction(width)) == Fraction(number)


def test_where_the_roundest_number_is_in_a_bin() -> None:
    minutes = Axis(low=Fraction(0), high=Fraction(120), bins=512)
    assert minutes.round_place(64) == 0.0  # 15 begins this bin
    assert minutes.round_place(21) == pytest.approx((5 - 21 * 120 / 512) * 512 / 120)
    assert minutes.round_place(511) == 1.0  # 120 belongs to the last bin
    whole = Axis(low=Fraction(0), high=Fraction(999), bins=25, points=True)
    assert whole.round_place(2) == pytest.approx(20.5 / 40)  # 100 is the 21st of 80 to 119
    days = Axis(low=Fraction(0), high=Fraction(999), bins=25, points=True, unit="day")
    ages = Axis(low=Fraction(0), high=Fraction(99), bins=10, points=True)
    assert ages.round_place(9) == pytest.approx(0.05)  # 90, because 100 is not possible
    assert all(0 <= ages.round_place(number) <= 1 for number in range(10))
    assert math.isnan(days.round_place(2))

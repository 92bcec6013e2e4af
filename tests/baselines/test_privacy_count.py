"""Every counter's privacy, computed from its randomizer for a few users; less noise fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from views import Law, added, hockey_stick, law_of_view, max_divergence, moved, split_distance

from shuffledp.baselines import Setting
from shuffledp.baselines.protocols.bbgn20 import SplitAndMixCount
from shuffledp.baselines.protocols.bc20 import BC20
from shuffledp.baselines.protocols.central import CentralCount
from shuffledp.baselines.protocols.csuzz19 import (
    computed,
    efmrtt19,
    exact_delta,
    fmt21,
    published,
)
from shuffledp.baselines.protocols.ggkmpv20 import GGKMPV20, Shape, loss
from shuffledp.baselines.protocols.gkmp20 import GKMP20
from shuffledp.baselines.protocols.local import RandomizedResponse
from shuffledp.baselines.protocols.thinning import Thinning
from shuffledp.numbers.laws import Law as ExactLaw
from shuffledp.numbers.laws import NegativeBinomial


def masses(law: ExactLaw, size: int) -> list[float]:
    return [float(law.pmf(k)) for k in range(size)]


def test_central_noise_is_pure_and_tight() -> None:
    noise = CentralCount.plan(Setting.of(10, 1)).noise
    ratios = [abs(math.log(float(noise.pmf(k)) / float(noise.pmf(k - 1)))) for k in range(-9, 10)]
    assert max(ratios) == pytest.approx(1.0)
    assert max(ratios) > 0.999  # twin: for ε = 0.999 it would be a violation


def test_randomized_response_is_pure_locally() -> None:
    response = RandomizedResponse.plan(Setting.of(10, 1))
    spent = math.log((1 - response.flip) / response.flip)
    assert 0.999999 < spent <= 1
    less = response.flip * Fraction(99, 100)
    assert math.log((1 - less) / less) > 1


def ggkmpv20_views(protocol: GGKMPV20, ones: int) -> tuple[Law, Law]:
    p, w = float(protocol.noisy), protocol.width
    noise = masses(protocol.noise, 2 * w + 2)
    user: list[Law] = [
        {(z,): p * noise[z] + (1 - p) * (z == w + x) for z in range(2 * w + 2)} for x in (0, 1)
    ]
    others = [user[1]] * ones + [user[0]] * (protocol.users - 1 - ones)
    return added([*others, user[0]]), added([*others, user[1]])


@pytest.mark.parametrize("epsilon", ["1", "2"])
def test_ggkmpv20_is_pure_for_all_data(epsilon: str) -> None:
    protocol = GGKMPV20.plan(Setting.of(8, epsilon))
    losses = [max_divergence(*ggkmpv20_views(protocol, ones)) for ones in range(8)]
    assert max(losses) <= float(epsilon)
    assert protocol.claim.basis == "computed"


def test_ggkmpv20_with_less_noise_is_caught() -> None:
    protocol = GGKMPV20.plan(Setting.of(8, 1))
    less = replace(protocol, noisy=protocol.noisy * Fraction(4, 5))
    assert max(max_divergence(*ggkmpv20_views(less, ones)) for ones in range(8)) > 1
    assert less.claim.basis == "violated"


@pytest.mark.parametrize("ones", [0, 3, 8])
def test_ggkmpv20_tilts_agree_with_brute_force(ones: int) -> None:
    protocol = GGKMPV20(
        users=9, epsilon=Fraction(1), noisy=Fraction(1, 5), slope=Fraction(4, 5), width=3
    )
    brute = max_divergence(*ggkmpv20_views(protocol, ones))
    found = loss(Shape(users=9, noisy=0.2, slope=0.8, width=3), ones)
    assert found.covered
    assert found.value == pytest.approx(brute, rel=1e-7)


def test_ggkmpv20_worst_data_is_at_an_end_for_a_hundred_users() -> None:
    protocol = GGKMPV20.plan(Setting.of(100, 1))
    shape = Shape(
        users=100, noisy=float(protocol.noisy), slope=float(protocol.slope), width=protocol.width
    )
    losses = [loss(shape, ones).value for ones in range(0, 100, 3)]
    assert max(losses) <= losses[0] * (1 + 1e-9) <= 1


def gkmp20_views(protocol: GKMP20, size: int) -> tuple[Law, Law]:
    """All the noise of all users, and one user's +1."""
    noise, both = masses(protocol.noise, size), masses(protocol.pairs, size)
    plane = np.zeros((size, size))
    for pairs in range(size):
        rest = size - pairs
        plane[pairs:, pairs:] += both[pairs] * np.outer(noise[:rest], noise[:rest])
    one_more = np.zeros_like(plane)
    one_more[1:] = plane[:-1]
    return as_law(plane), as_law(one_more)


def as_law(plane: NDArray[np.float64]) -> Law:
    """A table of probabilities as a law of pairs."""
    return {(int(i), int(j)): float(p) for (i, j), p in np.ndenumerate(plane)}


def test_gkmp20_delta_is_below_its_bound() -> None:
    protocol = GKMP20.plan(Setting.of(50, 2, "0.02"))
    assert hockey_stick(*gkmp20_views(protocol, 220), 2.0) <= 0.02
    pairs = NegativeBinomial(protocol.pairs.shape / 4, protocol.pairs.decay)
    thin = replace(protocol, pairs=pairs)
    assert hockey_stick(*gkmp20_views(thin, 220), 2.0) > 0.02


def test_gkmp20_published_constants_hold_but_are_loose() -> None:
    setting = Setting.of(1000, 1, "1e-6")
    ours, theirs = GKMP20.plan(setting), GKMP20.published(setting)
    assert theirs.claim.basis == "computed"
    assert float(theirs.pairs.mean()) > 5 * float(ours.pairs.mean())


def bc20_views(users: int, chance: float) -> tuple[Law, Law]:
    noise = added([{(0,): 1 - chance, (1,): chance}] * users)
    return noise, moved(noise, (1,))


def test_bc20_is_calibrated_to_the_digit() -> None:
    protocol = BC20.plan(Setting.of(60, 1, "0.01"))
    assert hockey_stick(*bc20_views(60, float(protocol.chance)), 1.0) <= 0.01
    assert hockey_stick(*bc20_views(60, float(protocol.chance) * 0.97), 1.0) > 0.01


def test_bc20_mirrored_is_exactly_as_private() -> None:
    near_zero, near_one = bc20_views(40, 0.1), bc20_views(40, 0.9)
    assert hockey_stick(*near_zero, 1.0) == pytest.approx(hockey_stick(*near_one, 1.0))


def rr_delta(users: int, flip: Fraction, ones: int, epsilon: float) -> float:
    views = [law_of_view(users, flip, ones, value) for value in (0, 1)]
    zero, one = (dict(enumerate(float(p) for p in view)) for view in views)
    return hockey_stick(zero, one, epsilon)


def test_shuffled_response_is_private_for_all_data() -> None:
    protocol = computed(Setting.of(30, 1, "0.01"))
    deltas = [rr_delta(30, protocol.flip, ones, 1.0) for ones in range(30)]
    assert 0.0095 < max(deltas) <= 0.01
    less = protocol.flip * Fraction(97, 100)
    assert max(rr_delta(30, less, ones, 1.0) for ones in range(30)) > 0.01


@pytest.mark.parametrize("ones", [0, 7, 15, 29])
def test_fast_hockey_stick_agrees_with_brute_force(ones: int) -> None:
    flip = Fraction(1, 9)
    assert exact_delta(30, 1 / 9, 0.8, ones) == pytest.approx(rr_delta(30, flip, ones, 0.8), 1e-9)


@pytest.mark.parametrize("make", [published, efmrtt19, fmt21])
def test_amplification_bounds_hold(make: Callable[[Setting], RandomizedResponse]) -> None:
    protocol = make(Setting.of(20_000, "0.5", "1e-6"))
    assert protocol.claim.basis == "theorem"
    assert exact_delta(20_000, float(protocol.flip), 0.5, 0) < 1e-6
    assert protocol.flip > computed(Setting.of(20_000, "0.5", "1e-6")).flip


def thinning_views(protocol: Thinning, ones: int) -> tuple[Law, Law]:
    """Cut far out, where both laws have been geometric for long."""
    b = float(protocol.keep)
    noise: Law = {(k,): p for k, p in enumerate(masses(protocol.noise, 60))}
    silent: Law = {(0,): 1.0}
    holder: Law = {(0,): 1 - b, (1,): b}
    without, with_one = (added([noise, *[holder] * ones, user]) for user in (silent, holder))
    return below(60, without), below(60, with_one)


def below(limit: int, law: Law) -> Law:
    """The law without the views of at least `limit`."""
    return {view: p for view, p in law.items() if view[0] < limit}


@pytest.mark.parametrize("ones", [0, 1, 5])
def test_thinning_is_pure(ones: int) -> None:
    protocol = Thinning.plan(Setting.of(6, 1))
    assert max_divergence(*thinning_views(protocol, ones)) <= 1 + 1e-9
    assert protocol.claim.kind == "pure"


def test_thinning_that_keeps_more_is_caught() -> None:
    protocol = Thinning.plan(Setting.of(6, 1))
    greedy = replace(protocol, keep=protocol.keep * Fraction(101, 100))
    assert max_divergence(*thinning_views(greedy, 0)) > 1
    with pytest.raises(Exception, match="keeps too much"):
        _ = greedy.claim


def share_bits(users: int, shares: int, lost: int) -> float:
    """σ of the rule that counts so many shares as lost, for q = 2."""
    return ((shares - lost) * (math.log2(users) - math.log2(math.e)) - 1) / 2


@pytest.mark.parametrize("shares", [3, 4, 5, 6])
@pytest.mark.parametrize("users", [20, 100, 400])
def test_split_and_mix_keeps_the_worst_case_rule(users: int, shares: int) -> None:
    distance = split_distance(users, shares, 0, users)
    assert -math.log2(distance) > share_bits(users, shares, lost=2)


def test_the_average_case_rule_is_exceeded_and_never_called_private() -> None:
    assert -math.log2(split_distance(100, 3, 0, 100)) > share_bits(100, 3, lost=1)
    for users in (200, 400, 800):
        assert -math.log2(split_distance(users, 3, 0, users)) < share_bits(users, 3, lost=1)
    protocol = SplitAndMixCount.average_case(Setting.of(10_000, 1, "1e-6"))
    assert protocol.claim.basis == "not verified"
    assert not protocol.claim.holds


def test_split_and_mix_with_a_share_too_few_is_caught() -> None:
    protocol = SplitAndMixCount.plan(Setting.of(10_000, 1, "1e-6"))
    assert protocol.claim.basis == "theorem"
    assert replace(protocol, shares=protocol.shares - 1).claim.basis == "violated"

"""Histograms and sums: privacy computed from the randomizers for a few users."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from views import Law, View, added, hockey_stick, max_divergence, moved, squared

from shuffledp.baselines import Setting
from shuffledp.baselines.divergence import conditional_swap, least, pair_delta, swap_delta
from shuffledp.baselines.protocols.bbgn19 import Digit, blanket_delta, least_blanket
from shuffledp.baselines.protocols.bc20 import BC20
from shuffledp.baselines.protocols.bc20 import histogram as bc20_histogram
from shuffledp.baselines.protocols.ggkpv21 import HadamardTuples
from shuffledp.baselines.protocols.gkmp20 import GKMP20
from shuffledp.baselines.protocols.gkmp20 import histogram as gkmp20_histogram
from shuffledp.baselines.protocols.local import BucketResponse, HadamardResponse
from shuffledp.baselines.protocols.lwy22 import FrequencyOracle
from shuffledp.errors import PlanningError
from shuffledp.numbers.laws import Binomial, Poisson


def two_bins(users: int, chance: float) -> tuple[Law, Law]:
    """Two buckets of BC20: the user in the first, or in the second."""
    coin: Law = {(0,): 1 - chance, (1,): chance}
    pairs = squared(added([coin] * users))
    return moved(pairs, (1, 0)), moved(pairs, (0, 1))


def test_bc20_histogram_is_calibrated_for_the_pair() -> None:
    protocol = bc20_histogram(Setting.of(40, 1, "0.02", 5))
    assert isinstance(protocol.counter, BC20)
    chance = float(protocol.counter.chance)
    assert hockey_stick(*two_bins(40, chance), 1.0) <= 0.02
    assert hockey_stick(*two_bins(40, 0.95 * chance), 1.0) > 0.02


def test_pair_delta_agrees_with_brute_force() -> None:
    found = float(pair_delta(Binomial(25, Fraction(1, 5)), Fraction(1, 2)))
    assert found == pytest.approx(hockey_stick(*two_bins(25, 0.2), 0.5), rel=1e-9)


def test_least_finds_thresholds_near_the_end_of_the_range() -> None:
    """Doubling from the start would jump over them."""
    found = least(lambda x: Fraction(45, 100) <= x <= Fraction(1, 2), 0.3, most=0.5)
    assert float(found) == pytest.approx(0.45, rel=1e-3)
    with pytest.raises(PlanningError):
        least(lambda x: x > 1, 0.3, most=0.5)


def test_gkmp20_histogram_spends_each_direction_once() -> None:
    protocol = gkmp20_histogram(Setting.of(1000, 1, "1e-6", 7))
    assert isinstance(protocol.counter, GKMP20)
    assert 2 * protocol.counter.inner_epsilon + Fraction(1, 10) == 1
    assert protocol.claim.kind == "approximate"


def test_conditional_swap_agrees_with_a_sum() -> None:
    for noise, epsilon in itertools.product((0, 1, 2, 7, 40), (Fraction(1, 10), Fraction(2))):
        grow = math.exp(epsilon)
        terms = [
            (math.comb(noise, a - 1) if a else 0) - grow * math.comb(noise, a)
            for a in range(noise + 2)
        ]
        direct = sum(max(term, 0.0) for term in terms) / 2**noise
        assert float(conditional_swap(noise, epsilon)) == pytest.approx(direct, abs=1e-14)


def blanket_views(users: int, digit: Digit, others: tuple[int, ...]) -> list[Law]:
    """The tally of symbols, for each value of one user."""
    k, g = digit.values, float(digit.blanket)
    unit: list[View] = [tuple(int(s == t) for t in range(k)) for s in range(k)]
    user: list[Law] = [{unit[s]: g / k + (1 - g) * (s == x) for s in range(k)} for x in range(k)]
    rest = added([user[x] for x in others])
    return [added([rest, user[x]]) for x in range(k)]


def worst_blanket(users: int, digit: Digit, epsilon: float) -> float:
    """Over all data of few users; of many, where all others hold the last value."""
    last = digit.values - 1
    data = itertools.combinations_with_replacement(range(digit.values), users - 1)
    found = 0.0
    for others in data if users < 9 else [(last,) * (users - 1)]:
        views = blanket_views(users, digit, others)
        pairs = itertools.combinations(views, 2)
        found = max(found, *(hockey_stick(a, b, epsilon) for a, b in pairs))
    return found


def test_blanket_bound_covers_all_data() -> None:
    digit = Digit(3, Fraction(2, 5))
    assert worst_blanket(7, digit, 1.0) <= float(blanket_delta(7, digit, Fraction(1)))


def test_blanket_with_less_cover_is_caught() -> None:
    digit = least_blanket(60, 3, Fraction(2), Fraction(1, 50))
    assert digit.blanket < Fraction(1, 4)
    assert worst_blanket(60, digit, 2.0) <= 0.02
    assert worst_blanket(60, Digit(3, digit.blanket * Fraction(2, 3)), 2.0) > 0.02


def multinomial(total: int, counts: tuple[int, ...], chances: tuple[float, ...]) -> float:
    """The chance of these counts; the last chance is that of all the rest."""
    rest = total - sum(counts)
    if rest < 0:
        return 0.0
    logs = math.lgamma(total + 1) - math.lgamma(rest + 1) + rest * math.log(chances[-1])
    for count, chance in zip(counts, chances, strict=False):
        logs += count * math.log(chance) - math.lgamma(count + 1)
    return math.exp(logs)


def hadamard_views(protocol: HadamardTuples, most: int = 26) -> tuple[Law, Law]:
    """How many tuples fit the first bucket only, the second only, both: all that tells them
    apart, because tuples of one sort are equally likely for both. The other users are told."""
    chance = 2.0**-protocol.length
    sorts = (chance - chance**2, chance - chance**2, chance**2, 1 - 2 * chance + chance**2)
    total = protocol.users * protocol.noise
    grid = itertools.product(range(most), range(most), range(5))
    noise: Law = {counts: multinomial(total, counts, sorts) for counts in grid}
    first: Law = {(1, 0, 0): 1 - chance, (0, 0, 1): chance}
    second: Law = {(0, 1, 0): 1 - chance, (0, 0, 1): chance}
    return added([noise, first]), added([noise, second])


def test_ggkpv21_keeps_delta() -> None:
    protocol = HadamardTuples.plan(Setting.of(16, 1, "0.05", 4))
    assert protocol.length == 4
    assert hockey_stick(*hadamard_views(protocol), 1.0) <= 0.05
    less = replace(protocol, noise=protocol.noise - 2)
    assert hockey_stick(*hadamard_views(less), 1.0) > 0.05


def test_ggkpv21_needs_more_noise_where_users_are_no_power_of_two() -> None:
    """The noise that hides a bucket is nρ 2^−τ, not ρ: between ρ/2 and ρ."""
    even = HadamardTuples.plan(Setting.of(2**13, 1, "1e-6", 4)).noise
    odd = HadamardTuples.plan(Setting.of(2**13 + 1, 1, "1e-6", 4)).noise
    assert even == 43
    assert odd == 86


def poisson_views(mean: float) -> tuple[Law, Law]:
    noise: Law = {
        (k,): math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(120)
    }
    pairs = squared(noise)
    return moved(pairs, (1, 0)), moved(pairs, (0, 1))


def test_lwy22_is_calibrated_to_the_digit() -> None:
    protocol = FrequencyOracle.plan(Setting.of(100, 1, "0.001", 3))
    assert not protocol.hashed
    mean = float(protocol.users * protocol.noise / protocol.cells)
    assert hockey_stick(*poisson_views(mean), 1.0) <= 0.001
    assert hockey_stick(*poisson_views(0.97 * mean), 1.0) > 0.001
    found = float(swap_delta(Poisson(Fraction(2 * mean)), Fraction(1)))
    assert found == pytest.approx(hockey_stick(*poisson_views(mean), 1.0), rel=1e-6)


def test_lwy22_collisions_are_counted_exactly() -> None:
    protocol = FrequencyOracle.plan(Setting.of(60, 1, "0.01", 40))
    q, b = protocol.hash.prime, protocol.cells
    assert protocol.hashed
    keys = [(u, v) for u in range(1, q) for v in range(q)]
    same = sum((u * 3 + v) % q % b == (u * 17 + v) % q % b for u, v in keys)
    assert Fraction(same, len(keys)) == protocol.collision


def worst_message(laws: list[dict[int, float]]) -> float:
    """The largest |ln ratio| between the messages of users with different buckets."""
    return max(max_divergence(a, b) for a, b in itertools.combinations(laws, 2))


def test_bucket_response_is_pure_message_by_message() -> None:
    protocol = BucketResponse.plan(Setting.of(10, 1, None, 5))
    chances = {True: float(protocol.truth), False: float(protocol.lie)}
    laws = [{y: chances[x == y] for y in range(5)} for x in range(5)]
    assert 0.999999 < worst_message(laws) <= 1 + 1e-12


def test_hadamard_response_is_pure_message_by_message() -> None:
    protocol = HadamardResponse.plan(Setting.of(10, 1, None, 5))
    size, truth = 1 << protocol.bits_per_message, float(protocol.truth)
    chances = {0: truth * 2 / size, 1: (1 - truth) * 2 / size}  # by the parity of row and column
    laws = [{c: chances[((x + 1) & c).bit_count() % 2] for c in range(size)} for x in range(5)]
    assert all(sum(law.values()) == pytest.approx(1) for law in laws)
    assert 0.999999 < worst_message(laws) <= 1 + 1e-12

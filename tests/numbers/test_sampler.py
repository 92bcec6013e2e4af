"""The sampler: the right law, and not its neighbour; ties and tails; thresholds derived again."""

import math
from fractions import Fraction

import numpy as np
import pytest
from chi2 import p_value
from flint import arb

from shuffledp.errors import Undecided
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.laws import (
    Bernoulli,
    Binomial,
    DiscreteLaplace,
    Geometric,
    Law,
    NegativeBinomial,
    Poisson,
)
from shuffledp.numbers.sampler import Sampler, sampler, thresholds
from shuffledp.numbers.uniform import Uniform, invert

F = Fraction

# each law with a neighbour that the test must tell apart
PAIRS: list[tuple[Law, Law]] = [
    (Bernoulli(F(1, 3)), Bernoulli(F(34, 100))),
    (Bernoulli(F(1, 1000)), Bernoulli(F(12, 10_000))),
    (Bernoulli(F(1, 2)), Bernoulli(F(507, 1000))),
    (Binomial(10, F(1, 4)), Binomial(10, F(253, 1000))),
    (Binomial(1000, F(1, 10)), Binomial(1000, F(1005, 10_000))),
    (Poisson(F(1, 500)), Poisson(F(1, 400))),
    (Poisson(F(1, 50)), Poisson(F(21, 1000))),
    (Poisson(F(1)), Poisson(F(101, 100))),
    (Poisson(F(80)), Poisson(F(802, 10))),
    (Poisson(F(5000)), Poisson(F(5003))),
    (Geometric(F(1)), Geometric(F(102, 100))),
    (Geometric(F(1, 50)), Geometric(F(51, 2500))),
    (NegativeBinomial(F(1, 1000), F(1)), NegativeBinomial(F(12, 10_000), F(1))),
    (NegativeBinomial(F(1, 10), F(1, 2)), NegativeBinomial(F(104, 1000), F(1, 2))),
    (NegativeBinomial(F(7, 2), F(1, 3)), NegativeBinomial(F(7, 2), F(338, 1000))),
    (DiscreteLaplace(F(1)), DiscreteLaplace(F(102, 100))),
    (DiscreteLaplace(F(1, 10)), DiscreteLaplace(F(102, 1000))),
]


def expected(law: Law) -> tuple[list[float], int]:
    mean, spread = float(law.mean()), float(law.variance()) ** 0.5
    first = law.first if law.first is not None else int(mean - 20 * spread)
    first = max(first, int(mean - 12 * spread)) if law.first is not None else first
    last = int(mean + 30 * spread) + 30
    last = last if law.last is None else min(last, law.last)
    return [float(law.pmf(k)) for k in range(first, last + 1)], first


@pytest.mark.parametrize(("law", "neighbour"), PAIRS, ids=lambda law: str(law))
def test_draws_follow_the_law_and_not_its_neighbour(law: Law, neighbour: Law) -> None:
    draws = Sampler(law).draw(2_000_000, SeededEntropy(str(law)))
    assert p_value(draws, *expected(law)) > 1e-4
    assert p_value(draws, *expected(neighbour)) < 1e-4


@pytest.mark.parametrize(
    "law",
    [
        Poisson(F(1)),
        Bernoulli(F(1, 3)),
        Geometric(F(1, 3)),
        DiscreteLaplace(F(1, 2)),
        NegativeBinomial(F(1, 9), F(1)),
        Poisson(F(1, 300)),
    ],
    ids=str,
)
@pytest.mark.parametrize("bits", [(4, 6), (4, 8), (6, 7), (8, 16)])
def test_small_words_force_ties_and_the_law_stays(law: Law, bits: tuple[int, int]) -> None:
    small = Sampler(law, *bits)
    draws = small.draw(30_000, SeededEntropy(f"{law} {bits}"))
    assert p_value(draws, *expected(law)) > 1e-4


def test_a_sampler_that_ignores_ties_is_found_out() -> None:
    """The twin: thresholds cut to 6 bits without looking further give another law."""
    law = Poisson(F(1))
    cut = [low for low, _ in thresholds(law, 0, 20, 6)]
    words = SeededEntropy("cut").words(30_000, np.uint8) >> 2
    draws = np.searchsorted(np.array(cut), words, side="right")
    assert p_value(draws, *expected(law)) < 1e-6


@pytest.mark.parametrize(
    "law",
    [
        Poisson(F(40)),
        Binomial(300, F(1, 3)),
        DiscreteLaplace(F(1, 5)),
        NegativeBinomial(F(5, 2), F(1, 9)),
        Geometric(F(1, 40)),
    ],
    ids=str,
)
def test_inversion_without_a_table_is_the_same_law(law: Law) -> None:
    entropy = SeededEntropy(f"invert {law}")
    draws = np.array([invert(law, Uniform(entropy.bits(64), 64, entropy)) for _ in range(2000)])
    assert p_value(draws, *expected(law)) > 1e-4


@pytest.mark.parametrize(
    "law",
    [
        Poisson(F(10**12)),
        Binomial(10**12, F(1, 3)),
        NegativeBinomial(F(3, 2), F(1, 10**7)),
        Geometric(F(1, 10**8)),
    ],
    ids=str,
)
def test_huge_laws_are_drawn_without_a_table(law: Law) -> None:
    entropy = SeededEntropy(f"huge {law}")
    draws = np.array([Sampler(law).draw_one(entropy) for _ in range(200)], float)
    z = (draws.mean() - float(law.mean())) / (float(law.variance()) / 200) ** 0.5
    assert abs(z) < 4


def exp_minus(x: Fraction, terms: int = 200) -> Fraction:
    """e^−x to about 300 bits, as a fraction."""
    total, term = F(0), F(1)
    for k in range(terms):
        total += term
        term = F((term * x / (k + 1)).limit_denominator(10**120))
    return 1 / total


def test_thresholds_are_derived_again_with_fractions() -> None:
    """⌊2⁶⁴ F(k)⌋ from the series of e^x and exact products; nothing of `arb` is used."""
    rate = F(7, 3)
    mass, total = exp_minus(rate), F(0)
    for k, (low, high) in enumerate(thresholds(Poisson(rate), 0, 40, 64)):
        total += mass
        mass = mass * rate / (k + 1)
        assert low == high == min(math.floor(total * 2**64), 2**64 - 1)

    decay = F(3, 4)
    for k, (low, high) in enumerate(thresholds(Geometric(decay), 0, 50, 64)):
        exact = 1 - exp_minus(decay * (k + 1), 400)
        assert low == high == min(math.floor(exact * 2**64), 2**64 - 1)

    trials, chance, total = 9, F(2, 7), F(0)
    for k, (low, high) in enumerate(thresholds(Binomial(trials, chance), 0, 20, 64)):
        total += math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        assert low <= math.floor(total * 2**64) <= high or total == 1


def test_values_beyond_the_table_still_come_out_right() -> None:
    """A uniform so close to 1 that no table holds it."""

    class Ones(SeededEntropy):
        def bits(self, count: int) -> int:
            return (1 << count) - 1 - (1 << (count // 2))

    law = Poisson(F(1))
    value = invert(law, Uniform((1 << 64) - 1, 64, Ones(0)))
    assert float(1 - law.cdf(value - 1)) >= 2**-98 and value >= 20
    table = Sampler(law)
    table.draw(1)
    assert table._table is not None and value >= len(table._table.lower) - 1


def test_earlier_draws_do_not_change_how_bits_are_used() -> None:
    """A table that an earlier, larger draw has built must not change the draws of the same bits."""
    law = Poisson(F(10**6))
    fresh, used = Sampler(law), Sampler(law)
    used.draw(10_000)
    assert used._table is not None
    for size in (1, 5, 20, 1000):
        first, second = SeededEntropy(size), SeededEntropy(size)
        assert (fresh.draw(size, first) == used.draw(size, second)).all()
        assert first.bits(64) == second.bits(64)
        assert (fresh._table is None) == (size < 1000)


def test_a_table_is_built_once_and_only_when_it_pays() -> None:
    assert sampler(Poisson(F(3))) is sampler(Poisson(F(3)))
    wide = Sampler(Poisson(F(10**9)))
    wide.draw(1)
    assert wide._table is None
    with pytest.raises(Undecided):
        Uniform(0, 64, SeededEntropy(1)).below(lambda: arb("0 +/- 1"))
    narrow = Sampler(Poisson(F(3)))
    assert narrow._table is None
    narrow.draw(1)
    assert narrow._table is not None


def test_draws_are_added_to_every_target() -> None:
    first, second = np.zeros(1000, np.int64), np.full(1000, 5, np.int64)
    Sampler(Poisson(F(2))).add_draws(SeededEntropy(1), first, second)
    assert (first + 5 == second).all() and first.any()


def test_degenerate_laws() -> None:
    assert not Sampler(Poisson(F(0))).draw(100).any()
    assert (Sampler(Binomial(4, F(1))).draw(100) == 4).all()
    assert not Sampler(Binomial(0, F(1, 2))).draw(10).any()

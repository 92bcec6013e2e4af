"""Finite laws with rational masses, and many draws at once: the laws, derived with fractions."""

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from chi2 import p_value

from shuffledp.errors import ParameterError
from shuffledp.numbers import sampler as sampler_module
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.finite import CutNegativeBinomial, Finite
from shuffledp.numbers.laws import Bernoulli, Law
from shuffledp.numbers.sampler import Sampler, events, successes, tallies, thresholds, total_of

F = Fraction
NOISE = CutNegativeBinomial(F(1, 3), F(3, 5), 4)
OTHER = CutNegativeBinomial(F(1, 3), F(3, 5), 5)
TABLE = Finite((5, 1, 2, 9, 4))
SWAPPED = Finite((5, 2, 1, 9, 4))


def fractions_of(law: Law) -> list[Fraction]:
    """The masses from the definition."""
    if isinstance(law, Finite):
        return [F(weight, sum(law.weights)) for weight in law.weights]
    assert isinstance(law, CutNegativeBinomial)
    weights = [
        law.beta**j * math.prod((law.shape + i for i in range(j)), start=F(1)) / math.factorial(j)
        for j in range(law.cut + 1)
    ]
    return [weight / sum(weights) for weight in weights]


def expected(law: Law) -> list[float]:
    return [float(mass) for mass in fractions_of(law)]


@pytest.mark.parametrize(
    ("beta", "mean"), [(1 - F(1, 10**20), 5.0), (F(1, 10**400), 0.0)], ids=["to 1", "to 0"]
)
def test_a_decay_closer_to_an_end_than_any_float_is_drawn(beta: Fraction, mean: float) -> None:
    """With a shape of 1 and β next to 1, all values are about equally likely."""
    draws = Sampler(CutNegativeBinomial(F(1), beta, 10)).draw(10_000, SeededEntropy("ends"))
    assert draws.mean() == pytest.approx(mean, abs=0.2)


@pytest.mark.parametrize("law", [NOISE, OTHER, TABLE, CutNegativeBinomial(F(1), F(1, 7), 0)])
def test_masses_moments_and_thresholds(law: CutNegativeBinomial | Finite) -> None:
    masses = fractions_of(law)
    mean = sum(k * p for k, p in enumerate(masses))
    variance = sum(k * k * p for k, p in enumerate(masses)) - mean**2
    if isinstance(law, CutNegativeBinomial):
        assert law.masses() == masses
        assert law.exact_moments() == (mean, variance)
    assert float(law.mean()) == pytest.approx(float(mean), rel=1e-12)
    assert float(law.variance()) == pytest.approx(float(variance), rel=1e-12)
    for k, total in enumerate(accumulate(masses)):
        assert abs(float(law.pmf(k)) - masses[k]) < 1e-15
        assert abs(float(law.cdf(k)) - total) < 1e-15
    for (low, high), total in zip(thresholds(law, 0, 99, 64), accumulate(masses), strict=True):
        assert low <= min(math.floor(total * 2**64), 2**64 - 1) <= high <= low + 1
    assert float(law.pmf(-1)) == float(law.pmf(len(masses))) == float(law.cdf(-1)) == 0
    assert float(law.cdf(len(masses))) == 1


@pytest.mark.parametrize(("law", "neighbour"), [(NOISE, OTHER), (TABLE, SWAPPED)], ids=str)
@pytest.mark.parametrize("bits", [(16, 64), (4, 6), (6, 7)])
def test_draws_follow_the_law_also_where_words_tie(
    law: Law, neighbour: Law, bits: tuple[int, int]
) -> None:
    draws = Sampler(law, *bits).draw(400_000 if bits[0] == 16 else 30_000, SeededEntropy(str(bits)))
    assert p_value(draws, expected(law)) > 1e-4
    assert p_value(draws, expected(neighbour)) < 1e-4


@pytest.mark.parametrize("few", [0, 1 << 14], ids=["counted", "one by one"])
@pytest.mark.parametrize(("law", "neighbour"), [(NOISE, OTHER), (TABLE, SWAPPED)], ids=str)
def test_tallies_are_multinomial(
    law: Law, neighbour: Law, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each count alone is binomial, and the covariance of two is −n·p·q."""
    monkeypatch.setattr(sampler_module, "FEW_DRAWS", few)
    entropy, size = SeededEntropy(f"tallies {few} {law}"), 400
    found = np.array([tallies(law, size, entropy) for _ in range(600)])
    assert (found.sum(axis=1) == size).all()
    chances = np.array(expected(law))
    binomials = [
        [math.comb(size, k) * p**k * (1 - p) ** (size - k) for k in range(size + 1)]
        for p in chances
    ]
    for value, law_of_count in enumerate(binomials):
        assert p_value(found[:, value], law_of_count) > 1e-4
    draws = np.repeat(np.arange(len(chances)), found.sum(axis=0))
    assert p_value(draws, expected(law)) > 1e-4
    assert p_value(draws, expected(neighbour)) < 1e-4
    covariance = np.cov(found.T) / size
    assert np.abs(covariance - (np.diag(chances) - np.outer(chances, chances))).max() < 0.04


def test_events_are_the_draws_that_are_not_0() -> None:
    entropy = SeededEntropy("events")
    places, values = events(NOISE, 500_000, entropy)
    assert len(np.unique(places)) == len(places) and (values > 0).all()
    draws = np.zeros(500_000, np.int64)
    draws[places] = values
    for part in (draws, draws[:100_000], draws[::7]):
        assert p_value(part, expected(NOISE)) > 1e-4
    assert p_value(draws, expected(OTHER)) < 1e-4
    assert p_value(np.append(draws, [0] * 20_000), expected(NOISE)) < 1e-4
    where, drawn = Sampler(NOISE).events(500_000, SeededEntropy("sampler"))
    whole = Sampler(NOISE).draw(500_000, SeededEntropy("sampler"))
    assert np.array_equal(where, np.flatnonzero(whole)) and np.array_equal(drawn, whole[where])


def test_huge_batches() -> None:
    entropy, size = SeededEntropy("huge"), 10**12
    totals = np.array([total_of(NOISE, size, entropy) for _ in range(100)], float)
    spread = (float(NOISE.variance()) * size) ** 0.5
    scores = (totals - float(NOISE.mean()) * size) / spread
    assert abs(scores.mean()) < 0.4 and 0.7 < scores.std() < 1.3
    assert successes(size, F(1), entropy) == size and successes(size, F(0), entropy) == 0
    assert 0 < successes(size, F(10**10 - 1, 10**10), entropy) < size


def test_impossible_laws_are_refused() -> None:
    for weights in ((), (1, 0), (2, -1)):
        with pytest.raises(ParameterError):
            Finite(weights)
    for shape, beta, cut in ((F(0), F(1, 2), 1), (F(1), F(1), 1), (F(1), F(1, 2), -1)):
        with pytest.raises(ParameterError):
            CutNegativeBinomial(shape, beta, cut)
    with pytest.raises(ParameterError):
        events(Bernoulli(F(1)), 5)

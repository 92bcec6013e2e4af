"""Laws against their textbook forms, computed with fractions or by adding up."""

from collections.abc import Callable
from fractions import Fraction
from math import comb

import pytest
from flint import arb, ctx

from shuffledp.errors import ParameterError
from shuffledp.numbers.laws import (
    Bernoulli,
    Binomial,
    DiscreteLaplace,
    Geometric,
    Law,
    NegativeBinomial,
    Poisson,
)

LAWS: list[Law] = [
    Bernoulli(Fraction(1, 3)),
    Binomial(7, Fraction(2, 7)),
    Poisson(Fraction(5, 2)),
    Geometric(Fraction(1, 2)),
    NegativeBinomial(Fraction(1, 7), Fraction(3, 4)),
    NegativeBinomial(Fraction(5, 2), Fraction(1)),
    DiscreteLaplace(Fraction(3, 4)),
]


def masses(law: Law, reach: int = 220) -> dict[int, arb]:
    return {k: law.pmf(k) for k in range(-reach if law.first is None else 0, reach)}


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_masses_add_up_and_give_mean_and_variance(law: Law) -> None:
    with ctx.workprec(200):
        all_masses = masses(law)
        mean = sum((k * p for k, p in all_masses.items()), start=arb(0))
        square = sum((k * k * p for k, p in all_masses.items()), start=arb(0))
        assert abs(sum(all_masses.values(), start=arb(0)) - 1) < 1e-40
        assert abs(mean - law.mean()) < 1e-35
        assert abs(square - mean**2 - law.variance()) < 1e-30


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cdf_and_ratio_agree_with_the_masses(law: Law) -> None:
    with ctx.workprec(200):
        total = arb(0)
        for k, mass in masses(law).items():
            total += mass
            if -20 < k < 20:
                assert abs(law.cdf(k) - total) < 1e-30
                if law.last is None or k < law.last:
                    assert abs(law.ratio(k) * mass - law.pmf(k + 1)) < 1e-40


def test_binomial_is_the_textbook_one() -> None:
    law = Binomial(7, Fraction(2, 7))
    for k in range(8):
        exact = comb(7, k) * Fraction(2, 7) ** k * Fraction(5, 7) ** (7 - k)
        assert abs(law.pmf(k) - arb(exact.numerator) / exact.denominator) < 1e-12


@pytest.mark.parametrize(
    "law",
    [
        Poisson(Fraction(7, 3)),
        Geometric(Fraction(1, 2)),
        NegativeBinomial(Fraction(3, 2), Fraction(1, 3)),
    ],
    ids=str,
)
def test_shares_add_up_to_the_whole(law: Law) -> None:
    share = law.share(3)
    with ctx.workprec(150):
        one = [share.pmf(k) for k in range(12)]
        two = [sum((one[i] * one[k - i] for i in range(k + 1)), start=arb(0)) for k in range(12)]
        for k in range(12):
            three = sum((two[i] * one[k - i] for i in range(k + 1)), start=arb(0))
            assert abs(three - law.pmf(k)) < 1e-30


def test_discrete_laplace_is_the_difference_of_two_geometrics() -> None:
    """Errata 5 and 6: DLap(a) with Geo(1 − e^−a)."""
    law, half = DiscreteLaplace(Fraction(1)), Geometric(Fraction(1))
    with ctx.workprec(150):
        for k in range(-3, 4):
            both = sum(
                (half.pmf(j + max(k, 0)) * half.pmf(j + max(-k, 0)) for j in range(150)),
                start=arb(0),
            )
            assert abs(both - law.pmf(k)) < 1e-30


@pytest.mark.parametrize(
    "make",
    [
        lambda: Binomial(-1, Fraction(1, 2)),
        lambda: Bernoulli(Fraction(3, 2)),
        lambda: Poisson(Fraction(-1)),
        lambda: Geometric(Fraction(0)),
        lambda: NegativeBinomial(Fraction(0), Fraction(1)),
        lambda: DiscreteLaplace(Fraction(-1)),
        lambda: Bernoulli(Fraction(1, 2)).share(3),
    ],
)
def test_what_is_no_law_is_refused(make: Callable[[], Law]) -> None:
    with pytest.raises(ParameterError):
        make()

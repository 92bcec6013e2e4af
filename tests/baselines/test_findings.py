"""What docs/baselines.md says was found, held by computation."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest
from scripts_modules import script
from views import split_distance

from shuffledp.baselines import Setting, baseline
from shuffledp.baselines.divergence import shift_delta
from shuffledp.baselines.protocols.bbgn19 import Digit, least_blanket, published_blanket, single
from shuffledp.baselines.protocols.bc20 import BC20, least_chance
from shuffledp.baselines.protocols.csuzz19 import least_flip
from shuffledp.baselines.protocols.gkmp20 import fewest_pairs, published_pairs
from shuffledp.baselines.table import compare
from shuffledp.numbers.laws import Binomial

ROOT = Path(__file__).resolve().parents[2]
MILLIONTH = Fraction(1, 10**6)
TASK = Setting.of(10_000, 1, "1e-6")


@pytest.mark.parametrize(("epsilon", "constant"), [("1", 2.35), ("1/2", 1.56), ("1/5", 1.17)])
def test_constant_of_bc20(epsilon: str, constant: float) -> None:
    e = Fraction(epsilon)
    found = least_chance(10_000, e, MILLIONTH, pair=False) * 10_000 * e**2
    assert float(found) / math.log(2 / MILLIONTH) == pytest.approx(constant, abs=0.01)


def test_a_constant_of_082_is_not_private() -> None:
    """It gives thirteen times the δ that it should."""
    noise = Fraction(0.82 * math.log(2 / MILLIONTH) * 25 / 10_000)
    delta = float(shift_delta(Binomial(10_000, 1 - noise), Fraction(1, 5)))
    assert delta == pytest.approx(1.32e-5, rel=0.01)


@pytest.mark.parametrize(("epsilon", "constant"), [("1", 4.44), ("1/2", 2.88)])
def test_constant_of_csuzz19(epsilon: str, constant: float) -> None:
    e = Fraction(epsilon)
    noisy = 2 * 10_000 * least_flip(10_000, e, MILLIONTH) * e**2
    assert float(noisy) / math.log(4 / MILLIONTH) == pytest.approx(constant, abs=0.01)


def test_pairs_of_gkmp20() -> None:
    gap = Fraction(1, 10)
    assert float(fewest_pairs(gap, MILLIONTH).mean()) == pytest.approx(313, abs=1)
    assert float(published_pairs(gap, MILLIONTH).mean()) == pytest.approx(2200, abs=1)


def test_blankets_of_bbgn19() -> None:
    assert float(published_blanket(TASK, 23, 1).blanket) == pytest.approx(0.467, abs=1e-3)
    digit = least_blanket(10_000, 23, Fraction(1), MILLIONTH)
    assert float(digit.blanket) == pytest.approx(0.0982, abs=1e-4)


def test_the_worst_input_of_bbgn19_lies_inside() -> None:
    protocol = single(TASK)
    (digit,) = protocol.digits
    g, steps = float(digit.blanket), digit.values - 1
    ends = g * (steps + 2) / (12 * steps * (1 - g) ** 2) + g / (4 * (1 - g))
    assert (10_000 * ends) ** 0.5 == pytest.approx(11.3, abs=0.05)
    assert protocol.forecast().rmse == pytest.approx(12.6, abs=0.05)
    assert Digit(digit.values, Fraction(1, 2)).worst_fraction == 0  # where g·K ≥ 1 it is an end


def test_two_counters_cost_more_than_the_pair() -> None:
    pair = least_chance(10_000, Fraction(1), MILLIONTH, pair=True) * 10_000
    each = least_chance(10_000, Fraction(1, 2), MILLIONTH / 2, pair=False) * 10_000
    assert float(pair) == pytest.approx(42.75, abs=0.1)
    assert float(each) == pytest.approx(96.97, abs=0.1)


def test_mirroring_bc20_saves_a_message() -> None:
    protocol = BC20.plan(TASK)
    assert protocol.messages_per_user() == pytest.approx(1.003, abs=1e-3)
    mirrored = shift_delta(Binomial(10_000, 1 - protocol.chance), Fraction(1))
    straight = shift_delta(Binomial(10_000, protocol.chance), Fraction(1))
    assert float(mirrored) == pytest.approx(float(straight), rel=1e-9)


@pytest.mark.parametrize("users", [10_000, 1_000_000])
def test_efmrtt19_is_worse_than_no_shuffler(users: int) -> None:
    setting = Setting.of(users, 1, "1e-6")
    shuffled = baseline("count", "efmrtt19").plan(setting).forecast().rmse
    alone = baseline("count", "local").plan(setting).forecast().rmse
    assert shuffled > 2 * alone


def test_neighbours_are_closer_than_the_worst_pair() -> None:
    assert -math.log2(split_distance(100, 3, 0, 100)) == pytest.approx(5.10, abs=0.01)
    assert -math.log2(split_distance(100, 3, 0, 2)) == pytest.approx(10.73, abs=0.01)


def test_the_page_is_up_to_date() -> None:
    """Counts; the other tables come from the same code and take longer."""
    script("document_blocks")  # which it imports
    figures = script("figures")
    page = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    for name, block in figures.blocks(["count"]).items():
        assert figures.marked(page, name) == block, "run: python scripts/figures.py --tables"


def test_sparse_histograms_compared_with_local_hashing_on_large_domains() -> None:
    """docs/baselines.md, "Large domains": pure, and below what local protocols err at worst."""
    table = compare("histogram", Setting.of(10**6, 1, "1e-6", 10**6))
    few, many, hashing, hadamard, lwy22 = (
        table.row(name)
        for name in ("sparse-25", "sparse-45", "local-hashing", "local-hadamard", "lwy22")
    )
    assert few and many and hashing and hadamard and lwy22
    assert few.forecast.messages_per_user <= 2 and many.forecast.messages_per_user <= 3
    assert few.claim.pure and not lwy22.claim.pure
    local = min(hashing.forecast.rmse, hadamard.forecast.rmse)
    assert many.forecast.rmse < few.forecast.rmse < local
    assert lwy22.forecast.rmse < many.forecast.rmse
    assert compare("histogram", Setting.of(10**4, 1, None, 16)).row("sparse-25") is None

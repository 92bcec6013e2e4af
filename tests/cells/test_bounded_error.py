"""The error law of a bounded cell: that of the enumeration; intervals that cover as promised."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from bounded_laws import BIT, BY_VALUE, DIGIT, RARE, direction, sums

from shuffledp.cells.bounded import error as bounded_error
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.bounded.error import (
    error_law,
    error_range,
    intervals,
    laws,
    log_characteristic,
    transform,
)
from shuffledp.errors import ParameterError
from shuffledp.numbers.bisection import first_true
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.exact import to_float

F = Fraction


def interval(cell: BoundedCell, users: int, messages: int, outside: float) -> tuple[int, int]:
    """The interval of a single number of messages."""
    low, high = intervals(cell, users, np.array([messages]), outside)
    return int(low[0]), int(high[0])


def lumps(cell: BoundedCell, users: int, total: int) -> list[int]:
    """The widest way to spread a total."""
    full, rest = divmod(total, cell.largest)
    values = [cell.largest] * full + ([rest] if rest else [])
    return values + [0] * (users - len(values))


def counting(users: int) -> BoundedCell:
    """A cell as a plan has it: ε = 1, few muted users."""
    side = direction(F(3679, 10_000), 25, 2, F(1, 1000 * users))
    return BoundedCell(users=users, largest=1, up=side, down=side)


@pytest.mark.parametrize(
    ("cell", "users"), [(BIT, 4), (BIT, 7), (DIGIT, 3), (DIGIT, 5), (BY_VALUE, 4), (BY_VALUE, 9)]
)
def test_the_law_is_that_of_the_enumeration(cell: BoundedCell, users: int) -> None:
    totals = np.arange(users * cell.largest + 1)
    found = laws(cell, users, totals)
    for row, total in enumerate(totals.tolist()):
        exact = np.cumsum(sums(cell, lumps(cell, users, total)))
        errors = np.arange(len(exact)) - users * cell.base - total
        alone = laws(cell, users, totals[row : row + 1])
        chances = alone.at_most(errors[None, :])[0]
        assert np.abs(chances - exact).max() < 1e-12
        one_each = np.array([found.at_most(np.full(len(totals), e))[row] for e in errors])
        assert np.abs(one_each - exact).max() < 1e-12
        if total:  # the twin: another total has another law
            wrong = np.cumsum(sums(cell, lumps(cell, users, total - 1)))
            assert np.abs(np.roll(wrong, 1) - exact).max() > 1e-3


def test_the_widest_case_is_the_widest() -> None:
    """Convex order: E[(E−c)⁺] is largest for lumps, for every c. Users with 0, 2 against 1, 1."""
    places = np.arange(2 * DIGIT.most_messages + 1)
    lumped, even = sums(DIGIT, [0, 2]), sums(DIGIT, [1, 1])
    assert places @ lumped == pytest.approx(places @ even)
    for c in places:
        excess = np.maximum(places - c, 0)
        assert excess @ lumped >= excess @ even - 1e-12
    assert max(np.maximum(places - c, 0) @ (lumped - even) for c in places) > 1e-3


@pytest.mark.parametrize("outside", [0.05, 0.3])
@pytest.mark.parametrize(
    "cell", [BIT, replace(RARE, users=6), BY_VALUE], ids=["bit", "rare", "by value"]
)
def test_coverage_is_exact_for_counts(cell: BoundedCell, outside: float) -> None:
    """Every outcome of six users, by enumeration; a narrower interval misses too often."""
    users = 6
    messages = np.arange(users * cell.most_messages + 1)
    low, high = intervals(cell, users, messages, outside)
    assert (low <= high).all() and (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all()
    narrower = []
    for total in range(users + 1):
        law = sums(cell, lumps(cell, users, total))
        assert law[total < low].sum() <= outside / 2 + 1e-12
        assert law[total > high].sum() <= outside / 2 + 1e-12
        narrower += [law[total < low + 1].sum(), law[total > high - 1].sum()]
    assert max(narrower) > outside / 2


@pytest.mark.parametrize("share", [F(0), F(1, 3), F(1)])
def test_coverage_by_sampling(share: Fraction) -> None:
    cell, users, copies = counting(10_000), 10_000, 40_000
    total = int(users * share)
    found, _ = cell.aggregate_copies(np.full(copies, total), users, SeededEntropy(f"c {share}"))
    low, high = intervals(cell, users, found, 0.1)
    missed = ((total < low) | (total > high)).mean()
    assert 0.04 < missed < 0.1 + 4 * (0.09 / copies) ** 0.5
    assert ((total < low + 1) | (total > high - 1)).mean() > 0.11  # the twin: one narrower


def test_digits_are_covered_however_they_are_spread() -> None:
    side = direction(F(4, 5), 12, 3, F(1, 900), F(1, 900), F(1, 900))
    cell, users = BoundedCell(users=200, largest=3, up=side, down=side), 200
    entropy = SeededEntropy("digits")
    for tally in ([100, 0, 0, 100], [0, 100, 100, 0], [50, 50, 50, 50]):
        found = np.array([cell.aggregate(np.array(tally), entropy)[0] for _ in range(4000)])
        low, high = intervals(cell, users, found, 0.1)
        missed = ((low > 300) | (high < 300)).mean()
        assert missed < 0.1 + 4 * (0.09 / 4000) ** 0.5
        assert ((low + 4 > 300) | (high - 4 < 300)).mean() > 0.12  # the twin


@pytest.mark.parametrize("users", [10**3, 10**6, 10**9, 10**12])
def test_no_digits_are_lost_with_many_users(users: int) -> None:
    cell = counting(users)
    total = users // 3
    errors, chances = error_law(cell, users, total)
    assert chances.sum() == pytest.approx(1, abs=1e-6)
    assert abs(errors @ chances) < 1e-4
    mse = to_float(lambda: cell.mean_squared_error(users, total))
    assert errors**2 @ chances == pytest.approx(mse, rel=1e-3)
    assert errors**2 @ chances != pytest.approx(1.1 * mse, rel=1e-3)
    low, high = error_range(cell, users, total, 0.05)
    outside = chances[(errors < low - 0.5) | (errors > high + 0.5)].sum()
    assert -4.5 < low < 0 < high < 4.5 and outside < 0.05


def test_wide_laws_are_kept_on_a_lattice() -> None:
    cell, users = counting(1000), 10**12
    errors, chances = error_law(cell, users, users // 2)
    mse = to_float(lambda: cell.mean_squared_error(users, users // 2))
    assert laws(cell, users, np.array([users // 2])).step > 1
    assert errors**2 @ chances == pytest.approx(mse, rel=1e-3)
    low, high = error_range(cell, users, users // 2, 0.05)
    assert high == pytest.approx(1.96 * mse**0.5, rel=0.01)
    assert low == pytest.approx(-1.96 * mse**0.5, rel=0.01)
    aggregated = cell.aggregate(np.array([users // 2] * 2), SeededEntropy("wide"))[0]
    ends = interval(cell, users, aggregated, 1e-4)
    assert ends[0] < users // 2 < ends[1]


def test_a_negative_estimate_keeps_its_interval() -> None:
    cell, users = counting(100), 100
    for messages in (users * cell.base - 9, 0, users * cell.most_messages):
        low, high = interval(cell, users, messages, 0.05)
        value = float(cell.estimate(messages, 0, users))
        assert low <= value <= high and high - low < 40
    assert interval(cell, users, users * cell.base - 9, 0.05)[1] < 0


@pytest.mark.parametrize(
    "cell", [BIT, RARE, DIGIT, BY_VALUE], ids=["bit", "rare", "digit", "by value"]
)
def test_the_law_at_the_end_decides(cell: BoundedCell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals whose ends are looked at with the law at the estimate are the very same."""
    messages = np.arange(40 * cell.base - 40, 40 * cell.base + 90)
    quick = intervals(cell, 40, messages, 0.05)
    monkeypatch.setattr(bounded_error, "SURE", 2.0)
    slow = intervals(cell, 40, messages, 0.05)
    assert np.array_equal(quick, slow)


def test_the_characteristic_function_is_that_of_the_error() -> None:
    t = np.asarray(np.fft.fftfreq(64, 0.3), np.float64)
    for cell, total in ((BIT, 3), (DIGIT, 6)):
        users = 5
        law = sums(cell, lumps(cell, users, total))
        errors = cell.estimates(np.arange(len(law)), users) - total
        exact = np.exp(1j * np.outer(t, errors)) @ law
        found = np.exp(log_characteristic(cell, t, users, total))
        assert np.abs(found - exact).max() < 1e-12
        uneven = np.array([0.0, 0.1, 0.35, -0.2])
        exact = np.exp(1j * np.outer(uneven, errors)) @ law
        assert np.abs(np.exp(log_characteristic(cell, uneven, users, total)) - exact).max() < 1e-12
        wrong = np.exp(log_characteristic(cell, t, users, total - 2))
        assert np.abs(found - wrong).max() > 1e-3


def test_transforms_of_any_length() -> None:
    masses = 1 / np.arange(1.0, 301)
    for t in (np.linspace(0, 3, 1000), 0.01 * np.arange(-50.0, 90.0), np.array([0.3])):
        direct = np.exp(1j * np.outer(t, np.arange(300))) @ masses
        assert np.abs(transform(masses, t) - direct).max() < 1e-11


def test_the_search_for_an_interval_ends_however_large_the_noise_is() -> None:
    """Noise of 10²³, more than an integer of 64 bits."""
    side = direction(1 - F(1, 10**20), 10, 10, F(10**22))
    cell = BoundedCell(users=5, largest=1, up=side, down=side)
    low, high = cell.intervals(5, np.array([100]), 0.05)
    assert low[0] < -(10**17) and high[0] > 10**17
    with pytest.raises(ParameterError, match="wider than can be computed"):
        first_true(lambda at: at > 2**62, np.zeros(1, np.int64))


def test_first_true_finds_every_change() -> None:
    changes = np.array([-1000, -3, 0, 5, 10**12])
    for start in (0, 4, -77, 10**6):
        found = first_true(lambda at: at >= changes, np.full(5, start))
        assert found.tolist() == changes.tolist()


def test_an_interval_ends_even_where_nothing_is_learnt() -> None:
    """One user who is nearly always muted: any total explains any number of messages."""
    side = direction(F(1, 2), 1, 1, F(10))
    cell = BoundedCell(users=1, largest=1, up=side, down=side)
    low, high = interval(cell, 1, 2, 0.05)
    assert low < -50 and high > 50
    messages = round(10**6 * float(cell.messages_per_user(F(1, 2))))
    low, high = interval(cell, 10**6, messages, 0.05)  # the twin: many users do tell
    spread = to_float(lambda: cell.mean_squared_error(10**6, 10**6 // 2)) ** 0.5
    assert low < 10**6 // 2 < high
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.01)

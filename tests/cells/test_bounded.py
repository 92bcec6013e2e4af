"""The bounded cell: the law of MATH §12 and not its neighbour, on every path; its moments exactly;
at most K messages."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from bounded_laws import (
    BIT,
    BY_VALUE,
    DIGIT,
    RARE,
    branches,
    direction,
    masses,
    mean_of,
    sent,
    sums,
    variance_of,
)
from chi2 import p_value
from message_masses import exact_message_masses, exact_moments, message_masses

from shuffledp.cells.bounded import draws as bounded_draws
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.exact import to_float

F = Fraction
CELLS = pytest.mark.parametrize(
    "cell", [DIGIT, BIT, RARE, BY_VALUE], ids=["digit", "bit", "rare", "by value"]
)


@pytest.mark.parametrize("cell", [BIT, RARE, BY_VALUE], ids=["bit", "rare", "by value"])
def test_each_user_follows_the_law_and_not_a_neighbour(cell: BoundedCell) -> None:
    """A million copies with one user each."""
    entropy = SeededEntropy(f"users {cell}")
    for x in (0, 1):
        draws, none = cell.aggregate_copies(np.full(1_000_000, x), 1, entropy)
        assert not none.any()
        assert draws.min() >= 0 and draws.max() <= cell.most_messages
        assert p_value(draws, masses(sent(cell, x), cell.most_messages)) > 1e-4
        # the twins: more muting up; less noise; another value; muted users with everybody's noise
        odds = tuple(o * (F(3, 2) if cell is RARE else F(11, 10)) for o in cell.up.odds)
        neighbours = [
            sent(replace(cell, up=replace(cell.up, odds=odds)), x),
            sent(replace(cell, users=cell.users + cell.users // 3), x),
            sent(cell, 1 - x),
        ]
        if cell is not RARE:  # whose muted users have noise too rarely for a million draws
            neighbours.append(sent(cell, x, muted_like_others=True))
        for law in neighbours:
            assert p_value(draws, masses(law, cell.most_messages)) < 1e-4


def test_a_device_draws_the_same_law() -> None:
    """One user at a time: the path of devices. The twins: more muting up, muted users with
    everybody's noise, and another value."""
    entropy = SeededEntropy("device")
    odds = tuple(o * F(3, 2) for o in DIGIT.up.odds)
    other = replace(DIGIT, up=replace(DIGIT.up, odds=odds))
    for x in range(DIGIT.largest + 1):
        draws = np.array([cell_draw(DIGIT, x, entropy) for _ in range(20_000)])
        assert p_value(draws, masses(sent(DIGIT, x), DIGIT.most_messages)) > 1e-4
        for law in (
            sent(other, x),
            sent(DIGIT, x, muted_like_others=True),
            sent(DIGIT, (x + 1) % (DIGIT.largest + 1)),
        ):
            assert p_value(draws, masses(law, DIGIT.most_messages)) < 1e-4


def test_a_device_whose_odds_depend_on_its_value() -> None:
    """The twin: odds that do not."""
    entropy = SeededEntropy("device by value")
    other = replace(
        BY_VALUE,
        up=replace(BY_VALUE.up, ratio=F(1)),
        down=replace(BY_VALUE.down, ratio=F(1)),
    )
    for x in (0, 1):
        draws = np.array([cell_draw(BY_VALUE, x, entropy) for _ in range(20_000)])
        assert p_value(draws, masses(sent(BY_VALUE, x), BY_VALUE.most_messages)) > 1e-4
        assert p_value(draws, masses(sent(other, x), BY_VALUE.most_messages)) < 1e-4


def cell_draw(cell: BoundedCell, x: int, entropy: SeededEntropy) -> int:
    return cell.randomize(x, entropy)[0]


@pytest.mark.parametrize("path", ["total", "aggregate"])
@pytest.mark.parametrize(
    ("cell", "values"),
    [(DIGIT, [0, 2, 1, 2, 0]), (BIT, [0, 1, 1, 0]), (BY_VALUE, [0, 1, 1, 1])],
    ids=["digit", "bit", "by value"],
)
def test_sums_follow_the_convolution(cell: BoundedCell, values: list[int], path: str) -> None:
    entropy = SeededEntropy(f"sums {path} {cell}")
    array = np.array(values)
    tally = np.bincount(array, minlength=cell.largest + 1)
    found = []
    for _ in range(8000):
        sent_in_all, none = (
            cell.randomize_total(array, entropy)
            if path == "total"
            else cell.aggregate(tally, entropy)
        )
        found.append(sent_in_all)
        assert none == 0
    assert p_value(np.array(found), sums(cell, values)) > 1e-4
    assert p_value(np.array(found), sums(cell, values, muted_like_others=True)) < 1e-4
    assert p_value(np.array(found), sums(cell, [*values[1:], 1])) < 1e-4


@pytest.mark.parametrize("cell", [BIT, BY_VALUE], ids=["bit", "by value"])
@pytest.mark.parametrize("held", [1 << 18, 0.5], ids=["many cells at once", "cell by cell"])
def test_copies_follow_the_convolution(
    cell: BoundedCell, held: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_draws, "EVENTS_AT_ONCE", held)
    entropy, runs = SeededEntropy(f"copies {held}"), 200_000 if held > 1 else 4000
    ones = np.tile([0, 1, 3], runs)
    found, none = cell.aggregate_copies(ones, 4, entropy)
    assert not none.any()
    for count in (0, 1, 3):
        draws = found[ones == count]
        values = [1] * count + [0] * (4 - count)
        assert p_value(draws, sums(cell, values)) > 1e-4
        assert p_value(draws, sums(cell, values, muted_like_others=True)) < 1e-3
        assert p_value(draws, sums(cell, [*values[1:], 1 - values[0]])) < 1e-4
    pairs = found.reshape(-1, 3)
    assert abs(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1]) < 5 / runs**0.5  # independent cells


def test_rare_sums_follow_the_convolution() -> None:
    """400 users of a plan for 400, of whom few have noise: the law of the sum by its transform."""
    values = [1] * 100 + [0] * 300
    size = 1 << 14
    functions = [np.fft.fft(masses(sent(RARE, x), RARE.most_messages), size) for x in (0, 1)]
    expected = np.fft.ifft(functions[0] ** 300 * functions[1] ** 100).real
    entropy = SeededEntropy("rare sums")
    copies, _ = RARE.aggregate_copies(np.full(100_000, 100), 400, entropy)
    assert p_value(copies, expected) > 1e-4
    totals = np.array([RARE.randomize_total(np.array(values), entropy)[0] for _ in range(4000)])
    assert p_value(totals, expected) > 1e-4
    shifted = np.roll(expected, 1)
    assert p_value(copies, shifted) < 1e-4 and p_value(totals, shifted) < 1e-4
    lone = np.fft.ifft(functions[0] ** 270 * functions[1] ** 100).real  # 30 users' noise missing
    assert p_value(copies, np.roll(lone, 30 * RARE.base)) < 1e-4


def test_a_trillion_users() -> None:
    decay, users = F(3679, 10_000), 10**12
    side = direction(decay, 30, 2, F(1, 10**15))
    cell = BoundedCell(users=users, largest=1, up=side, down=side)
    entropy = SeededEntropy("trillion")
    tally = np.array([users - 10**11, 10**11])
    errors = np.array(
        [
            to_float(lambda: cell.estimate(cell.aggregate(tally, entropy)[0], 0, users)) - 10**11
            for _ in range(1000)
        ]
    )
    mse = float(cell.mean_squared_error(users, 10**11))
    assert abs(errors.mean()) < 4 * (mse / 1000) ** 0.5
    assert abs((errors**2).mean() / mse - 1) < 0.3
    copies, _ = cell.aggregate_copies(np.full(1000, 10**11), users, entropy)
    errors = cell.estimates(copies, users) - 10**11
    assert abs((errors**2).mean() / mse - 1) < 0.3
    ten_times = cell.estimates(np.array([cell.aggregate(tally * 10, entropy)[0]]), 10 * users)
    assert abs(ten_times[0] - 10**12) < 6 * (10 * mse) ** 0.5


@CELLS
def test_moments_and_masses_are_those_of_the_enumeration(cell: BoundedCell) -> None:
    known = exact_moments(cell)
    for x in range(cell.largest + 1):
        law = sent(cell, x)
        assert cell.base + known.kept * x + known.shift == mean_of(law)
        assert known.variance(1, x, x * x) == variance_of(law)
        assert exact_message_masses(cell, x) == [
            law.get(k, F(0)) for k in range(cell.most_messages + 1)
        ]
        for ball, mass in zip(message_masses(cell, x), exact_message_masses(cell, x), strict=True):
            assert float(ball) == pytest.approx(float(mass), rel=1e-12)
        assert float(cell.messages_per_user(x)) == pytest.approx(float(mean_of(law)), rel=1e-12)


def test_the_moments_of_unlike_cells_differ() -> None:
    """The twin: the exact moments tell a cell from one with the muted noise cut elsewhere."""
    other = replace(DIGIT, up=replace(DIGIT.up, muted_cut=2))
    assert exact_moments(other) != exact_moments(DIGIT)
    assert exact_moments(DIGIT).variance(1, 1, 1) != variance_of(
        sent(DIGIT, 1, muted_like_others=True)
    )


@CELLS
def test_probabilities_of_the_branches(cell: BoundedCell) -> None:
    total = sum(odds for odds, *_ in branches(cell, 0))
    assert cell.data_probability == 1 / total
    for x in range(cell.largest + 1):
        muted = sum(odds for odds, *_ in branches(cell, x)[1:]) / total
        assert cell.data_probability + muted == 1 and cell.mute.probability == muted


@CELLS
def test_the_worst_data_are_the_worst(cell: BoundedCell) -> None:
    """Every way to spread totals over three users, one by one."""
    known, worst = exact_moments(cell), F(0)
    for total in range(3 * cell.largest + 1):
        errors = [
            sum(variance_of(sent(cell, x)) for x in (a, b, total - a - b)) / known.kept**2
            for a in range(cell.largest + 1)
            for b in range(cell.largest + 1)
            if 0 <= total - a - b <= cell.largest
        ]
        assert float(cell.mean_squared_error(3, total)) == pytest.approx(float(max(errors)))
        worst = max(worst, *errors)
    assert float(cell.mean_squared_error(3)) == pytest.approx(float(worst))


def test_the_estimate_is_unbiased_also_for_more_users_than_planned() -> None:
    values = np.full(9, 2)
    mean = sum(mean_of(sent(DIGIT, int(x))) for x in values)
    scaled = float(mean / DIGIT.data_probability)
    assert float(DIGIT.estimate(0, 0, 9)) + scaled == pytest.approx(18)
    entropy = SeededEntropy("unbiased")
    found = np.array([DIGIT.randomize_total(values, entropy)[0] for _ in range(6000)])
    errors = DIGIT.estimates(found, 9) - 18
    spread = float(sum(variance_of(sent(DIGIT, int(x))) for x in values)) ** 0.5
    assert abs(errors.mean()) < 4 * spread / float(DIGIT.data_probability) / 6000**0.5
    uncorrected = found - 9 * DIGIT.base - 18
    assert abs(uncorrected.mean()) > 4 * spread / 6000**0.5


@CELLS
def test_all_extremes_lie_in_0_to_K_and_both_ends_are_reached(cell: BoundedCell) -> None:
    ends = [
        cell.base + value + up - down
        for x in range(cell.largest + 1)
        for _, value, up_cut, down_cut in branches(cell, x)
        for up in (0, up_cut)
        for down in (0, down_cut)
    ]
    assert min(ends) == 0 and max(ends) == cell.most_messages
    law = sent(cell, 0)
    assert law[0] > 0 and law[cell.most_messages] > 0
    shorter = replace(cell, up=replace(cell.up, cut=cell.up.cut - 1))
    assert max(sent(cell, 0)) > shorter.most_messages  # the twin: one less would not do


def test_K_and_0_are_drawn_where_they_are_likely() -> None:
    wild = direction(F(99, 100), 2, 2, F(50), F(50))
    cell = BoundedCell(users=1, largest=2, up=wild, down=wild)
    entropy = SeededEntropy("wild")
    draws = [cell_draw(cell, 0, entropy) for _ in range(3000)]
    assert min(draws) == 0 and max(draws) == cell.most_messages == 10


def test_the_same_seed_gives_the_same_draws() -> None:
    values = np.arange(50_000) % 3
    tally = np.array([10**6, 5, 10**7])
    totals = [DIGIT.randomize_total(values, SeededEntropy(seed)) for seed in (1, 1, 2)]
    assert totals[0] == totals[1] != totals[2]
    sent_in_all = [DIGIT.aggregate(tally, SeededEntropy(seed)) for seed in (1, 1, 2)]
    assert sent_in_all[0] == sent_in_all[1] != sent_in_all[2]
    copies = [BIT.aggregate_copies(np.arange(99), 100, SeededEntropy(s))[0] for s in (1, 1, 2)]
    assert np.array_equal(copies[0], copies[1]) and not np.array_equal(copies[0], copies[2])


def test_nobody_and_empty() -> None:
    assert DIGIT.aggregate(np.zeros(3, np.int64)) == (0, 0)
    assert DIGIT.randomize_total(np.empty(0, np.int64)) == (0, 0)
    assert BIT.aggregate_copies(np.zeros(4, np.int64), 0)[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "change",
    [
        {"decay": F(1)},
        {"decay": F(0)},
        {"decay": F(1, 3**3000)},
        {"epsilon": F(0)},
        {"cut": -1},
        {"cut": 65_536},
        {"muted_cut": 6},
        {"muted_cut": -1},
        {"odds": ()},
        {"odds": (F(0),)},
        {"odds": (F(1), F(-1))},
        {"odds": (0.5,)},
    ],
    ids=str,
)
def test_impossible_directions_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=r"^[^.]*(\.\d[^.]*)?\.$"):  # one sentence
        replace(BIT.up, **change)  # type: ignore[arg-type]


def test_impossible_cells_values_and_tallies_are_refused() -> None:
    for change in ({"users": 0}, {"users": 10**14}, {"largest": 0}, {"largest": 2}):
        with pytest.raises(ParameterError):
            replace(BIT, **change)  # type: ignore[arg-type]
    for values in ([2], [-1], [0.0], [[0, 1]]):
        with pytest.raises(ValueOutOfRange):
            BIT.randomize_total(np.array(values))
    with pytest.raises(ValueOutOfRange):
        BIT.aggregate(np.array([1, 2, 3]))
    with pytest.raises(ValueOutOfRange):
        BIT.aggregate_copies(np.array([5]), 4)
    with pytest.raises(ValueOutOfRange):
        DIGIT.aggregate_copies(np.array([1]), 4)

"""Cells that share their way up: the law of MATH §18 and not its neighbour, on every path; what is
said about one cell alone, and how far that is from the common draw; at most what a report holds."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from bounded_laws import masses, mean_of, variance_of
from chi2 import p_value
from flint import ctx
from message_masses import message_masses
from shared_groups import fitted
from shared_laws import (
    BITS,
    DIGITS,
    RARE,
    Numbered,
    code_of,
    distance,
    inputs,
    joint_chance,
    noise_upwards,
    of_one_cell,
    rejected,
    sent,
    together,
)

from shuffledp.cells.digits import draws as shared_draws
from shuffledp.cells.digits.cell import SharedCell, SharedDigits
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.exact import ball

F = Fraction
Group = tuple[SharedCell, ...]
GROUPS = pytest.mark.parametrize("cells", [DIGITS, BITS, RARE], ids=["digits", "bits", "rare"])


# What is said about one cell alone


@GROUPS
def test_the_law_of_one_cell_alone(cells: Group) -> None:
    """Masses, moments and the characteristic function, against the enumeration in which each
    cell's noise is cut by itself."""
    t = np.linspace(-3, 3, 41)
    for values in inputs(cells):
        law = sent(cells, values, noise_together=False)
        for place, (cell, x) in enumerate(zip(cells, values, strict=True)):
            alone = of_one_cell(law, place)
            assert sum(alone.values()) == 1
            with ctx.workprec(200):
                shown, known = message_masses(cell, x), cell.moments()
                assert len(shown) == cell.most_messages + 1
                for k, mass in enumerate(shown):
                    assert mass.overlaps(ball(alone.get(k, F(0)))) and mass.rad() < 1e-40
                mean = cell.base + known.shift + known.kept * x
                assert mean.overlaps(ball(mean_of(alone))) and mean.rad() < 1e-40
                variance = known.variance(1, x, x * x)
                assert variance.overlaps(ball(variance_of(alone))) and variance.rad() < 1e-40
            places = np.array(sorted(alone))
            weights = np.array([float(alone[k]) for k in sorted(alone)])
            expected = np.exp(1j * np.outer(t, places - cell.base - x)) @ weights
            found = np.exp(cell.user_function(t).log(float(x)))
            assert np.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cells", [DIGITS, BITS], ids=["digits", "bits"])
def test_twin_the_law_of_one_cell_depends_on_every_part(cells: Group) -> None:
    """The comparison above would see a change of any of the odds, also of the other cells'."""
    cell, x = cells[0], 1
    alone = of_one_cell(sent(cells, (1,) * len(cells), noise_together=False), 0)
    known = cell.way_up
    more = F(101, 100)
    wrong = [
        replace(cell, up=replace(cell.up, odds=tuple(o * more for o in cell.up.odds))),
        replace(cell, down=replace(cell.down, odds=tuple(o * more for o in cell.down.odds))),
        replace(cell, way_up=replace(known, other_odds=known.other_odds * more)),
        replace(cell, way_up=replace(known, stray_odds=tuple(o * more for o in known.stray_odds))),
    ]
    for other in wrong:
        shown, moments = message_masses(other, x), other.moments()
        assert any(not m.overlaps(ball(alone.get(k, F(0)))) for k, m in enumerate(shown))
        assert not (cell.base + moments.shift + moments.kept * x).overlaps(ball(mean_of(alone)))
        assert not moments.variance(1, x, x * x).overlaps(ball(variance_of(alone)))


@GROUPS
def test_the_common_cut_changes_a_cells_law_by_less_than_is_said(cells: Group) -> None:
    users = cells[0].users
    for values in inputs(cells):
        joint, apart = sent(cells, values), sent(cells, values, noise_together=False)
        for place, cell in enumerate(cells):
            apart_here = of_one_cell(apart, place)
            gap = distance(of_one_cell(joint, place), apart_here)
            assert 0 < gap <= rejected(cells)
            assert min(1.0, users * float(rejected(cells))) <= joint_chance(cell)
            assert float(gap) > 1e-3 * float(
                rejected(cells)
            )  # not so much less that it says nothing


@pytest.mark.parametrize("users", [2, 5, 24, 1000])
@pytest.mark.parametrize("decay", [F(1, 10), F(1, 2), F(9, 10), F(999, 1000)])
@pytest.mark.parametrize(("count", "cut"), [(2, 2), (2, 40), (5, 5), (24, 24)])
def test_the_chance_of_drawing_noise_again_is_bounded(
    users: int, decay: F, count: int, cut: int
) -> None:
    """Exactly, by multiplying polynomials; for at least as many users as cells."""
    users = max(users, count)
    up = replace(DIGITS[1].up, decay=decay, cut=cut, muted_cut=cut)
    cells = together(users, [(up, DIGITS[1].down)] * count, *[F(1)] * (count - 1))
    law = noise_upwards(cells[:1], together=False)
    mass = np.array([float(law[(j,)]) for j in range(cut + 1)])
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, mass)
    assert min(1.0, users * total[cut + 1 :].sum()) <= joint_chance(cells[0])


# The draws


def draws(cells: Group, values: tuple[int, ...], size: int, seed: str) -> list[list[int]]:
    entropy = SeededEntropy(seed)
    found = []
    for _ in range(size):
        plus, minus = SharedDigits(cells).randomize(code_of(cells, values), entropy)
        assert not minus.any()
        found.append(plus.tolist())
    return found


@pytest.mark.parametrize(
    ("cells", "values"),
    [(DIGITS, (1, 0)), (DIGITS, (2, 1)), (BITS, (0, 1, 1))],
    ids=["digits", "most", "bits"],
)
def test_a_device_draws_the_law_and_not_a_neighbour(cells: Group, values: tuple[int, ...]) -> None:
    numbered = Numbered(cells, 1)
    found = draws(cells, values, 30_000, f"device {values}")
    numbers = np.array([numbered.number(messages) for messages in found])
    assert max(map(sum, found)) <= SharedDigits(tuple(cells)).most_messages
    assert np.min(found) >= 0
    assert p_value(numbers, numbered.chances(sent(cells, values))) > 1e-4
    odds = tuple(o * F(3, 2) for o in cells[0].up.odds)
    more = fitted([replace(cells[0], up=replace(cells[0].up, odds=odds)), *cells[1:]])
    for law in (
        sent(cells, values, keep_others=True),
        sent(cells, (0, *values[1:]) if values[0] else (1, *values[1:])),
        sent(more, values),
        *([sent(cells, values, noise_together=False)] if cells is DIGITS else []),
    ):
        assert p_value(numbers, numbered.chances(law)) < 1e-4


@pytest.mark.parametrize("path", ["total", "aggregate"])
@pytest.mark.parametrize(
    ("cells", "codes"),
    [(DIGITS, [(0, 1), (2, 0)]), (BITS, [(0, 1, 0), (1, 1, 0)])],
    ids=["digits", "bits"],
)
def test_sums_follow_the_convolution(cells: Group, codes: list[tuple[int, ...]], path: str) -> None:
    entropy, numbered = SeededEntropy(f"sums {path} {codes}"), Numbered(cells, len(codes))
    drawn = SharedDigits(cells)
    numbers_held = np.array([code_of(cells, values) for values in codes])
    tally = np.bincount(numbers_held, minlength=drawn.codes)
    found = []
    for _ in range(3000):
        plus, minus = (
            drawn.randomize_total(numbers_held, entropy)
            if path == "total"
            else drawn.aggregate(tally, entropy)
        )
        assert not minus.any()
        found.append(numbered.number(plus.tolist()))

    def chances(codes: list[tuple[int, ...]], **twin: bool) -> np.ndarray:
        return numbered.chances(*(sent(cells, values, **twin) for values in codes))

    numbers = np.array(found)
    assert p_value(numbers, chances(codes)) > 1e-4
    other = (cells[0].largest - codes[0][0], *codes[0][1:])
    assert p_value(numbers, chances([other, *codes[1:]])) < 1e-4
    if cells is BITS:  # whose ways down hide less
        assert p_value(numbers, chances(codes, keep_others=True)) < 1e-4


@pytest.mark.parametrize("held", [1 << 18, 0.5], ids=["all users at once", "user by user"])
def test_the_noise_of_many_users_is_drawn_again_where_it_exceeds_the_cut(
    held: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_draws, "EVENTS_AT_ONCE", held)
    assert rejected(DIGITS) > F(1, 40)
    again = [0]
    one = shared_draws.noise_of_one

    def counted(*given: object) -> list[int]:
        again[0] += 1
        return one(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(shared_draws, "noise_of_one", counted)
    entropy, numbered, runs = SeededEntropy(f"crowd {held}"), Numbered(DIGITS, 2), 4000
    drawn = [shared_draws.noise_of_many(DIGITS, 2, entropy) for _ in range(runs)]
    numbers = np.array([numbered.number(noise.tolist()) for noise in drawn])
    law, apart = (noise_upwards(DIGITS, joint) for joint in (True, False))
    assert p_value(numbers, numbered.chances(law, law)) > 1e-4
    assert p_value(numbers, numbered.chances(apart, apart)) < 1e-4
    expected = 2 * runs * float(rejected(DIGITS))
    assert abs(again[0] - expected) < 5 * expected**0.5


def test_rare_events_of_many_users() -> None:
    """400 users of a plan for 400, of whom few have noise: the law of each cell's sum."""
    drawn = SharedDigits(RARE)
    codes = np.repeat([code_of(RARE, (1, 2)), code_of(RARE, (0, 1))], [100, 300])
    tally = np.bincount(codes, minlength=drawn.codes)
    laws = [sent(RARE, code) for code in ((1, 2), (0, 1))]
    for path in ("total", "aggregate"):
        entropy = SeededEntropy(f"rare {path}")
        found = np.array(
            [
                drawn.randomize_total(codes, entropy)[0]
                if path == "total"
                else drawn.aggregate(tally, entropy)[0]
                for _ in range(1000)
            ]
        )
        size = 1 << 14
        for place, cell in enumerate(RARE):
            most = cell.most_messages
            one, other = (np.fft.fft(masses(of_one_cell(law, place), most), size) for law in laws)
            expected = np.fft.ifft(one**100 * other**300).real
            assert p_value(found[:, place], expected) > 1e-4
            assert p_value(found[:, place], np.roll(expected, 1)) < 1e-4
            fewer = np.fft.ifft(one**100 * other**200).real  # 100 users' noise missing
            missing = round(100 * float(mean_of(of_one_cell(laws[1], place))))
            assert p_value(found[:, place], np.roll(fewer, missing)) < 1e-4


def test_the_same_seed_gives_the_same_draws() -> None:
    codes = code_of(DIGITS, [np.arange(5000) % 3, np.arange(5000) % 2])
    sums = [
        SharedDigits(DIGITS).randomize_total(codes, SeededEntropy(seed))[0].tolist()
        for seed in (1, 1, 2)
    ]
    assert sums[0] == sums[1] != sums[2]


# How much is sent at most


@pytest.mark.parametrize("cells", [DIGITS, BITS], ids=["digits", "bits"])
def test_never_above_the_most_and_the_most_is_reached(cells: Group) -> None:
    most = SharedDigits(tuple(cells)).most_messages
    law = sent(cells, tuple(cell.largest for cell in cells))
    assert max(map(sum, law)) == most
    assert min(map(min, law)) >= 0
    for place, cell in enumerate(cells):
        assert max(messages[place] for messages in law) <= cell.most_messages
    apart = sent(cells, (0,) * len(cells), noise_together=False)
    assert max(map(sum, apart)) > most  # the twin: without the common cut it would not hold
    alone = sum(cell.most_messages for cell in cells)
    assert most < alone  # what sharing saves


def test_the_most_is_drawn_where_it_is_likely() -> None:
    wild = [replace(cell, up=replace(cell.up, decay=F(99, 100))) for cell in DIGITS]
    strays = [
        replace(cell, way_up=replace(cell.way_up, stray_odds=(F(500),), decay=F(99, 100)))
        for cell in wild
    ]
    found = draws(tuple(fitted(strays)), (0, 0), 4000, "wild")
    assert max(map(sum, found)) == SharedDigits(tuple(strays)).most_messages

"""Frequencies by groups: unbiased, with the forecast error and coverage, private in every group."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from bounded_oracle import user_law
from numpy.typing import NDArray

from shuffledp import (
    FrequenciesResult,
    SeededEntropy,
    ShortGroupError,
    certify,
    plan_count,
    plan_frequencies,
    plan_histogram,
    verify,
)
from shuffledp.cells.base import Cell, independent_cell
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.errors import ParameterError, PrivacyViolation, ValueOutOfRange
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.protocols.report import Report
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol

F = Fraction
USERS = 40_000
SEED = "5a" * 32
Floats = NDArray[np.float64]


def protocol(cells: int, groups: int = 50, users: int = USERS) -> FrequenciesProtocol:
    """Groups of equal size but for chance, each with a cell that is proved for half of them."""
    need = users // groups // 2
    cell: Cell = (
        plan_count(need, 2, cell="bounded").protocol.cells[0]
        if cells == 2
        else plan_histogram(need, 2, cells, cell="bounded").protocol.cells[0]
    )
    return FrequenciesProtocol(
        epsilon=F(2),
        reports=users,
        groups=groups,
        cells_per_group=cells,
        cell=independent_cell(cell),
        spread=F(40),
        hash_seed=SEED,
        candidates=("", "ä", "often", "nobody"),
    )


LABELS = np.array(["", "ä", "often"] + [f"other {n}" for n in range(37)], object)
COUNTS = np.array([500, 1500, 8000] + [810] * 36 + [840])
DATA = np.repeat(LABELS, COUNTS)
TRUE = np.array([500, 1500, 8000, 0])


def results(
    what: FrequenciesProtocol, runs: int, per_user: bool = False
) -> list[FrequenciesResult]:
    found = []
    for run in range(runs):
        entropy = SeededEntropy(run)
        one = what.renewed(entropy)
        draw = one.randomize_all if per_user else one.aggregate
        found.append(one.analyze(one.release(draw(DATA, entropy))))
    return found


def expected_error(what: FrequenciesProtocol, label: int) -> float:
    """The exact error of docs/mathematics.md §13 for one candidate."""
    k, held = what.cells_per_group, float(TRUE[label])
    others = np.append(COUNTS[:label], COUNTS[label + 1 :]) if held else COUNTS
    clash = (others * (1 + (others - 1) / what.groups)).sum() / (k - 1)
    ones = held + (USERS - held) / k
    noise = (USERS - ones) * what.cell.variance_at(1, 0, 0) + ones * what.cell.variance_at(1, 1, 1)
    return math.sqrt(clash + (k / (k - 1)) ** 2 * noise)


@pytest.mark.parametrize(("cells", "per_user"), [(2, False), (8, False), (2, True), (4, True)])
def test_unbiased_with_the_derived_error_and_coverage(cells: int, per_user: bool) -> None:
    what, runs = protocol(cells), 60 if per_user else 300
    found = results(what, runs, per_user)
    errors = np.array([one.values - TRUE for one in found])
    derived = np.array([expected_error(what, label) for label in range(4)])
    assert (np.abs(errors.mean(axis=0)) < 4 * derived / math.sqrt(runs)).all()
    spread = np.sqrt((errors**2).mean(axis=0)) / derived
    assert (np.abs(spread - 1) < 4 / math.sqrt(2 * runs)).all()
    inside = np.array([(one.low <= TRUE) & (one.high >= TRUE) for one in found]).mean()
    assert abs(inside - 0.95) < 4 * math.sqrt(0.05 * 0.95 / (4 * runs)) + 0.01
    together = [bool(((one.joint_low <= TRUE) & (one.joint_high >= TRUE)).all()) for one in found]
    assert np.mean(together) > 0.95 - 4 * math.sqrt(0.05 / runs)
    said = np.mean([one.counts.errors(one.values) for one in found], axis=0)
    assert (np.abs(said / derived - 1) < 0.1).all()


def test_the_tests_above_reject_a_hash_that_is_the_same_in_all_groups() -> None:
    """Its errors do not cancel out, and no interval knows of them."""
    what = protocol(8)
    misses = []
    for run in range(40):
        one = what.renewed(SeededEntropy(run))
        hashes = one.hashes
        hashes.__dict__["matrices"] = np.repeat(hashes.matrices[:1], what.groups, axis=0)
        found = one.analyze(one.release(one.aggregate(DATA, SeededEntropy(run))))
        misses.append((found.low > TRUE) | (found.high < TRUE))
    assert np.mean(misses) > 0.5


def test_the_forecast_is_for_the_spread_that_is_said() -> None:
    what = replace(protocol(4), spread=F(40))
    even = np.repeat(np.arange(40), 1000)
    errors = []
    for run in range(150):
        one = replace(what.renewed(SeededEntropy(run)), candidates=(1_000, 2_000))
        errors.append(one.analyze(one.release(one.aggregate(even, SeededEntropy(run)))).values)
    assert abs(np.sqrt(np.mean(np.square(errors))) / what.rmse(USERS) - 1) < 0.15
    assert what.rmse(USERS, F(1)) > 3 * what.rmse(USERS)


def test_a_result_answers_about_any_label_without_the_data() -> None:
    (one,) = results(protocol(8), 1)
    often = one.frequency("often")
    assert often.value == one.values[2] and (often.low, often.high) == (one.low[2], one.high[2])
    assert one.showing(["often"]).labels == ("often",)
    assert "no label was asked about" in str(one.showing([])) and one.showing([]).rmse > 0
    assert "frequencies of 40,000 users" in str(one)


def test_a_report_holds_its_own_group_and_one_roll_call() -> None:
    for what in (protocol(2), protocol(4)):
        cells, groups = what.groups * what.copies, set()
        for _ in range(200):
            report = what.randomize("often")
            (group,) = np.flatnonzero(report.plus[cells:])
            assert report.plus[cells + group] == 1 and report.plus.size == cells + what.groups
            sent = np.flatnonzero(report.plus[:cells])
            assert set(sent // what.copies) <= {group} and not report.minus.any()
            assert len(report.messages()) <= what.report_size(USERS, "exact")
            groups.add(int(group))
        assert len(groups) > 35  # of 50


def test_whole_numbers_and_labels_that_are_refused() -> None:
    what = replace(protocol(2), candidates=(3, 2**64 - 1))
    assert what.parse("18446744073709551615") == 2**64 - 1
    what.randomize(2**64 - 1), what.randomize("tea"), what.encode(np.array([2**64 - 1], np.uint64))
    for wrong in ("seven", "1" * 21):
        with pytest.raises(ValueOutOfRange):
            what.parse(wrong)
    for values in (np.array([1.5]), np.array([True]), np.array([[1]])):
        with pytest.raises(ValueOutOfRange):
            what.encode(values)
    with pytest.raises(ValueOutOfRange, match="One user"):
        what.randomize([1, 2])


# the smallest group decides


def test_a_short_group_is_not_released_and_a_top_up_mends_it() -> None:
    what = protocol(4)
    batch = what.aggregate(DATA)
    assert what.release(batch).users == USERS
    cells = what.groups * what.copies
    plus = batch.plus.copy()
    moved = plus[cells] - what.cell.users + 1
    plus[cells] -= moved
    plus[cells + 1] += moved
    short = replace(batch, plus=plus)
    assert what.slack(short) == -1
    with pytest.raises(ShortGroupError, match="smallest group") as raised:
        what.release(short)
    assert (raised.value.have, raised.value.need) == (what.cell.users - 1, what.cell.users)
    full = what.top_up(USERS)
    assert what.slack(short + full) >= 0 and (short + full).absent == USERS
    what.release(short + full)


def test_calls_that_no_honest_user_makes_do_not_help_a_short_group() -> None:
    what = protocol(4)
    batch = what.aggregate(DATA)
    plus, cells = batch.plus.copy(), what.groups * what.copies
    before = int(what.present(batch)[1:].min()) - what.cell.users
    plus[cells] += 30
    assert what.slack(replace(batch, plus=plus)) <= before - 30 + 1


def test_a_top_up_does_not_shift_the_estimates() -> None:
    what, off = protocol(8), []
    for run in range(30):
        entropy = SeededEntropy(run)
        one = what.renewed(entropy)
        batch = one.aggregate(DATA, entropy) + one.top_up(USERS, entropy)
        found = one.analyze(one.release(batch))
        assert found.counts.users == USERS
        off.append(found.values - TRUE)
    error = np.array([expected_error(what, label) for label in range(4)])
    assert (np.abs(np.mean(off, axis=0)) < 5 * error / math.sqrt(30)).all()


# privacy, by brute force


def cell_law(cell: BoundedCell, values: list[int]) -> Floats:
    """The law of a cell's messages when users hold these values."""
    laws = [np.array([float(mass) for mass in user_law(cell, value)]) for value in values]
    total = reduce(np.convolve, laws)
    return np.asarray(total / total.sum())


def group_law(what: FrequenciesProtocol, values: list[int]) -> Floats:
    """The joint law of all cells of one group, whose users have these hash values."""
    assert isinstance(what.cell, BoundedCell)
    wanted = range(what.copies) if what.copies > 1 else [1]
    laws = [cell_law(what.cell, [int(value == one) for value in values]) for one in wanted]
    return np.asarray(reduce(np.multiply.outer, laws))


def worst_loss(what: FrequenciesProtocol, present: int) -> float:
    """The largest log ratio of views of two groups, over everything that users can hold, when the
    value of one user changes whose group has so many users; the other group has one user."""
    k, worst = what.cells_per_group, 0.0
    assert isinstance(what.cell, BoundedCell)
    other_group = cell_law(what.cell, [1])  # the changed user sends nothing there
    for others in combinations_with_replacement(range(k), present - 1):
        views = [
            np.multiply.outer(group_law(what, [own, *others]), other_group) for own in range(k)
        ]
        for above, below in permutations(views, 2):
            seen = above > 1e-250
            worst = max(worst, float(np.log(above[seen] / below[seen]).max()))
    return worst


def two_groups(cells: int, epsilon: int, cell: Cell) -> FrequenciesProtocol:
    """Two groups that each need as many users as the cell is for."""
    return replace(
        protocol(cells),
        epsilon=F(epsilon),
        reports=2 * cell.users,
        groups=2,
        cell=independent_cell(cell),
    )


def test_two_groups_of_one_cell_lose_what_is_certified_and_a_short_one_more() -> None:
    cell = plan_count(12, 1, cell="bounded").protocol.cells[0]
    what = two_groups(2, 1, cell)
    assert certify(what).loss == 1
    assert 0.9 < worst_loss(what, 12) <= 1 + 1e-9
    assert worst_loss(what, 3) > 1.05


def test_two_groups_of_four_cells_lose_up_and_down_together() -> None:
    cell = plan_histogram(2, 6, 4, cell="bounded", rmse=1).protocol.cells[0]
    assert isinstance(cell, BoundedCell)
    what = two_groups(4, 6, cell)
    assert certify(what).loss == 6
    assert 5 < worst_loss(what, 2) <= 6 + 1e-9
    halved = replace(cell, up=replace(cell.up, odds=tuple(odds / 2 for odds in cell.up.odds)))
    weaker = replace(what, cell=halved)
    assert worst_loss(weaker, 2) > 6.02
    with pytest.raises(PrivacyViolation):
        certify(weaker)


# certificates


def test_certificates_of_weaker_groups_are_refused() -> None:
    plan = plan_frequencies(20_000, 1, max_messages=40, padded=True)
    assert verify(plan.to_dict()).protocol == plan.protocol
    what = plan.protocol
    assert protocol_from_dict(what.to_dict()) == what
    data = what.to_dict()
    weaker = protocol_from_dict({**data, "cells_per_group": 4})  # up + down is then above ε
    with pytest.raises(PrivacyViolation):
        certify(weaker)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cells_per_group": 3}, "2, 4, 8"),
        ({"cells_per_group": 1}, "2, 4, 8"),
        ({"cells_per_group": 1 << 13}, "2, 4, 8"),
        ({"groups": 0}, "groups"),
        ({"groups": 10**6}, "fewer users"),
        ({"reports": 10}, "fewer users"),
        ({"spread": F(1, 2)}, "spread"),
        ({"hash_seed": "zz"}, "hexadecimal"),
        ({"candidates": ("a", "a")}, "same"),
        ({"cell": plan_count(10, 1, cell="bounded", rmse=9).protocol.cells[0]}, None),
    ],
)
def test_bad_parameters_get_one_sentence(changes: dict[str, object], sentence: str | None) -> None:
    if sentence is None:
        replace(protocol(2), **changes)  # type: ignore[arg-type]
        return
    with pytest.raises(ParameterError, match=sentence):
        replace(protocol(2), **changes)  # type: ignore[arg-type]


def test_the_anomaly_of_honest_batches_is_small_and_that_of_flooded_ones_is_not() -> None:
    for what in (protocol(2), protocol(8)):
        batch = what.aggregate(DATA)
        assert abs(what.anomaly(batch)) < 5
        plus = batch.plus.copy()
        plus[: what.groups * what.copies] += 500
        flooded = Report(users=USERS, plus=plus, minus=batch.minus)
        assert what.anomaly(flooded) > 6

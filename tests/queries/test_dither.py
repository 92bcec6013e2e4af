"""The public dither of real sums: its law exactly, its privacy by brute force, and what it is taken
off again from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from bounded_laws import sent
from plan_parts import bounded_cell, bounded_cells, real_sum

import shuffledp_check.certificate as checker
from shuffledp import certify, plan_by_group, plan_count, plan_real_sum, verify
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import Entropy, SeededEntropy
from shuffledp.numbers.rounding import even_rounding, worst_rounding
from shuffledp.plans.plan import Plan
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.protocols.results import Estimate
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp_check.bounded import Rejected

F = Fraction


class Scripted(Entropy):
    """These 64-bit words, and after them these bits, each 64 at a time."""

    def __init__(self, words: list[int], later: list[int] | None = None) -> None:
        self.script, self.later = words, later or []

    def words(self, count: int, dtype: Any) -> Any:
        assert count == len(self.script) and dtype is np.uint64
        return np.array(self.script, np.uint64)

    def bits(self, count: int) -> int:
        assert count == 64
        return self.later.pop(0)


@cache
def rounding_variance(place: F, dither: int) -> F:
    """Of one value that lies `place` steps above 0: (k²−1)/12k² + (b−b²)/k², where b is the
    fractional part of k·place."""
    b = dither * place % 1
    return (F(dither**2 - 1, 12) + b - b * b) / dither**2


def digits_of(dither: int) -> RealSumProtocol:
    """A sum of two digits whose grid has 0..11, a step being 1."""
    plan = plan_real_sum(50, 4, bounds=(0, 11), radix=(4, 3), mse_overhead=20, cell="bounded")
    return replace(real_sum(plan), dither=dither)


def drawn(protocol: RealSumProtocol, value: float, parts: int) -> list[tuple[int, int]]:
    """(grid number, dither) for T in the middle of each of so many equal parts of [0, 1)."""
    words = [((2 * part + 1) << 63) // parts for part in range(parts)]
    codes = protocol.encode(np.full(parts, value), Scripted(words))
    return [divmod(int(code), protocol.dither) for code in codes]


DITHERS = [1, 2, 3, 4, 5, 8, 16]


@pytest.mark.parametrize("dither", DITHERS)
@pytest.mark.parametrize("sixteenths", [0, 1, 3, 8, 11, 16 * 4 + 5, 16 * 11])
def test_the_rounding_error_is_exactly_what_the_formula_says(dither: int, sixteenths: int) -> None:
    """All T are looked at: the result is the same for all of them in one of these parts."""
    protocol, place = digits_of(dither), F(sixteenths, 16)
    found = drawn(protocol, float(place), 16 * dither)
    centre = F(dither - 1, 2)
    errors = [number - (F(u) - centre) / dither - place for number, u in found]
    assert sum(errors) == 0
    variance = sum(error**2 for error in errors) / len(errors)
    assert variance == rounding_variance(place, dither) <= worst_rounding(dither)
    assert {number for number, _ in found} <= {math.floor(place), math.ceil(place)}
    # the dither itself is uniform whatever the value is
    assert set(Counter(u for _, u in found).values()) == {16}


@pytest.mark.parametrize("dither", DITHERS)
def test_worst_and_even_rounding(dither: int) -> None:
    half, none = rounding_variance(F(1, 2 * dither), dither), rounding_variance(F(0), dither)
    assert half == worst_rounding(dither)
    assert (2 * none + 4 * half) / 6 == even_rounding(dither)  # Simpson's rule, exact for squares
    assert dither == 1 or worst_rounding(dither) < worst_rounding(dither - 1)
    assert F(1, 12) < even_rounding(dither) < worst_rounding(dither)


def test_the_known_variances() -> None:
    assert [worst_rounding(k) for k in (1, 2, 4)] == [F(1, 4), F(1, 8), F(3, 32)]
    assert even_rounding(1) == F(1, 6)


def test_twin_a_dither_that_is_not_taken_off_leaves_the_old_variance() -> None:
    found = drawn(digits_of(8), 0.5, 128)
    assert sum((number - F(1, 2)) ** 2 for number, _ in found) / len(found) == F(1, 4)


@pytest.mark.parametrize(("later", "dither"), [(0, 0), (2**63, 1), (2**64 - 1, 1)])
def test_more_bits_are_drawn_where_64_leave_the_dither_open(later: int, dither: int) -> None:
    """⌊2⁶⁴/3⌋: a third lies a third of the way to the next number of 64 bits."""
    protocol, word = digits_of(3), 2**64 // 3
    codes = protocol.encode(np.array([4.0]), Scripted([word], [later]))
    assert divmod(int(codes[0]), 3) == (4, dither)
    # at its own place nothing is open: no more bits are asked for
    for sure, u in ((word - 1, 0), (word + 1, 1), (0, 0), (2**64 - 1, 2)):
        assert int(protocol.encode(np.array([4.0]), Scripted([sure]))[0]) == 12 + u


class Scripted32(Scripted):
    """The same with words of 32 bits, which tallies are made of."""

    def words(self, count: int, dtype: Any) -> Any:
        assert count == len(self.script) and dtype is np.uint32
        return np.array(self.script, np.uint32)


@pytest.mark.parametrize(("later", "dither"), [(0, 0), (2**63, 1), (2**64 - 1, 1)])
def test_tallies_draw_more_bits_where_32_leave_a_code_open(later: int, dither: int) -> None:
    protocol, word = digits_of(3), 2**32 // 3
    tally = protocol.tally_of(np.array([4.0]), Scripted32([word], [later]))
    assert np.flatnonzero(tally).tolist() == [12 + dither]
    for sure, u in ((word - 1, 0), (word + 1, 1), (1, 0)):
        found = protocol.tally_of(np.array([4.0]), Scripted32([sure]))
        assert np.flatnonzero(found).tolist() == [12 + u]


def test_tallies_round_like_single_values_do() -> None:
    """Ends of the range stay where they are; the mean of all others is theirs. The twin is biased
    by a hundredth of a step."""
    protocol, entropy = digits_of(5), SeededEntropy(6)
    ends = protocol.tally_of(np.array([0.0] * 500 + [11.0] * 500), entropy)
    assert ends.reshape(12, 5).sum(axis=1).tolist() == [500, *[0] * 10, 500]
    values = np.random.default_rng(3).uniform(0, 11, 300_000)
    tally = protocol.tally_of(values, entropy).reshape(12, 5)
    assert tally.sum() == values.size
    dithers = (tally.sum(axis=0) @ np.arange(5) - 2 * values.size) / 5
    error = tally.sum(axis=1) @ np.arange(12) - dithers - values.sum()
    deviation = math.sqrt(values.size * float(worst_rounding(5)))
    assert abs(error) < 4.5 * deviation < abs(error + values.size / 100)
    assert (np.abs(tally.sum(axis=0) - values.size / 5) < 5 * math.sqrt(values.size / 5)).all()


# privacy


def user_law(cell: BoundedCell, k: int, y: Fraction) -> dict[tuple[int, int], Fraction]:
    """How likely a user with one digit sends so many messages, with so many to the counter."""
    law: dict[tuple[int, int], Fraction] = {}
    below = math.floor(y)
    for u in range(k):
        up = min(max(k * (y - below) + u + 1 - k, F(0)), F(1))  # ⌊y + (u + U)/k⌋ is below + 1
        for number, chance in ((below, 1 - up), (below + 1, up)):
            if chance:
                for messages, mass in sent(cell, number).items():
                    place = messages, u
                    law[place] = law.get(place, F(0)) + chance * mass / k
    return law


def worst_loss(cell: BoundedCell, k: int, users: int) -> float:
    """The largest loss of (messages, dithers) of all users together when one value is replaced."""
    places = [F(n, 4) for n in range(0, 4 * cell.largest + 1, 2)]
    laws = {y: user_law(cell, k, y) for y in places}
    worst = 0.0
    for others in product(places, repeat=users - 1):
        views = {}
        for y in places:
            view = {(0, 0): F(1)}
            for held in (y, *others):
                view = added(view, laws[held])
            views[y] = view
        for one, other in product(views.values(), repeat=2):
            worst = max(worst, *(log_ratio(p, other.get(v, F(0))) for v, p in one.items()))
    return worst


def added(
    one: dict[tuple[int, int], Fraction], other: dict[tuple[int, int], Fraction]
) -> dict[tuple[int, int], Fraction]:
    total: dict[tuple[int, int], Fraction] = {}
    for (a, u), p in one.items():
        for (b, v), q in other.items():
            total[a + b, u + v] = total.get((a + b, u + v), F(0)) + p * q
    return total


def log_ratio(p: Fraction, q: Fraction) -> float:
    return math.inf if q == 0 else math.log(p / q)


@pytest.mark.parametrize("dither", [1, 2, 3])
def test_the_view_with_the_dither_is_private_by_brute_force(dither: int) -> None:
    plan = plan_real_sum(2, 2, radix=(3,), dither=dither, mse_overhead=8, cell="bounded")
    (cell,) = bounded_cells(plan)
    assert 1.0 < worst_loss(cell, dither, 2) <= 2 + 1e-12
    half = tuple(odds / 2 for odds in cell.up.odds)
    assert worst_loss(replace(cell, up=replace(cell.up, odds=half)), dither, 2) > 2  # the twin


# estimates


@cache
def coarse() -> Plan[Estimate]:
    """Rounding is most of the error."""
    return plan_real_sum(4000, 8, radix=(4,), dither=8, rmse=7, cell="bounded")


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    plan, entropy = coarse(), SeededEntropy("dither")
    values = np.full(4000, 0.5)  # half-way between two points
    errors, covered, stated, ignored = [], 0, 0.0, 0
    for _ in range(400):
        view = plan.release(plan.aggregate(values, entropy))
        found = plan.analyze(view)
        errors.append(found.value - 2000)
        covered += found.low <= 2000 <= found.high
        stated += found.rmse / 400
        shift = real_sum(plan).shift(view) * float(real_sum(plan).step)
        ignored += found.low + shift <= 2000 <= found.high + shift
    rmse = float(np.sqrt(np.mean(np.square(errors))))
    assert abs(np.mean(errors)) < 4 * rmse / 20
    assert covered > 400 * 0.95 - 4 * math.sqrt(400 * 0.05)
    assert rmse < 1.15 * stated < 1.3 * plan.forecast.rmse
    assert ignored < 340  # the twin: a dither that is not taken off


def test_both_ways_to_draw_give_the_same_law() -> None:
    plan, values = coarse(), np.tile([0.1, 0.5, 0.77, 1.0], 1000)
    for draw in (plan.aggregate, plan.randomize_all):
        counted = [draw(values, SeededEntropy(run)).plus[-1] for run in range(100)]
        mean, spread = 4000 * 7 / 2, math.sqrt(4000 * 63 / 12)
        assert abs(np.mean(counted) - mean) < 5 * spread / 10
        assert 0.7 < np.std(counted) / spread < 1.35


def test_the_noise_of_absent_users_brings_no_dither() -> None:
    plan, entropy, values = coarse(), SeededEntropy("absent"), np.full(3000, 0.3)
    protocol, found, miscounted = plan.protocol, [], []
    topped = protocol.top_up(1000, entropy)
    assert topped.plus.shape == (2,) and topped.plus[-1] == 0 == topped.minus[-1]
    for _ in range(150):
        batch = protocol.aggregate(values, entropy) + protocol.top_up(1000, entropy)
        absent = 1000 * float(protocol.absent_value)
        found.append(plan.analyze(plan.release(batch)).value - absent - 900)
        wrong = replace(batch, absent=0)  # the twin: as if all had sent a dither
        miscounted.append(plan.analyze(plan.release(wrong)).value - absent - 900)
    assert abs(np.mean(found)) < 5 * np.std(found) / math.sqrt(150)
    assert abs(np.mean(miscounted)) > 20 * np.std(found) / math.sqrt(150)


def test_a_counter_that_no_honest_users_fill_is_implausible() -> None:
    plan, entropy = coarse(), SeededEntropy("odd")
    batch = plan.aggregate(np.full(4000, 0.5), entropy)
    assert abs(plan.protocol.anomaly(batch)) < 5
    for more in (4000, -4000):
        odd = replace(batch, plus=batch.plus + np.array([0, more]))
        assert plan.protocol.anomaly(odd) * more > 6 * abs(more)
    minus = replace(batch, minus=batch.minus + np.array([0, 4000]))
    assert abs(plan.protocol.anomaly(minus)) > 6


# messages


def test_reports_have_room_for_the_counter() -> None:
    plan = coarse()
    protocol, cell = plan.protocol, bounded_cell(plan)
    assert protocol.most_messages == cell.most_messages + 7
    assert protocol.report_size(4000) == cell.most_messages + 7
    without = replace(real_sum(plan), dither=1)
    assert protocol.messages_per_user() == pytest.approx(without.messages_per_user() + 3.5)
    entropy = SeededEntropy("reports")
    reports = [protocol.randomize(0.9, entropy) for _ in range(300)]
    assert {int(report.plus[-1]) for report in reports} == set(range(8))
    assert all(report.plus.shape == (2,) and not report.minus[-1] for report in reports)


def test_the_search_takes_a_dither_where_it_helps() -> None:
    for padded in (False, True):
        free = plan_real_sum(10**4, 1, rmse="4.07", padded=padded)
        plain = plan_real_sum(10**4, 1, rmse="4.07", padded=padded, dither=1)
        sizes = [
            one.protocol.report_size(10**4) if padded else one.forecast.messages_per_user
            for one in (free, plain)
        ]
        assert real_sum(free).dither > 1 and sizes[0] < 0.8 * sizes[1]
    by_group = plan_by_group(1000, 4, 2, answer="real-sum", bounds=(0, 1))
    assert by_group.protocol.public_counters == 0


# refusals


def rewritten(protocol: dict[str, Any], dither: object) -> dict[str, Any]:
    return {**protocol, "dither": dither}


@pytest.mark.parametrize("dither", [0, -1, 1, 65, 10**30, "8", 2.5, True, None])
def test_files_with_a_wrong_dither_are_refused(dither: object) -> None:
    certificate = certify(coarse().protocol).to_dict()
    assert verify(certificate).loss <= 8 and checker.check(certificate) == 8
    odd = {**certificate, "protocol": rewritten(certificate["protocol"], dither)}
    with pytest.raises(ParameterError, match="dither"):
        verify(odd)
    with pytest.raises(Rejected, match="a field is not"):
        checker.check(odd)


@pytest.mark.parametrize(
    "plan",
    [lambda: plan_count(100, 4), lambda: plan_by_group(100, 4, 2, answer="mean", bounds=(0, 1))],
    ids=["count", "by group"],
)
def test_other_questions_have_no_dither(plan: Callable[[], Plan[Any]]) -> None:
    certificate = plan().certificate.to_dict()
    odd = {**certificate, "protocol": rewritten(certificate["protocol"], 2)}
    with pytest.raises(ParameterError, match="a field that this version does not know"):
        protocol_from_dict(odd["protocol"])
    with pytest.raises(Rejected, match="a field is not"):
        checker.check(odd)


def test_a_sum_without_a_dither_is_written_as_before() -> None:
    protocol = replace(real_sum(coarse()), dither=1)
    assert "dither" not in protocol.to_dict()
    assert protocol_from_dict(protocol.to_dict()) == protocol
    assert protocol_from_dict(coarse().protocol.to_dict()) == coarse().protocol


def test_dithers_that_cannot_be_are_refused_in_a_sentence() -> None:
    for dither in (0, -3, 65):
        with pytest.raises(ParameterError, match="dither must be a whole number, at least 1 and"):
            replace(digits_of(1), dither=dither)
        with pytest.raises(ParameterError, match="dither must be a whole number"):
            plan_real_sum(100, 1, dither=dither)
    bit = bounded_cell(plan_count(50, 1, cell="bounded"))
    with pytest.raises(ParameterError, match="smaller dither"):
        RealSumProtocol(epsilon=F(30), digits=(bit,) * 22, low=F(0), high=F(1), dither=5)

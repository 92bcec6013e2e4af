"""Counts, sums and means by private group: unbiased, with their error and coverage, and private
when a user changes groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import pytest
from bounded_oracle import user_law
from numpy.typing import NDArray
from plan_parts import held

from shuffledp import SeededEntropy, certify, plan_by_group, plan_count, verify
from shuffledp.cells.base import IndependentCell, independent_cell
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.errors import ParameterError, PrivacyViolation, ShortBatchError, ValueOutOfRange
from shuffledp.plans.plan import Plan
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.queries.by_group.protocol import PAIR, ByGroupProtocol, DirectedCell
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp_check.bounded import Rejected
from shuffledp_check.certificate import check

F = Fraction
Floats = NDArray[np.float64]
Pairs = NDArray[Any]
GROUPS = ("may", "june", "july")
SIZES = np.array([1_200, 700, 100])
USERS = int(SIZES.sum())
CASES: dict[str, dict[str, Any]] = {
    "count": {"answer": "count"},
    "integer-sum": {"answer": "integer-sum", "largest": 3},
    "real-sum": {"answer": "real-sum", "bounds": (0, 10), "rmse": 60},
    "real-sum, sizes needed": {"answer": "real-sum", "bounds": (-3, 7), "rmse": 90},
    "mean": {"answer": "mean", "bounds": (-3, 7), "rmse": "0.2"},
}


def protocol_of(plan: Plan[GroupsResult]) -> ByGroupProtocol:
    protocol = plan.protocol
    assert isinstance(protocol, ByGroupProtocol)
    return protocol


def pairs_for(protocol: ByGroupProtocol) -> Pairs:
    """Users whose values are spread over the bounds, otherwise in each group."""
    pairs = np.zeros(USERS, PAIR)
    pairs["group"] = np.repeat(np.arange(3), SIZES)
    low, high = float(protocol.low), float(protocol.high)
    part = np.random.default_rng(7).beta(1 + pairs["group"], 2)
    pairs["value"] = np.round(part * high) if protocol.whole else low + part * (high - low)
    return pairs


def true_answers(protocol: ByGroupProtocol, pairs: Pairs) -> Floats:
    sums = np.bincount(pairs["group"], pairs["value"], 3)
    return np.asarray(sums / SIZES if protocol.answer == "mean" else sums, np.float64)


def bias_in_errors(errors: Floats) -> Floats:
    """How far each mean error is from 0, in its own standard errors."""
    return np.asarray(errors.mean(axis=0) / (errors.std(axis=0) / math.sqrt(len(errors))))


# the answers


@pytest.mark.parametrize("case", CASES)
def test_answers_are_unbiased_with_their_error_and_coverage(case: str) -> None:
    plan = plan_by_group(USERS, 2, GROUPS, **CASES[case])
    protocol = protocol_of(plan)
    runs = 300 if protocol.whole else 150
    pairs = pairs_for(protocol)
    truth = true_answers(protocol, pairs)
    errors, inside, narrow, joint, shifted = [], [], [], [], []
    for seed in range(runs):
        entropy = SeededEntropy(seed)
        view = protocol.release(protocol.aggregate(pairs, entropy))
        found = plan.analyze(view)
        errors.append(found.values - truth)
        if seed < 20:
            shifted.append(plan.analyze(replace(view, users=view.users + 4)).values - truth)
        inside.append((found.low <= truth) & (truth <= found.high))
        joint.append(((found.joint_low <= truth) & (truth <= found.joint_high)).all())
        narrow.append(np.abs(errors[-1]) <= (found.high - found.low) / 6)
    measured = np.array(errors)
    sampling = 4 * math.sqrt(0.05 * 0.95 / runs)
    assert (np.mean(inside, axis=0) > 0.95 - sampling).all()
    assert np.mean(joint) > 0.95 - sampling
    assert (np.mean(narrow, axis=0) < 0.9).all()  # narrower intervals do not do
    if protocol.answer == "mean":  # a ratio is not unbiased; its bias is small against its error
        assert (np.abs(measured.mean(axis=0)) < 0.3 * measured.std(axis=0)).all()
        return
    assert (np.abs(bias_in_errors(measured)) < 4.5).all()
    assert (np.abs(bias_in_errors(np.array(shifted))) > 4.5).any()
    rmse = np.sqrt((measured**2).mean(axis=0))
    assert (rmse < 1.15 * protocol.rmse(USERS)).all()
    assert (rmse > 0.5 * protocol.rmse(USERS)).all()


@pytest.mark.parametrize("case", ["integer-sum", "mean"])
def test_every_way_of_randomizing_has_the_same_law(case: str) -> None:
    """One user after the other, all users together, and all in one draw: the same means and
    percentiles of every cell; and they see a user who is put into another group."""
    plan = plan_by_group(6, 4, ["a", "b"], **{**CASES[case], "rmse": 8})
    protocol, runs = protocol_of(plan), 500
    few = np.array([(0, 1), (1, 3), (1, 0), (1, 2), (0, 3), (1, 1)], PAIR)
    moved = few.copy()
    moved["group"] = 1 - moved["group"]
    names = [(protocol.labels[group], value) for group, value in few]

    def device(entropy: SeededEntropy) -> Any:
        reports = [protocol.randomize(name, entropy) for name in names]
        return sum(reports[1:], start=reports[0])

    entropy = SeededEntropy(3)
    ways: dict[str, Callable[[], Any]] = {
        "devices": lambda: device(entropy),
        "each": lambda: protocol.randomize_all(few, entropy),
        "together": lambda: protocol.aggregate(few, entropy),
        "moved": lambda: protocol.aggregate(moved, entropy),
    }
    drawn = {way: np.array([draw().plus for _ in range(runs)]) for way, draw in ways.items()}
    mean, spread = drawn["together"].mean(axis=0), drawn["together"].std(axis=0)

    def away(way: str) -> float:
        error = spread * math.sqrt(2 / runs)
        return float(np.abs((drawn[way].mean(axis=0) - mean) / error).max())

    assert away("devices") < 4.5 and away("each") < 4.5
    assert away("moved") > 4.5
    middle = {way: np.percentile(one, (15, 85), axis=0) for way, one in drawn.items()}
    for way in ("devices", "each"):  # rare large draws would spoil a comparison of variances
        assert np.allclose(middle[way], middle["together"], atol=1)


def test_a_batch_that_is_too_small_is_not_released_and_a_top_up_adds_nothing() -> None:
    plan = plan_by_group(USERS, 2, GROUPS, **CASES["real-sum, sizes needed"])
    protocol = protocol_of(plan)
    pairs, entropy = pairs_for(protocol), SeededEntropy(1)
    short = protocol.aggregate(pairs[:-300], entropy)
    with pytest.raises(ShortBatchError):
        plan.release(short)
    filled = short + protocol.top_up(300, entropy)
    found = plan.analyze(plan.release(filled))
    truth = np.bincount(pairs["group"][:-300], pairs["value"][:-300], 3)
    assert np.allclose(found.values, truth, atol=30 * found.rmse) and protocol.absent_value == 0
    assert abs(protocol.anomaly(filled)) < 6
    assert found.sizes is not None and abs(found.sizes[0] - 1_200) < 60


def test_means_stay_within_their_bounds_and_say_nothing_about_nobody() -> None:
    plan = plan_by_group(300, 1, GROUPS, answer="mean", bounds=(2, 4))
    pairs = np.zeros(300, PAIR)
    pairs["value"] = 3.5
    found = plan.run(pairs)
    assert ((found.values >= 2) & (found.values <= 4)).all()
    assert found.low[1] == 2 and found.high[1] == 4  # nobody is in this group
    assert "ratio of two private numbers" in found.about and "ratio" in str(found)
    assert "ratio" in plan.protocol.assumption


# privacy, by brute force


def view_law(protocol: ByGroupProtocol, users: list[tuple[int, float]]) -> Floats:
    """The joint law of all cells of all groups when users hold these pairs."""
    rows = held(protocol, protocol.encode(np.array(users, PAIR)))
    laws = []
    for number, cell in enumerate(protocol.cells):
        assert isinstance(cell, BoundedCell)
        each = [
            np.array([float(mass) for mass in user_law(cell, int(value))]) for value in rows[number]
        ]
        total = reduce(np.convolve, each)
        laws.append(total / total.sum())
    return np.asarray(reduce(np.multiply.outer, laws))


def worst_loss(protocol: ByGroupProtocol, values: list[float], present: int) -> float:
    """The largest log ratio of views over all that so many users can hold, when one of them gets
    another value, another group, or both."""
    possible = [(group, value) for group in range(len(protocol.labels)) for value in values]
    worst = 0.0
    for others in combinations_with_replacement(possible, present - 1):
        views = [view_law(protocol, [own, *others]) for own in possible]
        for above, below in permutations(views, 2):
            seen = above > 1e-250
            worst = max(worst, float(np.log(above[seen] / below[seen]).max()))
    return worst


def test_two_groups_of_a_count_lose_up_and_down_together() -> None:
    protocol = protocol_of(plan_by_group(3, 2, ["a", "b"], rmse=4, cell="bounded"))
    assert certify(protocol).loss == 2
    assert 1.6 < worst_loss(protocol, [0, 1], 3) <= 2 + 1e-9


def test_a_rule_that_charges_one_direction_only_is_refuted() -> None:
    """The cell of a count without groups, whose loss is max(up, down): by group it is broken."""
    cell = independent_cell(plan_count(3, 2, cell="bounded", rmse=4).protocol.cells[0])
    broken = replace(
        protocol_of(plan_by_group(3, 2, ["a", "b"], rmse=4)), digits=(DirectedCell(cell, F(2)),)
    )
    assert broken.loss() == 4 and worst_loss(broken, [0, 1], 3) > 2.5
    with pytest.raises(PrivacyViolation, match="add up to 4"):
        certify(broken)


def test_a_mean_also_pays_for_the_size_of_a_group() -> None:
    plan = plan_by_group(2, 8, ["a", "b"], answer="mean", bounds=(0, 1), rmse=2)
    protocol = protocol_of(plan)
    ends = [0.0, 1.0]
    assert 6 < worst_loss(protocol, ends, 2) <= 8 + 1e-9
    assert protocol.sizes is not None
    forgotten = sum((use.up + use.down for use in protocol.members[:-1]), start=F(0))
    assert worst_loss(protocol, ends, 2) > float(forgotten)


# certificates


def test_certificates_are_proved_again_by_both_programs_and_weaker_ones_refused() -> None:
    for case in CASES.values():
        plan = plan_by_group(USERS, 1, GROUPS, **case)
        data = plan.to_dict()
        assert verify(data).protocol == plan.protocol and check(data) == 1
        assert protocol_from_dict(plan.protocol.to_dict()) == plan.protocol
    weaker = plan.certificate.to_dict()
    weaker["protocol"]["sizes"]["down"] = "1"
    with pytest.raises(PrivacyViolation):
        verify(weaker)
    with pytest.raises(Rejected, match="losses add up to more than epsilon"):
        check(weaker)
    del weaker["protocol"]["sizes"]
    with pytest.raises(ParameterError, match="Sizes of groups"):
        verify(weaker)
    with pytest.raises(Rejected, match="sizes of groups"):
        check(weaker)


def cell(largest: int, users: int = 10) -> IndependentCell:
    plan = plan_by_group(users, 4, 2, answer="integer-sum", largest=largest, rmse=30)
    return independent_cell(plan.protocol.cells[0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": ("a",)}, "2 to"),
        ({"labels": ("a", 1)}, "all texts or all whole"),
        ({"labels": tuple(range(1_001))}, "1,000"),
        ({"answer": "median"}, "one of count"),
        ({"low": F(-1)}, "Sizes of groups"),
        ({"sizes": 1}, "Sizes of groups"),
        ({"answer": "mean"}, "Sizes of groups"),
        ({"answer": "mean", "sizes": 3}, "values 0 and 1"),
        ({"high": F(7)}, "one digit"),
        ({"answer": "count"}, "0 and 1"),
    ],
)
def test_bad_parameters_get_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    good = ByGroupProtocol(
        epsilon=F(4),
        answer="integer-sum",
        labels=("a", "b"),
        low=F(0),
        high=F(3),
        digits=(DirectedCell(cell(3), F(2)),),
    )
    if "sizes" in changes:  # by its largest value: planned here, not when tests are collected
        changes = {**changes, "sizes": DirectedCell(cell(changes["sizes"]), F(1))}
    with pytest.raises(ParameterError, match=sentence):
        replace(good, **changes)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"answer": "sum"}, "answer must be one of"),
        ({"answer": "integer-sum"}, "largest"),
        ({"largest": 3}, "largest"),
        ({"answer": "mean"}, "bounds"),
        ({"bounds": (0, 1)}, "bounds"),
        ({"answer": "mean", "bounds": (1, 0)}, "lower bound"),
        ({"answer": "mean", "bounds": (0, 1), "max_messages": 9}, "need an error as target"),
        ({"cell": "paper"}, "bounded cells"),
        ({"groups": "ab"}, "list of labels"),
        ({"groups": ["a", "a"]}, "same label"),
        ({"epsilon": 0}, "epsilon"),
        ({"users": 0}, "users"),
        ({"rmse": 1, "mse_overhead": 1}, "mse_overhead and rmse cannot be combined"),
    ],
)
def test_bad_plans_get_one_sentence(given: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"users": 100, "epsilon": 1, "groups": GROUPS, **given}
    with pytest.raises(ParameterError, match=sentence):
        plan_by_group(**asked)


def test_values_that_are_no_pairs_of_a_group_and_a_value_are_refused() -> None:
    whole = plan_by_group(100, 4, GROUPS, answer="integer-sum", largest=3)
    protocol = whole.protocol
    for bad, sentence in (
        (1, "a pair"),
        (("may",), "a pair"),
        (("march", 1), "groups that were not declared"),
        (("may", "much"), "must be a number"),
        (("may", 4), "outside"),
        (("may", -1), "outside"),
        (("may", math.nan), "missing"),
        (("may", 0.5), "whole numbers"),
    ):
        with pytest.raises(ValueOutOfRange, match=sentence):
            whole.randomize(bad)
    with pytest.raises(ValueOutOfRange, match="pairs of a group"):
        protocol.encode(np.array([1, 2]))
    with pytest.raises(ValueOutOfRange, match="groups that were not declared"):
        protocol.encode(np.array([(3, 1)], PAIR))
    assert protocol.parse("may=2") == ("may", 2.0)
    for text in ("2", "march=2", "may=9", "may=", "may"):
        with pytest.raises(ValueOutOfRange):
            protocol.parse(text)
    assert protocol.encode(protocol.sample_values(10)).max() < 12

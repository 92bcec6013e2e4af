"""Counts by private group whose cell draws all groups at once: pooled or sparse."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import shuffledp
from shuffledp import SeededEntropy, plan_by_group, verify
from shuffledp.errors import ParameterError
from shuffledp.plans.plan import Plan
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.queries.by_group.protocol import PAIR, ByGroupProtocol
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp_check.bounded import Rejected
from shuffledp_check.certificate import check

F = Fraction
Pairs = NDArray[Any]
YES = np.array([900, 250, 40, 0])
"""How many users of each group hold 1; as many hold 0."""
USERS = 2 * int(YES.sum())
ASKED: dict[str, dict[str, Any]] = {
    "pooled": {"cell": "pooled"},
    "sparse": {"cell": "sparse", "error_at": 100},
}


def protocol_of(plan: Plan[GroupsResult]) -> ByGroupProtocol:
    protocol = plan.protocol
    assert isinstance(protocol, ByGroupProtocol)
    return protocol


def pairs_of(yes: NDArray[np.int64]) -> Pairs:
    pairs = np.zeros(2 * int(yes.sum()), PAIR)
    pairs["group"] = np.repeat(np.arange(len(yes)), 2 * yes)
    pairs["value"] = np.arange(len(pairs)) % 2
    return pairs


@pytest.mark.parametrize("kind", ASKED)
def test_counts_are_unbiased_with_their_error_and_coverage(kind: str) -> None:
    plan = plan_by_group(USERS, 2, 4, **ASKED[kind])
    protocol, pairs, runs = protocol_of(plan), pairs_of(YES), 250
    errors, inside, joint, narrow, shifted = [], [], [], [], []
    for seed in range(runs):
        view = protocol.release(protocol.aggregate(pairs, SeededEntropy(seed)))
        found = plan.analyze(view)
        errors.append(found.values - YES)
        inside.append((found.low <= YES) & (found.high >= YES))
        joint.append(((found.joint_low <= YES) & (found.joint_high >= YES)).all())
        narrow.append(np.abs(errors[-1]) <= (found.high - found.low) / 6)
        shifted.append(plan.analyze(replace(view, users=view.users + USERS // 2)).values - YES)
    measured, sampling = np.array(errors), 4 * math.sqrt(0.05 * 0.95 / runs)
    forecast = np.array([protocol.rmse_at(USERS, F(int(yes))) for yes in YES])
    assert (np.abs(measured.mean(axis=0)) < 4.5 * forecast / math.sqrt(runs)).all()
    assert (np.abs(np.mean(shifted, axis=0)) > 4.5 * forecast / math.sqrt(runs)).any()
    rmse = np.sqrt((measured**2).mean(axis=0))
    assert (rmse < 1.15 * forecast).all()
    assert (rmse > 0.7 * forecast).all()  # rare jumps have a part in it
    assert (rmse < 0.7 * protocol.rmse(10 * USERS)).all()  # for other users it is not
    assert (np.mean(inside, axis=0) > 0.95 - sampling).all()
    assert np.mean(joint) > 0.95 - sampling
    assert (np.mean(narrow, axis=0) < 0.9).all()


@pytest.mark.parametrize("kind", ASKED)
def test_every_way_of_randomizing_has_the_same_law(kind: str) -> None:
    protocol, runs = protocol_of(plan_by_group(6, 3, ["a", "b"], **ASKED[kind])), 600
    few = np.array([(0, 1), (1, 1), (1, 0), (1, 1), (0, 1), (1, 1)], PAIR)
    moved = few.copy()
    moved["value"] = 1 - moved["value"]
    names = [(protocol.labels[group], value) for group, value in few]
    entropy = SeededEntropy(3)

    def devices() -> NDArray[np.int64]:
        return sum(protocol.randomize(name, entropy).plus for name in names)  # type: ignore[return-value]

    drawn = {
        "devices": [devices() for _ in range(runs)],
        "each": [protocol.randomize_all(few, entropy).plus for _ in range(runs)],
        "together": [protocol.aggregate(few, entropy).plus for _ in range(runs)],
        "moved": [protocol.aggregate(moved, entropy).plus for _ in range(runs)],
    }
    mean, spread = np.mean(drawn["together"], axis=0), np.std(drawn["together"], axis=0)

    def away(way: str) -> float:
        return float(
            np.abs((np.mean(drawn[way], axis=0) - mean) / (spread * math.sqrt(2 / runs))).max()
        )

    assert len(mean) == 3  # two groups, and the users who hold 0
    assert away("devices") < 4.5 and away("each") < 4.5
    assert away("moved") > 4.5


@pytest.mark.parametrize("kind", ASKED)
def test_certificates_are_proved_again_by_both_programs_and_spoilt_ones_refused(kind: str) -> None:
    plan = plan_by_group(USERS, 1, ["a", "b", "c"], **ASKED[kind])
    data = json.loads(json.dumps(plan.to_dict()))
    assert verify(data).protocol == plan.protocol and check(data) == 1
    assert protocol_from_dict(plan.protocol.to_dict()) == plan.protocol

    def more(protocol: Any) -> None:
        protocol["labels"].append("d")  # and no bucket for those who hold 0

    def down(protocol: Any) -> None:
        protocol["digits"][0]["down"] = "1/100"

    def twice(protocol: Any) -> None:
        protocol["digits"] *= 2

    def total(protocol: Any) -> None:
        protocol["answer"] = "integer-sum"

    for spoil in (more, down, twice, total):
        spoilt = json.loads(json.dumps(data))["certificate"]
        spoil(spoilt["protocol"])
        with pytest.raises(ParameterError):
            verify(spoilt)
        with pytest.raises(Rejected):
            check(spoilt)


@pytest.mark.parametrize("kind", ASKED)
def test_missing_users_count_nothing_and_false_totals_are_seen(kind: str) -> None:
    protocol, entropy = protocol_of(plan_by_group(USERS, 2, 4, **ASKED[kind])), SeededEntropy(5)
    there = pairs_of(YES)[:-300]
    batch = protocol.aggregate(there, entropy) + protocol.top_up(300, entropy)
    found = protocol.analyze(protocol.release(batch))
    truth = np.bincount(there["group"], there["value"], 4)
    assert np.allclose(found.values, truth, atol=6 * protocol.rmse(USERS))
    assert abs(protocol.anomaly(batch)) < 6
    more = np.zeros_like(batch.plus)
    more[0] = 40 * USERS
    assert protocol.anomaly(replace(batch, plus=batch.plus + more)) > 6


def test_the_kind_that_costs_least_is_taken() -> None:
    def kind_of(groups: int, **asked: Any) -> str:
        return protocol_of(plan_by_group(10**4, 1, groups, **asked)).digits[0].cell.kind

    assert kind_of(2) == kind_of(2, padded=True) == "bounded"
    assert kind_of(20) == kind_of(3, padded=True) == kind_of(5_000, padded=True) == "pooled"
    assert kind_of(5_000, error_at=100) == kind_of(500, max_messages=25, padded=True) == "sparse"
    assert kind_of(20, cell="bounded") == "bounded"


def test_many_groups_take_the_kind_with_the_shorter_report() -> None:
    asked: dict[str, Any] = {"mse_overhead": "0.05", "padded": True}
    sizes = [
        plan_by_group(10**6, 5, 101, cell=cell, **asked).protocol.report_size(10**6)
        for cell in ("bounded", "pooled", "best")
    ]
    assert sizes[1] == sizes[2] < sizes[0]


def test_thousands_of_groups_in_one_call() -> None:
    names = [f"group {number}" for number in range(3_000)]
    group = np.random.default_rng(1).zipf(1.3, 50_000) % 3_000
    yes = np.arange(50_000) % 2 == 0
    found = shuffledp.count(
        yes,
        epsilon=1,
        by=[names[one] for one in group],
        groups=names,
        error_at=100,
        entropy=SeededEntropy(2),
    )
    truth = np.bincount(group, yes, 3_000)
    assert found.messages_per_user < 1 and found.rmse < 200
    assert ((found.low <= truth) & (found.high >= truth)).mean() > 0.95
    assert ((found.joint_low <= truth) & (found.joint_high >= truth)).all()
    shown = str(found).splitlines()
    assert len(shown) < 30 and "largest of 3,000 groups" in str(found) and "group 1 " in shown[1]
    assert len(found.to_dict()["groups"]) == 3_000


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"error_at": 9}, "private group"),
        ({"error_at": 9, "by": ["a", "b"], "groups_public": True}, "private group"),
        ({"error_at": -1, "by": ["a", "b"], "groups": ["a", "b"]}, "at least 0"),
        ({"by": ["a", "b"], "groups": range(10**5 + 1)}, "100,000"),
    ],
)
def test_bad_counts_get_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        shuffledp.count([True, False], epsilon=1, **given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"answer": "integer-sum", "largest": 1, "cell": "sparse"}, "leave cell out"),
        ({"answer": "integer-sum", "largest": 1, "error_at": 3}, "counts by group"),
        ({"answer": "integer-sum", "largest": 1, "groups": 1_001}, "1,000"),
        ({"groups": 100_001}, "100,000"),
        ({"error_at": 3, "mse_overhead": 1}, "drop one"),
    ],
)
def test_bad_plans_get_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        plan_by_group(**{"users": 100, "epsilon": 1, "groups": 3, **given})

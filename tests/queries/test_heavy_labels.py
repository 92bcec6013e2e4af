"""Histograms with heavy labels: exact cells beside a sparse part, certified together."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from both_checkers import accepted

import shuffledp
from shuffledp import Plan, SeededEntropy, plan_histogram
from shuffledp.cli.main import main
from shuffledp.errors import InputError, PlanningError
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import HistogramResult
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task

USERS = 20_000
RARE = [f"x{n}" for n in range(300)]
LABELS = ["DE", *RARE[:100], "US", *RARE[100:]]
HEAVY = ["US", "DE"]
COUNTS = np.array([6_000, *[20] * 100, 10_000, *[10] * 200])
VALUES = np.repeat(np.array(LABELS, object), COUNTS)


@pytest.fixture(scope="module")
def plan() -> Plan[HistogramResult]:
    return plan_histogram(USERS, 1, LABELS, heavy=HEAVY)


def test_heavy_labels_are_exact_and_the_others_follow_their_count(
    plan: Plan[HistogramResult],
) -> None:
    shown = plan.to_dict()
    assert shown["rmse_heavy"] < 4 < shown["rmse_at"] < 16 < shown["rmse"]
    assert shown["cells"] == ["bounded", "kept"]
    assert shown["certificate"]["rule"] == "larger up + larger down"
    assert plan.padding == "exact" and plan.report_size == plan.protocol.most_messages
    assert Plan.from_dict(json.loads(json.dumps(shown))).protocol == plan.protocol
    assert "heavy" in str(plan) and "for 2 labels" in str(plan)


@pytest.mark.parametrize("aggregated", [True, False])
def test_answers_have_the_forecast_error_and_cover_the_truth(
    plan: Plan[HistogramResult], aggregated: bool
) -> None:
    assert len(VALUES) == USERS
    draw = plan.aggregate if aggregated else plan.randomize_all
    errors, inside, joint, runs = [], [], [], 12
    for seed in range(runs):
        found = plan.analyze(plan.release(draw(VALUES, SeededEntropy(seed))))
        errors.append(found.values - COUNTS)
        inside.append((found.low <= COUNTS) & (found.high >= COUNTS))
        joint.append(((found.joint_low <= COUNTS) & (found.joint_high >= COUNTS)).all())
    square, heavy = np.array(errors) ** 2, np.array([label in HEAVY for label in LABELS])
    assert np.sqrt(square[:, heavy].mean()) < 1.8 * plan.to_dict()["rmse_heavy"]
    for count in (10, 20):
        held = np.equal(COUNTS, count)
        measured = np.sqrt(square[:, held].mean())
        assert 0.85 < measured / plan.protocol.rmse_at(USERS, Fraction(count)) < 1.15
        mean = abs(np.array(errors)[:, held].mean())
        assert mean < 5 * measured / math.sqrt(runs * held.sum()) + 0.1
    assert np.mean(inside) > 0.94 and np.mean(joint) > 0.7
    # a sparse part for all labels errs far more on the heavy ones
    assert plan.protocol.rmse_at(USERS, Fraction(10_000)) > 20 * plan.to_dict()["rmse_heavy"]


def test_one_user_sends_to_both_parts(plan: Plan[HistogramResult]) -> None:
    one = plan.randomize("x7", SeededEntropy(1))
    assert isinstance(one, Report) and one.plus.shape == (302,)
    assert one.minus[2:].sum() == 0 and one.plus.sum() + one.minus.sum() <= plan.report_size


def test_missing_users_are_topped_up_and_honest_batches_are_plausible(
    plan: Plan[HistogramResult],
) -> None:
    batch = plan.aggregate(VALUES[:-500], SeededEntropy(3))
    batch = batch + plan.protocol.top_up(500, SeededEntropy(4))
    found = plan.analyze(plan.release(batch))
    assert found["US"][1] - 30 <= 10_000 <= found["US"][2] + 30
    assert abs(plan.protocol.anomaly(batch)) < 6
    flooded = batch.plus.copy()
    flooded[2:] += 60  # more tokens than all users together send
    forged = Report(users=batch.users, plus=flooded, minus=batch.minus, absent=500)
    assert plan.protocol.anomaly(forged) > 8


Damage = Callable[[dict[str, Any]], object]
ATTACKS: dict[str, Damage] = {
    "a smaller epsilon": lambda p: p.update(epsilon="9/10"),
    "one more heavy label": lambda p: p["heavy"]["labels"].append("x1"),
    "a heavy label twice": lambda p: p["heavy"].update(labels=["US", "US"]),
    "a heavy label that is none": lambda p: p["heavy"].update(labels=["US", "FR"]),
    "no heavy labels": lambda p: p["heavy"].update(labels=[]),
    "no list of heavy labels": lambda p: p.pop("heavy"),
    "the exact cell for all labels": lambda p: p.update(cell=p["heavy"]["cell"]),
    "a kept cell for heavy labels": lambda p: p["heavy"].update(cell=p["cell"]),
    "a larger loss downwards": lambda p: p["cell"].update(down="3/5"),
    "a larger loss upwards": lambda p: p["cell"].update(up="3/5"),
    "one label more": lambda p: p["labels"].append("FR"),
    "other users in one part": lambda p: p["cell"].update(users=USERS - 1),
}


def test_both_programs_accept_the_certificate(plan: Plan[HistogramResult]) -> None:
    assert accepted(plan.certificate.to_dict()) == (True, True)


@pytest.mark.parametrize("name", ATTACKS)
def test_both_programs_refuse_every_attack(plan: Plan[HistogramResult], name: str) -> None:
    data = copy.deepcopy(plan.certificate.to_dict())
    ATTACKS[name](data["protocol"])
    assert accepted(data) == (False, False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heavy": ["FR"]}, "one of the labels"),
        ({"heavy": ["US", "US"]}, "twice"),
        ({"heavy": LABELS}, "leave heavy out"),
        ({"heavy": "US"}, "a list"),
        ({"heavy": HEAVY, "rmse": 10}, "max_messages and error_at"),
        ({"heavy": HEAVY, "cell": "paper"}, "max_messages and error_at"),
        ({"heavy": HEAVY, "max_messages": 20}, "list fewer"),
    ],
)
def test_bad_requests_get_one_sentence(options: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, PlanningError), match=said) as caught:
        plan_histogram(USERS, 1, LABELS, **options)
    assert str(caught.value).count(". ") == 0


def test_the_call_the_command_and_a_condition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame({"country": VALUES, "old": np.arange(USERS) % 2})
    found = shuffledp.histogram(
        frame, column="country", epsilon=1, labels=LABELS, heavy=HEAVY, where="old = 1", seed=1
    )
    assert found.labels == tuple(LABELS) and abs(found["US"][0] - 5_000) < 25
    frame.to_csv(tmp_path / "rows.csv", index=False)
    labels = ",".join(LABELS)
    command = ["histogram", str(tmp_path / "rows.csv"), "--column", "country", "--epsilon", "1"]
    assert main([*command, "--labels", labels, "--heavy", "US,DE", "--json"]) == 0
    rows = {row["label"]: row for row in json.loads(capsys.readouterr().out)["buckets"]}
    assert abs(rows["US"]["estimate"] - 10_000) < 60  # in 1 release of 160, a user jumps by 27
    plan = ["plan", "histogram", "--users", "1e5", "--epsilon", "1", "--labels", "1000"]
    assert main([*plan, "--heavy", "3,7", "--output", "-"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["certificate"]["protocol"]["heavy"]["labels"] == [3, 7]


def test_a_task_with_heavy_labels(tmp_path: Path) -> None:
    key = KeyFolder(tmp_path / "keys").new()
    plan = plan_histogram(12, 8, ["a", "b", "c", "d"], heavy=["b"])
    task = Task.create(plan.to_dict(), key.public, "which")
    sizes = {len(encrypt_report(task, value)) for value in "abcd"}
    assert len(sizes) == 1  # whatever is held

"""A confidence that no interval can be computed for is refused wherever one is given, before
anything is planned, opened or charged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run

import shuffledp
from shuffledp import Ledger, plan_count
from shuffledp.baselines import run as run_baseline
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.queries.count.query import CountQuery
from shuffledp.release.publish import publish

PLAN = plan_count(50, 1)
BATCH = PLAN.aggregate(np.ones(50, np.int64))
VIEW = PLAN.release(BATCH)
BITS = [True] * 50
WRONG = [0.9999999999999999, 1.0, 0.0, -1, float("nan"), "much"]
WAYS: dict[str, Callable[..., Any]] = {
    "count": lambda **how: shuffledp.count(BITS, epsilon=1, **how),
    "histogram": lambda **how: shuffledp.histogram(["a"] * 50, epsilon=1, labels=["a", "b"], **how),
    "mean": lambda **how: shuffledp.mean([0.5] * 50, epsilon=1, bounds=(0, 1), **how),
    "quantiles": lambda **how: shuffledp.quantiles([0.5] * 50, epsilon=1, bounds=(0, 1), **how),
    "another protocol": lambda confidence, **_: shuffledp.count(
        BITS, epsilon=1, protocol="local", confidence=confidence
    ),
    "the query itself": lambda **how: CountQuery(epsilon=1, **how),
    "Plan.analyze": lambda confidence, **_: PLAN.analyze(VIEW, confidence),
    "Plan.run": lambda confidence, **_: PLAN.run(BITS, SeededEntropy(1), confidence),
    "Protocol.analyze": lambda confidence, **_: PLAN.protocol.analyze(VIEW, confidence),
    "publish": lambda **how: publish(PLAN.protocol, BATCH, what="x", **how),
    "baselines.run": lambda confidence, **_: run_baseline(
        "count", "local", np.ones(50, np.int64), 1, confidence=confidence
    ),
}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.json", 5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_confidences_are_refused_everywhere(way: str, wrong: object, ledger: Ledger) -> None:
    with pytest.raises(ParameterError, match="confidence"):
        WAYS[way](confidence=wrong, ledger=ledger)
    assert ledger.remaining() == 5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("right", [0.95, "0.5", 1 - 1e-9])
def test_twin_possible_ones_are_taken(way: str, right: object, ledger: Ledger) -> None:
    WAYS[way](confidence=right, ledger=ledger)


@pytest.mark.parametrize("wrong", ["0.9999999999999999", "1", "much"])
def test_the_command_line_refuses_them_too(
    wrong: str, tmp_path: Path, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bits.csv"
    file.write_text("bit\n" + "1\n" * 50)
    ask = ("count", str(file), "--epsilon", "1", "--ledger", str(ledger.path))
    code, _, said = run(capsys, *ask, "--confidence", wrong)
    assert code == 2 and "confidence" in said
    assert ledger.remaining() == 5

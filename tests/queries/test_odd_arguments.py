"""Arguments of a wrong type are refused in one sentence; plans survive pickling, proved again."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp.errors import ParameterError, PrivacyViolation
from shuffledp.plans import plan as plans

BITS = [True, False] * 50


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ledger": 5}, "ledger must be a Ledger"),
        ({"ledger": ["budget.json"]}, "ledger must be a Ledger"),
        ({"progress": 3}, "progress must be a function"),
        ({"progress": "yes"}, "progress must be a function"),
    ],
)
def test_wrong_types_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        shuffledp.count(BITS, epsilon=1, **wrong)


@pytest.mark.parametrize("wrong", ["no", 1, 0.0])
def test_points_are_true_or_false(wrong: Any) -> None:
    values = np.arange(100) % 10
    with pytest.raises(ParameterError, match="points must be True or False"):
        shuffledp.quantiles(values, epsilon=1, bounds=(0, 9), points=wrong)
    assert shuffledp.quantiles(values, epsilon=1, bounds=(0, 9)).axis.points
    assert not shuffledp.quantiles(values, epsilon=1, bounds=(0, 9), points=False).axis.points


def test_a_pickled_plan_is_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = shuffledp.plan_count(50, 1)
    packed = pickle.dumps(plan)
    assert pickle.loads(packed).to_dict() == plan.to_dict()

    def refused(_: object) -> None:
        raise PrivacyViolation("no", {})

    monkeypatch.setattr(plans, "verify", refused)
    with pytest.raises(PrivacyViolation):
        pickle.loads(packed)


def test_everybody_is_counted_exactly() -> None:
    found = shuffledp.quantiles(np.linspace(0, 99, 300), epsilon=1, bounds=(0, 100), points=False)
    everybody = found.between(0, 100)
    assert (everybody.value, everybody.low, everybody.high, everybody.rmse) == (300, 300, 300, 0)
    assert everybody.query == "count in [0, 100)"
    assert found.between(0, 50).low < found.between(0, 50).high

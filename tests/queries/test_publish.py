"""Publishing: a short batch costs nothing, a release is paid for before it is made."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from shuffledp import Ledger, plan_count
from shuffledp.errors import BudgetExceeded, ParameterError, SeededError, ShortBatchError
from shuffledp.exact.seeded import SeededEntropy
from shuffledp.queries.publish import publish

PLAN = plan_count(100, 1)
VALUES = np.arange(100) % 2


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.json", 2)


def test_a_release_is_charged_and_carries_its_certificate(ledger: Ledger) -> None:
    proof = PLAN.certificate.to_dict()
    batch = PLAN.aggregate(VALUES)
    found = publish(
        PLAN.protocol, batch, confidence=0.9, ledger=ledger, what="a count", certificate=proof
    )
    assert found.certificate == proof and found.confidence == 0.9 and found.users == 100
    assert [(entry.epsilon, entry.what) for entry in ledger.entries()] == [(Fraction(1), "a count")]


def test_a_short_batch_charges_nothing(ledger: Ledger) -> None:
    batch = PLAN.aggregate(VALUES[:99])
    with pytest.raises(ShortBatchError):
        publish(PLAN.protocol, batch, confidence=0.95, ledger=ledger, what="short")
    assert ledger.entries() == []


def test_a_wrong_confidence_charges_nothing(ledger: Ledger) -> None:
    batch = PLAN.aggregate(VALUES)
    for confidence in (0, 1, float("nan")):
        with pytest.raises(ParameterError, match="between 0 and 1"):
            publish(PLAN.protocol, batch, confidence=confidence, ledger=ledger, what="wrong")
    assert ledger.entries() == []


def test_seeded_batches_are_published_only_without_a_ledger(ledger: Ledger) -> None:
    batch = PLAN.aggregate(VALUES, SeededEntropy(1))
    with pytest.raises(SeededError):
        publish(PLAN.protocol, batch, confidence=0.95, ledger=ledger, what="seeded")
    assert ledger.entries() == []
    assert publish(PLAN.protocol, batch, confidence=0.95, what="seeded").seeded


def test_beyond_the_budget_nothing_is_released(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.spend("1.5", "before")
    batch = PLAN.aggregate(VALUES)
    monkeypatch.setattr(type(PLAN.protocol), "release", lambda *_: pytest.fail("released"))
    with pytest.raises(BudgetExceeded):
        publish(PLAN.protocol, batch, confidence=0.95, ledger=ledger, what="too much")
    assert len(ledger.entries()) == 1


def test_the_charge_is_on_disk_before_the_release(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        assert Ledger(ledger.path).spent() == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(type(PLAN.protocol), "release", crash)
    with pytest.raises(KeyboardInterrupt):
        publish(PLAN.protocol, PLAN.aggregate(VALUES), confidence=0.95, ledger=ledger, what="crash")
    assert ledger.spent() == 1


def test_once_charges_a_repeated_release_once(ledger: Ledger) -> None:
    batch = PLAN.aggregate(VALUES)
    for _ in range(5):
        publish(PLAN.protocol, batch, confidence=0.95, ledger=ledger, what="batch 7", once=True)
    publish(PLAN.protocol, batch, confidence=0.95, ledger=ledger, what="batch 8", once=True)
    assert [entry.what for entry in ledger.entries()] == ["batch 7", "batch 8"]
    with pytest.raises(BudgetExceeded):
        publish(PLAN.protocol, batch, confidence=0.95, ledger=ledger, what="batch 8")

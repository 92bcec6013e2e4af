"""Publishing: a short batch costs nothing, and whatever is paid for can be shown."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import shuffledp
from shuffledp import Ledger, plan_count
from shuffledp.errors import BudgetExceeded, ParameterError, SeededError, ShortBatchError
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.release.publish import publish, publish_once

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
        with pytest.raises(ParameterError, match="confidence"):
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


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


CRASHES = {
    "release": "shuffledp.queries.count.protocol.CountProtocol.release",
    "analyze": "shuffledp.queries.count.protocol.CountProtocol.analyze",
    "result as JSON": "shuffledp.protocols.results.Estimate.to_dict",
    "reading the ledger": "shuffledp.release.ledger.Ledger.read",
    "before the file": "shuffledp.documents.files.os.open",
    "before the rename": "shuffledp.documents.files.os.replace",
    "after the rename": "shuffledp.documents.files.sync",
}


@pytest.mark.parametrize("place", CRASHES)
def test_a_crash_leaves_no_charge_or_a_result(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    batch = PLAN.aggregate(VALUES)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CRASHES[place], stop)
        publish(PLAN.protocol, batch, confidence=0.95, ledger=ledger, what="crash")
    assert [path.name for path in ledger.path.parent.glob(".budget*")] == []
    found = ledger.entries()
    assert len(found) == (place == "after the rename")
    assert all(entry.result is not None for entry in found)


def test_out_of_memory_leaves_no_charge(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(PLAN.protocol), "analyze", no_memory)
    with pytest.raises(MemoryError):
        publish(PLAN.protocol, PLAN.aggregate(VALUES), confidence=0.95, ledger=ledger, what="big")
    assert ledger.entries() == []


KILLED = """
import os, sys
import numpy as np
import shuffledp
from shuffledp import Ledger, plan_count
from shuffledp.release import publish
from shuffledp.documents import files

place, path = sys.argv[1:]
stop = lambda *_, **__: os._exit(9)
plan = plan_count(100, 1)
batch = plan.aggregate(np.arange(100) % 2)
if place == "after the charge":
    spend = Ledger.spend
    Ledger.spend = lambda *args, **words: (spend(*args, **words), os._exit(9))
elif place == "analyze":
    type(plan.protocol).analyze = stop
else:
    setattr(files.os if place == "replace" else files, place, stop)
publish.publish(plan.protocol, batch, confidence=0.95, ledger=Ledger(path), what="killed")
"""


@pytest.mark.parametrize("place", ["analyze", "replace", "sync", "after the charge"])
def test_a_kill_leaves_no_charge_or_a_result(ledger: Ledger, place: str) -> None:
    words = [sys.executable, "-c", KILLED, place, str(ledger.path)]
    assert subprocess.run(words, check=False).returncode == 9
    found = ledger.entries()
    assert len(found) == (place in ("sync", "after the charge"))
    assert all(entry.result is not None and "interval" in entry.result for entry in found)


def test_the_ledger_keeps_the_result_and_the_note(ledger: Ledger) -> None:
    found = shuffledp.mean(
        [0.5, 1.0] * 50, epsilon=1, bounds=(0, 1), ledger=ledger, note="for the report"
    )
    (entry,) = ledger.entries()
    assert entry.result == found.to_dict() and entry.note == "for the report"
    assert entry.result["query"] == "mean"  # what was given, not the sum that it is made of
    with pytest.raises(ParameterError, match="stored in a ledger"):
        shuffledp.count([1], epsilon=1, note="for nobody")


def test_a_batch_is_drawn_and_charged_once(ledger: Ledger) -> None:
    draws: list[int] = []

    def draw() -> dict[str, int]:
        draws.append(len(draws))
        return {"draw": draws[-1]}

    found = [publish_once(ledger, Fraction(1), "batch 7", draw) for _ in range(5)]
    assert found == [{"draw": 0}] * 5 and draws == [0]
    assert publish_once(ledger, Fraction(1), "batch 8", draw) == {"draw": 1}
    assert [entry.what for entry in ledger.entries()] == ["batch 7", "batch 8"]
    with pytest.raises(BudgetExceeded):
        publish_once(ledger, Fraction(1), "batch 9", draw)
    assert draws == [0, 1]


def test_of_two_draws_at_once_the_first_in_the_ledger_counts(ledger: Ledger) -> None:
    def draw() -> dict[str, str]:
        ledger.spend_once(1, "batch", {"by": "another process"})
        return {"by": "this one"}

    assert publish_once(ledger, Fraction(1), "batch", draw) == {"by": "another process"}
    assert ledger.spent() == 1


def test_a_line_without_a_result_is_not_drawn_again(ledger: Ledger) -> None:
    ledger.spend(1, "batch")
    found = publish_once(ledger, Fraction(1), "batch", lambda: pytest.fail("drawn"))
    assert found is None and ledger.spent() == 1

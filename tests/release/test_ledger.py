"""The ledger: exact, refused before it is recorded, safe between processes."""

from __future__ import annotations

import multiprocessing
import os
from fractions import Fraction
from multiprocessing.queues import Queue
from pathlib import Path

import numpy as np
import pytest

import shuffledp
from shuffledp.documents.files import write_whole
from shuffledp.errors import BudgetExceeded, ParameterError, SeededError, ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.release.ledger import Ledger

FLAGS = np.arange(2000) % 4 == 0


def test_the_ledger_refuses_before_it_records(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = Ledger.create(path, "1.5")
    shuffledp.count(FLAGS, epsilon=1, ledger=path)
    assert ledger.remaining() == Fraction(1, 2)
    with pytest.raises(BudgetExceeded, match=r"0\.5 left of 1\.5"):
        shuffledp.count(FLAGS, epsilon=1, ledger=path)
    with pytest.raises(ValueOutOfRange):
        shuffledp.count(
            [5], epsilon="0.1", ledger=path
        )  # bad data is found before anything is spent
    with pytest.raises(SeededError):
        shuffledp.count(FLAGS, epsilon="0.1", ledger=path, entropy=SeededEntropy(1))
    assert len(ledger.entries()) == 1
    for _ in range(5):
        ledger.spend("0.1", "exactly a tenth")
    assert ledger.remaining() == 0
    with pytest.raises(ParameterError, match="exists"):
        Ledger.create(path, 1)
    with pytest.raises(ParameterError, match="no ledger"):
        Ledger(tmp_path / "none.json").spend(1, "x")
    path.write_text("{}")
    with pytest.raises(ParameterError, match="is not a ledger"):
        ledger.remaining()


def test_ten_tenths_fit_a_budget_of_one(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.json", 1.0)
    for _ in range(10):
        shuffledp.count([1, 0], epsilon=0.1, ledger=ledger)
    assert ledger.remaining() == 0
    ledger = Ledger.create(tmp_path / "other.json", 0.3)
    ledger.spend(0.1, "one")
    ledger.spend(np.float32(0.2), "two")  # type: ignore[arg-type]
    assert ledger.remaining() == 0


def test_only_secrets_are_hidden_from_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        path = tmp_path / "budget.json"
        ledger = Ledger.create(path, 1)
        assert path.stat().st_mode & 0o777 == 0o644
        path.chmod(0o640)
        ledger.spend("0.5", "half")
        assert path.stat().st_mode & 0o777 == 0o640  # as its owner left it
        write_whole(tmp_path / "tokens", "x", secret=True)
        assert (tmp_path / "tokens").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def _race(path: str, tries: int, results: Queue[int]) -> None:
    done = 0
    for _ in range(tries):
        try:
            Ledger(path).spend("0.01", f"by {os.getpid()}")
            done += 1
        except BudgetExceeded:
            pass
    results.put(done)


def test_processes_that_race_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "race.json")
    Ledger.create(path, 1)
    context = multiprocessing.get_context("spawn")
    results: Queue[int] = context.Queue()
    racers = [context.Process(target=_race, args=(path, 60, results)) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert sum(results.get(timeout=5) for _ in racers) == 100
    assert Ledger(path).remaining() == 0 and len(Ledger(path).entries()) == 100

"""The ledger: exact, refused before it is recorded, safe between processes."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from fractions import Fraction
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp.documents.files import write_whole
from shuffledp.errors import (
    BudgetExceeded,
    LedgerBroken,
    ParameterError,
    SeededError,
    ValueOutOfRange,
)
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.release.ledger import START, Ledger, _digest

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
            Ledger(path).spend("0.02", f"by {os.getpid()}")
            done += 1
        except BudgetExceeded:
            pass
    results.put(done)


def test_processes_that_race_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "race.json")
    Ledger.create(path, 1)
    context = multiprocessing.get_context("spawn")
    results: Queue[int] = context.Queue()
    racers = [context.Process(target=_race, args=(path, 30, results)) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert sum(results.get(timeout=60) for _ in racers) == 50
    assert Ledger(path).remaining() == 0 and len(Ledger(path).entries()) == 50


def filled(path: Path, first: str = "first") -> Ledger:
    """A ledger with three lines; the second has a result."""
    ledger = Ledger.create(path, 3)
    ledger.spend("0.5", first)
    shuffledp.count(FLAGS, epsilon=1, ledger=ledger)
    ledger.spend("0.5", "third")
    return ledger


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "an added field": lambda data: data["entries"][0].update(comment="harmless"),
    "an added field of the ledger": lambda data: data.update(comment="harmless"),
    "ε as a number": lambda data: data["entries"][0].update(epsilon=1.0),
    "ε in another spelling": lambda data: data["entries"][0].update(epsilon="1.0"),
    "the budget in another spelling": lambda data: data.update(budget=data["budget"] + ".0"),
    "a smaller cost": lambda data: data["entries"][0].update(epsilon="1/4"),
    "another text": lambda data: data["entries"][0].update(what="else"),
    "another result": lambda data: data["entries"][1]["result"].update(estimate=5.0),
    "another hash of a result": lambda data: data["entries"][1].update(result_sha256="0" * 64),
    "the first line removed": lambda data: data["entries"].pop(0),
    "the last line removed": lambda data: data["entries"].pop(),
    "all lines removed": lambda data: data["entries"].clear(),
    "lines in another order": lambda data: data["entries"].reverse(),
    "a line twice": lambda data: data["entries"].append(data["entries"][0]),
    "a larger budget": lambda data: data.update(budget="300"),
    "no head": lambda data: data.pop("head"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_edited_and_removed_lines_are_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "budget.json"
    ledger = filled(path)
    assert ledger.verify() == ledger.entries()[-1].hash  # the twin: unchanged, it is read
    rewrite(path, CHANGES[change])
    before = path.read_bytes()
    for work in (ledger.verify, ledger.remaining, lambda: ledger.spend("0.1", "more")):
        with pytest.raises(ParameterError, match=r"was changed by hand|is not a ledger"):
            work()
    assert path.read_bytes() == before


def test_a_head_that_was_kept_shows_rewritten_lines(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "budget.json")
    head = ledger.verify()
    ledger.spend("0.5", "fourth")
    assert ledger.verify(head) != head  # the twin: lines were added behind it
    other = filled(tmp_path / "other.json", "another")  # valid hashes of other lines
    with pytest.raises(LedgerBroken, match="does not continue from this head"):
        other.verify(head)


def test_entries_cost_something_and_at_least_their_result(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.json", 3)
    result = shuffledp.count(FLAGS, epsilon=1).to_dict()
    published = {"batch": "00", "result": result}
    for epsilon, kept in (("0", None), ("-1", None), ("0.9", result), ("0.9", published)):
        with pytest.raises(ParameterError):
            ledger.spend(epsilon, "cheap", result=kept)
    assert ledger.entries() == []
    ledger.spend(1, "fair", result=published)  # the twin
    assert ledger.spent() == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": 1.0, "epsilon_exact": None},
        {"epsilon": 1.0, "epsilon_exact": "1/2"},
        {"epsilon": 0.5, "epsilon_exact": "1"},
    ],
)
def test_every_epsilon_of_a_result_is_charged(tmp_path: Path, changed: dict[str, Any]) -> None:
    ledger = Ledger.create(tmp_path / "budget.json", 3)
    result = {name: value for name, value in changed.items() if value is not None}
    for shown in (result, {"batch": "00", "result": result}):
        with pytest.raises(ParameterError, match="ε"):
            ledger.spend("1/2", "count", result=shown)
    assert not ledger.entries()
    assert ledger.spend("0.1", "count", result={"epsilon": 0.1}) == Fraction(29, 10)


@pytest.mark.parametrize("epsilon", ["0", "-2", "1/2"])
def test_a_file_with_a_cheap_entry_is_refused(tmp_path: Path, epsilon: str) -> None:
    """Also if all hashes fit: a negative cost would give budget back."""
    path = tmp_path / "budget.json"
    Ledger.create(path, 3)
    result = shuffledp.count(FLAGS, epsilon=1).to_dict()
    facts = {"epsilon": epsilon, "what": "cheap", "when": "now"}
    facts["result_sha256"] = _digest(result)
    row = {**facts, "result": result, "hash": _digest([START, facts])}

    def add(data: dict[str, Any]) -> None:
        data["entries"].append(row)
        data["head"] = _digest([row["hash"], "3"])

    rewrite(path, add)
    with pytest.raises(LedgerBroken, match="line 1 costs no ε"):
        Ledger(path).remaining()
    row |= {"epsilon": "1"}  # the twin: with its true cost the line is read
    facts["epsilon"] = "1"
    row["hash"] = _digest([START, facts])
    rewrite(path, lambda data: data.update(entries=[row], head=_digest([row["hash"], "3"])))
    assert Ledger(path).remaining() == 2


def test_a_result_can_be_forgotten_and_its_line_stays(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "budget.json")
    head = ledger.verify()
    ledger.forget(["count"])
    assert ledger.verify(head) == head and ledger.spent() == 2
    assert [entry.result for entry in ledger.entries()] == [None] * 3
    assert ledger.entries()[1].result_sha256


def test_a_budget_is_raised_and_keeps_its_lines(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "budget.json")
    head = ledger.verify()
    for wrong in ("3", "2", "0"):
        with pytest.raises(ParameterError):
            ledger.raise_budget(wrong)
    ledger.raise_budget("5")
    assert ledger.remaining() == 3 and ledger.verify(head) == head


def test_a_ledger_without_hashes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    lines = [{"epsilon": "1/2", "what": f"line {n}", "when": "then"} for n in range(3)]
    path.write_text(json.dumps({"format": "shuffledp ledger 1", "budget": "2", "entries": lines}))
    before = path.read_bytes()
    with pytest.raises(ParameterError, match=r"shuffledp 0\.2.*create a new ledger"):
        Ledger(path).spend("0.1", "more")
    assert path.read_bytes() == before


def test_the_first_result_of_a_line_is_the_only_one(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.json", 2)
    first = ledger.spend_once(1, "batch", {"noise": 1})
    second = ledger.spend_once(1, "batch", {"noise": 2})
    assert first.result == second.result == {"noise": 1} and ledger.spent() == 1

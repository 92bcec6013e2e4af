"""A query that needs more memory than is free is refused before anything is charged."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run

import shuffledp
from shuffledp import Ledger, Plan
from shuffledp.engines import local
from shuffledp.errors import ParameterError
from shuffledp.numbers import memory

ROWS = 500
PLANS: dict[str, tuple[Callable[[], Plan[Any]], Any]] = {
    "count": (lambda: shuffledp.plan_count(ROWS, 1), np.ones(ROWS, np.int64)),
    "integer_sum": (lambda: shuffledp.plan_integer_sum(ROWS, 1, 40), np.arange(ROWS) % 41),
    "real_sum": (lambda: shuffledp.plan_real_sum(ROWS, 1), np.linspace(0, 1, ROWS)),
    "histogram": (lambda: shuffledp.plan_histogram(ROWS, 1, range(5000)), np.arange(ROWS)),
    "quantiles": (
        lambda: shuffledp.plan_quantiles(ROWS, 1, (0, 1), bins=600),
        np.linspace(0, 1, ROWS),
    ),
}


def free(monkeypatch: pytest.MonkeyPatch, folder: Path, megabytes: int) -> None:
    """Makes the system say that so much memory is free."""
    file = folder / "meminfo"
    file.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {megabytes << 10} kB\n")
    monkeypatch.setattr(memory, "SYSTEM_MEMORY", file)


@pytest.mark.parametrize("query", PLANS)
def test_as_much_is_taken_as_is_asked_for(query: str) -> None:
    make, values = PLANS[query]
    plan = make()
    protocol = plan.protocol
    tracemalloc.start()
    try:
        tally = protocol.tally(protocol.encode(values))
        plan.analyze(plan.release(protocol.aggregate_tally(tally))).to_dict()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < protocol.working_bytes() < 16 * most + (16 << 20)


def test_finer_questions_need_more() -> None:
    fine, coarse = (
        shuffledp.plan_quantiles(ROWS, 1, (0, 1), bins=bins).protocol.working_bytes()
        for bins in (600, 64)
    )
    assert fine > 2 * coarse


@pytest.mark.parametrize("call", ["count", "mean", "histogram", "quantiles"])
def test_too_little_memory_is_refused_and_nothing_is_charged(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: dict[str, dict[str, Any]] = {
        "count": {},
        "mean": {"bounds": (0, 1)},
        "histogram": {"labels": [0, 1]},
        "quantiles": {"bounds": (0, 1), "bins": 600, "points": False},
    }
    ledger = Ledger.create(tmp_path / "budget.json", 5)
    values = np.arange(ROWS) % 2
    free(monkeypatch, tmp_path, 2)
    monkeypatch.setattr(local, "batch_of", None)  # refused before any row is randomized
    with pytest.raises(ParameterError, match="MB of memory, but 2 MB are free"):
        getattr(shuffledp, call)(values, epsilon=1, ledger=ledger, **own[call])
    assert ledger.remaining() == 5


def test_twin_with_memory_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, tmp_path, 1000)
    assert shuffledp.count([True] * 50, epsilon=1).users == 50


def test_limits_of_groups_and_processes_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, tmp_path, 1000)
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory.free_bytes() == 1000 << 20
    (tmp_path / "memory.current").write_text("100\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_bytes() == 1000 << 20
    (tmp_path / "memory.max").write_text("350\n")
    assert memory.free_bytes() == 250
    monkeypatch.setattr("resource.getrlimit", lambda _: (10, 10))
    assert memory.free_bytes() == 0


def test_memory_that_runs_out_all_the_same_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bits.csv"
    file.write_text("bit\n" + "1\n" * 50)
    Ledger.create(tmp_path / "budget.json", 5)

    def none_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(local, "batch_of", none_left)
    ask = ("count", str(file), "--epsilon", "1", "--ledger", str(tmp_path / "budget.json"))
    code, _, said = run(capsys, *ask)
    assert code == 2 and said.startswith("Out of memory") and said.count("\n") == 1
    assert Ledger(tmp_path / "budget.json").remaining() == 5

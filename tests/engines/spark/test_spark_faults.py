"""Spark's faults, injected for real through Spark Connect: nobody counts twice, and a published
result holds one draw of noise. The naive way, beside it, breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp.queries.count.planner import plan_count
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task

USERS = 400
FAULTS = ("fails", "is slow", "loses its executor")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened on the troubled cluster."""
    folder = tmp_path_factory.mktemp("cluster")
    at = np.arange(6000)
    rows = {"label": [("a", "b", "c")[n % 3] for n in at], "number": at % 10, "real": at / 6000}
    rows["person"] = at // 3
    pq.write_table(pa.table(rows), folder / "rows.parquet")
    key = KeyFolder(folder / "keys").new()
    plan = plan_count(20, 2, mse_overhead=2).to_dict()
    task = Task.create(plan, key.public, "dark mode", BatchRule(20), publish_noise="none")
    (folder / "task.json").write_bytes(task.canonical())
    (folder / "reports").write_bytes(b"".join(encrypt_report(task, n % 2) for n in range(20)))
    told = subprocess.run(
        [sys.executable, Path(__file__).parents[2] / "support" / "troubled_cluster.py", folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found | {"folder": str(folder)}


def by_part(trial: dict[str, Any]) -> dict[tuple[str, int], list[Any]]:
    """What each part gave, attempt by attempt."""
    parts: dict[tuple[str, int], list[Any]] = {}
    for stage, part, *gave in trial["gave"]:
        parts.setdefault((stage, part), []).append(gave)
    return parts


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_counts_twice_or_draws_other_noise(story: dict[str, Any], fault: str) -> None:
    trial = story["keyed"][fault]
    parts = by_part(trial)
    assert len(trial["gave"]) > len(parts) == 4  # the fault really happened
    assert all(attempt == attempts[0] for attempts in parts.values() for attempt in attempts)
    once = np.sum([attempts[0] for attempts in parts.values()], axis=0)
    assert trial["published"] == once.tolist()
    assert trial["published"][2] == USERS


@pytest.mark.parametrize("fault", ["fails", "loses its executor"])
def test_jobs_have_the_same_result_under_faults(story: dict[str, Any], fault: str) -> None:
    calm, trial = story["whole"][""], story["whole"][fault]
    again = {stage for (stage, _), attempts in by_part(trial).items() if len(attempts) > 1}
    assert again == {
        "PartWork 0",
        "WholeWork 1",
        "ReadIds 2",
        "Spread 3",
        "OrderPart 4",
        "Spread 5",
        "OpenPart 6",
        "WholeWork 7",
    }
    for attempts in by_part(trial).values():
        assert all(attempt == attempts[0] for attempt in attempts)
    for result in ("histogram", "users", "total", "sealed", "persons"):
        assert trial[result] == calm[result]
    assert trial["users"] == 6000 and trial["persons"][1] == 2000


@pytest.mark.parametrize("fault", FAULTS)
def test_the_naive_way_draws_again_and_would_count_twice(story: dict[str, Any], fault: str) -> None:
    trial = story["naive"][fault]
    again = [attempts for attempts in by_part(trial).values() if len(attempts) > 1]
    assert again and all(attempts[0][:2] != attempts[1][:2] for attempts in again)
    added_by_tasks = sum(users for *_, users in trial["gave"])
    assert added_by_tasks > USERS  # what tasks add up on the side counts users twice


def test_a_slow_task_was_overtaken(story: dict[str, Any]) -> None:
    assert story["keyed"]["is slow"]["seconds"] < 110  # the sleeper alone takes 120


def test_a_lineage_evaluated_twice(story: dict[str, Any]) -> None:
    one, two = story["keyed"]["two actions"]
    assert one == two
    one, two = story["naive"]["two actions"]
    assert one != two


def test_queries_through_connect(story: dict[str, Any]) -> None:
    found = story["queries"]
    assert found["kind"].startswith("pyspark.sql.connect")
    assert abs(found["count"] - 2000) < 60
    assert np.abs(np.array(found["histogram"]) - 2000).max() < 100
    assert abs(found["integers"] - 27000) < 1000
    assert abs(found["mean"] - 0.5) < 0.05 and abs(found["median"] - 0.5) < 0.1
    assert "outside 0..1" in found["refusal"]


def test_batches_through_connect(story: dict[str, Any]) -> None:
    shuffled, opened = (story["whole"][""]["sealed"][name] for name in ("shuffled", "opened"))
    assert shuffled["reports"] == opened["reports"] == 20
    assert abs(opened["result"]["estimate"] - 10) < 60
    assert opened["dropped"]["replayed"] == opened["dropped"]["unopened"] == 0


def test_nothing_of_the_cluster_is_left(story: dict[str, Any]) -> None:
    names = [Path(f"/proc/{n}/cmdline") for n in os.listdir("/proc") if n.isdigit()]
    left = [name for name in names if _holds(name, str(story["folder"]).encode())]
    assert not left


def _holds(path: Path, word: bytes) -> bool:
    try:
        return word in path.read_bytes()
    except OSError:
        return False

"""What the benchmarks of the service share: their task, and how figures are printed."""

from __future__ import annotations

from pathlib import Path

from shuffledp.queries.count.planner import plan_count
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.task import Task

USERS = 10_000


def say(what: str, figure: str) -> None:
    print(f"  {what:<58} {figure}", flush=True)


def new_task(folder: Path, target: dict[str, str], users: int = USERS, epsilon: str = "1") -> Task:
    """A count, planned for the smallest report."""
    keys = KeyFolder(folder / "keys")
    key = (keys.all() or [keys.new()])[-1].public
    plan = plan_count(
        users,
        epsilon,
        mse_overhead=target["mse_overhead"],
        relative_error=target.get("relative_error"),
        padded=True,
    )
    return Task.create(plan.to_dict(), key, "bench")

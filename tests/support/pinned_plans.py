"""A grid of targets whose plans must not change, and how a plan becomes comparable bytes.

`python tests/support/pinned_plans.py` writes tests/data/plans/pinned.json anew. Run it only when a
plan is meant to change, and say why in the CHANGELOG.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shuffledp

PINNED = Path(__file__).parents[1] / "data/plans/pinned.json"
LABELS = ["walk", "bike", "bus", "train", "car"]
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def _grid() -> dict[str, Call]:
    calls: dict[str, Call] = {}

    def add(planner: Callable[..., Any], *values: Any, **options: Any) -> None:
        shown = [repr(value) for value in values]
        shown += [f"{name}={value!r}" for name, value in options.items()]
        calls[f"{planner.__name__}({', '.join(shown)})"] = (planner, values, options)

    for padded in (False, True):
        more: dict[str, Any] = {"padded": True} if padded else {}
        for users in (100, 10**4, 10**6):
            add(shuffledp.plan_count, users, 1, **more)
        add(shuffledp.plan_count, 10**4, "0.1", **more)
        add(shuffledp.plan_count, 10**4, 5, mse_overhead="0.1", **more)
        add(shuffledp.plan_count, 10**4, 1, rmse=3, expected=12_000, **more)
        add(shuffledp.plan_count, 10**4, 1, max_messages=40, **more)
        add(shuffledp.plan_count, 10**4, rmse=4, max_messages=30, **more)
        add(shuffledp.plan_count, 10**4, 1, cell="paper", **more)
        add(shuffledp.plan_count, 10**6, 1, relative_error="0.01", **more)
        add(shuffledp.plan_integer_sum, 10**4, 1, 3, **more)
        add(shuffledp.plan_integer_sum, 1000, 2, 10, rmse=20, **more)
        add(shuffledp.plan_integer_sum, 1000, 1, 5, cell="paper", **more)
        add(shuffledp.plan_real_sum, 10**4, 1, rmse="4.07", **more)
        add(shuffledp.plan_real_sum, 1000, "0.5", bounds=(0, 120), mse_overhead=8, **more)
        add(shuffledp.plan_real_sum, 1000, 1, rmse=8, cell="paper", **more)
        add(shuffledp.plan_real_sum, 1000, 1, bounds=(-1, 1), max_messages=300, **more)
        add(shuffledp.plan_histogram, 10**4, 1, 10, **more)
        add(shuffledp.plan_histogram, 10**6, 1, 100, **more)
        add(shuffledp.plan_histogram, 1000, 2, LABELS, rmse=5, other="other", **more)
        add(shuffledp.plan_histogram, 10**4, 1, 5, cell="paper", **more)
        add(shuffledp.plan_histogram, 10**4, None, 10, rmse=4, max_messages=400, **more)
        add(shuffledp.plan_quantiles, 10**4, 1, (0, 120), **more)
        add(shuffledp.plan_quantiles, 10**4, 2, (0, 1), bins=16, points=True, **more)
        add(shuffledp.plan_by_group, 10**4, 1, LABELS, **more)
        add(shuffledp.plan_by_group, 1000, 1, 3, answer="integer-sum", largest=3, **more)
        add(shuffledp.plan_by_group, 1000, 2, 3, answer="mean", bounds=(0, 120), **more)
    add(shuffledp.plan_frequencies, 10**6, 1)
    add(shuffledp.plan_frequencies, 10**4, 1, max_messages=45, error_at=1000, expected=12_000)
    add(shuffledp.plan_frequencies, 10**4, 1, candidates=LABELS)
    add(shuffledp.plan_heavy_hitters, 10**5, 1)
    add(shuffledp.plan_heavy_hitters, 10**4, 2, max_messages=45, expected=12_000)
    return calls


GRID = _grid()
SLOW = {
    "plan_count(10000, rmse=4, max_messages=30)",
    "plan_integer_sum(1000, 1, 5, cell='paper')",
    "plan_integer_sum(1000, 1, 5, cell='paper', padded=True)",
    "plan_integer_sum(1000, 2, 10, rmse=20)",
    "plan_real_sum(10000, 1, rmse='4.07')",
    "plan_real_sum(10000, 1, rmse='4.07', padded=True)",
    "plan_real_sum(1000, '0.5', bounds=(0, 120), mse_overhead=8, padded=True)",
    "plan_real_sum(1000, 1, bounds=(-1, 1), max_messages=300)",
    "plan_real_sum(1000, 1, bounds=(-1, 1), max_messages=300, padded=True)",
    f"plan_histogram(1000, 2, {LABELS}, rmse=5, other='other', padded=True)",
    "plan_histogram(10000, 1, 5, cell='paper', padded=True)",
    "plan_histogram(10000, None, 10, rmse=4, max_messages=400)",
    "plan_histogram(10000, None, 10, rmse=4, max_messages=400, padded=True)",
    "plan_quantiles(10000, 1, (0, 120), padded=True)",
}
"""Targets whose plans take more than a second each."""


def plan_bytes(name: str) -> bytes:
    """The plan of one target as JSON, without the version of the program and public random seeds,
    and with nine digits of each float: processors differ in the last ones of an exponential.
    What a planner refuses is pinned as its refusal."""
    planner, values, options = GRID[name]
    try:
        document = planner(*values, **options).to_dict()
    except shuffledp.ShuffleDPError as error:
        document = {"refused": f"{type(error).__name__}: {error}"}
    return json.dumps(_lasting(document), ensure_ascii=False, separators=(",", ":")).encode()


def _lasting(document: Any) -> Any:
    if isinstance(document, dict):
        kept = {name: document[name] for name in document if name not in ("version", "hash_seed")}
        return {name: _lasting(value) for name, value in kept.items()}
    if isinstance(document, list):
        return [_lasting(value) for value in document]
    return float(f"{document:.9g}") if isinstance(document, float) else document


def digest(name: str) -> str:
    """SHA-256 of `plan_bytes`."""
    return hashlib.sha256(plan_bytes(name)).hexdigest()


if __name__ == "__main__":
    if len(sys.argv) > 1:  # a folder: whole plans, to compare by eye
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(GRID):
            (folder / f"{number:02}.json").write_bytes(plan_bytes(name))
    else:
        PINNED.write_text(json.dumps({name: digest(name) for name in GRID}, indent=1) + "\n")

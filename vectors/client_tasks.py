"""The tasks of vectors/client.json, of every query."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from naive_encryption import public
from naive_laws import Data, F

from shuffledp import (
    certify,
    plan_by_group,
    plan_count,
    plan_histogram,
    plan_integer_sum,
    plan_quantiles,
    plan_real_sum,
)
from shuffledp.cells.sparse.search import plan_sparse
from shuffledp.queries.frequencies.hashing import HashedProtocol
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.heavy_hitters.protocol import HeavyHittersProtocol
from shuffledp.queries.quantiles.protocol import Level, QuantilesProtocol
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.series import Series
from shuffledp.tasks.task import Operators, Task

BEGIN, END = 1_700_000_000, 2_000_000_000
SECRET = hashlib.sha256(b"the analyzer of vectors/client.json").digest()
KEY = PublicKey(3, 7, public(SECRET))
OPERATORS = Operators("Survey Office", "Shuffler Ltd", "Université · Analyse")


def levels(cell: str) -> QuantilesProtocol:
    """Quantiles on two levels, 4 and 8 buckets, of half the budget each."""
    coarse, fine = (
        plan_histogram(100, 1, buckets, mse_overhead=16, cell=cell).protocol.members[0]
        for buckets in (4, 8)
    )
    parts = tuple(Level(use.copies, use.cell, use.down) for use in (coarse, fine))
    return QuantilesProtocol(epsilon=F(2), levels=parts, low=F(0), high=F(1))


Planner = Callable[[str], Any]
LABELS = ["no", "yes", 'ä "🙂"\\\n', 7, "7", 9007199254740991]
PLANS: dict[str, Planner] = {
    "count": lambda cell: plan_count(100, 1, mse_overhead=2, padded=True, cell=cell),
    "integer sum": lambda cell: plan_integer_sum(100, 2, 5, mse_overhead=4, padded=True, cell=cell),
    "real sum": lambda cell: plan_real_sum(
        200, 2, bounds=("-1", "5/2"), mse_overhead=8, radix=(3, 2), dither=3, cell=cell
    ),
    "real sum without a dither": lambda cell: plan_real_sum(
        200, 2, bounds=("-1", "5/2"), mse_overhead=8, radix=(3, 2), dither=1, cell=cell
    ),
    "histogram": lambda cell: plan_histogram(
        100, 2, LABELS, other="no", mse_overhead=8, padded=True, cell=cell
    ),
    "quantiles": lambda cell: plan_quantiles(
        100, 2, ("1/10", "7/10"), bins=6, mse_overhead=16, padded=True, cell=cell
    ),
    "quantiles of whole numbers": lambda cell: plan_quantiles(
        100, 2, (-3, 20), bins=5, points=True, mse_overhead=16, padded=True, cell=cell
    ),
    "quantiles of days": lambda cell: plan_quantiles(
        100, 2, ("2024-01-01", "2024-12-31"), bins=4, mse_overhead=16, padded=True, cell=cell
    ),
    "quantiles of seconds": lambda cell: plan_quantiles(
        100, 2, ("1969-12-31T00:00:00", "1970-01-02T00:00:00"), bins=4, mse_overhead=16, cell=cell
    ),
    "quantiles on two levels": lambda cell: certify(levels(cell)),
}


def make_task(plan: Data, name: str, **options: Any) -> Task:
    return Task.create(
        plan,
        KEY,
        name,
        question=f"Vectors: {name}? ✓",
        operators=OPERATORS,
        shuffler="https://shuffler.example/v1",
        publish_noise="none" if name.startswith("quantiles") else "full",
        **{"not_before": BEGIN, "expires": END, **options},
    )


def make_tasks() -> dict[str, Task]:
    found = {}
    for name, planner in PLANS.items():
        for cell in ("bounded", "paper"):
            found[f"{name}, {cell}"] = make_task(planner(cell).to_dict(), f"{name}, {cell}")
    count = PLANS["count"]("bounded").to_dict()
    slack = BatchRule(150, top_up="missing", at_least=40, wait_seconds=3600)
    found["count, repeated"] = make_task(
        count, "count, repeated", batch=slack, repeat=True, order="uniform"
    )
    found["count, per index"] = make_task(
        plan_count(10_000, 1, mse_overhead="1/2", padded=True).to_dict(), "count, per index"
    )
    series = Series(name="count ✓", every="week", tasks=3, place=2)
    week = replace(
        make_task(count, "count, in a series", expires=BEGIN + series.seconds), series=series
    )
    week.verify()
    found["count, in a series"] = week
    return found


def frequency_tasks() -> dict[str, Task]:
    """Tasks of the last step of the protocol page: labels of any domain, words, heavy labels."""
    cell = plan_sparse(100, 128, 1, max_messages=6)
    protocols: dict[str, HashedProtocol[Any]] = {
        "frequencies": FrequenciesProtocol(
            epsilon=F(1), cell=cell, hash_seed=_seed("frequencies"), candidates=("a", "ä 🙂")
        ),
        "frequencies of numbers": FrequenciesProtocol(
            epsilon=F(1), cell=cell, hash_seed=_seed("numbers")
        ),
        "heavy hitters": HeavyHittersProtocol(
            epsilon=F(1), cell=cell, hash_seed=_seed("words"), id_bits=16
        ),
    }
    found = {
        name: make_task(certify(protocol).to_dict(), name) for name, protocol in protocols.items()
    }
    heavy = plan_histogram(100, 2, ["a", 7, "b", "ä", "c"], heavy=["b", 7], other="a")
    name = "histogram with heavy labels"
    return found | {name: make_task(heavy.to_dict(), name)}


def _seed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def group_tasks() -> dict[str, Task]:
    """Tasks by group: every answer, with and without sizes, labels of both types."""
    plans = {
        "count by group": plan_by_group(
            100, 2, ["ä", ""], mse_overhead=8, padded=True, cell="bounded"
        ),
        "sparse count by group": plan_by_group(
            100, 1, ["ä", "", "b", "7"], max_messages=6, padded=True, cell="sparse"
        ),
        "integer sum by group": plan_by_group(
            100, 2, [7, -1, 0], answer="integer-sum", largest=3, mse_overhead=16, padded=True
        ),
        "real sum by group": plan_by_group(
            200, 2, ["a", "b"], answer="real-sum", bounds=("-1", "5/2"), mse_overhead=64
        ),
        "mean by group": plan_by_group(
            200, 2, ["a", "b", "7"], answer="mean", bounds=(0, 10), mse_overhead=64
        ),
    }
    return {name: make_task(plan.to_dict(), name) for name, plan in plans.items()}


def text_of(data: Any) -> str:
    """The canonical text of data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def described(name: str, task: Task) -> Data:
    protocol = task.protocol
    return {
        "name": name,
        "id": task.id.hex(),
        "text": task.canonical().decode(),
        "epsilon": str(protocol.epsilon),
        "users": protocol.users,
        "cells": len(protocol.cells),
        "report_bytes": task.report_bytes,
        "needed_report_size": protocol.report_size(task.batch.reports),
    }

"""The tasks of vectors/client.json: valid ones of every query, and texts that must be refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from naive_client import Data, F, public

from shuffledp import (
    certify,
    plan_count,
    plan_histogram,
    plan_integer_sum,
    plan_quantiles,
    plan_real_sum,
)
from shuffledp.protocols.frequencies import Frequencies
from shuffledp.protocols.quantiles import Level, Quantiles
from shuffledp.sealed.keys import PublicKey
from shuffledp.sealed.rules import BatchRule
from shuffledp.sealed.task import Operators, Task

BEGIN, END = 1_700_000_000, 2_000_000_000
SECRET = hashlib.sha256(b"the analyzer of vectors/client.json").digest()
KEY = PublicKey(3, 7, public(SECRET))
OPERATORS = Operators("Survey Office", "Shuffler Ltd", "Université · Analyse")


def levels(cell: str) -> Quantiles:
    """Quantiles on two levels, 4 and 8 buckets, of half the budget each."""
    coarse, fine = (
        plan_histogram(100, 1, buckets, mse_overhead=16, cell=cell).protocol.uses[0]
        for buckets in (4, 8)
    )
    parts = tuple(Level(use.copies, use.cell, use.down) for use in (coarse, fine))
    return Quantiles(epsilon=F(2), levels=parts, low=F(0), high=F(1))


Planner = Callable[[str], Any]
LABELS = ["no", "yes", 'ä "🙂"\\\n', 7, "7", 9007199254740991]
PLANS: dict[str, Planner] = {
    "count": lambda cell: plan_count(100, 1, mse_overhead=2, padded=True, cell=cell),
    "integer sum": lambda cell: plan_integer_sum(100, 2, 5, mse_overhead=4, padded=True, cell=cell),
    "real sum": lambda cell: plan_real_sum(
        200, 2, bounds=("-1", "5/2"), mse_overhead=8, radix=(3, 2), cell=cell
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
        not_before=BEGIN,
        expires=END,
        publish_noise="none" if name.startswith("quantiles") else "full",
        **options,
    )


def make_tasks() -> dict[str, Task]:
    found = {}
    for name, planner in PLANS.items():
        for cell in ("bounded", "paper"):
            found[f"{name}, {cell}"] = make_task(planner(cell).to_dict(), f"{name}, {cell}")
    count, histogram = (PLANS[name]("bounded").to_dict() for name in ("count", "histogram"))
    slack = BatchRule(150, top_up="missing", at_least=40, wait_seconds=3600)
    found["count, repeated"] = make_task(
        count, "count, repeated", batch=slack, repeat=True, order="uniform"
    )
    found["histogram, reserve"] = make_task(histogram, "histogram, reserve", padding="2^-64")
    found["count, per index"] = make_task(
        plan_count(10_000, 1, mse_overhead="1/2", padded=True).to_dict(), "count, per index"
    )
    return found


def frequency_tasks() -> dict[str, Task]:
    """Tasks of the last step of the protocol page: frequencies of labels of any domain, in groups
    of one cell and of four."""
    found = {}
    for cell in ("bounded", "paper"):
        for name, k, plan in (
            ("frequencies", 2, PLANS["count"](cell)),
            ("frequencies of numbers", 4, plan_histogram(100, 1, 4, mse_overhead=16, cell=cell)),
        ):
            name = f"{name}, {cell}"
            protocol = Frequencies(
                epsilon=F(1),
                reports=700,
                groups=5,
                cells_per_group=k,
                cell=plan.protocol.cells[0],
                spread=F(100),
                hash_seed=hashlib.sha256(name.encode()).hexdigest(),
                candidates=("a", "ä 🙂") if k == 2 else (),
            )
            found[name] = make_task(certify(protocol).to_dict(), name)
    return found


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
        "needed_report_size": protocol.report_size(task.batch.reports, task.padding),
    }


# Tasks that must be refused


def text_of(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def put(task: Task, path: str, value: Any) -> str:
    """The task's text with another value at a path."""
    data = json.loads(task.canonical())
    at, steps = data, path.split(".")
    for step in steps[:-1]:
        at = at[int(step) if isinstance(at, list) else step]
    at[int(steps[-1]) if isinstance(at, list) else steps[-1]] = value
    return text_of(data)


def weaker_odds(task: Task, side: str) -> str:
    odds = F(task.certificate["protocol"]["cell"][side]["odds"][0])
    return put(task, f"{CELL}{side}.odds.0", str(odds * F(999_999, 10**6)))


CELL = "certificate.protocol.cell."


def wrong_texts(tasks: dict[str, Task]) -> Iterator[tuple[str, str, str]]:
    """(stage, why, text) of texts that are no tasks."""
    count = tasks["count, bounded"]
    histogram = tasks["histogram, bounded"]
    text = count.canonical().decode()
    loose = json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True)
    yield "text", "white space between the parts", loose
    yield "text", "white space at the end", text + "\n"
    yield (
        "text",
        "names out of order",
        json.dumps(
            dict(sorted(json.loads(text).items(), reverse=True)),
            separators=(",", ":"),
            ensure_ascii=False,
        ),
    )
    yield (
        "text",
        "escaped letters",
        json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True),
    )
    yield (
        "text",
        "a name twice, with the same value",
        text.replace('"padding":', '"padding":"exact","padding":'),
    )
    yield "text", "cut off", text[:-1]
    yield "text", "a whole number written as a float", text.replace('"key_id":3', '"key_id":3.0')
    yield "text", "a float", put(count, "report_size", count.report_size + 0.5)
    yield "text", "minus zero", text.replace('"at_least":0', '"at_least":-0')
    yield "text", "an unknown version", put(count, "format", "shuffledp task 4")
    yield (
        "text",
        "an unknown version of the certificate",
        put(count, "certificate.format", "shuffledp certificate 99"),
    )
    yield "text", "an unknown field", put(count, "later", 1)
    yield "text", "an unknown field of a cell", put(count, CELL + "later", 1)
    yield "text", "a field that is not ASCII", put(count, "später", 1)
    yield "text", "an unknown suite", put(count, "suite", "HPKE P-256 HKDF-SHA256 AES-128-GCM")
    yield "text", "an unknown kind of cell", put(count, CELL + "kind", "central")
    yield "text", "an unknown query", put(count, "certificate.protocol.query", "median")
    yield "text", "a label above 2^53 - 1", put(histogram, "certificate.protocol.labels.5", 2**53)
    yield (
        "text",
        "a label of more digits than any number",
        put(histogram, "certificate.protocol.labels.5", 10**40),
    )
    yield "text", "a fraction in another form", put(count, "certificate.protocol.epsilon", "1.0")
    yield "text", "a key that is too short", put(count, "analyzer_key.public", "00" * 31)
    yield (
        "text",
        "a key of capital letters",
        put(count, "analyzer_key.public", KEY.raw.hex().upper()),
    )
    yield "text", "a shuffler without https", put(count, "shuffler", "http://shuffler.example")
    yield (
        "text",
        "a shuffler with a slash at its end",
        put(count, "shuffler", "https://shuffler.example/"),
    )
    yield "text", "a question of two lines", put(count, "question", "one\ntwo")
    yield "text", "a question that turns the writing round", put(count, "question", "\u202eno")
    yield "text", "no question", put(count, "question", "")
    yield "text", "a question of 1,001 characters", put(count, "question", "🙂" * 1001)
    yield "text", "no operators", put(count, "operators", {})
    yield "text", "expires when it begins", put(count, "expires", BEGIN)


def wrong_numbers(tasks: dict[str, Task]) -> Iterator[tuple[str, str, str]]:
    """(stage, why, text) of tasks whose numbers are not private, or do not fit together."""
    count, paper, real = (
        tasks[name] for name in ("count, bounded", "count, paper", "real sum, bounded")
    )
    paper_cell = paper.certificate["protocol"]["cell"]
    yield "proof", "odds upwards lower by a millionth", weaker_odds(count, "up")
    yield "proof", "odds downwards lower by a millionth", weaker_odds(count, "down")
    yield "proof", "noise that falls too fast", put(count, CELL + "up.decay", "1/3")
    yield "proof", "noise that is cut earlier", put(count, CELL + "up.cut", 3)
    yield "proof", "other users than are claimed", put(count, CELL + "users", 50)
    yield "proof", "more loss than epsilon", put(count, CELL + "up.epsilon", "2")
    yield "proof", "a smaller epsilon claimed", put(count, "certificate.epsilon", "1/2")
    yield "proof", "another number of users claimed", put(count, "certificate.users", 1000)
    yield "proof", "hardly any muting", put(paper, CELL + "mute_probability", "1/1000000000000")
    yield (
        "proof",
        "one pair less",
        put(
            paper,
            CELL + "input_pairs",
            paper_cell["input_pairs"] - 1,
        ),
    )
    yield (
        "proof",
        "half the flood",
        put(
            paper,
            CELL + "flood_mean",
            str(F(paper_cell["flood_mean"]) / 2),
        ),
    )
    yield (
        "proof",
        "digits for different users",
        put(real, "certificate.protocol.digits.1.users", 199),
    )
    yield (
        "proof",
        "reports that are too small, exact padding",
        put(count, "report_size", count.report_size - 1),
    )
    reserve = tasks["histogram, reserve"]
    for one in (reserve, paper):
        yield (
            "proof",
            f"reports that are too small, reserve ({one.name})",
            put(one, "report_size", one.report_size - 1),
        )
    yield "proof", "exact padding of a cell without a most", put(paper, "padding", "exact")
    yield "proof", "batches of fewer than the users", put(count, "batch.reports", 99)
    yield "proof", "leaves early without a top-up", put(count, "batch.at_least", 5)
    yield (
        "proof",
        "a top-up for quantiles",
        put(tasks["quantiles, bounded"], "batch.top_up", "full"),
    )
    yield (
        "proof",
        "publish noise for quantiles",
        put(tasks["quantiles, bounded"], "publish_noise", "full"),
    )


def refused(tasks: dict[str, Task]) -> list[Data]:
    found = [
        {
            "stage": stage,
            "why": why,
            "id": hashlib.sha256(text.encode()).hexdigest(),
            "now": BEGIN,
            "text": text,
        }
        for stage, why, text in (*wrong_texts(tasks), *wrong_numbers(tasks))
    ]
    count = tasks["count, bounded"]
    text = count.canonical().decode()
    for stage, why, name, now in (
        ("hash", "another id than the hash of the text", "00" * 32, BEGIN),
        ("time", "not valid yet", count.id.hex(), BEGIN - 1),
        ("time", "expired", count.id.hex(), END),
    ):
        found.append({"stage": stage, "why": why, "id": name, "now": now, "text": text})
    return found

"""From a tally to what is published, and the ledger's entry for it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from shuffledp.protocols.base import Protocol
from shuffledp.queries.ledger import Ledger
from shuffledp.sealed.opening import Tally
from shuffledp.sealed.reading import lines
from shuffledp.sealed.task import Task
from shuffledp.service.analyzer.store import Received

GUARANTEE = (
    "ε-differential privacy in the shuffle model up to a probability of 2⁻⁶⁴ per batch (a report "
    "that overflows its fixed size is drawn again), against everybody but shuffler and analyzer "
    "acting together"
)
NEGATIVE = "Estimates are unbiased: noise is not cut off, so small ones may be negative."


def published(task: Task, batch: Received, confidence: float) -> dict[str, Any]:
    """The result of a counted batch.

    Ensures: passes through the protocol's own door, which refuses a batch with less noise than
    the certificate needs.
    """
    assert batch.tally is not None
    protocol, tally = task.protocol, Tally.from_json(batch.tally)
    view = protocol.release(tally.report(batch.shares))
    estimate = _without_absent(protocol, batch, protocol.analyze(view, confidence))
    return {
        "task": task.id.hex(),
        "name": task.name,
        "batch": batch.id.hex(),
        "number": batch.number,
        "reports": batch.reports,
        "noise_shares": batch.shares,
        "top_up": task.batch.top_up,
        "result": estimate.to_dict() | {"certificate": task.certificate},
        "minus_z_score": round(
            protocol.anomaly(tally.report(batch.shares), batch.shares - batch.reports), 3
        ),
        "dropped": tally.dropped,
        "guarantee": GUARANTEE,
        "note": NEGATIVE,
    }


def _without_absent(protocol: Protocol, batch: Received, estimate: Any) -> Any:
    """The estimate of those who reported: a top-up brings the noise of users who are not there."""
    shift = float(protocol.absent_value * (batch.reports - batch.shares))
    if not shift:
        return estimate
    names = ("value", "values", "low", "high", "joint_low", "joint_high")
    moved = {name: getattr(estimate, name) + shift for name in names if hasattr(estimate, name)}
    return replace(estimate, **moved)


def record_release(path: str, budget: str, task: Task, batch: Received) -> None:
    """Enters a release into the ledger, once however often it is tried.

    Ensures: raises `BudgetExceeded` and records nothing if the budget does not allow it.
    """
    ledger = Ledger(path) if Path(path).exists() else Ledger.create(path, budget)
    what = f"{task.name} [task {task.id.hex()}, batch {batch.id.hex()}]"
    if all(entry.what != what for entry in ledger.entries()):
        ledger.spend(task.protocol.epsilon, what)


def to_csv(results: list[dict[str, Any]]) -> str:
    """Results as a table, one line per number."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(
        [
            "batch",
            "label",
            "estimate",
            "low",
            "high",
            "confidence",
            "epsilon",
            "reports",
            "minus_z_score",
        ]
    )
    for one in results:
        result = one["result"]
        table.writerows(
            [
                one["number"],
                *line,
                result["confidence"],
                result["epsilon"],
                one["reports"],
                one["minus_z_score"],
            ]
            for line in lines(result)
        )
    return out.getvalue()

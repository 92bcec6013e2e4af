"""What the analyzer publishes for a batch, and published results as lines of a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from shuffledp.exact.numbers import ball, to_float
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.real_sum import RealSum
from shuffledp.protocols.report import Report, View
from shuffledp.sealed.opening import Tally
from shuffledp.sealed.task import Task

GUARANTEE = (
    "ε-differential privacy in the shuffle model up to a probability of 2⁻⁶⁴ per batch (a report "
    "that overflows its fixed size is drawn again), against everybody but shuffler and analyzer "
    "acting together"
)
NEGATIVE_NOTE = "Estimates are unbiased: noise is not cut off, so small ones may be negative."
CSV_COLUMNS = (
    "batch",
    "label",
    "estimate",
    "low",
    "high",
    "confidence",
    "epsilon",
    "reports",
    "anomaly",
)


@dataclass(frozen=True, kw_only=True)
class OpenedBatch:
    """A batch whose messages were opened and tallied. Secret until it is released."""

    id: bytes
    number: int
    """1 for the first batch of its task, and so on."""
    reports: int
    noise_shares: int
    tally: Tally

    @property
    def report(self) -> Report:
        """All messages together, as `Protocol.release` takes them."""
        return self.tally.report(self.noise_shares)


def published(task: Task, batch: OpenedBatch, view: View, result: Any) -> dict[str, Any]:
    """What is published for a batch, as JSON: the result of those who reported, with the
    certificate, what was dropped, and how unusual the messages are.

    Requires: `view` was released by the task's protocol, and `result` is its analysis.
    """
    protocol = task.protocol
    result = without_absent(protocol, result, batch.noise_shares - batch.reports)
    return {
        "task": task.id.hex(),
        "name": task.name,
        "batch": batch.id.hex(),
        "number": batch.number,
        "reports": batch.reports,
        "noise_shares": batch.noise_shares,
        "top_up": task.batch.top_up,
        "result": result.to_dict() | {"certificate": task.certificate},
        "anomaly": round(anomaly(protocol, view, batch.reports), 3),
        "dropped": batch.tally.dropped,
        "guarantee": GUARANTEE,
        "note": NEGATIVE_NOTE,
    }


def anomaly(protocol: Protocol, view: View, reports: int) -> float:
    share = Fraction(view.users, protocol.users)
    mean, variance = ball(0), ball(0)
    for use in protocol.uses:
        cell, q = use.cell, use.cell.mute_probability
        held = cell.input_pairs + cell.stand_in
        noise = ball(share) * (cell.minus_noise.mean() + cell.flood.mean())
        spread = ball(share) * (cell.minus_noise.variance() + cell.flood.variance())
        mean += use.copies * (ball(reports * (1 - q) * held) + noise)
        variance += use.copies * (ball(reports * q * (1 - q) * held**2) + spread)
    minus = int(view.minus.sum())
    return to_float(lambda: (minus - mean) / variance.sqrt())


def without_absent(protocol: Protocol, result: Any, absent: int) -> Any:
    if isinstance(protocol, RealSum):
        digits = zip(protocol.weights, protocol.digits, strict=True)
        value = protocol.low + protocol.step * sum(w * cell.stand_in for w, cell in digits)
    else:
        value = Fraction(protocol.uses[0].cell.stand_in)
    shift = -float(value * absent)
    if not shift:
        return result
    names = ("value", "values", "low", "high", "joint_low", "joint_high")
    moved = {name: getattr(result, name) + shift for name in names if hasattr(result, name)}
    return replace(result, **moved)


class ResultLine(NamedTuple):
    """One published number with its interval."""

    label: str
    estimate: float
    low: float
    high: float


def result_lines(result: dict[str, Any]) -> list[ResultLine]:
    """The numbers in a published result: one for a count or sum, one per bucket of a histogram,
    one per quantile."""
    if "quantiles" in result:
        rows = [(f"quantile {row['probability']:g}", row) for row in result["quantiles"]]
    elif "buckets" in result:
        rows = [(str(row["label"]), row) for row in result["buckets"]]
    else:
        rows = [(str(result["query"]), result)]
    return [ResultLine(label, row["estimate"], *row["interval"]) for label, row in rows]


def results_csv(results: Iterable[dict[str, Any]]) -> str:
    """Published results as CSV, one line per number."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for one in results:
        result = one["result"]
        after = (result["confidence"], result["epsilon"], one["reports"], one["anomaly"])
        table.writerows([one["number"], *line, *after] for line in result_lines(result))
    return out.getvalue()

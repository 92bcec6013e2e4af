"""What the analyzer publishes for a batch, and published results as lines of a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from shuffledp.protocols.base import Protocol, R
from shuffledp.protocols.report import Report
from shuffledp.protocols.report_size import promise
from shuffledp.protocols.results import Result
from shuffledp.sealed.opening import Tally
from shuffledp.sealed.task import Task

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
    def absent(self) -> int:
        """How many absent users' shares of noise the shuffler added."""
        return self.noise_shares - self.reports

    def report(self, protocol: Protocol[Result]) -> Report:
        """The batch as `Protocol.release` takes it: as if the absent users had reported, too."""
        return protocol.with_top_up(self.tally.report(self.noise_shares), self.absent)


def published(task: Task, batch: OpenedBatch, result: Result) -> dict[str, Any]:
    """What is published for a batch, as JSON: the result of those who reported, with the
    certificate, what was dropped, and how implausible the messages are.

    Requires: the batch was released; `result` is the analysis of its view, with the certificate.
    """
    protocol = task.protocol
    shown = _shifted(result, -float(protocol.absent_value * batch.absent))
    return {
        "task": task.id.hex(),
        "name": task.name,
        "batch": batch.id.hex(),
        "number": batch.number,
        "reports": batch.reports,
        "noise_shares": batch.noise_shares,
        "top_up": task.batch.top_up,
        "result": shown.to_dict(),
        "anomaly": round(protocol.anomaly(batch.report(protocol), batch.absent), 3),
        "dropped": batch.tally.dropped,
        "guarantee": f"{promise(task.padding)}, against everybody but shuffler and analyzer acting "
        "together",
        "note": NEGATIVE_NOTE,
    }


def _shifted(result: R, amount: float) -> R:
    """The result with all its estimates and intervals moved by an amount."""
    if not amount:
        return result
    names = ("value", "values", "low", "high", "joint_low", "joint_high")
    moved = {name: getattr(result, name) + amount for name in names if hasattr(result, name)}
    return replace(result, **moved)


class ResultLine(NamedTuple):
    """One published number with its interval."""

    label: str
    estimate: float
    low: float
    high: float


def result_lines(result: Mapping[str, Any]) -> list[ResultLine]:
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

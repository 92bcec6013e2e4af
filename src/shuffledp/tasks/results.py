"""What the analyzer publishes for a batch: checks, noise, charge, JSON and its schema, CSV.

bad messages?  ──▶  publish noise  ──▶  charge, release, analyze  ──▶  implausible?  ──▶  JSON
(held, free)        (drawn anew)        (`release.publish`)            (marked or held)
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shuffledp.cells.base import CELL_EPSILON, MOST_USERS
from shuffledp.cells.report_size import promise
from shuffledp.documents.schema import (
    HASH_TEXT,
    Anything,
    Flag,
    OneOf,
    Real,
    Record,
    Schema,
    Tagged,
    Whole,
    hex_text,
)
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.plans.certificate_schema import SENTENCE
from shuffledp.protocols.base import Protocol, R
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.catalogue import QUERIES
from shuffledp.release.ledger import Ledger
from shuffledp.release.publish import publish
from shuffledp.tasks.errors import BatchHeld
from shuffledp.tasks.opening import BAD_MESSAGES, Tally
from shuffledp.tasks.rules import (
    IMPLAUSIBLE_DEVIATIONS,
    PUBLISH_NOISES,
    TOP_UPS,
    check_complete,
)
from shuffledp.tasks.series import TASK_NAME
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MOST_BATCH_REPORTS

NEGATIVE_NOTE = "Estimates are unbiased: noise is not cut off, so small ones may be negative."
AGAINST_WHOM = {
    "full": "of this result against everybody who does not see the analyzer's batches, also "
    "against a shuffler that made all other reports up; against the analyzer as far as the other "
    "reports are honest; against shuffler and analyzer acting together: none",
    "none": "against everybody but shuffler and analyzer acting together, as far as the other "
    "reports are honest: a shuffler that made all other reports up reads the value of the last one",
}
"""Against whom the guarantee holds, by the task's `publish_noise`."""
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
    "implausible",
)
SERIES_COLUMNS = ("from", "to", "place", "task")


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
        """How many missing users' shares of noise the shuffler added."""
        return self.noise_shares - self.reports

    def report(self, protocol: Protocol[Result]) -> Report:
        """The batch as `Protocol.release` takes it: as if the missing users had reported too."""
        return protocol.with_top_up(self.tally.report(self.noise_shares), self.absent)

    def to_release(self, task: Task, entropy: Entropy = SYSTEM) -> ReportToRelease:
        """The batch with the noise that the task asks the analyzer to add, drawn anew.

        Ensures: with publish_noise full, the noise of the certified users is in it even if no user
        brought any; so it is ε-DP against everybody who does not see the batch itself.
        """
        report, shares = self.report(task.protocol), task.publish_shares
        if shares:
            report = with_noise(task.protocol, report, shares, entropy)
        return ReportToRelease(report)


class ReportToRelease(NamedTuple):
    """What is released of a batch: everything that is published is computed from this."""

    report: Report
    """Its `absent` counts the shares of noise that shuffler and analyzer added."""

    def anomaly(self, protocol: Protocol[Result]) -> float:
        """How implausible it is, in standard deviations.

        Ensures: it depends on users' values through the released report alone, which is ε-DP (with
        publish noise: the sums with all noise in them), and on public numbers. So to publish it, or
        a mark that follows from it, is post-processing and costs no ε.
        """
        return round(protocol.anomaly(self.report), 3)


def with_noise(
    protocol: Protocol[Result], report: Report, shares: int, entropy: Entropy = SYSTEM
) -> Report:
    """A batch with the noise of `shares` users added, as if they had reported `absent_value`;
    `shifted` takes that off the result again."""
    return report + protocol.with_top_up(protocol.top_up(shares, entropy), shares)


def implausible(anomaly: float) -> bool:
    """Whether a batch with this anomaly is implausible."""
    return abs(anomaly) > IMPLAUSIBLE_DEVIATIONS


def published(
    task: Task, batch: OpenedBatch, released: ReportToRelease, result: Result
) -> dict[str, Any]:
    """What is published for a batch, as JSON: the result of those who reported, with the
    certificate, what was dropped, and how implausible the messages are.

    Requires: the batch was released; `result` is the analysis of `released`, with the certificate.
    Ensures: nothing that is published depends on honest users' values except through `released`;
    the number of dummies, which would tell the number of all other messages, is not published.
    """
    protocol = task.protocol
    shown = shifted(result, -float(protocol.absent_value * released.report.absent))
    anomaly = released.anomaly(protocol)
    return {
        "task": task.id.hex(),
        "name": task.name,
        "batch": batch.id.hex(),
        "number": batch.number,
        "reports": batch.reports,
        "noise_shares": batch.noise_shares,
        "top_up": task.batch.top_up,
        "publish_noise": task.publish_noise,
        # `users` of the result counts shares of noise; here it says how many reported
        "result": {**shown.to_dict(), "users": batch.reports},
        "anomaly": anomaly,
        "implausible": implausible(anomaly),
        "dropped": {name: batch.tally.dropped[name] for name in BAD_MESSAGES},
        "guarantee": f"{promise(task.padding)}, {AGAINST_WHOM[task.publish_noise]}",
        "note": NEGATIVE_NOTE,
    }


def shifted(result: R, amount: float) -> R:
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
    """The numbers in a published result: one for a count or sum, one per bucket of a histogram or
    group, one per quantile."""
    if "quantiles" in result:
        rows = [(f"quantile {row['probability']:g}", row) for row in result["quantiles"]]
    elif "buckets" in result or "groups" in result:
        listed = result["buckets"] if "buckets" in result else result["groups"]
        rows = [(str(row["label"]), row) for row in listed]
    else:
        rows = [(str(result["query"]), result)]
    return [ResultLine(label, row["estimate"], *row["interval"]) for label, row in rows]


def results_csv(results: Iterable[dict[str, Any]]) -> str:
    """Published results as CSV, one line per number."""
    return _csv(CSV_COLUMNS, _csv_rows(results))


def series_csv(members: Iterable[Mapping[str, Any]]) -> str:
    """The published results of a series' tasks as CSV: the dates and the place of the task before
    each line."""
    return _csv(
        (*SERIES_COLUMNS, *CSV_COLUMNS),
        (
            [
                *(date_text(one[end]) for end in ("not_before", "expires")),
                one["place"],
                one["task"],
                *row,
            ]
            for one in members
            for row in _csv_rows(one["results"])
        ),
    )


def _csv(columns: Iterable[str], rows: Iterable[list[Any]]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)
    return out.getvalue()


def _csv_rows(results: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    for one in results:
        result = one["result"]
        after = (
            result["confidence"],
            result["epsilon"],
            one["reports"],
            one["anomaly"],
            int(one["implausible"]),
        )
        for line in result_lines(result):
            yield [one["number"], *line, *after]


def date_text(seconds: int) -> str:
    """A moment as a date with its time, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ledger_line(task: Task, batch_id: bytes) -> str:
    """The ledger's line for the release of a batch."""
    return f"{task.name} [task {task.id.hex()}, batch {batch_id.hex()}]"


def publish_batch(
    task: Task,
    batch: OpenedBatch,
    *,
    ledger: Ledger | None,
    confidence: float,
    implausible_rule: str = "mark",
    once: bool = True,
) -> dict[str, Any]:
    """Publishes a batch and returns its JSON data.

    With `once`, the ledger is charged once, however often this is called for the same batch.

    Requires: with `once` and publish noise, of all results for the same batch at most one is ever
    shown to anybody: every call draws the noise anew, and several results would average it away.
    Ensures: as `publish`; raises `BatchHeld` and charges nothing if too many messages are bad for
    the certified noise to be there. With the rule hold, raises `BatchHeld` for an implausible batch
    after it was charged: that a batch is held reveals something about its contents.
    """
    protocol = task.protocol
    check_complete(batch.reports, batch.tally.bad, batch.absent, protocol.users)
    released = batch.to_release(task)
    result = publish(
        protocol,
        released.report,
        confidence=confidence,
        ledger=ledger,
        what=ledger_line(task, batch.id),
        once=once,
        certificate=task.certificate,
    )
    # The anomaly is a function of `released` alone, which has been charged: a mark costs nothing
    # more. A held batch tells "implausible" instead of its result, which is a function of it too.
    if implausible_rule == "hold" and implausible(released.anomaly(protocol)):
        raise BatchHeld(
            "implausible",
            "The totals are implausible: honest clients send such totals more rarely than a normal "
            f"law is {IMPLAUSIBLE_DEVIATIONS:g} standard deviations away. Nothing was published, "
            "but ε was charged, because holding the batch reveals something about it; discard it.",
        )
    return published(task, batch, released, result)


BATCH_ID = hex_text(16)
COUNT = Whole(0, 1 << 62)

PROMISE: dict[str, Schema] = {
    "epsilon": Real(),
    "epsilon_exact": CELL_EPSILON,
    "privacy": SENTENCE,
    "users": Whole(1, 2 * MOST_USERS),
    "neighbours": SENTENCE,
    "confidence": Real(),
    "rmse": Real(),
    "messages_per_user": Real(),
    "seeded": Flag(),
    "clamped": Flag(),
    "certificate": Anything(depth=24, longest=10_000, most_items=10**6),
}
RESULT = Tagged(
    "query",
    {
        name: Record(
            {"query": OneOf((name,)), **one.declaration.result_json, **PROMISE},
            one.declaration.result_json_optional,
        )
        for name, one in QUERIES.items()
        if one.declaration.result_json is not None
    },
)
PUBLISHED = Record(
    {
        "task": HASH_TEXT,
        "name": TASK_NAME,
        "batch": BATCH_ID,
        "number": Whole(1, 1 << 32),
        "reports": Whole(1, MOST_BATCH_REPORTS),
        "noise_shares": COUNT,
        "top_up": OneOf(TOP_UPS),
        "publish_noise": OneOf(PUBLISH_NOISES),
        "result": RESULT,
        "anomaly": Real(),
        "implausible": Flag(),
        "dropped": Record({name: COUNT for name in BAD_MESSAGES}),
        "guarantee": SENTENCE,
        "note": SENTENCE,
    }
)

"""What the analyzer publishes for a batch: checks, noise, charge, JSON and its schema, CSV.

in the ledger?  ──▶  bad messages?  ──▶  noise, release, JSON  ──▶  charge  ──▶  implausible?
(that one again)     (held, free)        (in memory alone)          with JSON    (marked or held)

The noise is derived from a secret beside the report key and from the exact contents of the batch.
So if the ledger has gone back in time together with the store, the same result is published again.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from shuffledp.cells.base import CELL_EPSILON, MOST_USERS
from shuffledp.documents.csv_text import csv_text
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
from shuffledp.numbers.entropy import SECRET_BYTES, Entropy, SecretEntropy
from shuffledp.plans.certificate import SENTENCE
from shuffledp.protocols.base import Protocol, R
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.catalogue import QUERIES
from shuffledp.release.ledger import Ledger
from shuffledp.release.publish import publish, publish_once
from shuffledp.tasks.errors import BatchHeld, TaskError
from shuffledp.tasks.keys import PrivateKey
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

UNBIASED_NOTE = (
    "Estimates are unbiased: they are not clipped, so they may be outside the possible range. "
    "Pages and pictures show them clipped to it."
)
CSV_COLUMNS = (
    "batch",
    "label",
    "estimate",
    "clipped",
    "low",
    "high",
    "confidence",
    "epsilon",
    "reports",
    "anomaly",
    "implausible",
)
SERIES_COLUMNS = ("from", "to", "place", "task")
NOISE_LABEL = b"shuffledp/v1 publish noise 1"
"""Its last number must change whenever the same bits would be turned into other noise: two noises
from the same bits would depend on each other."""


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

    def report(self) -> Report:
        """The batch for `Protocol.release`: as if the missing users had reported, too."""
        return replace(self.tally.report(self.noise_shares), absent=self.absent)

    def to_release(self, task: Task, noise: Callable[[], Entropy]) -> Report:
        """The batch with the noise that the task asks the analyzer to add, drawn from `noise`. Its
        `absent` counts the shares of noise that shuffler and analyzer added.

        Ensures: with publish_noise full, the noise of the certified users is in it even if no user
        added any, so it is ε-DP against everyone who sees neither the batch itself nor the bits of
        `noise`.
        """
        report, shares = self.report(), task.publish_shares
        if shares:
            report += task.protocol.top_up(shares, noise())
        return report

    def noise_bits(self, task: Task, key: PrivateKey) -> Entropy:
        """The bits of this batch's publish noise, derived from a secret beside the report key.

        Ensures: the same batch of the same task with the same contents gets the same bits; any
        difference in what noise is added to gives independent ones, because the same noise in two
        results would cancel out in their difference.
        """
        if key.public != task.key:
            raise TaskError("This is not the key for which the task's messages are encrypted.")
        plus, minus = (np.asarray(side, ">i8") for side in (self.tally.plus, self.tally.minus))
        shares = task.publish_shares, self.reports, self.noise_shares
        about = hashlib.sha256(task.id + self.id + struct.pack(">QQQQ", *shares, len(plus)))
        about.update(plus.tobytes())
        about.update(minus.tobytes())
        derived = HKDF(SHA256(), SECRET_BYTES, salt=None, info=NOISE_LABEL + about.digest())
        return SecretEntropy(derived.derive(key.noise_secret))


def implausible(anomaly: float) -> bool:
    """Whether a batch with this anomaly is implausible."""
    return abs(anomaly) > IMPLAUSIBLE_DEVIATIONS


def published(task: Task, batch: OpenedBatch, released: Report, result: Result) -> dict[str, Any]:
    """What is published for a batch, as JSON: the result of those who reported, with the
    certificate, what was dropped, and how implausible the messages are.

    Requires: the batch was released; `result` is the analysis of `released`, with the certificate.
    Ensures: nothing that is published depends on honest users' values except through `released`,
    which is ε-DP (with publish noise: the sums with all noise in them). So the anomaly and the mark
    that follows from it are post-processing and cost no ε. The number of dummies, which would
    reveal the number of all other messages, is not published.
    """
    protocol = task.protocol
    shown = of_reports(protocol, result, released.absent, batch.reports)
    anomaly = round(protocol.anomaly(released), 3)
    return {
        "task": task.id.hex(),
        "name": task.name,
        "batch": batch.id.hex(),
        "number": batch.number,
        "reports": batch.reports,
        "noise_shares": batch.noise_shares,
        "top_up": task.batch.top_up,
        "publish_noise": task.publish_noise,
        "result": shown.to_dict(),
        "anomaly": anomaly,
        "implausible": implausible(anomaly),
        "dropped": {name: batch.tally.dropped[name] for name in BAD_MESSAGES},
        "guarantee": task.guarantee,
        "note": UNBIASED_NOTE,
    }


def of_reports(protocol: Protocol[R], result: R, absent: int, reports: int) -> R:
    """The result for the users who reported, from one that also counts missing users whose noise
    was added: without what the estimates count for them, and within the possible range."""
    names = ("value", "values", "low", "high", "joint_low", "joint_high")
    amount = -float(protocol.absent_value * absent)
    changes: dict[str, Any] = {"users": reports}
    if amount:
        changes |= {name: getattr(result, name) + amount for name in names if hasattr(result, name)}
    if hasattr(result, "possible"):
        changes["possible"] = protocol.possible(reports)
    return replace(result, **changes)


class ResultLine(NamedTuple):
    """One published number with its interval."""

    label: str
    estimate: float
    clipped: float
    """The estimate, or the possible number nearest to it."""
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
    return [
        ResultLine(label, row["estimate"], row.get("clipped", row["estimate"]), *row["interval"])
        for label, row in rows
    ]


def results_csv(results: Iterable[dict[str, Any]], **marks: str) -> str:
    """Published results as CSV, one line per number; each of the marks is one more column, with the
    same text in every line."""
    rows = ([*row, *marks.values()] for row in _csv_rows(results))
    return csv_text((*CSV_COLUMNS, *marks), rows)


def series_csv(members: Iterable[Mapping[str, Any]]) -> str:
    """The published results of a series' tasks as CSV: each line begins with the dates and the
    position of the task."""
    return csv_text(
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
    """A moment as date and time, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ledger_line(task: Task, batch_id: bytes) -> str:
    """The ledger's entry for the release of a batch."""
    return f"{task.name} [task {task.id.hex()}, batch {batch_id.hex()}]"


def publish_batch(
    task: Task,
    batch: OpenedBatch,
    *,
    key: Callable[[], PrivateKey],
    ledger: Ledger | None,
    confidence: float,
    implausible_rule: str = "mark",
) -> dict[str, Any]:
    """Publishes a batch and returns its JSON data.

    A batch is charged once. If the ledger already has its entry, that entry's data is returned,
    regardless of the batch's current contents and of `confidence`. Otherwise its noise is derived
    from its contents and a secret of the key that `key` returns: the same batch gets the same
    noise, even if the ledger has lost its entry.

    Requires: without a ledger, the task asks for no publish noise, or the batch always has the same
    contents: results of different contents could be averaged to remove the noise. Ensures: as
    `publish_once`; raises `BatchHeld` and charges nothing if too many messages are bad for the
    certified noise to be there. With the rule hold, raises `BatchHeld` for an implausible batch
    after it was charged: that a batch is held reveals something about its contents. Raises what
    `key` raises, and charges nothing.
    """

    def draw() -> dict[str, Any]:
        found = draw_result(task, batch, confidence, lambda: batch.noise_bits(task, key()))
        return without_certificate(found)

    if ledger is None:
        document: Mapping[str, Any] | None = draw()
    else:
        what = ledger_line(task, batch.id)
        document = publish_once(ledger, task.protocol.epsilon, what, draw)
    if document is None:
        raise BatchHeld(
            "result-lost",
            "The ledger records that this batch was released, but not its result, and its "
            "noise must not be drawn a second time; nothing was published: discard the batch.",
        )
    # The anomaly is a function of what was released, which has been charged, so a mark costs
    # nothing more. A held batch reveals "implausible" instead of its result, which is also a
    # function of it.
    if implausible_rule == "hold" and document["implausible"]:
        raise BatchHeld(
            "implausible",
            "The totals are implausible: honest clients send such totals more rarely than a normal "
            f"law is {IMPLAUSIBLE_DEVIATIONS:g} standard deviations away. Nothing was published, "
            "but ε was charged, because holding the batch reveals something about it; discard it.",
        )
    return with_certificate(document, task)


def draw_result(
    task: Task, batch: OpenedBatch, confidence: float, noise: Callable[[], Entropy]
) -> dict[str, Any]:
    """What is published for a batch, with publish noise from `noise`. Secret until it is charged.

    Ensures: raises `BatchHeld` if too many messages are bad for the certified noise to be there.
    """
    protocol = task.protocol
    check_complete(batch.reports, batch.tally.bad, batch.absent, protocol.users)
    released = batch.to_release(task, noise)
    what, proof = ledger_line(task, batch.id), task.certificate
    result = publish(protocol, released, confidence=confidence, what=what, certificate=proof)
    return published(task, batch, released, result)


def without_certificate(document: Mapping[str, Any]) -> dict[str, Any]:
    """A published document as the ledger keeps it: the task has the certificate."""
    return {**document, "result": {**document["result"], "certificate": None}}


def with_certificate(document: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """A document of the ledger as it is published."""
    return {**document, "result": {**document["result"], "certificate": task.certificate}}


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

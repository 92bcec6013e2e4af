"""Publishing a batch of encrypted reports that was opened: for the analyzer and Spark's jobs.

bad messages?  ──▶  publish noise  ──▶  charge, release, analyze  ──▶  implausible?  ──▶  JSON
(held, free)        (drawn anew)        (`queries.publish`)            (marked or held)
"""

from __future__ import annotations

from typing import Any

from shuffledp.release.ledger import Ledger
from shuffledp.release.publish import publish
from shuffledp.tasks.errors import BatchHeld
from shuffledp.tasks.results import OpenedBatch, implausible, published
from shuffledp.tasks.rules import IMPLAUSIBLE_DEVIATIONS, check_complete, check_groups
from shuffledp.tasks.task import Task


def ledger_line(task: Task, batch_id: bytes) -> str:
    """What a ledger says about the release of a batch."""
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
    """What is published for a batch, as JSON.

    With `once`, the ledger is charged once, however often this is called for the same batch.

    Requires: with `once` and publish noise, of all results for the same batch at most one is ever
    shown to anybody: every call draws the noise anew, and several results would average it away.
    Ensures: as `publish`; raises `BatchHeld` and charges nothing if too many messages are bad for
    the certified noise to be there. With the rule hold, raises `BatchHeld` for an implausible batch
    after it was charged: that a batch is held tells something about what is inside.
    """
    protocol = task.protocol
    check_complete(batch.reports, batch.tally.bad, batch.absent, protocol.users)
    check_groups(protocol.slack(batch.report(protocol)), batch.tally.bad)
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
            "Honest clients send such totals more rarely than a normal law lies "
            f"{IMPLAUSIBLE_DEVIATIONS:g} standard deviations away, and implausible batches are "
            "held here; nothing was published, but ε was charged, because that alone tells "
            "something: discard the batch.",
        )
    return published(task, batch, released, result)

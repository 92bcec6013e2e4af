"""The one place where a secret batch becomes a public result and its privacy loss is charged.

    batch too small?  ──▶  charge the ledger, durably  ──▶  release  ──▶  analyze
    (refused, free)        (refused if over budget)         Report → View   View → Result

Library calls, the Spark executor, the command line, the analyzer service and the Spark batch jobs
all publish through `publish`. A charge comes before its release, so that a crash in between costs
budget and never releases something that nobody paid for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from shuffledp.errors import ParameterError, ShortBatchError
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.ledger import Ledger

R = TypeVar("R", bound=Result)


def publish(
    protocol: Protocol[R],
    batch: Report,
    *,
    confidence: float,
    ledger: Ledger | None = None,
    what: str,
    once: bool = False,
    certificate: Mapping[str, Any] | None = None,
) -> R:
    """The result of a batch, paid for from the ledger (if one is given) before it is released.

    `what` is the ledger's line for this release. With `once`, a release whose line is in the
    ledger already is not charged again: for services that try the same release more than once,
    whose `what` names the batch. `certificate` goes into the result.

    Requires: with `once`, the same `what` always means the same batch.
    Ensures: raises `ShortBatchError` and charges nothing if the batch has fewer reports than the
    protocol needs; raises `BudgetExceeded` or `SeededError` and releases nothing if the ledger
    refuses; otherwise the charge is on disk before the batch is released.
    """
    if not 0 < confidence < 1:
        raise ParameterError("confidence must lie strictly between 0 and 1, for example 0.95.")
    if batch.users < protocol.users:
        raise ShortBatchError(batch.users, protocol.users)
    if ledger is not None:
        ledger.spend(protocol.epsilon, what, seeded=batch.seeded, once=once)
    result = protocol.analyze(protocol.release(batch), confidence)
    return result if certificate is None else replace(result, certificate=certificate)

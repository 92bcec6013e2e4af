"""The one place where a secret batch becomes a public result and its privacy loss is charged.

    batch too small?  ──▶  release, analyze  ──▶  charge the ledger, durably  ──▶  hand over
    over budget?           in memory: nobody      the entry and the result in      the result
    (refused, free)        has seen it yet        one step

Library calls, the Spark executor and the command line publish through `publish`; the analyzer
service and the Spark batch jobs through `publish_once`, which never draws the noise of a batch a
second time. The charge and the result are written in one step, before anyone gets the result. So
any crash leaves either no charge and no result, or a charge and a result that `shuffledp ledger
show` shows again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Generic, TypeVar

from shuffledp.numbers.exact import checked_confidence
from shuffledp.numbers.memory import check_memory
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.release.ledger import Ledger

R = TypeVar("R", bound=Result)
S = TypeVar("S", bound=Result)
LESS = "use fewer buckets, a smaller largest value or a larger error"
"""How to need less memory."""


def publish(
    protocol: Protocol[R],
    batch: Report,
    *,
    confidence: float,
    ledger: Ledger | None = None,
    what: str,
    note: str = "",
    certificate: Mapping[str, Any] | None = None,
    finish: Callable[[R], R] | None = None,
    times: int = 1,
) -> R:
    """The result of a batch, charged to the ledger (if one is given) before anyone gets it.

    `what` is the ledger's entry for this release, and `note` is the caller's note. The charge is
    `times` the protocol's ε, for people with several rows. `certificate` goes into the result,
    which `finish` then turns into the final one.

    Ensures: raises `ShortBatchError` and charges nothing if the batch has fewer reports than the
    protocol needs; raises `BudgetExceeded` or `SeededError` and releases nothing if the ledger
    refuses; whatever else is raised, the ledger has no charge, or has the result. On return the
    charge is on disk.
    """
    confidence = checked_confidence(confidence)
    protocol.check_batch(batch)
    check_memory(protocol.working_bytes(), LESS)

    def make() -> R:
        result = protocol.analyze(protocol.release(batch), confidence)
        if certificate is not None:
            result = replace(result, certificate=certificate)
        return result if finish is None else finish(result)

    return _charged(ledger, protocol.epsilon * times, batch.seeded, what, note, make)


def _charged(
    ledger: Ledger | None,
    epsilon: Fraction,
    seeded: bool,
    what: str,
    note: str,
    make: Callable[[], S],
) -> S:
    """The result that `make` draws, charged to the ledger, if there is one, before anyone gets it.

    Ensures: draws nothing if the ledger refuses; on return the charge is on disk.
    """
    if ledger is not None:
        ledger.check(epsilon, seeded=seeded)
    result = make()
    if ledger is not None:
        ledger.spend(epsilon, what, seeded=seeded, note=note, result=result.to_dict())
    return result


def publish_once(
    ledger: Ledger, epsilon: Fraction, what: str, draw: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The document released for the entry `what`: the one in the ledger, or the one that `draw`
    makes now, charged before it is returned. None if the ledger has the entry without a document:
    it was released with unknown noise, so it must not be drawn again.

    Requires: the same `what` always means the same batch.
    Ensures: raises `BudgetExceeded` and draws nothing if the ledger refuses. As long as the entry
    is in the ledger, all calls that return a document return the same one, even after kills,
    retries and restores; on return it is on disk.
    """
    entry = ledger.find(what)
    if entry is None:
        ledger.check(epsilon)
        entry = ledger.spend_once(epsilon, what, draw())
    return entry.result


@dataclass(frozen=True)
class Drawn(Generic[R]):
    """A protocol, the reports of all its users, and its certificate. Secret."""

    protocol: Protocol[R]
    batch: Report
    certificate: Mapping[str, Any]


def publish_in_parallel(
    drawn: Sequence[Drawn[R]],
    *,
    confidences: Sequence[float],
    ledger: Ledger | None,
    what: str,
    note: str = "",
    finish: Callable[[list[tuple[R, ...]]], S],
) -> S:
    """The result of several batches, charged once. `finish` makes it from every batch's results,
    one for each of the confidences.

    Requires: every user is in one of the batches, and which one is public, so that replacing a
    user's value changes one of them.
    Ensures: as `publish`, with the largest of the batches' ε as the charge.
    """
    for one in drawn:
        one.protocol.check_batch(one.batch)
        check_memory(one.protocol.working_bytes(), LESS)

    def make() -> S:
        views = [(one.protocol, one.protocol.release(one.batch)) for one in drawn]
        return finish(
            [tuple(own.analyze(view, level) for level in confidences) for own, view in views]
        )

    cost, seeded = max(one.protocol.epsilon for one in drawn), any(d.batch.seeded for d in drawn)
    return _charged(ledger, cost, seeded, what, note, make)

"""Plans for histograms: one cell per bucket, ε split between up and down (MATH §7)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Unpack

from shuffledp.cells.registry import search_buckets
from shuffledp.cells.search import CellTarget, FoundCells
from shuffledp.numbers.exact import ExactNumber
from shuffledp.plans.checks import checked_epsilon, checked_users
from shuffledp.plans.least_epsilon import planner
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, TargetOptions, laplace_variance
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.histogram.protocol import HistogramProtocol, Label, checked_labels


@planner()
def plan_histogram(
    users: int,
    epsilon: ExactNumber | None,
    buckets: object,
    *,
    other: Label | None = None,
    expected: int | None = None,
    cell: str = "best",
    error_at: int | None = None,
    **target: Unpack[TargetOptions],
) -> Plan[HistogramResult]:
    """The cheapest certified histogram over `buckets` (labels, or how many).

    The targets are per bucket, the yardstick is DLap(ε/2) per bucket; `max_messages` counts all
    buckets together. With `error_at`, the error counts at a bucket of that many users instead of at
    the worst one; given alone, it asks for the least error with 25 messages in a padded report.
    `other` names the bucket (added if it is none of them) for unknown labels.
    Without an `epsilon`, but with `rmse` and `max_messages`, the least ε that keeps both is found.

    >>> import shuffledp
    >>> plan = shuffledp.plan_histogram(1000, 1, ["walk", "bike"], other="else")
    >>> plan.protocol.to_dict()["labels"]
    ['walk', 'bike', 'else']
    """
    epsilon = checked_epsilon(epsilon)
    labels = checked_labels(buckets)
    if other is not None and other not in labels:
        labels = checked_labels([*labels, other])
    sure, come = checked_users(users, expected)
    asked = Target.of(**target, error_at=error_at)
    found = found_buckets(epsilon, sure, come, asked, len(labels), cell)
    return Plan.of(
        HistogramProtocol(epsilon=epsilon, cell=found.cell, labels=labels, other=other),
        asked,
        come,
        central_rmse=math.sqrt(laplace_variance(epsilon / 2)),
    )


def found_buckets(
    epsilon: Fraction,
    sure: int,
    come: int,
    target: Target,
    buckets: int,
    cell: str,
    *,
    independent: bool = False,
) -> FoundCells:
    """The cell of each bucket, of which two may move at ε in all: one up, one down; with
    `independent`, buckets are independent of each other."""
    wanted = CellTarget(
        users=sure,
        expected=come,
        largest=1,
        up=epsilon / 2,
        down=epsilon / 2,
        mse=target.mse(laplace_variance(epsilon / 2)),
        relative=target.relative_error,
        error_at=None if target.error_at is None else int(target.error_at),
        padded=buckets if target.padded else 0,
    )
    return search_buckets(cell, epsilon, wanted, target.messages, buckets, independent=independent)

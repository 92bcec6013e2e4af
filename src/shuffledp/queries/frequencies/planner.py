"""Plans for frequencies: a histogram of the candidates, or a table of hashed labels (MATH §19)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from shuffledp.cells.sparse import plan_sparse
from shuffledp.numbers.exact import ExactNumber, whole
from shuffledp.plans.checks import checked_epsilon, checked_users
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.frequencies.hashed import power_of_two_near
from shuffledp.queries.frequencies.hashing import checked_candidates, new_hash_seed
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.records import LARGEST_LABEL

DEFAULT_MESSAGES, DEFAULT_COUNT = 25, 100
MOST_LISTED = 10_000
"""Candidates of which a histogram is taken: a device gets the whole list."""
OTHERS = "all others"


def plan_frequencies(
    users: int,
    epsilon: ExactNumber,
    *,
    candidates: Iterable[Label] = (),
    max_messages: int = DEFAULT_MESSAGES,
    error_at: int = DEFAULT_COUNT,
    expected: int | None = None,
) -> Plan[HistogramResult]:
    """The certified protocol of least error that says how many users hold any label.

    Up to 10,000 candidates, and all other labels together, are the buckets of a histogram. Without
    candidates, or with more of them, labels are hashed to a table; its result can be asked about
    any label.

    Args:
        users: Honest users who are sure to take part; a batch of fewer is never released.
        epsilon: The privacy loss allowed.
        candidates: Labels that results show, known without the data.
        max_messages: The most messages in a report.
        error_at: The error is made least for a label that this many users hold.
        expected: How many users the error is forecast for, if more than `users` may come.

    >>> import shuffledp
    >>> plan = shuffledp.plan_frequencies(100_000, 1)
    >>> plan.report_size, round(plan.protocol.rmse(100_000, 100))
    (25, 13)
    """
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    names = checked_candidates(candidates)
    most = whole(max_messages, "max_messages")
    count = whole(error_at, "error_at", least=0)
    if names and _can_be_listed(names):
        others = others_of(names)
        return plan_histogram(
            sure,
            epsilon,
            [*names, others],
            other=others,
            max_messages=most,
            padded=True,
            error_at=count,
            expected=come,
        )
    cell = plan_sparse(
        sure,
        power_of_two_near(come),
        epsilon,
        max_messages=most,
        error_at=count,
        expected=come,
    )
    return Plan.of(
        FrequenciesProtocol(
            epsilon=epsilon, cell=cell, hash_seed=new_hash_seed(), candidates=names
        ),
        Target.of(max_messages=most, padded=True, error_at=count),
        come,
        central_rmse=math.sqrt(laplace_variance(epsilon / 2)),
    )


def _can_be_listed(names: tuple[Label, ...]) -> bool:
    """Whether the candidates can be buckets of a histogram."""
    numbers = (name for name in names if isinstance(name, int))
    return len(names) <= MOST_LISTED and max(numbers, default=0) <= LARGEST_LABEL


def others_of(names: tuple[Label, ...]) -> str:
    """A label for all others that is none of the candidates."""
    label = OTHERS
    while label in names:
        label += " "
    return label

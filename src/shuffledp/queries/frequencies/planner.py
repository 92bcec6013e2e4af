"""Plans for frequencies: a histogram of the candidates, or a table of hashed labels (MATH §19)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from shuffledp.cells.sparse.search import plan_sparse
from shuffledp.errors import PlanningError
from shuffledp.numbers.bisection import first_whole
from shuffledp.numbers.exact import ExactNumber, counted, show, whole
from shuffledp.plans.checks import checked_epsilon, checked_users
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.frequencies.hashing import (
    checked_candidates,
    new_hash_seed,
    power_of_two_near,
)
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.histogram.protocol import LARGEST_LABEL, Label

DEFAULT_MESSAGES, DEFAULT_COUNT = 25, 100
MOST_MESSAGES = 200
"""The most messages in a report that the search tries."""
MOST_LISTED = 10_000
"""The most candidates for a histogram: a device gets the whole list."""
OTHERS = "all others"


def plan_frequencies(
    users: int,
    epsilon: ExactNumber,
    *,
    candidates: Iterable[Label] = (),
    rmse: ExactNumber | None = None,
    max_messages: int | None = None,
    error_at: int = DEFAULT_COUNT,
    expected: int | None = None,
    cell: str = "best",
) -> Plan[HistogramResult]:
    """The certified protocol with the smallest error that estimates how many users have any label.

    Up to 10,000 candidates, and all other labels together, are the buckets of a histogram. Without
    candidates, or with more of them, labels are hashed into a table, whose result answers for any
    label.

    Args:
        users: Honest users you can count on; a smaller batch is never released.
        epsilon: The privacy loss allowed.
        candidates: Labels that results show, known without the data.
        rmse: The root mean squared error allowed at `error_at`, with the fewest messages.
        max_messages: Alternative target: the smallest error with this many messages in a report
                (default 25).
        error_at: The error is minimised for a label that this many users have.
        expected: The number of users the error is forecast for, if you expect more than `users`.
        cell: The kind of cell for a histogram of candidates; "bounded" is found fastest.

    >>> import shuffledp
    >>> plan = shuffledp.plan_frequencies(100_000, 1)
    >>> plan.report_size, round(plan.protocol.rmse(100_000, 100))
    (25, 13)
    """
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    names = checked_candidates(candidates)
    if rmse is None and max_messages is None:
        max_messages = DEFAULT_MESSAGES
    if max_messages is not None:
        max_messages = whole(max_messages, "max_messages")
    count = whole(error_at, "error_at", least=0)
    target = Target.of(rmse=rmse, max_messages=max_messages, padded=True, error_at=count)
    if names and _can_be_listed(names):
        others = others_of(names)
        return plan_histogram(
            sure,
            epsilon,
            [*names, others],
            other=others,
            rmse=rmse,
            max_messages=max_messages,
            padded=True,
            error_at=count,
            expected=come,
            cell=cell,
        )

    def protocol(messages: int) -> FrequenciesProtocol:
        sparse = plan_sparse(
            sure,
            power_of_two_near(come),
            epsilon,
            max_messages=messages,
            error_at=count,
            expected=come,
        )
        return FrequenciesProtocol(
            epsilon=epsilon, cell=sparse, hash_seed=new_hash_seed(), candidates=names
        )

    messages = _least_messages(protocol, target, come) if max_messages is None else max_messages
    found = protocol(messages)
    return Plan.of(
        found,
        target,
        come,
        central_rmse=math.sqrt(laplace_variance(epsilon / 2)),
    )


def _least_messages(
    protocol: Callable[[int], FrequenciesProtocol], target: Target, users: int
) -> int:
    """The fewest messages in a report that meet the target's error."""
    assert target.rmse is not None and target.error_at is not None
    allowed, count = float(target.rmse), target.error_at

    def keeps(messages: int) -> bool:
        return protocol(messages).rmse_at(users, count) <= allowed

    if not keeps(MOST_MESSAGES):
        raise PlanningError(
            f"No table of labels has an RMSE of at most {show(target.rmse)} for a label of "
            f"{counted(int(count), 'user')}; allow a larger error or epsilon."
        )
    return first_whole(keeps, 0, MOST_MESSAGES)


def _can_be_listed(names: tuple[Label, ...]) -> bool:
    """Whether the candidates can be buckets of a histogram."""
    numbers = (name for name in names if isinstance(name, int))
    return len(names) <= MOST_LISTED and max(numbers, default=0) <= LARGEST_LABEL


def others_of(names: tuple[Label, ...]) -> str:
    """A label for all others that is not a candidate."""
    label = OTHERS
    while label in names:
        label += " "
    return label

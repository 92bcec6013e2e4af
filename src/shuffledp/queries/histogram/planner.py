"""Plans for histograms: one cell per bucket, ε split between up and down (MATH §7)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.bounded.choice import bounded_bucket
from shuffledp.cells.choice import BOUNDED, PAPER, Choice, Search, checked_cell_choice, choose
from shuffledp.cells.paper.choice import paper_bucket
from shuffledp.cells.target import CellTarget
from shuffledp.numbers.exact import ExactNumber
from shuffledp.plans.certificate import certify
from shuffledp.plans.checks import checked_epsilon, checked_size, checked_users
from shuffledp.plans.least_epsilon import least_epsilon_target, with_least_epsilon
from shuffledp.plans.plan import Forecast, Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.histogram.protocol import HistogramProtocol, Label, checked_labels


def plan_histogram(
    users: int,
    epsilon: ExactNumber | None,
    buckets: object,
    *,
    other: Label | None = None,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
    cell: str = "best",
) -> Plan[HistogramResult]:
    """The cheapest certified histogram over `buckets` (labels, or how many).

    The targets are per bucket, the yardstick is DLap(ε/2) per bucket; `max_messages` counts all
    buckets together. `other` names the bucket (added if it is none of them) for unknown labels.
    Without an `epsilon`, but with `rmse` and `max_messages`, the least ε that keeps both is found.

    >>> import shuffledp
    >>> plan = shuffledp.plan_histogram(1000, 1, ["walk", "bike"], other="else")
    >>> plan.protocol.to_dict()["labels"]
    ['walk', 'bike', 'else']
    """
    if epsilon is None:
        least = least_epsilon_target(rmse, max_messages, (mse_overhead, relative_error), padded)
        return with_least_epsilon(
            lambda known, near: plan_histogram(
                users,
                known,
                buckets,
                other=other,
                rmse=rmse,
                padded=padded,
                expected=expected,
                cell=cell,
            ),
            least,
        )
    epsilon = checked_epsilon(epsilon)
    labels = checked_labels(buckets)
    if other is not None and other not in labels:
        labels = checked_labels([*labels, other])
    sure, come = checked_users(users, expected)
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    central = laplace_variance(epsilon / 2)
    choice = bucket_choice(epsilon, sure, come, target, len(labels), cell)
    protocol = HistogramProtocol(epsilon=epsilon, cell=choice.cell, labels=labels, other=other)
    forecast = _forecast(protocol, come, math.sqrt(central), choice.limit)
    return Plan(
        protocol=protocol,
        certificate=certify(protocol),
        target=target,
        expected=come,
        forecast=forecast,
    )


def bucket_choice(
    epsilon: Fraction, sure: int, come: int, target: Target, buckets: int, cell: str
) -> Choice:
    """The cell of each of so many buckets, of which two may move by ε in all: one up, one down."""
    task = CellTarget(
        users=sure,
        expected=come,
        largest=1,
        up=epsilon / 2,
        down=epsilon / 2,
        mse=Fraction(1),
        relative=target.relative_error,
        padded=buckets if target.padded else 0,
    )
    messages = None if target.max_messages is None else float(target.max_messages)
    if messages is None:
        task = replace(task, mse=target.mse(laplace_variance(epsilon / 2)))
    searches: dict[str, Search] = {
        BOUNDED: lambda baseline: bounded_bucket(epsilon, task, messages, buckets),
        PAPER: lambda baseline: paper_bucket(epsilon, task, messages, buckets, baseline),
    }
    return choose(checked_cell_choice(cell), searches, messages is not None)


def _forecast(
    protocol: HistogramProtocol, users: int, central_rmse: float, limit: float
) -> Forecast:
    low, high = protocol.error_range(users, 0.05)
    total = protocol.messages_per_user()
    checked_size(total * users)
    return Forecast(
        messages_per_user=total,
        limit_messages=limit,
        rmse=protocol.rmse(users),
        rmse_at_zero=protocol.rmse(users, 0),
        central_rmse=central_rmse,
        error_low=low,
        error_high=high,
        bits_per_message=math.ceil(math.log2(2 * len(protocol.labels))),
    )

"""Plans for histograms: one cell per bucket, ε split between up and down (MATH §7)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Unpack

from shuffledp.cells.base import independent_cell
from shuffledp.cells.registry import search_buckets, search_cell
from shuffledp.cells.search import (
    BEST,
    BOUNDED,
    SPARSE,
    CellTarget,
    FoundCells,
    checked_cell_choice,
)
from shuffledp.cells.sparse.kept_search import KeptTask, plan_kept
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import ExactNumber, whole
from shuffledp.plans.checks import checked_epsilon, checked_users
from shuffledp.plans.least_epsilon import planner
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, TargetOptions, laplace_variance
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.histogram.protocol import (
    HistogramProtocol,
    Label,
    checked_heavy,
    checked_labels,
)

DEFAULT_COUNT, KEPT_MESSAGES = 100, 41
"""With heavy labels: the count at which the error of the others is minimised, and their
messages."""


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
    heavy: Iterable[Label] = (),
    **target: Unpack[TargetOptions],
) -> Plan[HistogramResult]:
    """The cheapest certified histogram over `buckets` (labels, or how many).

    Targets are per bucket and relative to DLap(ε/2); `max_messages` counts all buckets together.
    With `error_at`, the target is the error at a bucket of that many users instead of the worst
    one; given alone, it asks for the smallest error with 25 messages in a padded report.
    `other` names the bucket (added if it is none of them) for unknown labels.
    `heavy` lists labels that get an exact cell each, while all others share a sparse part; with it,
    `max_messages` limits the whole report, and `error_at` (default 100) applies to the others.
    Without an `epsilon`, but with `rmse` and `max_messages`, the smallest ε for both is found.

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
    listed = checked_heavy(heavy, labels)
    if listed:
        most = _most_with_heavy(target, cell)
        count = DEFAULT_COUNT if error_at is None else error_at
        beside = Beside(sure=sure, come=come, epsilon=epsilon, count=count)
        protocol = beside.protocol(labels, other, listed, most)
        asked = Target.of(max_messages=most, error_at=beside.count, padded=True)
        return Plan.of(protocol, asked, come, central_rmse=math.sqrt(laplace_variance(epsilon / 2)))
    asked = Target.of(**target, error_at=error_at)
    found = found_buckets(epsilon, sure, come, asked, len(labels), cell)
    return Plan.of(
        HistogramProtocol(epsilon=epsilon, cell=found.cell, labels=labels, other=other),
        asked,
        come,
        central_rmse=math.sqrt(laplace_variance(epsilon / 2)),
    )


def _most_with_heavy(target: TargetOptions, cell: str) -> int | None:
    """The most messages in a report with heavy labels; refuses other targets."""
    others = [name for name, value in target.items() if value and name != "max_messages"]
    if set(others) - {"padded"} or checked_cell_choice(cell) not in (BEST, SPARSE):
        raise ParameterError(
            "With heavy labels the targets are max_messages and error_at alone, and the cells are "
            "chosen by the planner; drop the others."
        )
    most = target.get("max_messages")
    return None if most is None else whole(most, "max_messages")


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The target of heavy labels and of all others."""

    sure: int
    come: int
    epsilon: Fraction
    count: int
    """The count at which the error of the others is minimised."""

    def protocol(
        self,
        labels: tuple[Label, ...],
        other: Label | None,
        heavy: tuple[Label, ...],
        most: int | None,
    ) -> HistogramProtocol:
        """Exact cells with the usual error for the heavy labels, and for all others the sparse part
        with the least error for the remaining messages, or for 41."""
        half = self.epsilon / 2  # so that any move costs one half up and one half down
        wanted = CellTarget(
            users=self.sure,
            expected=self.come,
            largest=1,
            up=half,
            down=half,
            mse=Target.of().mse(laplace_variance(half)),
            padded=len(heavy),
        )
        exact = independent_cell(search_cell(BOUNDED, wanted, None).cell)
        assert exact.most_messages is not None
        taken = len(heavy) * exact.most_messages
        left = KEPT_MESSAGES if most is None else most - taken
        if left < 1:
            raise PlanningError(
                f"The heavy labels alone take {taken:,} messages; allow more, or list fewer."
            )
        task = KeptTask(
            users=self.sure,
            buckets=len(labels) - len(heavy),
            up=half,
            down=half,
            expected=self.come,
            count=min(whole(self.count, "error_at", least=0), self.come),
        )
        return HistogramProtocol(
            epsilon=self.epsilon,
            cell=plan_kept(task, left),
            labels=labels,
            other=other,
            heavy=heavy,
            heavy_cell=exact,
        )


def found_buckets(
    epsilon: Fraction,
    sure: int,
    come: int,
    target: Target,
    buckets: int,
    cell: str,
    *,
    levels: bool = False,
) -> FoundCells:
    """The cell of each bucket, of which two may move at ε in all: one up, one down; with
    `levels`, the buckets may be a level behind quantiles."""
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
    return search_buckets(cell, epsilon, wanted, target.messages, buckets, levels=levels)

"""Plans for counts, sums and means by private group: the budget goes by direction (MATH §17)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from shuffledp.cells.base import Cell, IndependentCell
from shuffledp.cells.bounded.cell import MOST_BOUNDED_VALUE
from shuffledp.cells.bounded.digit_search import search_digits
from shuffledp.cells.bounded.search import search_buckets as search_bounded
from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.registry import (
    Search,
    at_count,
    best_of,
    group_of_buckets,
    search_buckets,
)
from shuffledp.cells.search import BEST, BOUNDED, POOLED, SPARSE, CellTarget, FoundCells
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ExactNumber, round_to, whole
from shuffledp.plans.checks import checked_bounds, checked_epsilon, checked_users
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.queries.by_group.protocol import (
    ByGroupProtocol,
    DirectedCell,
    checked_groups,
    most_groups,
)
from shuffledp.queries.by_group.result import ANSWERS, COUNT, INTEGER_SUM, MEAN, GroupsResult

SHARE_DIGITS = 3
REAL_OVERHEAD = 8
"""Of the squared error, where no target is given: that of real sums."""
COUNTING = (BOUNDED, POOLED, SPARSE)
"""The kinds of cells of counts, in the order in which they are tried."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What is planned, checked; errors are counted in parts of high − low."""

    users: int
    expected: int
    epsilon: Fraction
    groups: int
    answer: str
    low: Fraction
    high: Fraction
    target: Target

    @property
    def size_weight(self) -> Fraction:
        """The weight of an error in a group's size; 0 if sizes are not needed."""
        return Fraction(1) if self.answer == MEAN else abs(self.low) / (self.high - self.low)

    @property
    def size_share(self) -> Fraction:
        """The share of ε for sizes that minimises a trusted party's error."""
        weight = float(self.size_weight) ** (2 / 3)
        return round_to(weight / (1 + weight), SHARE_DIGITS, up=True) if weight else Fraction(0)

    def central(self) -> tuple[Fraction, Fraction]:
        """A trusted party's squared errors from the digits and from sizes: Laplace noise, with half
        of ε for each of two groups."""
        share, half = self.size_share, self.epsilon / 2
        digits = 2 / (half * (1 - share)) ** 2
        return digits, (2 * (self.size_weight / (half * share)) ** 2 if share else Fraction(0))

    def central_whole(self) -> Fraction:
        """The same for whole numbers."""
        return laplace_variance(self.epsilon / (2 * self.high))

    def central_rmse(self) -> float:
        """A trusted party's error, in the answer's unit."""
        if self.answer in (COUNT, INTEGER_SUM):
            return math.sqrt(self.central_whole())
        per_user = Fraction(self.groups, self.expected) if self.answer == MEAN else Fraction(1)
        return math.sqrt(sum(self.central())) * float((self.high - self.low) * per_user)

    def allowed(self) -> Fraction:
        """The allowed squared error of a group's sum."""
        span = self.high - self.low
        if self.answer == MEAN:  # a mean's error is the sum's over the group's size
            span *= Fraction(self.groups, self.expected)
        return self.target.mse(sum(self.central(), start=Fraction(0)), span)


Chosen = tuple[tuple[DirectedCell, ...], DirectedCell | None]
"""The cells of the digits, and the one that counts users if it is needed."""


def plan_by_group(
    users: int,
    epsilon: ExactNumber,
    groups: object,
    *,
    answer: str = COUNT,
    largest: int | None = None,
    bounds: tuple[ExactNumber, ExactNumber] | None = None,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
    error_at: int | None = None,
    cell: str = "best",
) -> Plan[GroupsResult]:
    """The cheapest certified protocol that answers a query for each of several private groups.

    Args:
        users: Honest users you can count on; a smaller batch is never released.
        epsilon: The privacy loss allowed when one user's group and value are replaced.
        groups: The labels of all groups (or how many, then 0, 1, …), known without the data.
        answer: "count", "integer-sum" (with `largest`), "real-sum" or "mean" (with `bounds`).
        largest: The largest whole number of an integer sum.
        bounds: The smallest and the largest value of a real sum or a mean.
        mse_overhead: Allow 1 + this times the squared error of a trusted party (default ½; 8 for
                real sums and means).
        rmse: Alternative target: the root mean squared error allowed in each group; for a mean, in
                a group with an equal share of all users.
        max_messages: Alternative target: the smallest error with at most this many messages per
                user (counts and integer sums only).
        padded: Count messages per padded report, as in the service, instead of on average.
        expected: The number of users the error is forecast for, if you expect more than `users`.
        error_at: Of counts: the target is the error at a group of this many users instead of the
                worst one; alone, it asks for the smallest with 25 messages in a padded report.
        cell: "best" or "bounded"; of a count also "pooled" or "sparse".

    Returns:
        The plan; values are pairs of a group's label and a number.

    Raises:
        ParameterError: An argument is outside its domain, or targets contradict each other.
        PlanningError: No parameters reach the target.

    >>> import shuffledp
    >>> plan = shuffledp.plan_by_group(1000, 1, ["may", "june"])
    >>> report = plan.randomize(("june", 1))
    >>> plan.certificate.loss <= 1
    True
    """
    low, high = _checked_range(answer, largest, bounds)
    labels = checked_groups(groups, most_groups(answer))
    if cell not in (BEST, BOUNDED) and (answer != COUNT or cell not in COUNTING):
        raise ParameterError(
            "Answers by group have bounded cells, and counts pooled or sparse ones too; leave cell "
            "out."
        )
    if answer != COUNT and error_at is not None:
        raise ParameterError("error_at is for counts by group; leave it out.")
    whole_values = answer in (COUNT, INTEGER_SUM)
    if not whole_values and max_messages is not None:
        raise ParameterError(
            "Real sums and means by group need an error as target; pass rmse or mse_overhead "
            "instead of max_messages."
        )
    if not whole_values and rmse is None and mse_overhead is None:
        mse_overhead = REAL_OVERHEAD
    sure, come = checked_users(users, expected)
    asked = _Asked(
        users=sure,
        expected=come,
        epsilon=checked_epsilon(epsilon),
        groups=len(labels),
        answer=answer,
        low=low,
        high=high,
        target=Target.of(mse_overhead, rmse, max_messages, None, padded, error_at),
    )
    digits, sizes = _whole_numbers(asked, cell) if whole_values else _reals(asked)
    protocol = ByGroupProtocol(
        epsilon=asked.epsilon,
        answer=answer,
        labels=labels,
        low=low,
        high=high,
        digits=digits,
        sizes=sizes,
    )
    return Plan.of(protocol, asked.target, come, central_rmse=asked.central_rmse())


def _checked_range(answer: object, largest: object, bounds: object) -> tuple[Fraction, Fraction]:
    """The least and the largest value that the answer needs."""
    if answer not in ANSWERS:
        raise ParameterError(f"answer must be one of {', '.join(ANSWERS)}.")
    if (largest is not None) != (answer == INTEGER_SUM):
        raise ParameterError("An integer-sum by group needs largest; other answers do not take it.")
    if (bounds is not None) != (answer not in (COUNT, INTEGER_SUM)):
        raise ParameterError(
            "A real-sum or mean by group needs bounds; other answers do not take them."
        )
    if bounds is not None:
        return checked_bounds(bounds)
    if largest is None:
        return Fraction(0), Fraction(1)
    return Fraction(0), Fraction(whole(largest, "the largest value", most=MOST_BOUNDED_VALUE))


def _whole_numbers(asked: _Asked, cell: str) -> Chosen:
    """The cells of counts and integer sums, ε between up and down as it costs least. Counts take
    the kind that costs fewest messages or, within a number of messages, errs least; cells that draw
    all groups at once have one more bucket, for the users who hold 0."""
    target = asked.target
    wanted = _cell_target(asked, int(asked.high), target.mse(asked.central_whole()))

    def search_of(kind: str) -> Search:
        buckets = _buckets(asked, kind)
        return lambda _: search_buckets(kind, asked.epsilon, wanted, target.messages, buckets)

    def better(one: FoundCells, other: FoundCells) -> bool:
        return at_count(wanted, one).beats(at_count(wanted, other), target.messages is not None)

    kinds = (BOUNDED,) if asked.answer != COUNT else COUNTING if cell == BEST else (cell,)
    found = best_of(map(search_of, kinds), better).cell
    return (_directed(found, asked.epsilon, _buckets(asked, found.kind)),), None


def _buckets(asked: _Asked, kind: str) -> int:
    """How many buckets this kind of cell needs."""
    return asked.groups + (kind != BOUNDED)


def _reals(asked: _Asked) -> Chosen:
    """The digits' cells, each with the same loss up and down, and the cell for sizes if any."""
    share, allowed, central = asked.size_share, asked.allowed(), asked.central()
    whole_error = sum(central, start=Fraction(0))
    task = SumTarget(
        users=asked.users,
        expected=asked.expected,
        epsilon=asked.epsilon * (1 - share) / 2,
        mse=allowed * central[0] / whole_error,
        padded=asked.target.padded,
        dither=1,  # a public counter does not show whose sum it moved
    )
    choice = search_digits(task, None)
    digits = tuple(DirectedCell(cell, cell.up_loss) for cell in choice.cells)
    if not share:
        return digits, None
    budget = asked.epsilon - 2 * sum((cell.up_loss for cell in choice.cells), start=Fraction(0))
    mse = allowed * central[1] / whole_error / asked.size_weight**2
    sizes = search_bounded(budget, _cell_target(asked, 1, mse), None, asked.groups)
    return digits, _directed(sizes.cell, budget, asked.groups)


def _cell_target(asked: _Asked, largest: int, mse: Fraction) -> CellTarget:
    return CellTarget(
        users=asked.users,
        expected=asked.expected,
        largest=largest,
        up=asked.epsilon / 2,
        down=asked.epsilon / 2,
        mse=mse,
        error_at=None if asked.target.error_at is None else int(asked.target.error_at),
        padded=asked.groups if asked.target.padded else 0,
    )


def _directed(cell: Cell, budget: Fraction, buckets: int) -> DirectedCell:
    """A cell with what a change downwards costs: what is left of a budget, or where any replacement
    costs the same, all of it."""
    if isinstance(cell, IndependentCell):  # its values need not be 0 and 1
        return DirectedCell(cell, budget - cell.up_loss)
    group = group_of_buckets(cell, buckets, cell.up_loss, budget - cell.up_loss)
    return DirectedCell(cell, group.members[0].down)

"""Plans for counts, sums and means by private group: the budget goes by direction (MATH §17)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from shuffledp.cells.base import Cell, independent_cell
from shuffledp.cells.bounded.cell import MOST_BOUNDED_VALUE
from shuffledp.cells.bounded.digit_search import search_digits
from shuffledp.cells.bounded.search import search_buckets
from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.search import CellTarget
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ExactNumber, round_to, whole
from shuffledp.plans.checks import checked_bounds, checked_epsilon, checked_users
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.queries.by_group.protocol import ByGroupProtocol, DirectedCell, checked_groups
from shuffledp.queries.by_group.result import ANSWERS, COUNT, INTEGER_SUM, MEAN, GroupsResult

SHARE_DIGITS = 3
REAL_OVERHEAD = 8
"""The default overhead of the squared error: that of real sums."""
BOUNDED_CELLS = ("best", "bounded")


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


class _Found(NamedTuple):
    """The cells that were chosen."""

    digits: tuple[DirectedCell, ...]
    sizes: DirectedCell | None


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
        cell: "best" or "bounded"; both use bounded cells.

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
    if cell not in BOUNDED_CELLS:
        raise ParameterError("Plans by group always use bounded cells; leave cell out.")
    labels = checked_groups(groups)
    low, high = _checked_range(answer, largest, bounds)
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
        target=Target.of(mse_overhead, rmse, max_messages, None, padded),
    )
    found = _whole_numbers(asked) if whole_values else _reals(asked)
    protocol = ByGroupProtocol(
        epsilon=asked.epsilon,
        answer=answer,
        labels=labels,
        low=low,
        high=high,
        digits=found.digits,
        sizes=found.sizes,
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


def _whole_numbers(asked: _Asked) -> _Found:
    """One cell per group, with the cheapest split of ε between up and down."""
    target = asked.target
    wanted = _cell_target(asked, int(asked.high), target.mse(asked.central_whole()))
    found = search_buckets(asked.epsilon, wanted, target.messages, asked.groups)
    return _Found((_directed(found.cell, asked.epsilon),), None)


def _reals(asked: _Asked) -> _Found:
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
    digits = tuple(DirectedCell(independent_cell(cell), cell.up_loss) for cell in choice.cells)
    if not share:
        return _Found(digits, None)
    budget = asked.epsilon - 2 * sum((cell.up_loss for cell in choice.cells), start=Fraction(0))
    mse = allowed * central[1] / whole_error / asked.size_weight**2
    sizes = search_buckets(budget, _cell_target(asked, 1, mse), None, asked.groups)
    return _Found(digits, _directed(sizes.cell, budget))


def _cell_target(asked: _Asked, largest: int, mse: Fraction) -> CellTarget:
    return CellTarget(
        users=asked.users,
        expected=asked.expected,
        largest=largest,
        up=asked.epsilon / 2,
        down=asked.epsilon / 2,
        mse=mse,
        padded=asked.groups if asked.target.padded else 0,
    )


def _directed(cell: Cell, budget: Fraction) -> DirectedCell:
    """A cell with the rest of a budget for the way down."""
    return DirectedCell(independent_cell(cell), budget - cell.up_loss)

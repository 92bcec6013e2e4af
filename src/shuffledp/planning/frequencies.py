"""Plans for frequencies: how many groups of users, and how many cells for each (MATH §13).

With n users, G groups of k cells and values as if spread evenly over s labels, the squared error is

    (n + (n²/s − n)/G)/(k − 1)  +  (k/(k − 1))² · G · N

N the squared error of one cell. More groups thin out frequent labels and bring more noise. For each
k the planner looks for the number of groups, then for the cell; where few labels are asked about,
a histogram of them and all others is looked at too.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from shuffledp.cells.base import Cell
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.exact.numbers import ExactNumber, positive_as_written, whole
from shuffledp.planning.bounded_choice import bounded_bucket, bounded_copies
from shuffledp.planning.cell_task import CellTask
from shuffledp.planning.checks import checked_epsilon, checked_size, checked_users
from shuffledp.planning.choice import BOUNDED, PAPER, Choice, checked_cell_choice
from shuffledp.planning.histogram import plan_histogram
from shuffledp.planning.paper_choice import paper_bucket, paper_one
from shuffledp.planning.plan import Forecast, Plan
from shuffledp.planning.target import Target, laplace_variance
from shuffledp.privacy.certificate import certify
from shuffledp.protocols.frequencies import MOST_GROUPS, Frequencies
from shuffledp.protocols.hashing import checked_candidates, new_hash_seed
from shuffledp.protocols.histogram import Label
from shuffledp.protocols.results import HistogramResult

DEFAULT_MESSAGES = 1_000
"""Unless a target is given: the least error with at most so many messages."""
DEFAULT_SPREAD = 100
SHORT_GROUP_CHANCE = 1e-6
"""How likely some group is too small, at most; nothing can be released then."""
FEWEST_GROUPS = 16
"""For intervals, which rest on many groups."""
FEWEST_IN_GROUP = 8
CELLS_PER_GROUP = tuple(1 << bits for bits in range(1, 9))
MOST_DIRECT_LABELS = 1_000
"""Of a histogram that is looked at instead."""
GROUP_STEPS = 1.3
"""The factor between numbers of groups that are looked at."""
ERROR_STEPS = 2e-3
"""To this part of itself the least error for a number of messages is found."""
QUICK_SHARES = (Fraction(3, 10), Fraction(9, 20))
"""Of ε for the way up, while numbers of groups and cells are looked for: where messages are counted
on average (they pay for the way down), and after padding."""
OTHERS = "all others"


def plan_frequencies(
    users: int,
    epsilon: ExactNumber,
    *,
    candidates: Iterable[Label] = (),
    domain: int | None = None,
    spread: ExactNumber = DEFAULT_SPREAD,
    rmse: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
    cell: str = "best",
) -> Plan[HistogramResult]:
    """The cheapest certified protocol that says how many users hold any label.

    Args:
        users: Honest users who are sure to take part; a batch of fewer is never released.
        epsilon: The privacy loss allowed.
        candidates: Labels that results show. Where they are few, a histogram of them and all
                others may be cheaper, and is then planned.
        domain: How many different values there can be, if they are the whole numbers from 0 on;
                without it any text or any whole number of 64 bits.
        spread: What the error is forecast for: as if values were spread evenly over so many labels
                (1 over the chance that two users hold the same).
        rmse: The root mean squared error allowed for each label.
        max_messages: Or: the least error with at most so many messages (1,000 unless said).
        padded: Whether messages are counted as every report of the service carries them.
        expected: How many users the error is forecast for, if more than `users` may come.
        cell: "best", "bounded" or "paper".

    >>> import shuffledp
    >>> plan = shuffledp.plan_frequencies(100_000, 1, max_messages=40, padded=True)
    >>> plan.report_size <= 40, plan.protocol.to_dict()["cells_per_group"]
    (True, 2)
    """
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    names = checked_candidates(candidates)
    if rmse is None and max_messages is None:
        max_messages = DEFAULT_MESSAGES
    target = Target.of(None, rmse, max_messages, None, padded)
    task = _GroupTask(
        users=sure,
        expected=come,
        epsilon=epsilon,
        spread=_checked_spread(spread),
        padded=padded,
        cell=checked_cell_choice(cell),
    )
    direct = _direct(task, target, names, _checked_domain(domain))
    try:
        plan = _grouped(task, target, names)
    except PlanningError:
        if direct is None:
            raise
        return direct
    return plan if direct is None or not _better(direct, plan, target) else direct


def _checked_spread(spread: ExactNumber) -> Fraction:
    number = positive_as_written(spread, "spread")
    if not 1 <= number <= 10**12:
        raise ParameterError("spread must be at least 1, where all users hold the same label.")
    return number


def _checked_domain(domain: object) -> int | None:
    return None if domain is None else whole(domain, "domain", least=2, most=2**64)


def _better(direct: Plan[HistogramResult], plan: Plan[HistogramResult], target: Target) -> bool:
    """Whether the histogram errs less, or where an error is asked for costs less."""
    if target.rmse is None:
        return direct.forecast.rmse <= plan.forecast.rmse
    sizes = [
        one.report_size if target.padded else one.forecast.messages_per_user
        for one in (direct, plan)
    ]
    return sizes[0] <= sizes[1]


@dataclass(frozen=True, kw_only=True)
class _GroupTask:
    """What all groups together must achieve."""

    users: int
    expected: int
    epsilon: Fraction
    spread: Fraction
    padded: bool
    cell: str

    def needed(self, groups: int) -> int:
        """The users whom each group is all but sure to have."""
        return users_of_group(self.users, groups)

    def others(self, groups: int, cells: int) -> float:
        """The squared error that other labels in the same cells cause."""
        n = float(self.expected)
        return (n + max(0.0, n * n / float(self.spread) - n) / groups) / (cells - 1)

    def cell_mse(self, rmse: float, groups: int, cells: int) -> float:
        """What is left of an error for a cell's noise."""
        left = rmse**2 - self.others(groups, cells)
        return left / groups * ((cells - 1) / cells) ** 2

    def numbers_of_groups(self) -> list[int]:
        """Numbers of groups to look at, of which each has enough users."""
        found, groups = [], float(FEWEST_GROUPS)
        while groups <= MOST_GROUPS and self.needed(round(groups)) >= FEWEST_IN_GROUP:
            found.append(round(groups))
            groups *= GROUP_STEPS
        if not found:
            raise PlanningError(
                f"{self.users:,} users are too few for {FEWEST_GROUPS} groups; plan for more "
                "users, or name at most 1,000 candidates, which a histogram counts."
            )
        return found


@lru_cache(maxsize=512)
def users_of_group(users: int, groups: int) -> int:
    """The largest m so that all groups have m users or more but for a chance of
    `SHORT_GROUP_CHANCE` (Chernoff's bound): not a question of privacy, for a batch with a smaller
    group is not released."""
    rare = math.log(groups / SHORT_GROUP_CHANCE) / users
    share = 1 / groups

    def unlikely(m: int) -> bool:
        part = (m - 1) / users
        if part >= share:
            return False
        first = part * math.log(part / share) if part else 0.0
        return first + (1 - part) * math.log((1 - part) / (1 - share)) >= rare

    low, high = 0, users // groups + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if unlikely(middle) else (low, middle)
    return low


def _grouped(task: _GroupTask, target: Target, names: tuple[Label, ...]) -> Plan[HistogramResult]:
    if target.rmse is not None:
        found = _cheapest(task, float(target.rmse), looked_at=3)
    else:
        assert target.max_messages is not None
        found = _least_error(task, float(target.max_messages))
    best = _at(task, found.groups, found.cells, found.mse)
    found = best if best.cost < found.cost else found
    protocol = Frequencies(
        epsilon=task.epsilon,
        reports=task.users,
        groups=found.groups,
        cells_per_group=found.cells,
        cell=found.cell,
        spread=task.spread,
        hash_seed=new_hash_seed(),
        candidates=names,
    )
    return _plan(protocol, target, task.expected, found.limit)


def _plan(protocol: Frequencies, target: Target, come: int, limit: float) -> Plan[HistogramResult]:
    messages, error = protocol.messages_per_user(), protocol.rmse(come)
    checked_size(messages * come)
    forecast = Forecast(
        messages_per_user=messages,
        limit_messages=limit,
        rmse=error,
        rmse_at_zero=error,
        central_rmse=math.sqrt(laplace_variance(protocol.epsilon / 2)),
        error_low=-1.96 * error,
        error_high=1.96 * error,
        bits_per_message=math.ceil(math.log2(2 * protocol.groups * (protocol.copies + 1))),
    )
    return Plan(
        protocol=protocol,
        certificate=certify(protocol),
        target=target,
        expected=come,
        forecast=forecast,
    )


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A number of groups and the cells of each."""

    groups: int
    cells: int
    cell: Cell
    cost: float
    limit: float
    mse: float
    """What the cell was allowed."""


def _at(task: _GroupTask, groups: int, cells: int, mse: float, quick: bool = False) -> _Found:
    """The cheapest cell for such groups whose squared error is at most `mse`; with `quick` for one
    split of ε between up and down."""
    copies = cells if cells > 2 else 1
    up = task.epsilon * QUICK_SHARES[task.padded] if copies > 1 else task.epsilon
    one = CellTask(
        users=task.needed(groups),
        expected=max(task.needed(groups), -(-task.expected // groups)),
        largest=1,
        up=up,
        down=task.epsilon - up if copies > 1 else task.epsilon,
        mse=Fraction(mse),
        padded=copies if task.padded else 0,
    )
    choice = _searched(task, one, copies, quick)
    return _Found(
        groups=groups,
        cells=cells,
        cell=choice.cell,
        cost=choice.cost + 1,
        limit=choice.limit + 1,
        mse=mse,
    )


def _searched(task: _GroupTask, one: CellTask, copies: int, quick: bool) -> Choice:
    """The cheapest cell, of the kind that was asked for; the bounded one unless it was."""
    if task.cell != PAPER:
        if quick or copies == 1:
            return bounded_copies(one, copies)
        return bounded_bucket(task.epsilon, one, None, copies)
    if copies == 1:
        return paper_one(one, None, None)
    return paper_bucket(task.epsilon, one, None, copies, None)


def _cheapest(task: _GroupTask, rmse: float, looked_at: int) -> _Found:
    """The fewest messages for an error, over all numbers of cells and so many numbers of groups."""
    best: _Found | None = None
    for cells in CELLS_PER_GROUP:
        here: _Found | None = None
        for groups in _promising(task, rmse, cells)[:looked_at]:
            with contextlib.suppress(PlanningError):
                found = _at(task, groups, cells, task.cell_mse(rmse, groups, cells), quick=True)
                here = found if here is None or found.cost < here.cost else here
        if best is not None and (here is None or here.cost >= best.cost):
            break  # more cells cost more messages
        best = here
    if best is None:
        raise PlanningError(
            f"No groups of {task.users:,} users err by at most {rmse:,.6g} where values are spread "
            f"as over {float(task.spread):,.6g} labels; allow a larger error or epsilon, or name "
            "at most 1,000 candidates, which a histogram counts."
        )
    return best


def _promising(task: _GroupTask, rmse: float, cells: int) -> list[int]:
    """A few numbers of groups among which the cheapest is: those that leave a cell most error,
    measured by the noise that it has at least."""

    def room(groups: int) -> float:
        share = 1.0 if cells == 2 else 0.5
        least = 2 / (float(task.epsilon) * share) ** 2 * task.expected / groups
        return task.cell_mse(rmse, groups, cells) / (least / task.needed(groups))

    ranked = sorted(task.numbers_of_groups(), key=room, reverse=True)
    return [groups for groups in ranked if room(groups) > 1]


def _least_error(task: _GroupTask, messages: float) -> _Found:
    """The least error with so many messages, by halving its logarithm."""
    task.numbers_of_groups()  # refuses too few users
    low, high = math.log(math.sqrt(task.expected / 256) / 4), math.log(10.0 * task.expected)
    best: _Found | None = None
    while high - low > ERROR_STEPS:
        middle = (low + high) / 2
        found = None
        with contextlib.suppress(PlanningError):
            found = _cheapest(task, math.exp(middle), looked_at=1)
        if found is None or found.cost > messages:
            low = middle
        else:
            high, best = middle, found
    if best is None:
        raise PlanningError("No plan is that cheap; allow more messages.")
    return best


def _direct(
    task: _GroupTask, target: Target, names: tuple[Label, ...], domain: int | None
) -> Plan[HistogramResult] | None:
    """The plan of a histogram of the candidates and all others, or of the whole domain; None where
    there are too many, or none reaches the target."""
    labels: object = names
    if not names and domain is not None and domain <= MOST_DIRECT_LABELS:
        labels = domain
    elif not 1 < len(names) <= MOST_DIRECT_LABELS:
        return None
    plan: Callable[..., Plan[HistogramResult]] = plan_histogram
    try:
        found = plan(
            task.users,
            task.epsilon,
            labels,
            other=others_of(names) if names else None,
            rmse=target.rmse,
            max_messages=target.max_messages,
            padded=target.padded,
            expected=task.expected,
            cell=PAPER if task.cell == PAPER else BOUNDED,
        )
    except PlanningError:
        return None
    return replace(found, target=target)


def others_of(names: tuple[Label, ...]) -> str:
    """A label for all others that is none of the candidates."""
    label = OTHERS
    while label in names:
        label += " "
    return label

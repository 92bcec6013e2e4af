"""Plans for frequencies: how many groups of users, and how many cells for each (MATH §13).

With n users, G groups of k cells and values as if spread evenly over s labels, the squared error is

    (n + (n²/s − n)/G)/(k − 1)  +  (k/(k − 1))² · G · N

N the squared error of one cell. More groups thin out frequent labels and bring more noise. For each
k the planner looks for the number of groups, then for the cell; where few labels are asked about,
a histogram of them and all others is looked at too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.search import BOUNDED, PAPER, checked_cell_choice
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import ExactNumber, positive_as_written, whole
from shuffledp.plans.checks import checked_epsilon, checked_users
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.protocols.results import HistogramResult
from shuffledp.queries.frequencies.group_search import GroupTask, cheapest, groups_at, least_error
from shuffledp.queries.frequencies.hashing import checked_candidates, new_hash_seed
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.queries.histogram.protocol import Label

DEFAULT_MESSAGES = 1_000
"""Unless a target is given: the least error with at most so many messages."""
DEFAULT_SPREAD = 100
MOST_DIRECT_LABELS = 1_000
"""Of a histogram that is looked at instead."""
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
    task = GroupTask(
        users=sure,
        expected=come,
        epsilon=epsilon,
        spread=checked_spread(spread),
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


def checked_spread(spread: ExactNumber) -> Fraction:
    """The spread as an exact number, at least 1."""
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


def _grouped(task: GroupTask, target: Target, names: tuple[Label, ...]) -> Plan[HistogramResult]:
    if target.rmse is not None:
        found = cheapest(task, float(target.rmse), looked_at=3)
    else:
        assert target.max_messages is not None
        found = least_error(task, float(target.max_messages))
    best = groups_at(task, found.groups, found.cells, found.mse)
    found = best if best.cost < found.cost else found
    protocol = FrequenciesProtocol(
        epsilon=task.epsilon,
        reports=task.users,
        groups=found.groups,
        cells_per_group=found.cells,
        cell=found.cell,
        spread=task.spread,
        hash_seed=new_hash_seed(),
        candidates=names,
    )
    return plan_of_groups(protocol, target, task.expected)


def plan_of_groups(
    protocol: FrequenciesProtocol, target: Target, come: int
) -> Plan[FrequenciesResult]:
    """The plan of a protocol by groups of users."""
    error = protocol.rmse(come)
    return Plan.of(
        protocol,
        target,
        come,
        central_rmse=math.sqrt(laplace_variance(protocol.epsilon / 2)),
        errors=(-1.96 * error, 1.96 * error),
    )


def _direct(
    task: GroupTask, target: Target, names: tuple[Label, ...], domain: int | None
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

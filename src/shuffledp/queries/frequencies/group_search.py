"""The search for groups of users and their cells, for frequencies over any domain (MATH §13).

Floats propose how many groups and cells; the searches for cells settle the rest exactly.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from shuffledp.cells.base import IndependentCell, independent_cell
from shuffledp.cells.bounded import search as bounded
from shuffledp.cells.paper import search as paper
from shuffledp.cells.search import PAPER, CellTarget, FoundCells
from shuffledp.errors import PlanningError
from shuffledp.numbers.bisection import bisect_found, first_whole
from shuffledp.numbers.exact import counted
from shuffledp.queries.frequencies.protocol import MOST_GROUPS

SHORT_GROUP_CHANCE = 1e-6
"""How likely some group is too small, at most; nothing can be released then."""
FEWEST_GROUPS = 16
"""For intervals, which rest on many groups."""
FEWEST_IN_GROUP = 8
CELLS_PER_GROUP = tuple(1 << bits for bits in range(1, 9))
GROUP_STEPS = 1.3
"""The factor between numbers of groups that are looked at."""
ERROR_STEPS = 2e-3
"""To this part of itself the least error for a number of messages is found."""
QUICK_SHARES = (Fraction(3, 10), Fraction(9, 20))
"""Of ε for the way up, while numbers of groups and cells are looked for: where messages are counted
on average (they pay for the way down), and after padding."""


@dataclass(frozen=True, kw_only=True)
class GroupTask:
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

    return first_whole(lambda m: not unlikely(m), 0, users // groups + 1) - 1


@dataclass(frozen=True, kw_only=True)
class FoundGroups:
    """A number of groups and the cells of each."""

    groups: int
    cells: int
    cell: IndependentCell
    cost: float
    mse: float
    """What the cell was allowed."""


def groups_at(
    task: GroupTask, groups: int, cells: int, mse: float, quick: bool = False
) -> FoundGroups:
    """The cheapest cell for such groups whose squared error is at most `mse`; with `quick` for one
    split of ε between up and down."""
    copies = cells if cells > 2 else 1
    up = task.epsilon * QUICK_SHARES[task.padded] if copies > 1 else task.epsilon
    one = CellTarget(
        users=task.needed(groups),
        expected=max(task.needed(groups), -(-task.expected // groups)),
        largest=1,
        up=up,
        down=task.epsilon - up if copies > 1 else task.epsilon,
        mse=Fraction(mse),
        padded=copies if task.padded else 0,
    )
    found = _searched(task, one, copies, quick)
    return FoundGroups(
        groups=groups,
        cells=cells,
        cell=independent_cell(found.cell),
        cost=found.cost + 1,
        mse=mse,
    )


def _searched(task: GroupTask, one: CellTarget, copies: int, quick: bool) -> FoundCells:
    """The cheapest cell, of the kind that was asked for; the bounded one unless it was."""
    if task.cell != PAPER:
        if quick or copies == 1:
            return bounded.search_copies(one, copies)
        return bounded.search_buckets(task.epsilon, one, None, copies)
    if copies == 1:
        return paper.one_cell(one, None)
    return paper.cell_of_buckets(task.epsilon, one, None, copies)


def cheapest(task: GroupTask, rmse: float, looked_at: int) -> FoundGroups:
    """The fewest messages for an error, over all numbers of cells and some numbers of groups."""
    best: FoundGroups | None = None
    for cells in CELLS_PER_GROUP:
        here: FoundGroups | None = None
        for groups in _promising(task, rmse, cells)[:looked_at]:
            with contextlib.suppress(PlanningError):
                found = groups_at(
                    task, groups, cells, task.cell_mse(rmse, groups, cells), quick=True
                )
                here = found if here is None or found.cost < here.cost else here
        if best is not None and (here is None or here.cost >= best.cost):
            break  # more cells cost more messages
        best = here
    if best is None:
        raise PlanningError(
            f"No groups of {counted(task.users, 'user')} err by at most {rmse:,.6g} where values "
            f"are spread as over {float(task.spread):,.6g} labels; allow a larger error or "
            "epsilon, or name at most 1,000 candidates, which a histogram counts."
        )
    return best


def _promising(task: GroupTask, rmse: float, cells: int) -> list[int]:
    """A few numbers of groups among which the cheapest is: those that leave a cell most error,
    measured by the noise that it has at least."""

    def room(groups: int) -> float:
        share = 1.0 if cells == 2 else 0.5
        least = 2 / (float(task.epsilon) * share) ** 2 * task.expected / groups
        return task.cell_mse(rmse, groups, cells) / (least / task.needed(groups))

    ranked = sorted(task.numbers_of_groups(), key=room, reverse=True)
    return [groups for groups in ranked if room(groups) > 1]


def least_error(task: GroupTask, messages: float) -> FoundGroups:
    """The smallest error with a number of messages, by halving its logarithm."""
    task.numbers_of_groups()  # refuses too few users
    low, high = math.log(math.sqrt(task.expected / 256) / 4), math.log(10.0 * task.expected)

    def found(log_error: float) -> FoundGroups | None:
        try:
            groups = cheapest(task, math.exp(log_error), looked_at=1)
        except PlanningError:
            return None
        return groups if groups.cost <= messages else None

    best = bisect_found(found, low, high, ERROR_STEPS)
    if best is None:
        raise PlanningError("No plan is that cheap; allow more messages.")
    return best

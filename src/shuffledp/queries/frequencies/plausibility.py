"""Whether honest users can have sent the messages of groups, to which chance assigns them.

How many reports each group has is public and does not depend on what users hold, so its cells are
looked at given that number; and that number itself is held against its own law.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from shuffledp.cells.base import Counts, Floats
from shuffledp.numbers.chernoff import Unlikely
from shuffledp.protocols.plausibility import DOWN, UP, CellCounts, Deviation, alone, unlikely_counts

GROUPS_AT_ONCE = 1 << 12
"""Groups that are looked at together, so that the memory for it does not grow with them."""


def unlikely_groups(groups: CellCounts) -> list[Unlikely]:
    """All looks at the cells of groups, a group in each row: at each cell; at those of each group
    together, of which everybody holds 1 in one; and, where a group has one cell, which holds
    anything from none to all, at those of all groups together."""
    size, copies = groups.plus.shape
    parts = [
        groups._replace(
            plus=groups.plus[first : first + GROUPS_AT_ONCE],
            minus=groups.minus[first : first + GROUPS_AT_ONCE],
            reports=groups.reports[first : first + GROUPS_AT_ONCE],
        )
        for first in range(0, size, GROUPS_AT_ONCE)
    ]
    found = unlikely_counts(parts, add_up=copies > 1)
    if copies == 1:
        every = groups._replace(
            plus=groups.plus.sum(keepdims=True),
            minus=groups.minus.sum(keepdims=True),
            reports=groups.reports.sum(keepdims=True),
            absent=size * groups.absent,
        )
        found += [alone(one) for one in every.outside()]
    return found


def unlikely_calls(plus: Counts, minus: Counts, reports: int) -> list[Unlikely]:
    """How far a roll call lies from an even spread, in both directions."""
    return [alone(one) for one in _calls_away(plus, minus, max(1, reports))]


def _calls_away(plus: Counts, minus: Counts, reports: int) -> Iterator[Deviation]:
    """Groups are drawn whatever users hold, so each has a binomial number of them. A −1 message,
    which nobody honest sends to a roll call, counts as well."""
    share = 1 / len(plus)
    away = plus - reports * share
    for sign in (UP, DOWN):

        def at(theta: Floats, sign: int = sign) -> Floats:
            one = np.log1p(share * np.expm1(sign * theta)) - sign * theta * share
            return np.asarray(reports * one)

        excess = np.asarray(sign * away + minus)[None, :]
        yield Deviation(sign, excess, at, math.sqrt(reports * share))

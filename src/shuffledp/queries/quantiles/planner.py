"""Plans for quantiles and range counts: one histogram, or several levels if that reduces the
error."""

from __future__ import annotations

import math
from datetime import date
from fractions import Fraction
from itertools import combinations, pairwise

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ExactNumber, round_to, whole
from shuffledp.numbers.memory import check_memory
from shuffledp.plans.checks import checked_bounds, checked_epsilon, checked_users, listed
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.queries.histogram.planner import found_buckets
from shuffledp.queries.quantiles.dates import date_number, is_date, unit_of
from shuffledp.queries.quantiles.protocol import (
    MOST_BUCKETS,
    Level,
    QuantilesProtocol,
    fit_bytes,
    worst_range_variance,
)
from shuffledp.queries.quantiles.result import QuantilesResult

MOST_LEVELS = 3
FEW_BINS, EVEN_BINS = (
    32,
    8,
)  # above the first number of points, buckets are a multiple of the second
DEFAULT_BINS, USERS_PER_BIN = (32, 64, 128, 256, 512), 40.0
WIDEST_SEARCH = 512  # several levels are tried up to this number of finest buckets


def plan_quantiles(
    users: int,
    epsilon: ExactNumber,
    bounds: tuple[ExactNumber | date, ExactNumber | date],
    *,
    bins: int = 64,
    points: bool = False,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
    cell: str = "best",
) -> Plan[QuantilesResult]:
    """The certified histogram for quantiles and range counts, with the best number of levels.

    Targets are per bucket of a level, in users, and relative to DLap(ε/2L) with L levels. The error
    of a quantile in the values' unit depends on the data; its result states it.
    With `points`, values are whole numbers and each has its own bucket, or shares one with its
    neighbours if there are more than `bins`. Bounds that are dates, like "2013-01-31", make the
    points days; with times, seconds.

    >>> import shuffledp
    >>> plan = shuffledp.plan_quantiles(1000, 1, (0, 100), bins=10)
    >>> plan.protocol.query, plan.users
    ('quantiles', 1000)
    """
    epsilon = checked_epsilon(epsilon)
    low, high, unit = checked_axis(bounds)
    sure, come = checked_users(users, expected)
    bins, points = whole(bins, "bins", least=2, most=MOST_BUCKETS), points or bool(unit)
    if points:
        bins = point_bins(int(high - low) + 1, bins)
    check_memory(fit_bytes([bins]), "use fewer bins")
    target = Target.of(mse_overhead, rmse, None, relative_error, padded)
    chain = best_levels(bins, epsilon)
    share = epsilon / len(chain)
    budgets = [round_to(float(share), 6, up=False)] * (len(chain) - 1)
    budgets.append(epsilon - sum(budgets, start=Fraction(0)))
    levels: list[Level] = []
    for buckets, budget in zip(chain, budgets, strict=True):
        found = found_buckets(budget, sure, come, target, buckets, cell, levels=True)
        levels.append(Level(buckets, found.cell, budget - found.cell.up_loss))
    protocol = QuantilesProtocol(
        epsilon=epsilon, levels=tuple(levels), low=low, high=high, points=points, unit=unit
    )
    central = [float(laplace_variance(epsilon / (2 * len(chain))))] * len(chain)
    central_rmse = math.sqrt(worst_range_variance(chain, central))
    return Plan.of(protocol, target, come, central_rmse=central_rmse)


def default_bins(users: int, epsilon: Fraction) -> int:
    """The number of bins of a query about local data, where messages cost nothing: a power of two
    from 32 to 512, such that a bin of evenly spread data has about as many users as the error of a
    rank, 40/ε. More bins add little; fewer would hide details that the noise leaves visible."""
    wanted = users * float(epsilon) / USERS_PER_BIN
    return next((bins for bins in DEFAULT_BINS if bins >= wanted), DEFAULT_BINS[-1])


def checked_axis(bounds: object) -> tuple[Fraction, Fraction, str]:
    """(low, high, unit): the bounds as exact numbers; for dates, in whole units since 1970."""
    bounds = listed(bounds)
    if not isinstance(bounds, tuple | list) or not any(is_date(bound) for bound in bounds):
        return *checked_bounds(bounds), ""
    if len(bounds) != 2 or not all(is_date(bound) for bound in bounds):
        raise ParameterError(
            "bounds must be two dates, the first and the last one, or two numbers."
        )
    unit = unit_of(*bounds)
    low, high = (date_number(bound, unit) for bound in bounds)
    return *checked_bounds((low, high)), unit


def point_bins(points: int, most: int) -> int:
    """The number of buckets for `points` points: one each if `most` allows it, otherwise equal
    groups. A few more, which stay empty, make the number divisible into several levels."""
    group = math.ceil(points / most)
    needed = max(math.ceil(points / group), 2)
    even = -(-needed // EVEN_BINS) * EVEN_BINS
    grown = even if needed > FEW_BINS and even <= MOST_BUCKETS else needed
    return grown if math.ceil(points / grown) == group else needed


def best_levels(bins: int, epsilon: Fraction) -> tuple[int, ...]:
    """The numbers of buckets per level with the least error at the worst edge."""
    divisors = [d for d in range(2, bins) if bins % d == 0] if bins <= WIDEST_SEARCH else []
    chains: list[tuple[int, ...]] = [(bins,)]
    for extra in range(1, MOST_LEVELS):
        for choice in combinations(divisors, extra):
            if all(fine % coarse == 0 for coarse, fine in pairwise(choice)):
                chains.append((*choice, bins))

    def error(chain: tuple[int, ...]) -> float:
        variance = float(laplace_variance(epsilon / (2 * len(chain))))
        return worst_range_variance(chain, [variance] * len(chain))

    return min(chains, key=error)

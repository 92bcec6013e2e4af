"""Plans for heavy hitters: one sparse histogram of about four buckets per user (MATH §19)."""

from __future__ import annotations

import math

from shuffledp.cells.sparse.search import plan_sparse
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import ExactNumber, whole
from shuffledp.plans.checks import checked_epsilon, checked_users
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, laplace_variance
from shuffledp.queries.frequencies.hashing import new_hash_seed, power_of_two_near
from shuffledp.queries.frequencies.planner import DEFAULT_COUNT, DEFAULT_MESSAGES
from shuffledp.queries.heavy_hitters.protocol import FORECAST_CHARACTERS, HeavyHittersProtocol
from shuffledp.queries.heavy_hitters.result import HeavyHittersResult

BUCKETS_PER_USER = 4
JUMPS_PER_USER = 1e-3
"""Jumps imitate frequent rows, so at most one user in a thousand jumps."""
FEW_USERS, FEW_ID_BITS, ID_BITS = 30_000, 16, 18


def plan_heavy_hitters(
    users: int,
    epsilon: ExactNumber,
    *,
    max_messages: int | None = None,
    expected: int | None = None,
) -> Plan[HeavyHittersResult]:
    """The certified protocol that finds frequent words without a list of candidates.

    Words may contain any characters and have any length. The plan says how many users a word needs
    to be found, for several lengths.

    Args:
        users: Honest users you can count on; a smaller batch is never released.
        epsilon: The privacy loss allowed.
        max_messages: The most messages in a report (default 25).
        expected: The number of users the error is forecast for, if you expect more than `users`.

    >>> import shuffledp
    >>> plan = shuffledp.plan_heavy_hitters(100_000, 1)
    >>> plan.report_size, plan.to_dict()["found_from"]["3"] < 150
    (25, True)
    """
    epsilon = checked_epsilon(epsilon)
    sure, come = checked_users(users, expected)
    most = whole(DEFAULT_MESSAGES if max_messages is None else max_messages, "max_messages")
    cell = plan_sparse(
        sure,
        power_of_two_near(BUCKETS_PER_USER * come),
        epsilon,
        max_messages=most,
        error_at=DEFAULT_COUNT,
        expected=come,
        max_jumps=JUMPS_PER_USER * sure,
    )
    protocol = HeavyHittersProtocol(
        epsilon=epsilon,
        cell=cell,
        hash_seed=new_hash_seed(),
        id_bits=FEW_ID_BITS if come < FEW_USERS else ID_BITS,
    )
    if protocol.finding(come).least_users(FORECAST_CHARACTERS[0]) > come:
        raise PlanningError(
            "No word would be found, not even one that everyone gives; use more users, a larger "
            "epsilon or more messages."
        )
    return Plan.of(
        protocol,
        Target.of(max_messages=most, padded=True, error_at=DEFAULT_COUNT),
        come,
        central_rmse=math.sqrt(laplace_variance(epsilon / 2)),
    )

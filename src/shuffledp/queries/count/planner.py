"""Plans for counts."""

from __future__ import annotations

from typing import Unpack

from shuffledp.numbers.exact import ExactNumber
from shuffledp.plans.least_epsilon import planner
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, TargetOptions
from shuffledp.protocols.results import Estimate
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.integer_sum.planner import plan_one_cell


@planner()
def plan_count(
    users: int,
    epsilon: ExactNumber | None = None,
    *,
    expected: int | None = None,
    cell: str = "best",
    **target: Unpack[TargetOptions],
) -> Plan[Estimate]:
    """The cheapest certified protocol that counts users with the value 1.

    Args:
        users: Honest users you can count on; a smaller batch is never released.
        epsilon: The privacy loss allowed. Without it, give `rmse` and `max_messages`; the smallest
                ε for both is found.
        mse_overhead: Allow 1 + this times the squared error of the central mechanism. The default
                target is ½.
        rmse: Alternative target: the root mean squared error allowed.
        relative_error: In addition to one of these: also allow an error of this fraction of the
                true count.
        max_messages: Alternative target: the smallest error with at most this many messages per
                user.
        padded: Count messages per padded report, as in the service, instead of on average.
        expected: The number of users the error is forecast for, if you expect more than `users`.
        cell: "best" (the cheapest kind of cell), "bounded" or "paper".

    Returns:
        The plan: protocol, certificate and forecast. `print` shows it in words.

    Raises:
        ParameterError: An argument is outside its domain, or targets contradict each other.
        PlanningError: No parameters reach the target; the message says what is possible.

    >>> import shuffledp
    >>> plan = shuffledp.plan_count(1000, 1)
    >>> plan.users, plan.certificate.loss <= 1
    (1000, True)
    >>> plan.forecast.rmse < 1.23 * plan.forecast.central_rmse  # √(1 + ½), the default target
    True
    """
    return plan_one_cell(CountProtocol, users, epsilon, 1, Target.of(**target), expected, cell)

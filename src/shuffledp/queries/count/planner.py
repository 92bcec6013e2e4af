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
        users: Honest users who are sure to take part; a batch of fewer is never released.
        epsilon: The privacy loss allowed. Without it, `rmse` and `max_messages` are needed, and the
                least ε that keeps both is found.
        mse_overhead: The squared error may be 1 + so much times the central mechanism's; ½ unless
                another target is given.
        rmse: Or: the root mean squared error allowed.
        relative_error: Beside one of these: or within this part of the true count, if that is more.
        max_messages: Or: the least error with at most this many messages per user.
        padded: Whether messages are counted at most, as every report of the service carries them,
                instead of on average.
        expected: How many users the error is forecast for, if more than `users` may come.
        cell: "best" (the kind of cell that costs less), "bounded" or "paper".

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

"""Plans for counts."""

from __future__ import annotations

from shuffledp.exact.numbers import ExactNumber
from shuffledp.planning.integer_sum import plan_one_cell
from shuffledp.planning.least_epsilon import least_epsilon_target, with_least_epsilon
from shuffledp.planning.plan import Plan
from shuffledp.planning.target import Target
from shuffledp.protocols.counting import Counting
from shuffledp.protocols.results import Estimate


def plan_count(
    users: int,
    epsilon: ExactNumber | None = None,
    *,
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    expected: int | None = None,
    cell: str = "best",
) -> Plan[Estimate]:
    """The cheapest certified protocol that counts users with the value 1.

    `users` honest reports are sure to come (fewer are never released); the error is forecast for
    `expected` reports, which may be many more. With `padded`, what counts is not the average but
    K, the size of a report that is filled up so that its size says nothing, as the service does.
    Without an `epsilon`, but with `rmse` and `max_messages`, the least ε that keeps both is found.
    `cell` is "best" (what costs less), "bounded" or "paper".

    >>> import shuffledp
    >>> plan = shuffledp.plan_count(1000, 1)
    >>> plan.users, plan.certificate.loss <= 1
    (1000, True)
    >>> plan.forecast.rmse < 1.23 * plan.forecast.central_rmse  # √(1 + ½), the default target
    True
    """
    if epsilon is None:
        least = least_epsilon_target(rmse, max_messages, (mse_overhead, relative_error), padded)
        return with_least_epsilon(
            lambda known, near: plan_count(
                users, known, rmse=rmse, padded=padded, expected=expected, cell=cell
            ),
            least,
        )
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    return plan_one_cell(Counting, users, epsilon, 1, target, expected, cell)

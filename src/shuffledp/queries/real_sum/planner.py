"""Plans for real sums: digits of a mixed radix, everything optimised at once (MATH §9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from shuffledp.cells.choice import BOUNDED, PAPER, Choice, Search, checked_cell_choice, choose
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ExactNumber, whole
from shuffledp.plans.certificate import certify
from shuffledp.plans.checks import checked_bounds, checked_epsilon, checked_size, checked_users
from shuffledp.plans.least_epsilon import least_epsilon_target, with_least_epsilon
from shuffledp.plans.plan import Forecast, Plan
from shuffledp.plans.target import Target
from shuffledp.protocols.results import Estimate
from shuffledp.queries.real_sum.digits import SumTask
from shuffledp.queries.real_sum.paper_digits import paper_digits
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp.queries.real_sum.rounding import MOST_DITHER
from shuffledp.queries.real_sum.shared_digits import bounded_or_shared_sum


def central_variance(epsilon: Fraction) -> Fraction:
    """What a trusted party's Laplace mechanism adds to a sum of values in [0, 1]: 2/ε². (The
    discrete law of counts would be no fair yardstick: at large ε no real sum comes near it.)"""
    return 2 / epsilon**2


def plan_real_sum(
    users: int,
    epsilon: ExactNumber | None = None,
    *,
    bounds: tuple[ExactNumber, ExactNumber] = (0, 1),
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    radix: Sequence[int] | None = None,
    dither: int | None = None,
    expected: int | None = None,
    cell: str = "best",
    progress: Callable[[int], None] | None = None,
) -> Plan[Estimate]:
    """The cheapest certified protocol that adds up values in `bounds`, one per user.

    `rmse` is in the values' unit; `mse_overhead` relates to the central optimum; `radix` fixes the
    digits, for example (2,) * 8 for the paper's bit by bit, and `dither` how many values the public
    dither has (1: there is none); both are chosen unless given. With `relative_error`, bounded
    cells keep to the error at a sum of 0; only the paper's cells make use of the tolerance. Without
    an `epsilon`, but with `rmse` and `max_messages`, the least ε that keeps both is found.

    >>> import shuffledp
    >>> plan = shuffledp.plan_real_sum(1000, 1, bounds=(0, 24), rmse=100)
    >>> plan.forecast.rmse <= 100
    True
    """
    if epsilon is None:
        least = least_epsilon_target(rmse, max_messages, (mse_overhead, relative_error), padded)
        return with_least_epsilon(
            lambda known, near: plan_real_sum(
                users,
                known,
                bounds=bounds,
                rmse=rmse,
                padded=padded,
                radix=radix if near is None else radix_of(near),
                dither=dither if near is None else dither_of(near),
                expected=expected,
                cell=cell,
            ),
            least,
        )
    epsilon = checked_epsilon(epsilon)
    low, high = checked_bounds(bounds)
    sure, come = checked_users(users, expected)
    if (mse_overhead, rmse, max_messages) == (None, None, None):
        mse_overhead = 8  # three times the central error: sums cost more than counts
    target = Target.of(mse_overhead, rmse, max_messages, relative_error, padded)
    bases = checked_radix(radix)
    if target.relative_error is not None and low < 0:
        raise ParameterError(
            "relative_error speaks of a sum that grows with every value; with a lower bound below "
            "0 give an rmse instead."
        )
    task = SumTask(
        users=sure,
        expected=come,
        epsilon=epsilon,
        mse=Fraction(1),
        relative=target.relative_error,
        padded=padded,
        radix=bases,
        dither=None if dither is None else whole(dither, "dither", most=MOST_DITHER),
    )
    choice = digits_choice(task, target, high - low, cell)
    protocol = RealSumProtocol(
        epsilon=epsilon, digits=choice.cells, low=low, high=high, dither=choice.dither
    )
    forecast = _forecast(protocol, come, choice.limit)
    return Plan(
        protocol=protocol,
        certificate=certify(protocol, progress),
        target=target,
        expected=come,
        forecast=forecast,
    )


def digits_choice(task: SumTask, target: Target, span: Fraction, cell: str) -> Choice:
    """The cells of a sum's digits, for values that lie within `span` of each other."""
    messages = None if target.max_messages is None else float(target.max_messages)
    if messages is None:
        task = replace(task, mse=target.mse(central_variance(task.epsilon), span))
    searches: dict[str, Search] = {
        BOUNDED: lambda baseline: bounded_or_shared_sum(task, messages),
        PAPER: lambda baseline: paper_digits(task, messages, baseline),
    }
    return choose(checked_cell_choice(cell), searches, messages is not None)


def checked_radix(radix: Sequence[int] | None) -> tuple[int, ...] | None:
    """Bases from 2 on, most significant first."""
    if radix is None:
        return None
    bases = tuple(whole(base, "a base of the radix", least=2, most=1000) for base in radix)
    if not 1 <= len(bases) <= 24 or math.prod(bases) > 2**24:
        raise ParameterError("A radix needs 1 to 24 bases whose product is at most 2²⁴.")
    return bases


def radix_of(plan: Plan[Estimate]) -> tuple[int, ...]:
    """The bases of a sum's digits, most significant first."""
    return tuple(cell.largest + 1 for cell in plan.protocol.cells)


def dither_of(plan: Plan[Estimate]) -> int:
    """How many values a sum's public dither has."""
    return plan.protocol.public_messages + 1


def _forecast(protocol: RealSumProtocol, users: int, limit: float) -> Forecast:
    span = float(protocol.high - protocol.low)
    low, high = protocol.error_range(users, 0.05)
    messages = protocol.messages_per_user()
    checked_size(users * messages)
    return Forecast(
        messages_per_user=messages,
        limit_messages=limit,
        rmse=protocol.rmse(users),
        rmse_at_zero=protocol.rmse(users, [0.0] * len(protocol.digits)),
        central_rmse=math.sqrt(central_variance(protocol.epsilon)) * span,
        error_low=low,
        error_high=high,
        bits_per_message=math.ceil(math.log2(2 * len(protocol.digits) + protocol.public_counters)),
    )

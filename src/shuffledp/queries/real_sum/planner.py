"""Plans for real sums: digits of a mixed radix, everything optimised at once (MATH §9)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Unpack

from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.registry import search_digits
from shuffledp.cells.search import FoundCells
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import ExactNumber, whole
from shuffledp.numbers.rounding import MOST_DITHER
from shuffledp.plans.checks import checked_bounds, checked_epsilon, checked_users
from shuffledp.plans.least_epsilon import planner
from shuffledp.plans.plan import Plan
from shuffledp.plans.target import Target, TargetOptions
from shuffledp.protocols.base import Progress
from shuffledp.protocols.results import Estimate
from shuffledp.queries.real_sum.protocol import RealSumProtocol

MOST_DEFAULT_MESSAGES = 1000
"""The most messages that a user sends on average if no target is given."""
OVERHEAD_WITH_TOLERANCE = 8
"""The overhead of the squared error if only a relative error is given, which saves messages."""


def central_variance(epsilon: Fraction) -> Fraction:
    """What a trusted party's Laplace mechanism adds to a sum of values in [0, 1]: 2/ε². (The
    discrete law of counts would not be a fair benchmark: at large ε no real sum comes close to
    it.)"""
    return 2 / epsilon**2


def radix_and_dither(plan: Plan[Any]) -> dict[str, Any]:
    """The digits and the dither of a plan, as options of `plan_real_sum`."""
    protocol = plan.protocol
    return {
        "radix": tuple(cell.largest + 1 for cell in protocol.cells),
        "dither": protocol.public_messages + 1,
    }


@planner(reuse=radix_and_dither)
def plan_real_sum(
    users: int,
    epsilon: ExactNumber | None = None,
    *,
    bounds: tuple[ExactNumber, ExactNumber] = (0, 1),
    radix: Sequence[int] | None = None,
    dither: int | None = None,
    expected: int | None = None,
    cell: str = "best",
    progress: Progress | None = None,
    **target: Unpack[TargetOptions],
) -> Plan[Estimate]:
    """The cheapest certified protocol that adds up values in `bounds`, one per user.

    `rmse` is in the values' unit; `mse_overhead` relates to the central optimum; `radix` fixes the
    digits, for example (2,) * 8 for the paper's bit by bit, and `dither` how many values the public
    dither has (1: there is none); by default the planner chooses both. With `relative_error`,
    bounded
    cells keep to the error at a sum of 0; only the paper's cells make use of the tolerance. Without
    an `epsilon`, but with `rmse` and `max_messages`, the smallest ε for both is found. Without
    a target, the squared error is at most 1½ times the central optimum, or the smallest that 1,000
    messages per user allow.

    >>> import shuffledp
    >>> plan = shuffledp.plan_real_sum(1000, 1, bounds=(0, 24), rmse=100)
    >>> plan.forecast.rmse <= 100
    True
    """
    epsilon = checked_epsilon(epsilon)
    low, high = checked_bounds(bounds)
    sure, come = checked_users(users, expected)
    if target.get("relative_error") is not None and not _has_target(target):
        target["mse_overhead"] = OVERHEAD_WITH_TOLERANCE
    asked = Target.of(**target)
    if asked.relative_error is not None and low < 0:
        raise ParameterError(
            "relative_error needs a sum that grows with every value; with a lower bound below 0, "
            "use rmse instead."
        )
    central, span = central_variance(epsilon), high - low
    wanted = SumTarget(
        users=sure,
        expected=come,
        epsilon=epsilon,
        mse=asked.mse(central, span),
        relative=asked.relative_error,
        padded=asked.padded,
        radix=checked_radix(radix),
        dither=None if dither is None else whole(dither, "dither", most=MOST_DITHER),
    )
    if _has_target(target):
        found = search_digits(cell, wanted, asked.messages)
    else:
        found, asked = _by_default(cell, wanted, asked)
    protocol = RealSumProtocol(
        epsilon=epsilon, digits=found.cells, low=low, high=high, dither=found.dither
    )
    return Plan.of(
        protocol,
        asked,
        come,
        central_rmse=math.sqrt(central) * float(span),
        progress=progress,
    )


def _has_target(target: TargetOptions) -> bool:
    asked = (target.get(name) for name in ("mse_overhead", "rmse", "max_messages"))
    return any(number is not None for number in asked)


def _by_default(cell: str, wanted: SumTarget, asked: Target) -> tuple[FoundCells, Target]:
    """The digits with the default error, and the target they meet; if they would cost more than
    1,000 messages, the digits with the least error for 1,000."""
    with contextlib.suppress(PlanningError):
        found = search_digits(cell, wanted, None)
        if found.cost <= MOST_DEFAULT_MESSAGES:
            return found, asked
    at_most = replace(asked, mse_overhead=None, max_messages=Fraction(MOST_DEFAULT_MESSAGES))
    return search_digits(cell, wanted, at_most.messages), at_most


def checked_radix(radix: Sequence[int] | None) -> tuple[int, ...] | None:
    """Bases from 2 on, most significant first."""
    if radix is None:
        return None
    bases = tuple(whole(base, "a base of the radix", least=2, most=1000) for base in radix)
    if not 1 <= len(bases) <= 24 or math.prod(bases) > 2**24:
        raise ParameterError("A radix needs 1 to 24 bases whose product is at most 2²⁴.")
    return bases

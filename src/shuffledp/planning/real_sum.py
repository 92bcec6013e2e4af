"""Plans for real sums: digits of a mixed radix, everything optimised at once (MATH §9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from flint import arb

from shuffledp.cells.paper import PaperCell
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.exact.numbers import ExactNumber, ball, round_to, sign, whole
from shuffledp.planning.checks import checked_bounds, checked_epsilon, checked_users
from shuffledp.planning.choice import counted_messages
from shuffledp.planning.digits import Shares, SumTask, best_shares
from shuffledp.planning.paper_pairs import with_best_pairs
from shuffledp.planning.plan import Forecast, Plan
from shuffledp.planning.reserve import reserve
from shuffledp.planning.special import Floats
from shuffledp.planning.target import Target
from shuffledp.privacy.certificate import certify
from shuffledp.protocols.cell_use import CellUse
from shuffledp.protocols.real_sum import RealSum
from shuffledp.protocols.results import Estimate


def central_variance(epsilon: Fraction) -> Fraction:
    """What a trusted party's Laplace mechanism adds to a sum of values in [0, 1]: 2/ε². (The
    discrete law of counts would be no fair yardstick: at large ε no real sum comes near it.)"""
    return 2 / epsilon**2


def plan_real_sum(
    users: int,
    epsilon: ExactNumber,
    *,
    bounds: tuple[ExactNumber, ExactNumber] = (0, 1),
    mse_overhead: ExactNumber | None = None,
    rmse: ExactNumber | None = None,
    relative_error: ExactNumber | None = None,
    max_messages: ExactNumber | None = None,
    padded: bool = False,
    radix: Sequence[int] | None = None,
    expected: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Plan[Estimate]:
    """The cheapest certified protocol that adds up values in `bounds`, one per user.

    `rmse` is in the values' unit; `mse_overhead` relates to the central optimum; `radix` fixes the
    digits, for example (2,) * 8 for the paper's bit by bit.

    >>> import shuffledp
    >>> plan = shuffledp.plan_real_sum(1000, 1, bounds=(0, 24), rmse=100)
    >>> plan.forecast.rmse <= 100
    True
    """
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
    if target.max_messages is not None:
        any_error = SumTask(
            users=sure, expected=come, epsilon=float(epsilon), mse=math.inf, padded=padded
        )
        task, cells = _best_for_messages(any_error, epsilon, float(target.max_messages), bases)
    else:
        mse = target.mse(central_variance(epsilon), high - low)
        relative = None if target.relative_error is None else float(target.relative_error)
        task = SumTask(
            users=sure,
            expected=come,
            epsilon=float(epsilon),
            mse=float(mse),
            relative=relative,
            padded=padded,
        )
        cells = _cells(task, epsilon, bases)
    protocol = RealSum(epsilon=epsilon, digits=cells, low=low, high=high)
    forecast = _forecast(protocol, come, epsilon, task)
    return Plan(
        protocol=protocol,
        certificate=certify(protocol, progress),
        target=target,
        expected=come,
        forecast=forecast,
    )


def checked_radix(radix: Sequence[int] | None) -> tuple[int, ...] | None:
    """Bases from 2 on, most significant first."""
    if radix is None:
        return None
    bases = tuple(whole(base, "a base of the radix", least=2, most=1000) for base in radix)
    if not 1 <= len(bases) <= 24 or math.prod(bases) > 2**24:
        raise ParameterError("A radix needs 1 to 24 bases whose product is at most 2²⁴.")
    return bases


def _cells(
    task: SumTask, epsilon: Fraction, radix: tuple[int, ...] | None
) -> tuple[PaperCell, ...]:
    shares = best_shares(task, radix)
    if shares is None:
        raise PlanningError(
            f"No digits reach an RMSE of {task.mse**0.5:.4g} (for values in [0, 1]) with this "
            "epsilon and so many users; allow a larger error or a larger epsilon"
            + (", or leave the radix open." if radix else ".")
        )
    cells = settle_digits(task, epsilon, shares)
    if task.padded:  # the estimate of the reserve may mislead; the usual digits bound the harm
        usual = _cells(replace(task, padded=False), epsilon, radix)
        cells = min(cells, usual, key=lambda digits: spent(task, digits))
    return cells


def settle_digits(task: SumTask, epsilon: Fraction, shares: Shares) -> tuple[PaperCell, ...]:
    """The shares as exact cells; the error of the whole is decided in ball arithmetic."""
    budgets = [round_to(share, 5, up=False) for share in shares.epsilon]
    budgets[0] += epsilon - sum(budgets)
    for attempt in range(60):
        slack = 1 - 1e-6 * 1.3**attempt
        cells = []
        for place, (largest, stand_in) in enumerate(shares.shapes):
            gap = shares.epsilon[place] - shares.down_epsilon[place]
            odds = slack * shares.odds[place]
            cells.append(
                PaperCell(
                    users=task.users,
                    largest=largest,
                    up_epsilon=budgets[place],
                    down_epsilon=budgets[place] - round_to(gap, 4, up=False),
                    mute_probability=round_to(odds / (1 + odds), 6, up=False),
                    input_pairs=1,
                    flood_mean=Fraction(1),
                    stand_in=stand_in,
                )
            )
        if sign(lambda cells=cells: error_left(task, cells))[0] > 0:  # type: ignore[misc]
            decay = min(float(cell.down_epsilon) / cell.largest for cell in cells)
            cost = _flood_cost(task, decay)
            return tuple(with_best_pairs(cell, cell.up_epsilon, cost) for cell in cells)
    raise PlanningError("The error asked for is too close to the least possible; allow a bit more.")


def _flood_cost(task: SumTask, decay: float) -> Callable[[Floats], Floats]:
    """What so many flood pairs per user cost; in padded reports, beside a lump of this decay."""
    if task.padded:
        return lambda flood: reserve(np.full_like(flood, decay), flood, 1, task.users)
    return lambda flood: 2 * flood


def error_left(task: SumTask, cells: Sequence[PaperCell]) -> arb:
    """mse − (the digits' worst error beyond the relative tolerance), for values in [0, 1]."""
    n, radix = task.expected, [cell.largest + 1 for cell in cells]
    grid = math.prod(radix) - 1
    left = ball(Fraction(task.mse) - Fraction(n, 4 * grid**2))
    kappa = Fraction(0)
    for place, cell in enumerate(cells):
        weight = Fraction(math.prod(radix[place + 1 :]), grid)
        odds = cell.mute_probability / (1 - cell.mute_probability)
        left -= ball(weight**2) * cell.noise_error(n)
        kappa = max(kappa, odds * weight * cell.largest)
        if task.relative is None:
            left -= ball(weight**2 * odds * cell.most_squares(n))
    if task.relative is not None:
        # Σ_j w_j² p_j Σ x_j² ≤ max_j(w_j p_j D_j) · true sum
        r2 = Fraction(task.relative) ** 2
        total = min(kappa / (2 * r2), Fraction(n))
        left -= ball(kappa * total - r2 * total**2)
    return left


def _forecast(protocol: RealSum, users: int, epsilon: Fraction, task: SumTask) -> Forecast:
    span = float(protocol.high - protocol.low)
    limit = best_shares(replace(task, padded=False), protocol.radix)
    low, high = protocol.error_quantiles(users, None, [0.025, 0.975])
    return Forecast(
        messages_per_user=protocol.messages_per_user(),
        limit_messages=protocol.messages_per_user() if limit is None else limit.messages,
        rmse=protocol.rmse(users),
        rmse_at_zero=protocol.rmse(users, [0.0] * len(protocol.digits)),
        central_rmse=math.sqrt(central_variance(epsilon)) * span,
        error_low=low,
        error_high=high,
        bits_per_message=max(1, math.ceil(math.log2(2 * len(protocol.digits)))),
    )


def spent(task: SumTask, cells: Sequence[PaperCell]) -> float:
    """What the task counts."""
    uses = tuple(
        CellUse(cell=cell, copies=1, up=cell.up_epsilon, down=cell.up_epsilon) for cell in cells
    )
    return counted_messages(uses, task.padded)


def _best_for_messages(
    task: SumTask, epsilon: Fraction, messages: float, radix: tuple[int, ...] | None
) -> tuple[SumTask, tuple[PaperCell, ...]]:
    """The least error, within 1 %, for which the digits cost at most so many messages."""
    low = math.log(central_variance(epsilon))
    high = low + 30.0
    best: tuple[SumTask, tuple[PaperCell, ...]] | None = None
    while high - low > 0.02:
        middle = (low + high) / 2
        task = replace(task, mse=math.exp(middle))
        shares = best_shares(task, radix, quick=True)
        cells: tuple[PaperCell, ...] = ()
        if shares is not None and shares.messages <= messages:
            cells = settle_digits(task, epsilon, shares)
        if cells and spent(task, cells) <= messages:
            high, best = middle, (task, cells)
        else:
            low = middle
    if best is None:
        raise PlanningError(
            f"No digits cost as few as {messages:g} messages per user here; allow more messages."
        )
    return best

"""Real sums with the paper's cell for every digit (MATH §9): exact cells from proposed shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import arb

from shuffledp.cells.choice import Choice, digit_messages
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.pairs import with_best_pairs
from shuffledp.cells.paper.reserve import reserve
from shuffledp.errors import PlanningError
from shuffledp.numbers.exact import ball, round_to, sign
from shuffledp.numbers.special import Floats
from shuffledp.queries.real_sum.digits import SumTask, digit_weights
from shuffledp.queries.real_sum.paper_digit_shares import Shares, best_shares

SURELY_MORE = 1.03
"""A proposal that costs so much more than a baseline is not looked at closely."""
LOOSEST_SUM = 30.0
"""ln of how much more squared error than a trusted party's is looked at for few messages."""


def paper_digits(task: SumTask, messages: float | None, baseline: Choice | None) -> Choice:
    """The digits with the fewest messages, or with the least error for so many messages."""
    if messages is None:
        return _choice(task, _digits(task, baseline))
    if baseline is not None:  # the least error that would win, and what it costs at least
        shares = best_shares(replace(task, mse=baseline.mse), quick=True)
        if shares is None or shares.messages > SURELY_MORE * messages:
            raise PlanningError("Another kind of cell errs less here.")
    return _best_for_messages(task, messages)


class Digits(NamedTuple):
    """A radix's cells, the most significant digit first, and its number of dither values."""

    cells: tuple[PaperCell, ...]
    dither: int

    def messages(self, padded: bool) -> float:
        """What a padded report carries, or a user sends on average."""
        return digit_messages(self.cells, self.dither, padded)


def _choice(task: SumTask, digits: Digits) -> Choice:
    radix = tuple(cell.largest + 1 for cell in digits.cells)
    here = replace(task, padded=False, radix=radix, dither=digits.dither)
    limit, average = best_shares(here, quick=True), digits.messages(False)
    return Choice(
        cells=digits.cells,
        mse=task.mse,
        cost=digits.messages(task.padded),
        limit=average if limit is None else min(limit.messages, average),
        dither=digits.dither,
    )


def _digits(task: SumTask, baseline: Choice | None) -> Digits:
    shares = best_shares(task)
    if shares is None:
        raise PlanningError(
            f"No digits reach an RMSE of {float(task.mse) ** 0.5:.4g} (for values in [0, 1]) with "
            "this epsilon and so many users; allow a larger error or a larger epsilon"
            + (", or leave the radix open." if task.radix else ".")
        )
    if baseline is not None and shares.messages > SURELY_MORE * baseline.cost:
        raise PlanningError("Another kind of cell is cheaper here.")
    digits = settle_digits(task, shares)
    if task.padded:  # the estimate of the reserve may mislead; the usual digits bound the harm
        usual = _digits(replace(task, padded=False), None)
        digits = min(digits, usual, key=lambda one: one.messages(True))
    return digits


def settle_digits(task: SumTask, shares: Shares) -> Digits:
    """The shares as exact cells; the error of the whole is decided in ball arithmetic."""
    budgets = [round_to(share, 5, up=False) for share in shares.epsilon]
    budgets[0] += task.epsilon - sum(budgets)
    for attempt in range(60):
        slack = 1 - 1e-6 * 1.3**attempt
        cells = []
        for number, (largest, stand_in) in enumerate(shares.shapes):
            gap = shares.epsilon[number] - shares.down_epsilon[number]
            odds = slack * shares.odds[number]
            cells.append(
                PaperCell(
                    users=task.users,
                    largest=largest,
                    up_epsilon=budgets[number],
                    down_epsilon=budgets[number] - round_to(gap, 4, up=False),
                    mute_probability=round_to(odds / (1 + odds), 6, up=False),
                    input_pairs=1,
                    flood_mean=Fraction(1),
                    stand_in=stand_in,
                )
            )
        digits = Digits(tuple(cells), shares.dither)
        if sign(lambda digits=digits: error_left(task, digits))[0] > 0:  # type: ignore[misc]
            decay = min(float(cell.down_epsilon) / cell.largest for cell in cells)
            cost = _flood_cost(task, decay)
            paired = (with_best_pairs(cell, cell.up_epsilon, cost) for cell in cells)
            return Digits(tuple(paired), shares.dither)
    raise PlanningError("The error asked for is too close to the least possible; allow a bit more.")


def _flood_cost(task: SumTask, decay: float) -> Callable[[Floats], Floats]:
    """What so many flood pairs per user cost; in padded reports, beside noise of this decay."""
    if task.padded:
        return lambda flood: reserve(np.full_like(flood, decay), flood, 1, task.users)
    return lambda flood: 2 * flood


def error_left(task: SumTask, digits: Digits) -> arb:
    """mse − (the digits' worst error beyond the relative tolerance), for values in [0, 1]. Rounding
    is counted at its worst even at a sum of 0, so that a dither keeps to the tolerance too."""
    n, radix = task.expected, [cell.largest + 1 for cell in digits.cells]
    grid = math.prod(radix) - 1
    left = ball(task.mse - task.rounding(grid, digits.dither))
    kappa = Fraction(0)
    for cell, steps in zip(digits.cells, digit_weights(radix), strict=True):
        weight = Fraction(steps, grid)
        odds = cell.mute_probability / (1 - cell.mute_probability)
        left -= ball(weight**2) * cell.noise_error(n)
        kappa = max(kappa, odds * weight * cell.largest)
        if task.relative is None:
            left -= ball(weight**2 * odds * cell.most_squares(n))
    if task.relative is not None:
        # Σ_j w_j² p_j Σ x_j² ≤ max_j(w_j p_j D_j) · true sum
        r2 = task.relative**2
        total = min(kappa / (2 * r2), Fraction(n))
        left -= ball(kappa * total - r2 * total**2)
    return left


def _best_for_messages(task: SumTask, messages: float) -> Choice:
    """The least error, within 1 %, for which the digits cost at most so many messages."""
    low = math.log(2 / task.epsilon**2)
    high = low + LOOSEST_SUM
    best: tuple[SumTask, Digits] | None = None
    while high - low > 0.02:
        middle = (low + high) / 2
        task = replace(task, mse=Fraction(math.exp(middle)))
        shares = best_shares(task, quick=True)
        digits: Digits | None = None
        if shares is not None and shares.messages <= messages:
            digits = settle_digits(task, shares)
        if digits is not None and digits.messages(task.padded) <= messages:
            high, best = middle, (task, digits)
        else:
            low = middle
    if best is None:
        raise PlanningError(
            f"No digits cost as few as {messages:g} messages per user here; allow more messages."
        )
    return _choice(*best)

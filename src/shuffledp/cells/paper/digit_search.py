"""Digits of a real sum that are paper's cells (MATH §9): ε, error and muting shared among them.

Floats propose the shares (`PaperDigitCosts`); exact cells are made of them, and the error of the
whole sum is decided in ball arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from flint import arb

from shuffledp.cells.base import IndependentCell, independent_cell, one_by_one
from shuffledp.cells.digit_search import (
    LOOSEST_SUM,
    DigitCosts,
    SumTarget,
    best_radices,
    digit_messages,
    digit_weights,
    no_digits,
    no_digits_within,
    search,
    shares_of_one,
)
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.flood import reserve, with_best_pairs
from shuffledp.cells.paper.search import SURELY_MORE, noise_variance
from shuffledp.cells.search import KEPT_SEARCHES, FoundCells
from shuffledp.errors import PlanningError
from shuffledp.numbers.bisection import bisect_found
from shuffledp.numbers.exact import ball, round_to, sign
from shuffledp.numbers.lattice import Floats

SEARCH_ROUNDS = ((0, 200), (3, 40), (7, 8))
"""Rounds of the search, and how many radices remain after each."""
QUICK_ROUNDS = ((0, 60), (3, 3))
"""The same if many errors are tried."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """A proposal: one entry per digit."""

    radix: tuple[int, ...]
    dither: int
    messages: float
    epsilon: tuple[float, ...]
    down_epsilon: tuple[float, ...]
    odds: tuple[float, ...]
    stand_in: tuple[float, ...]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(largest value, stand-in) of each digit."""
        return [(base - 1, int(h)) for base, h in zip(self.radix, self.stand_in, strict=True)]


class PaperDigitCosts(DigitCosts):
    """The unknowns of each digit: its share of ε, the gap Δ = ε − b of its −1 noise, and its share
    of the error that muting may cost. The cost is what no flood can beat (the limit of MATH §3)."""

    def __init__(self, task: SumTarget, radix: Sequence[int]) -> None:
        super().__init__(task, radix)
        self.stand_in = np.floor(self.largest / 2) if task.relative is None else 0 * self.largest
        self.farthest = np.maximum(self.stand_in, self.largest - self.stand_in)

    def start(self) -> Floats:
        """Equal gaps; ε and muting shared by the digits' weight in the sum."""
        gap = np.full(len(self.radix), math.log(0.3))
        parts = [self.equal_start(), gap]
        if self.task.relative is None:
            parts.append(np.zeros(len(self.radix)))
        return np.concatenate(parts)

    def unpack(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """(ε, b, q/(1−q)) per digit, at each point; odds ≤ 0 if the error is exceeded."""
        task, k = self.task, len(self.radix)
        epsilon = self.epsilon * shares_of_one(points[:, :k])
        b = epsilon - np.minimum(epsilon * np.exp(points[:, k : 2 * k]), 0.98 * epsilon)
        noise = noise_variance(epsilon / self.largest) + noise_variance(b / self.largest)
        noise = task.expected / task.users * noise * self.weight**2
        left = (self.left - noise.sum(axis=1))[:, None]
        if task.relative is not None:
            odds = self._tolerated(noise)
        else:
            share = shares_of_one(points[:, 2 * k :])
            odds = left * share / (self.weight**2 * task.expected * self.farthest**2 + 2 * noise)
        return epsilon, b, np.where(left > 0, np.minimum(odds, 1.0), -1.0)

    def _tolerated(self, noise: Floats) -> Floats:
        """The q/(1−q) that a relative tolerance leaves, given noise that muting itself scales
        up."""
        task, odds = self.task, np.zeros_like(noise)
        assert task.relative is not None
        r = float(task.relative)
        for _ in range(5):
            left = (self.left - (noise * (1 + odds) ** 2).sum(axis=1))[:, None]
            # the muted part of a true sum c is at most κ·c, and max(κc − R²c²) = κ²/(4R²)
            reach = 2 * r * np.sqrt(np.maximum(left, 0.0))
            far = left / task.expected + r * r * task.expected
            kappa = np.where(reach <= 2 * r * r * task.expected, reach, far)
            found = np.clip(kappa * 0.98 / (self.weight * self.largest), 0.0, 1.0)
            odds = found if not odds.any() else (odds + found) / 2
        return odds

    def cost(self, points: Floats) -> Floats:
        """Messages to the cells, counted as the task says, at the limit; ∞ if the error is
        exceeded."""
        epsilon, b, odds = self.unpack(points)
        possible = (odds > 0).all(axis=1)
        odds = np.where(odds > 0, odds, 1.0)
        log_k = np.log(np.expm1(epsilon) * odds) - b * self.stand_in / self.largest
        sent = (2 * least_pairs(log_k, epsilon - b) + 1) * self.largest + self.stand_in
        if self.task.padded:
            decay = (b / self.largest).min(axis=1)
            cost = sent.sum(axis=1) + reserve(decay, 0 * decay, 1, self.task.users)
        else:
            cost = (sent / (1 + odds)).sum(axis=1)
        return np.where(possible, cost, np.inf)

    def shares(self, point: Floats) -> Shares:
        """What a point proposes for each digit, with the dither that is cheapest there."""
        cost = self.take_dither(point)
        epsilon, b, odds = (tuple(row[0].tolist()) for row in self.unpack(point[None, :]))
        return Shares(
            radix=self.radix,
            dither=self.dither,
            messages=cost,
            epsilon=epsilon,
            down_epsilon=b,
            odds=odds,
            stand_in=tuple(self.stand_in.tolist()),
        )


def least_pairs(log_k: Floats, gap: Floats) -> Floats:
    """The least real s/D that any flood allows: uΔ + ln K + ln u + (u+1) ln(1+1/u) = 0, solved by
    Newton's steps (the left side is concave and rises, so they close in from below)."""
    u = np.maximum(-log_k / gap, 1e-3)
    for _ in range(8):
        slope = np.log1p(1 / u)
        rest = u * gap + log_k + np.log(u) + (u + 1) * slope
        u = np.maximum(u - rest / (gap + slope), 1e-6)
    return u


def best_shares(task: SumTarget, quick: bool = False) -> Shares | None:
    """The cheapest radix and shares, or None if no radix meets the error; `quick` tries fewer
    points."""
    if task.radix is not None:
        costs = PaperDigitCosts(task, task.radix)
        cost, point = search(costs, 400)
        return costs.shares(point) if math.isfinite(cost) else None
    finalists = best_radices(task, PaperDigitCosts, QUICK_ROUNDS if quick else SEARCH_ROUNDS)
    fine = [(*search(costs, 60), costs.radix) for costs in finalists]
    if not fine:
        return None
    cost, point, radix = min(fine, key=lambda entry: entry[0])
    return PaperDigitCosts(task, radix).shares(point)


@lru_cache(maxsize=KEPT_SEARCHES)
def search_digits(
    task: SumTarget, messages: float | None, found: FoundCells | None = None
) -> FoundCells | None:
    """The digits with the fewest messages, or with the least error for `max_messages`."""
    if messages is None:
        return _cheapest(task, found)
    if found is not None:  # the least error that would win, and what it costs at least
        shares = best_shares(replace(task, mse=found.mse), quick=True)
        if shares is None or shares.messages > SURELY_MORE * messages:
            return None
    return _best_for_messages(task, messages)


def _found(task: SumTarget, cells: Sequence[IndependentCell], dither: int) -> FoundCells:
    return FoundCells(
        cells=tuple(cells),
        mse=task.mse,
        cost=digit_messages(one_by_one(cells), task.users, dither, task.padded),
        dither=dither,
    )


def _cheapest(task: SumTarget, found: FoundCells | None) -> FoundCells | None:
    shares = best_shares(task)
    if shares is None:
        raise no_digits(task)
    if found is not None and shares.messages > SURELY_MORE * found.cost:
        return None
    digits = settle_digits(task, shares)
    if task.padded:  # the estimate of the reserve may be off; the usual digits limit the damage
        usual = _cheapest(replace(task, padded=False), None)
        assert usual is not None
        cells = [independent_cell(cell) for cell in usual.cells]
        digits = min(digits, _found(task, cells, usual.dither), key=lambda one: one.cost)
    return digits


def settle_digits(task: SumTarget, shares: Shares) -> FoundCells:
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
        if sign(partial(error_left, task, cells, shares.dither))[0] > 0:
            decay = min(float(cell.down_epsilon) / cell.largest for cell in cells)
            cost = _flood_cost(task, decay)
            paired = [with_best_pairs(cell, cell.up_epsilon, cost) for cell in cells]
            return _found(task, paired, shares.dither)
    raise PlanningError("The requested error is too close to the least possible; allow a bit more.")


def _flood_cost(task: SumTarget, decay: float) -> Callable[[Floats], Floats]:
    """The cost of flood pairs per user; in padded reports, together with noise of this decay."""
    if task.padded:
        return lambda flood: reserve(np.full_like(flood, decay), flood, 1, task.users)
    return lambda flood: 2 * flood


def error_left(task: SumTarget, cells: Sequence[PaperCell], dither: int) -> arb:
    """mse − (the digits' worst error beyond the relative tolerance), for values in [0, 1]. Rounding
    counts at its worst even at a sum of 0, so a dither also keeps the tolerance."""
    n, radix = task.expected, [cell.largest + 1 for cell in cells]
    grid = math.prod(radix) - 1
    left = ball(task.mse - task.rounding(grid, dither))
    kappa = Fraction(0)
    for cell, steps in zip(cells, digit_weights(radix), strict=True):
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


def _best_for_messages(task: SumTarget, messages: float) -> FoundCells:
    """The least error, within 1 %, for which the digits fit into the message budget."""

    def found(log_error: float) -> FoundCells | None:
        here = replace(task, mse=Fraction(math.exp(log_error)))
        shares = best_shares(here, quick=True)
        if shares is None or shares.messages > messages:
            return None
        digits = settle_digits(here, shares)
        return digits if digits.cost <= messages else None

    low = math.log(2 / task.epsilon**2)
    best = bisect_found(found, low, low + LOOSEST_SUM, 0.02)
    if best is None:
        raise no_digits_within(messages)
    return best

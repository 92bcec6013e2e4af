"""Digits of a real sum: which radices to try, and how the points of a search are rated (MATH §9).

For a given radix the unknowns are each digit's share of ε and of the error, and how many values the
public dither has. The cost of a point is a formula, so thousands of points are rated at once: all
corners of a cube around the best point, which shrinks when none of them is better. Then the dither
is chosen again. These floats only propose; they decide nothing.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np

from shuffledp.cells.base import CellGroup
from shuffledp.cells.search import counted_messages
from shuffledp.errors import PlanningError
from shuffledp.numbers.lattice import Floats
from shuffledp.numbers.rounding import FINEST_GRID, worst_rounding

DIGIT_BASES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 21, 25, 33)
MOST_DIGITS = 4
"""The bases and the number of digits that a search tries."""
DITHERS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
"""The numbers of dither values that are tried; more would hardly reduce the error."""
LARGEST_LATER_BASE = 9
LOOSEST_SUM = 30.0
"""ln of the largest squared error that is tried for few messages, over a trusted party's."""
COARSE_STEP, FINEST_STEP = 0.1, 1e-3
"""Steps of a search: below the first the dither stays fixed; the search ends at the second."""
MOST_CORNERS = 2187  # of a cube; in more dimensions only the axes are tried


@dataclass(frozen=True, kw_only=True)
class SumTarget:
    """What the digits together must achieve, for values in [0, 1]."""

    users: int
    expected: int
    epsilon: Fraction
    mse: Fraction
    relative: Fraction | None = None
    """R: if given, the allowed error is mse + (R · true sum)² (the paper's cell only)."""
    padded: bool = False
    """Whether messages are counted in a padded report, or on average."""
    radix: tuple[int, ...] | None = None
    """The digits, or None if the search should choose them."""
    dither: int | None = None
    """How many values the public dither has, or None if the search should choose."""

    def dithers(self, points: int) -> list[int]:
        """The numbers of dither values to try, on a grid of `points` points."""
        if self.dither is not None:
            return [self.dither]
        return [dither for dither in DITHERS if points * dither <= FINEST_GRID]

    def rounding(self, grid: int, dither: int) -> Fraction:
        """What rounding to multiples of 1/grid adds to the squared error at most."""
        return self.expected * worst_rounding(dither) / grid**2


def radices(task: SumTarget) -> Iterable[tuple[int, ...]]:
    """Mixed radices, large bases first, whose rounding takes a reasonable part of the error."""
    if task.radix is not None:
        yield task.radix
        return
    later = [base for base in DIGIT_BASES[::-1] if base <= LARGEST_LATER_BASE]
    mse, least = float(task.mse), float(task.rounding(1, max(task.dithers(1))))
    most = 0.9 if max(task.dithers(1)) > 1 else 0.6  # without a dither it is rarely at its worst
    for digits in range(MOST_DIGITS):
        for top in DIGIT_BASES[::-1]:
            below = [base for base in later if base <= top]
            for rest in itertools.combinations_with_replacement(below, digits):
                grid = math.prod((top, *rest)) - 1
                rounding = least / (grid * grid)
                if rounding < most * mse and (rounding > 0.008 * mse or grid <= 8):
                    yield (top, *rest)


def no_digits(task: SumTarget) -> PlanningError:
    """The refusal of a target whose error no digits meet."""
    return PlanningError(
        f"No digits reach an RMSE of {math.sqrt(task.mse):.4g} (for values in [0, 1]) with "
        "this epsilon and this number of users; allow a larger error or a larger epsilon"
        + (", or leave the radix open." if task.radix else ".")
    )


def no_digits_within(messages: float) -> PlanningError:
    """The refusal of a number of messages that no digits keep to."""
    return PlanningError(
        f"No digits cost as few as {messages:g} messages per user here; allow more messages."
    )


class DigitCosts(ABC):
    """The cost of points in the cube of unknowns, for one radix and one number of dither values,
    which `take_dither` chooses."""

    def __init__(self, task: SumTarget, radix: Sequence[int]) -> None:
        self.task = task
        self.radix = tuple(radix)
        self.largest = np.array(radix, float) - 1
        self.grid = math.prod(radix) - 1
        self.weight = np.array(digit_weights(radix), float) / self.grid
        self.epsilon = float(task.epsilon)
        self.dithers = task.dithers(self.grid + 1)
        self.dither = self.dithers[0]
        roundings, self.counters = _dither_table(tuple(self.dithers), task.padded)
        self.lefts = float(task.mse) - task.expected * roundings / self.grid**2
        self.left: float | Floats = float(self.lefts[0])

    def take_dither(self, point: Floats) -> float:
        """Chooses the cheapest number of dither values at a point and returns its cost."""
        self.left = self.lefts
        costs = self.cost(np.repeat(point[None, :], len(self.dithers), axis=0)) + self.counters
        best = int(np.argmin(costs))
        self.dither, self.left = self.dithers[best], float(self.lefts[best])
        return float(costs[best])

    @abstractmethod
    def start(self) -> Floats:
        """The point that a search begins with."""

    @abstractmethod
    def cost(self, points: Floats) -> Floats:
        """Messages to the cells, counted as the task says; ∞ if the error is exceeded."""

    def equal_start(self) -> Floats:
        """ln of shares of ε that follow the digits' weight in the sum."""
        share = np.log((self.weight * self.largest) ** (2 / 3))
        return np.asarray(share - share[0])


@lru_cache(maxsize=32)
def _dither_table(dithers: tuple[int, ...], padded: bool) -> tuple[Floats, Floats]:
    """What rounding costs with each number of dither values, and the messages to its counter."""
    rounding = [float(worst_rounding(dither)) for dither in dithers]
    return np.array(rounding), np.array([dither_messages(dither, padded) for dither in dithers])


def digit_weights(radix: Sequence[int]) -> list[int]:
    """What one unit of each digit is worth, in grid steps."""
    return [math.prod(radix[number + 1 :]) for number in range(len(radix))]


def shares_of_one(logs: Floats) -> Floats:
    """Numbers that add up to 1 in each row, from their logarithms up to a constant."""
    parts = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


@lru_cache(maxsize=32)
def _moves(size: int) -> Floats:
    """The corners and the middles of a cube's sides, or its axes. An unknown's column lies together
    in memory: thousands of points have few unknowns each, and numpy is fast along the points."""
    if 3**size <= MOST_CORNERS:
        moves = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=size)))
    else:
        moves = np.concatenate([np.eye(size), -np.eye(size), np.zeros((1, size))])
    return np.asfortranarray(moves)


def search(costs: DigitCosts, rounds: int) -> tuple[float, Floats]:
    """The cheapest point found in `rounds` rounds, from the usual start, and its cost with the
    public counter; `costs` then has its number of dither values."""
    point, step = costs.start(), 0.8
    moves = _moves(point.size)
    best = costs.take_dither(point)
    for _ in range(rounds):
        candidates = point + step * moves
        found = costs.cost(candidates) + dither_messages(costs.dither, costs.task.padded)
        at = int(np.argmin(found))
        if found[at] < best * (1 - 1e-9):
            best, point = float(found[at]), candidates[at]
        elif step > FINEST_STEP:
            step /= 2
            best = costs.take_dither(point) if step > COARSE_STEP else best
        else:
            break
    return best, point


def digit_messages(groups: Sequence[CellGroup], users: int, dither: int, padded: bool) -> float:
    """A padded report's messages, or what a user sends on average, with the public counter of a
    dither."""
    return counted_messages(groups, users, padded) + dither_messages(dither, padded)


def dither_messages(dither: int, padded: bool) -> float:
    """How many messages the public counter of a dither gets from a report, at most or on
    average."""
    return (dither - 1) if padded else (dither - 1) / 2


Costs = TypeVar("Costs", bound=DigitCosts)


def best_radices(
    task: SumTarget,
    costs_of: Callable[[SumTarget, tuple[int, ...]], Costs],
    rounds: Sequence[tuple[int, int]],
) -> list[Costs]:
    """The best radices, the cheapest first. All are rated roughly, the better ones more precisely:
    `rounds` says how precisely, and how many remain. Radices that miss the error are dropped."""
    rough = [(0.0, costs_of(task, radix)) for radix in radices(task)]
    for steps, kept in rounds:
        found = [(search(costs, steps)[0], costs) for _, costs in rough]
        found = [entry for entry in found if math.isfinite(entry[0])]
        rough = sorted(found, key=lambda entry: (entry[0], entry[1].radix))[:kept]
    return [costs for _, costs in rough]

"""Checks of arguments that all planners share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shuffledp.cells.base import MOST_USERS
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import ExactNumber, exact, positive_as_written, show, whole
from shuffledp.protocols.bounds import check_bounds

SMALLEST_EPSILON, LARGEST_EPSILON = Fraction(1, 1000), Fraction(20)


def checked_epsilon(epsilon: ExactNumber | None) -> Fraction:
    """ε as an exact number in the range that plans can be made for."""
    if epsilon is None:
        raise ParameterError("epsilon is missing; pass a number such as 1.")
    number = positive_as_written(epsilon, "epsilon")
    if not SMALLEST_EPSILON <= number <= LARGEST_EPSILON:
        raise ParameterError(
            f"epsilon must lie between {show(SMALLEST_EPSILON)} and {show(LARGEST_EPSILON)} "
            f"to be planned for; {show(number)} was given."
        )
    return number


def checked_users(users: object, expected: object | None) -> tuple[int, int]:
    """(guaranteed users, expected users)."""
    sure = whole(users, "users", most=MOST_USERS)
    come = sure if expected is None else whole(expected, "expected", most=MOST_USERS)
    if come < sure:
        raise ParameterError(
            f"{sure:,} users are guaranteed but only {come:,} are expected; plan for fewer users."
        )
    return sure, come


def checked_size(messages: float) -> None:
    """Refuses totals of messages that might overflow 64-bit counts."""
    if messages > 2**61:
        raise ParameterError(
            "The messages would overflow 64-bit counts; plan for fewer "
            "users, buckets or smaller values."
        )


def listed(bounds: object) -> object:
    """An array as the list of its elements; anything else unchanged."""
    return bounds.tolist() if isinstance(bounds, np.ndarray) else bounds


def checked_bounds(bounds: object) -> tuple[Fraction, Fraction]:
    """(low, high) as exact numbers, low < high."""
    bounds = listed(bounds)
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ParameterError("bounds must be two numbers, the lower and the upper one.")
    low, high = exact(bounds[0], "the lower bound"), exact(bounds[1], "the upper bound")
    check_bounds(low, high)
    return low, high

"""Exact numbers: how parameters are read, and how questions about them are decided.

Every number that reaches a randomizer is a `Fraction`; every privacy question is answered by
`arb` balls whose precision is raised until the answer is certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeAlias

from flint import arb, ctx, fmpq

from shuffledp.errors import ParameterError, PlanningError, Undecided

ExactNumber: TypeAlias = int | float | str | Fraction | Decimal

FIRST_PRECISION = 128  # bits of a ball at first; doubled until a question is decided …
LAST_PRECISION = 8192  # … or until here
LARGEST_CONFIDENCE = 1 - 1e-9  # laws of errors are computed up to tails of about 10⁻¹⁴


def exact(value: ExactNumber, name: str) -> Fraction:
    """`value` as an exact fraction; a float is taken for exactly the number that it is."""
    allowed = f"{name} must be a finite number (int, Fraction, Decimal, float, or text like 0.1)"
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction | Decimal):
        raise ParameterError(f"{allowed}; a {type(value).__name__} was given.")
    try:
        if isinstance(value, str):
            value = value.strip()
            if len(value) > 200:
                raise ValueError
            value = Fraction(value) if "/" in value else Decimal(value)
        if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > 400:
            raise ValueError
        return Fraction(value)
    except (ValueError, OverflowError, InvalidOperation, ZeroDivisionError):
        raise ParameterError(f"{allowed}; {str(value)[:40]!r} was given.") from None


def positive(value: ExactNumber, name: str) -> Fraction:
    """`value` as an exact fraction; refuses what is not above 0."""
    number = exact(value, name)
    if number <= 0:
        raise ParameterError(f"{name} must be greater than 0; {show(number)} was given.")
    return number


def probability(value: ExactNumber, name: str) -> Fraction:
    """`value` as an exact fraction; refuses what is not strictly between 0 and 1."""
    number = exact(value, name)
    if not 0 < number < 1:
        raise ParameterError(f"{name} must lie strictly between 0 and 1; {show(number)} was given.")
    return number


def checked_confidence(value: ExactNumber) -> float:
    """`value` as the confidence of intervals; refuses what no interval can be computed for."""
    confidence = float(exact(value, "confidence"))
    if not 0 < confidence <= LARGEST_CONFIDENCE:
        raise ParameterError(
            "confidence must lie above 0 and be at most 0.999999999 (1 − 10⁻⁹), for example 0.95."
        )
    return confidence


def percent(share: float) -> str:
    """A part of the whole in percent, with all its digits.

    >>> percent(0.995), percent(0.95)
    ('99.5%', '95%')
    """
    return f"{(Decimal(str(float(share))) * 100).normalize():f}%"


def whole(value: object, name: str, least: int = 1, most: int | None = None) -> int:
    """`value` as an int in least..most; a float or text that is a whole number will do."""
    number = exact(value, name)  # type: ignore[arg-type]
    top = "" if most is None else f" and at most {most:,}"
    if number.denominator != 1 or number < least or (most is not None and number > most):
        raise ParameterError(
            f"{name} must be a whole number, at least {least:,}{top}; {show(number)} was given."
        )
    return int(number)


def show(number: Fraction | float, digits: int = 6) -> str:
    """The number as text for people: exact where that is short, rounded otherwise."""
    if isinstance(number, Fraction):
        if number.denominator == 1 and abs(number) < 10**15:
            return str(number.numerator)
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
        if Fraction(decimal) == number and len(str(decimal)) <= 18:
            return f"{decimal.normalize():f}" if abs(decimal) >= Decimal("1e-6") else str(decimal)
        return f"{float(decimal):.{digits}g}"
    return f"{number:.{digits}g}"


def ball(number: Fraction | int) -> arb:
    """The ball around an exact number at the current precision."""
    if isinstance(number, int):
        return arb(number)
    return arb(fmpq(int(number.numerator), int(number.denominator)))


def at_precision(bits: int, quantity: Callable[[], arb]) -> arb:
    """`quantity()` evaluated with `bits` bits of working precision."""
    with ctx.workprec(bits):
        return quantity()


def sign(quantity: Callable[[], arb]) -> tuple[int, arb, int]:
    """The certain sign (−1 or +1) of a quantity, the ball that shows it, and the bits it took.

    Ensures: the sign is that of the true value. Raises `Undecided` where 8192 bits do not tell,
    as for a quantity that is exactly 0.
    """
    bits = FIRST_PRECISION
    while bits <= LAST_PRECISION:
        value = at_precision(bits, quantity)
        if value > 0:
            return 1, value, bits
        if value < 0:
            return -1, value, bits
        bits *= 2
    raise Undecided(
        f"The sign of a quantity was not decided at {LAST_PRECISION} bits: it is 0 or very close; "
        "move a parameter slightly towards privacy (more noise) and certify again."
    )


def to_float(quantity: Callable[[], arb]) -> float:
    """A quantity as the nearest float, for reporting; never used to decide about privacy."""
    bits = FIRST_PRECISION
    while bits <= LAST_PRECISION:
        value = at_precision(bits, quantity)
        if value.rel_accuracy_bits() >= 60 or value.is_exact():
            return float(value)
        bits *= 2
    return float(value)


def round_to(value: float, digits: int, *, up: bool) -> Fraction:
    """A positive float as a decimal of few significant digits, rounded up or down exactly."""
    if not 0 < value < math.inf:
        raise PlanningError("The parameters leave the range of numbers; choose less extreme ones.")
    number = Fraction(value)
    step = Fraction(10) ** (math.floor(math.log10(value)) - digits + 1)
    units = number / step
    return (math.ceil(units) if up else math.floor(units)) * step

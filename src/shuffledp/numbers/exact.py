"""Exact numbers: reading parameters, and deciding inequalities between them.

Every number that reaches a randomizer is a `Fraction`. Every privacy question is decided by `arb`
balls whose precision is raised until the answer is certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from flint import arb, ctx, fmpq

from shuffledp.errors import ParameterError, PlanningError, Undecided
from shuffledp.numbers.deadline import check_time

ExactNumber: TypeAlias = int | float | str | Fraction | Decimal

FIRST_PRECISION = 128  # initial bits of a ball; doubled until a question is decided …
LAST_PRECISION = 8192  # … or this limit is reached
LARGEST_CONFIDENCE = 1 - 1e-9  # error distributions are computed up to tails of about 10⁻¹⁴

MOST_NUMBER_TEXT = 900
"""The most characters of a number in text form: twice the digits of the longest float."""
MOST_NUMBER_BITS = 4_096
"""The most bits of the numerator or denominator of a caller's number."""
LARGEST_EXPONENT = 400
"""A decimal lies between 10^−400 and 10^400: a longer exponent would make a short text a number of
millions of digits."""


def exact(value: ExactNumber, name: str) -> Fraction:
    """`value` as an exact fraction; a float stands for exactly its binary value."""
    allowed = f"{name} must be a finite number (int, Fraction, Decimal, float, or text like 0.1)"
    one = type(value).__module__ == "numpy" and getattr(value, "size", 0) == 1
    if one and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction | Decimal):
        raise ParameterError(f"{allowed}; a {type(value).__name__} was given.")
    try:
        if isinstance(value, str):
            value = value.strip()
            if len(value) > MOST_NUMBER_TEXT:
                raise ValueError
            value = Fraction(value) if "/" in value else Decimal(value)
        if isinstance(value, Decimal) and value.is_finite():
            written = value.as_tuple()
            if len(written.digits) > MOST_NUMBER_TEXT or abs(value.adjusted()) > LARGEST_EXPONENT:
                raise ValueError
        number = Fraction(value)
        if max(map(int.bit_length, number.as_integer_ratio())) > MOST_NUMBER_BITS:
            raise ValueError
        return number
    except (ValueError, OverflowError, InvalidOperation, ZeroDivisionError):
        raise ParameterError(f"{allowed}; {_shown(value)} was given.") from None


def _shown(value: int | float | str | Fraction | Decimal) -> str:
    """The beginning of a refused text or float; for a number that is too long to print, just that
    fact."""
    if isinstance(value, int | Fraction):
        return "one of too many digits"
    return repr(str(value)[:40])


def as_written(value: ExactNumber, name: str) -> Fraction:
    """`value` as an exact fraction; a float stands for its shortest decimal, so 0.1 is 1/10.

    For numbers that people write down and add up: ε, budgets and targets. Users' values, bounds and
    the parameters of cells use `exact`.
    """
    if isinstance(value, float | np.floating) and math.isfinite(value):
        value = str(value)  # NumPy's own float types print their shortest decimal too
    return exact(value, name)


def positive(value: ExactNumber, name: str) -> Fraction:
    """`value` as an exact fraction; refuses numbers that are not above 0."""
    return _above_zero(exact(value, name), name)


def positive_as_written(value: ExactNumber, name: str) -> Fraction:
    """`value` as read by `as_written`; refuses numbers that are not above 0."""
    return _above_zero(as_written(value, name), name)


def _above_zero(number: Fraction, name: str) -> Fraction:
    if number <= 0:
        raise ParameterError(f"{name} must be greater than 0; {show(number)} was given.")
    return number


def probability(value: ExactNumber, name: str) -> Fraction:
    """`value` as an exact fraction; refuses numbers that are not strictly between 0 and 1."""
    number = exact(value, name)
    if not 0 < number < 1:
        raise ParameterError(f"{name} must lie strictly between 0 and 1; {show(number)} was given.")
    return number


def checked_confidence(value: ExactNumber) -> float:
    """`value` as the confidence of intervals; refuses levels for which no interval can be
    computed."""
    number = exact(value, "confidence")
    confidence = float(number) if 0 < number < 1 else 1.0  # others may exceed every float
    if not 0 < confidence <= LARGEST_CONFIDENCE:
        raise ParameterError(
            "confidence must lie above 0 and be at most 0.999999999 (1 − 10⁻⁹), for example 0.95."
        )
    return confidence


def whole(value: object, name: str, least: int = 1, most: int | None = None) -> int:
    """`value` as an int in least..most; also accepts a float or text that is a whole number."""
    number = exact(value, name)  # type: ignore[arg-type]
    top = "" if most is None else f" and at most {most:,}"
    if number.denominator != 1 or number < least or (most is not None and number > most):
        raise ParameterError(
            f"{name} must be a whole number, at least {least:,}{top}; {show(number)} was given."
        )
    return int(number)


def truth(value: object, name: str) -> bool:
    """`value` as true or false; refuses texts and numbers, which are ambiguous."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} must be True or False; a {type(value).__name__} was given.")
    return bool(value)


def percent(share: float) -> str:
    """A share in percent, with all its digits.

    >>> percent(0.995), percent(0.95)
    ('99.5%', '95%')
    """
    return f"{(Decimal(str(float(share))) * 100).normalize():f}%"


def counted(number: int, one: str, several: str = "") -> str:
    """A number of things as text, in the singular if it is one.

    >>> counted(1, "user"), counted(10_000, "user"), counted(0, "batch", "batches")
    ('1 user', '10,000 users', '0 batches')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def decimals(error: float) -> int:
    """How many decimals to show of a number with this error: up to the error's second digit.

    >>> decimals(1.6), decimals(0.012), decimals(250)
    (1, 3, 0)
    """
    if not 0 < error < math.inf:
        return 2
    return min(max(1 - math.floor(math.log10(error)), 0), 12)


def written(number: float, digits: int) -> str:
    """A number with this many decimals, and never as −0.

    >>> written(-0.01, 1), written(1234.56, 1)
    ('0.0', '1,234.6')
    """
    return f"{number:z,.{digits}f}"


def show(number: Fraction | float, digits: int = 6) -> str:
    """The number as text for people: exact if that is short, otherwise rounded."""
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


def as_fraction(number: arb) -> Fraction:
    """The value of an exact ball, such as an end of another one."""
    mantissa, exponent = number.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def fraction_above(number: arb) -> Fraction:
    """A fraction just above the upper end of a ball at the current precision."""
    return as_fraction(number.upper())


def decimal_above(number: Fraction, digits: int = 20) -> str:
    """A decimal that is at least the number, as text."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return str(context.divide(number.numerator, number.denominator))


def precisions() -> Iterator[int]:
    """The working precisions that are tried, until one decides."""
    bits = FIRST_PRECISION
    while bits <= LAST_PRECISION:
        yield bits
        bits *= 2


def at_precision(bits: int, quantity: Callable[[], arb]) -> arb:
    """`quantity()` evaluated with `bits` bits of working precision."""
    check_time()
    with ctx.workprec(bits):
        return quantity()


def sign(quantity: Callable[[], arb]) -> tuple[int, arb, int]:
    """The certain sign (−1 or +1) of a quantity, the ball that shows it, and the bits it took.

    Ensures: the sign is that of the true value. Raises `Undecided` if 8192 bits are not enough, for
    example if the quantity is exactly 0.
    """
    for bits in precisions():
        value = at_precision(bits, quantity)
        if value > 0:
            return 1, value, bits
        if value < 0:
            return -1, value, bits
    raise Undecided(
        f"The sign of a quantity was not decided at {LAST_PRECISION} bits: it is 0 or very close; "
        "move a parameter slightly towards privacy (more noise) and certify again."
    )


def to_float(quantity: Callable[[], arb]) -> float:
    """A quantity as the nearest float, for reporting; never used to decide about privacy."""
    for bits in precisions():
        value = at_precision(bits, quantity)
        if value.rel_accuracy_bits() >= 60 or value.is_exact():
            break
    return float(value)


def round_to(value: float, digits: int, *, up: bool) -> Fraction:
    """A positive float as a decimal of few significant digits, rounded up or down exactly."""
    if not 0 < value < math.inf:
        raise PlanningError(
            "The numbers become too large or too small; use less extreme parameters."
        )
    number = Fraction(value)
    step = Fraction(10) ** (math.floor(math.log10(value)) - digits + 1)
    units = number / step
    return (math.ceil(units) if up else math.floor(units)) * step

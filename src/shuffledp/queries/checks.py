"""What a query's own arguments are checked for, and which columns it can be asked about."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.exact.numbers import ExactNumber, exact
from shuffledp.protocols.histogram import Label
from shuffledp.queries.arrays import as_label
from shuffledp.queries.query import ColumnType
from shuffledp.queries.values import WORDS

NUMBERS: tuple[ColumnType, ...] = ("truth", "whole", "real")
"""What a column of numbers holds; true and false are 1 and 0."""


def check_numbers(holds: ColumnType) -> None:
    """Raises `ValueOutOfRange` for a column that does not hold numbers (or true/false)."""
    if holds not in NUMBERS:
        raise ValueOutOfRange(
            f"Values must be numbers; the column holds {WORDS[holds]}: convert them first."
        )


def looks_typed(text: str) -> bool:
    """Whether a file without types may take such a text for a number, a date or true/false."""
    return re.match(r"[+-]?[.\d]", text) is not None or text.lower() in ("true", "false", "inf")


def plain_labels(labels: int | Iterable[Label]) -> object:
    """A number of buckets, or labels of which intervals of `pandas.cut` became their text."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        return as_label(labels)
    return [as_label(label) for label in labels]


def checked_probabilities(
    probabilities: ExactNumber | Iterable[ExactNumber],
) -> tuple[float, ...]:
    """Which quantiles: one number or several, each strictly between 0 and 1."""
    if isinstance(probabilities, np.ndarray):
        probabilities = np.atleast_1d(probabilities).tolist()
    if isinstance(probabilities, str) or not isinstance(probabilities, Iterable):
        probabilities = [probabilities]
    wanted = [exact(probability, "a quantile") for probability in probabilities]
    if not wanted or not all(0 < p < 1 for p in wanted):
        raise ParameterError("A quantile must lie strictly between 0 and 1, for example 0.5.")
    return tuple(float(p) for p in wanted)

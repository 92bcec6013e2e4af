"""Checks of a query's arguments and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from shuffledp.data.arrays import ColumnType, as_label, as_labels
from shuffledp.data.values import TRUTHS, WORDS
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.exact import ExactNumber, exact
from shuffledp.queries.histogram.protocol import Label, checked_labels

NUMBERS: tuple[ColumnType, ...] = ("truth", "whole", "real")
"""The types of a column of numbers; true and false count as 1 and 0."""


def check_numbers(holds: ColumnType) -> None:
    """Raises `ValueOutOfRange` for a column without numbers (or true/false)."""
    if holds not in NUMBERS:
        raise ValueOutOfRange(
            f"Values must be numbers; the column has {WORDS[holds]}: convert them first."
        )


def looks_typed(text: str) -> bool:
    """Whether such a text in a file without types may be read as a number, date or true/false."""
    return re.match(r"[+-]?[.\d]", text) is not None or text.lower() in ("true", "false", "inf")


def is_whole(label: str) -> bool:
    """Whether a label is a whole number in normal form: 7, but not 007."""
    digits = label.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and str(int(label)) == label


def labels_of_type(labels: list[str], holds: ColumnType, other: Label | None) -> list[Any]:
    """Converts labels given as texts to numbers or true/false if that is the column's type."""
    if holds == "truth":
        return [TRUTHS.get(label.lower(), label) for label in labels]
    if holds == "whole" and all(is_whole(label) or label == other for label in labels):
        return [int(label) if is_whole(label) else label for label in labels]
    return list(labels)


def label_list(labels: Any) -> Any:
    """A list of labels in the form that columns use; anything else unchanged, to be refused."""
    several = isinstance(labels, Iterable) and not isinstance(labels, str)
    return as_labels(labels) if several else labels


def histogram_labels(labels: int | Iterable[Label], other: Label | None) -> tuple[Label, ...]:
    """The labels of a histogram without the one for all others, as they were given: intervals of
    `pandas.cut` by their text. Refuses labels of two kinds, and `other` as one of them."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        names: list[Any] = list(checked_labels(as_label(labels)))
    else:
        names = as_labels(labels)
    if len({*map(type, names)}) > 1:
        raise ParameterError(
            "Labels must be all texts, all whole numbers or all true/false, as the column's values "
            "are; use one kind."
        )
    if other is not None and str(truth_as_text(other)) in {str(truth_as_text(n)) for n in names}:
        raise ParameterError(
            "other must not be one of the labels: its bucket would mix rows with that label and "
            "rows with any other value. Leave it out of labels, or name another one."
        )
    shown = with_other(tuple(names), other)
    checked_labels(
        [truth_as_text(name) for name in shown] if bool in {*map(type, shown)} else shown
    )
    return tuple(names)


def with_other(labels: tuple[Label, ...], other: Label | None) -> tuple[Label, ...]:
    """The labels, and last the one for all others, if there is one."""
    return labels if other is None else (*labels, other)


def truth_as_text(label: Label) -> Label:
    """The label; true and false as texts, which is how protocols represent them."""
    return str(label).lower() if isinstance(label, bool) else label


def checked_probabilities(
    probabilities: ExactNumber | Iterable[ExactNumber],
) -> tuple[float, ...]:
    """Which quantiles: one number or several, each strictly between 0 and 1."""
    if isinstance(probabilities, np.ndarray):
        probabilities = np.atleast_1d(probabilities).tolist()
    if isinstance(probabilities, str) or not isinstance(probabilities, Iterable):
        probabilities = [probabilities]
    wanted = [exact(probability, "a quantile") for probability in probabilities]
    if not wanted:
        raise ParameterError("Choose which quantiles to show, for example 0.5.")
    if not all(0 < p < 1 for p in wanted):
        raise ParameterError("A quantile must be strictly between 0 and 1, for example 0.5.")
    return tuple(float(p) for p in wanted)

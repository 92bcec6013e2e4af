"""Numbers as people type them into the page's fields. What could mean two numbers is refused, in
the page's own words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import as_written
from shuffledp.queries.catalogue import CATALOGUE
from shuffledp.queries.options import arguments

Form = Mapping[str, Any]
LABELS = {
    **{
        one.name: one.option.form
        for query in CATALOGUE
        for one in arguments(query)
        if one.option.form
    },
    "users": "Participants you can count on",
    "messages": "Messages per device",
    "epsilon": "Privacy loss ε",
    "error": "Error",
    "confidence": "How often",
    "low": "Smallest value",
    "high": "Largest value",
    "delta": "δ of baselines that need one",
    "people": "Simulated people in a batch",
    "batches": "Batches",
    "times": "How many times",
    "runs": "Runs",
}
"""What the page calls each field."""
SPACES = " \u00a0\u202f"
GROUPS = rf"[1-9]\d{{0,2}}(?:,\d{{3}})+|[1-9]\d{{0,2}}(?:[{SPACES}]\d{{3}})+"
"""Digits in groups of three, separated by commas or by spaces."""
WHOLE = re.compile(rf"\d+(?:e\+?\d+)?|{GROUPS}", re.IGNORECASE)
DECIMAL = re.compile(
    rf"-?(?:(?:{GROUPS})(?:\.\d+)?|\d+\.?\d*(?:e[+-]?\d+)?|\.\d+|\d+/\d+)", re.IGNORECASE
)
THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(?:\.\d{3})+")
"""What is a decimal for some and thousands for others."""
SEPARATORS = re.compile(rf"[,{SPACES}]")


def given(form: Form, name: str) -> str:
    """What a field holds; refuses an empty one."""
    found = str("" if form.get(name) is None else form[name]).strip()
    if not found:
        raise ParameterError(f"{LABELS[name]}: the field is empty.")
    return found


def whole_number(form: Form, name: str, least: int = 1, most: int | None = None) -> int:
    """The whole number in a field: 20000, 20,000 or 20 000; not 20.000, which may be 20."""
    text = given(form, name)
    if not WHOLE.fullmatch(text):
        raise ParameterError(
            f"{LABELS[name]}: write a whole number as 20000, 20,000 or 20 000. A point, or a comma "
            "that is not followed by three digits, is not read here, because it could mean "
            "another number."
        )
    number = as_written(SEPARATORS.sub("", text), LABELS[name])
    if number < least or (most is not None and number > most):
        top = "" if most is None else f" and at most {most:,}"
        raise ParameterError(f"{LABELS[name]}: write a number of at least {least:,}{top}.")
    return int(number)


def number(form: Form, name: str) -> Fraction:
    """The number in a field, with a point before decimals: 0.5 or 1,500.5; not 0,5 or 1.500."""
    text = given(form, name)
    # nobody writes thousands for ε and δ, where 1.125 means what it says
    if name not in ("epsilon", "delta") and THOUSANDS.fullmatch(text):
        raise ParameterError(
            f"{LABELS[name]}: a point followed by three digits can mean two numbers; write 1500 or "
            "1,500 for one and a half thousand, and 1.5 for one and a half."
        )
    if not DECIMAL.fullmatch(text):
        raise ParameterError(
            f"{LABELS[name]}: write a number such as 0.5, 20 or 1,500, with a point before "
            "decimals."
        )
    return as_written(SEPARATORS.sub("", text), LABELS[name])


def positive(form: Form, name: str) -> Fraction:
    """The number in a field; refuses what is not above 0."""
    found = number(form, name)
    if found <= 0:
        raise ParameterError(f"{LABELS[name]}: write a number greater than 0.")
    return found

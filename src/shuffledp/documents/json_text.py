"""Reading untrusted JSON: its size, depth and numbers are bounded before it is used.

All JSON from outside (plans, certificates, tasks, keys, ledgers, answers of servers) is read here.
A schema describes its fields (`shuffledp.documents.schema`).
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

from shuffledp.errors import ParameterError

MOST_JSON_BYTES = 16 << 20
MOST_JSON_DEPTH = 24
MOST_JSON_DIGITS = 20
"""The most digits of a whole number. Longer exact numbers are written as texts."""
MOST_FLOAT_TEXT = 40

_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
"""Matches a whole text at once, so that brackets inside it do not count; one pass."""


def read_json(text: str | bytes, what: str, most_bytes: int = MOST_JSON_BYTES) -> Any:
    """The data in a JSON text.

    Ensures: raises `ParameterError`, and nothing else, for a text that is too long, too deep, not
    JSON, not UTF-8, or that contains a number that is not finite or too long.
    """
    if len(text) > most_bytes:
        raise ParameterError(
            f"{what} is larger than the {most_bytes:,} bytes allowed; use a smaller one."
        )
    try:
        decoded = text if isinstance(text, str) else str(text, "utf-8")
        _check_depth(decoded, what)
        return json.loads(
            decoded, parse_int=_whole, parse_float=_real, parse_constant=_not_a_number
        )
    except ParameterError:
        raise
    except (ValueError, RecursionError):
        raise ParameterError(
            f"{what} is not valid JSON with finite numbers of at most {MOST_JSON_DIGITS} digits; "
            "use the complete file."
        ) from None


def read_json_file(path: str | Path, most_bytes: int = MOST_JSON_BYTES) -> Any:
    """The data in a JSON file; at most `most_bytes` of it are read."""
    try:
        with open(path, "rb") as file:
            text = file.read(most_bytes + 1)
    except OSError as error:
        raise ParameterError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    return read_json(text, str(path), most_bytes)


def _check_depth(text: str, what: str) -> None:
    if text.count("[") + text.count("{") <= MOST_JSON_DEPTH:
        return
    depth = 0
    for found in _BRACKETS.finditer(text):
        bracket = text[found.start()]
        if bracket in "[{":
            depth += 1
            if depth > MOST_JSON_DEPTH:
                raise ParameterError(
                    f"{what} is nested deeper than the {MOST_JSON_DEPTH} levels allowed; "
                    "use a file that shuffledp wrote."
                )
        elif bracket != '"':
            depth -= 1


def _whole(digits: str) -> int:
    if len(digits) > MOST_JSON_DIGITS + digits.startswith("-"):
        raise ValueError
    return int(digits)


def _real(text: str) -> float:
    number = float(text) if len(text) <= MOST_FLOAT_TEXT else math.inf
    if not math.isfinite(number):
        raise ValueError
    return number


def _not_a_number(_: str) -> NoReturn:
    raise ValueError


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8. (Arguments and file names that the system could not
    decode contain lone surrogates.)"""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

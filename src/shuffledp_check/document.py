"""The allowed JSON of a certificate: every field, its type and its bounds, before anything is
proved.

Whole numbers are JSON integers (no floats, no true or false), exact numbers are texts in lowest
terms without spaces, and there is no field beyond those listed here. Nothing is shared with
shuffledp, whose `verify` refuses the same files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

from shuffledp_check.bounded import Rejected

MOST_BYTES, MOST_DEPTH, MOST_DIGITS, MOST_FLOAT_TEXT = 16 << 20, 24, 20, 40
MOST_USERS, MOST_BUCKETS, MOST_GROUPS, MOST_COUNTED_GROUPS = 10**13, 10**6, 1_000, 10**5
MOST_SPARSE_BUCKETS, MOST_CUT = 1 << 26, 1_023
LONGEST = 65_535  # no cut, no largest value beyond this
LARGEST_BOUND, LARGEST_ODDS = 10**100, 10**30
Check = Callable[[Any], None]


# Reading


def read(text: bytes) -> Any:
    """The data in a JSON text; refuses one that is too long, too deep, or has numbers that are not
    finite or too long."""
    if len(text) > MOST_BYTES:
        raise Rejected("the file is too long")
    try:
        decoded = text.decode("utf-8")
        check_depth(decoded)
        return json.loads(decoded, parse_int=integer, parse_float=real, parse_constant=no_number)
    except (ValueError, RecursionError):
        raise Rejected("no JSON") from None


def check_depth(text: str) -> None:
    """Refuses brackets that are nested too deep; those inside texts do not count."""
    depth, inside, skip = 0, False, False
    for letter in text:
        if skip:
            skip = False
        elif inside:
            skip, inside = letter == "\\", letter != '"'
        elif letter in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise Rejected("nested too deep")
        elif letter in "]}":
            depth -= 1
        else:
            inside = letter == '"'


def integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise ValueError
    return int(digits)


def real(text: str) -> float:
    number = float(text) if len(text) <= MOST_FLOAT_TEXT else math.inf
    if not math.isfinite(number):
        raise ValueError
    return number


def no_number(_: str) -> NoReturn:
    raise ValueError


# Shapes


def refuse(wanted: str) -> NoReturn:
    raise Rejected(f"a field is not {wanted}")


def whole(least: int, most: int) -> Check:
    def check(data: Any) -> None:
        if type(data) is not int or not least <= data <= most:
            refuse(f"a whole number from {least} to {most}")

    return check


def rational(least: Fraction | int, most: Fraction | int) -> Check:
    """A text like "3" or "-1/3", in lowest terms."""

    def check(data: Any) -> None:
        parts = data.removeprefix("-").split("/") if type(data) is str else []
        plain = [part.isascii() and part.isdigit() and len(part) <= 400 for part in parts]
        if not 1 <= len(parts) <= 2 or not all(plain) or not int(parts[-1] if parts[1:] else 1):
            refuse("an exact number as text")
        number = Fraction(data)
        if str(number) != data or not least <= number <= most:
            refuse(f"an exact number in lowest terms from {least} to {most}")

    return check


def text(longest: int, shortest: int = 0, letters: str = "") -> Check:
    def check(data: Any) -> None:
        if type(data) is not str or not shortest <= len(data) <= longest:
            refuse(f"a text of {shortest} to {longest} characters")
        if any("\ud800" <= letter <= "\udfff" for letter in data):
            refuse("a text that can be written")
        if letters and not set(data) <= set(letters):
            refuse(f"made of {letters}")

    return check


def constant(*values: object) -> Check:
    def check(data: Any) -> None:
        if not any(type(data) is type(value) and data == value for value in values):
            refuse(f"one of {values}")

    return check


def listing(item: Check, least: int, most: int) -> Check:
    def check(data: Any) -> None:
        if type(data) is not list or not least <= len(data) <= most:
            refuse(f"a list of {least} to {most}")
        for one in data:
            item(one)

    return check


def record(fields: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    known = {**fields, **(optional or {})}

    def check(data: Any) -> None:
        if type(data) is not dict or not fields.keys() <= data.keys() <= known.keys():
            refuse(f"an object with {', '.join(known)}")
        for name, value in data.items():
            known[name](value)

    return check


def tagged(tag: str, kinds: dict[str, Check]) -> Check:
    def check(data: Any) -> None:
        kind = data.get(tag) if type(data) is dict else None
        if type(kind) is not str or kind not in kinds:
            refuse(f"an object whose {tag} is one of {', '.join(kinds)}")
        kinds[kind](data)

    return check


def label(largest: int) -> Check:
    a_text, a_number = text(1_000), whole(-(2**63), largest)
    return lambda data: a_text(data) if type(data) is str else a_number(data)


def proof(data: Any, depth: int = 8) -> None:
    """Texts, whole numbers, lists and objects, few and short."""
    if depth < 0 or type(data) not in (dict, list, str, int):
        refuse("made of texts and whole numbers")
    if isinstance(data, str) and len(data) > 2_000:
        refuse("short")
    if isinstance(data, dict | list):
        if len(data) > 50:
            refuse("short")
        for item in data.values() if isinstance(data, dict) else data:
            proof(item, depth - 1)


# What a certificate is made of

EPSILON = rational(Fraction(1, 10**9), 1_000)
PROBABILITY = rational(0, 1)
ODDS = rational(0, LARGEST_ODDS)
BOUND = rational(-LARGEST_BOUND, LARGEST_BOUND)
LABEL = label(2**63 - 1)
SIDE: dict[str, Check] = {
    "epsilon": EPSILON,
    "decay": PROBABILITY,
    "cut": whole(0, LONGEST),
    "muted_cut": whole(0, LONGEST),
    "odds": listing(ODDS, 1, LONGEST),
}
DIRECTION = record(SIDE)
BY_VALUE = record(SIDE, {"ratio": PROBABILITY})
"""A direction whose odds may depend on the user's value."""
BOUNDED: dict[str, Check] = {
    "kind": constant("bounded"),
    "users": whole(1, MOST_USERS),
    "largest": whole(1, LONGEST),
    "up": DIRECTION,
    "down": DIRECTION,
}
CELLS = {
    "paper": record(
        {
            "kind": constant("paper"),
            "users": whole(1, MOST_USERS),
            "largest": whole(1, 10**6),
            "up_epsilon": EPSILON,
            "down_epsilon": EPSILON,
            "mute_probability": PROBABILITY,
            "input_pairs": whole(0, 10**9),
            "flood_mean": rational(0, 10**100),
            "stand_in": whole(0, 10**6),
        }
    ),
    "bounded": record({**BOUNDED, "up": BY_VALUE, "down": BY_VALUE}),
    "pooled": record(
        {
            "kind": constant("pooled"),
            "users": whole(1, MOST_USERS),
            "buckets": whole(1, 10**6),
            "up": DIRECTION,
            "down": BY_VALUE,
        }
    ),
    "sparse": record(
        {
            "kind": constant("sparse"),
            "users": whole(1, MOST_USERS),
            "buckets": whole(1, MOST_SPARSE_BUCKETS),
            "cut": whole(0, MOST_CUT),
            "epsilon": EPSILON,
            **dict.fromkeys(("decay", "share", "data", "muted", "jump"), PROBABILITY),
        }
    ),
    "kept": record(
        {
            "kind": constant("kept"),
            "users": whole(1, MOST_USERS),
            "buckets": whole(1, MOST_SPARSE_BUCKETS),
            "cut": whole(0, MOST_CUT),
            "up": EPSILON,
            "down": EPSILON,
            **dict.fromkeys(("decay", "data", "muted", "jump"), PROBABILITY),
        }
    ),
    "shared": record(
        {
            **BOUNDED,
            "kind": constant("shared"),
            "together": record(
                {
                    "cells": whole(2, 24),
                    "others": whole(1, 1 << 24),
                    "decay": PROBABILITY,
                    "other_odds": ODDS,
                    "stray_odds": listing(ODDS, 1, 23),
                }
            ),
        }
    ),
}
"""The fields of each kind of cell."""
CELL = tagged("kind", CELLS)
DIRECTED = record({"cell": CELL, "down": EPSILON})


SENTENCE = text(500)


def certificate(protocols: dict[str, Check]) -> Check:
    """The fields of a certificate, given those of the protocol of each query."""
    return record(
        {
            "format": constant("shuffledp certificate 2"),
            "statement": SENTENCE,
            "epsilon": EPSILON,
            "loss": rational(0, 1_000),
            "rule": SENTENCE,
            "neighbours": SENTENCE,
            "users": whole(1, MOST_USERS),
            "protocol": tagged("query", protocols),
            "cells": listing(
                record(
                    {
                        "kind": text(40),
                        "copies": whole(1, MOST_SPARSE_BUCKETS),
                        "up": EPSILON,
                        "down": EPSILON,
                        "proof": proof,
                    }
                ),
                1,
                25,
            ),
        },
        {"version": text(40)},
    )

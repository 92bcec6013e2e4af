"""Conditions on columns, as `where=` takes them: a small language that evaluates no code.

    way = 'bus' and (age >= 18 or not member)
    day >= '2024-05-01' and way in ('bus', 'tram') and fare is not null

A condition compares columns with numbers, quoted texts, dates in quotes, true and false, or with
each other. Column names with characters other than letters, digits and _ go in backticks.
Comparisons with a missing value are neither true nor false, as in SQL; a row counts only if the
whole condition is true. `Meaning` evaluates a condition: on Arrow arrays with the operations of
`arrow_conditions.py`, on Spark with those of `engines/spark/conditions.py`, with the same result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, NoReturn

from shuffledp.errors import ParameterError

MOST_CHARACTERS, DEEPEST = 10_000, 50
HELP = (
    "write for example: way = 'bus' and age >= 18, or: day > '2024-05-01' and not (fare is null)."
)
TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
  | `(?P<quoted>[^`]+)`
  | (?P<name>[^\W\d]\w*)
  | (?P<sign><=|>=|==|!=|<>|[=<>(),-])
    )""",
    re.VERBOSE,
)
OPERATORS = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
WORDS = ("and", "or", "not", "in", "is", "null", "true", "false")

Literal = bool | int | float | str


class Name(NamedTuple):
    """A column, by its name."""

    name: str


@dataclass(frozen=True)
class Compared:
    """A column compared with a value or with another column."""

    column: Name
    operator: str
    other: Name | Literal


@dataclass(frozen=True)
class OneOf:
    """Whether a column's value is one of some values."""

    column: Name
    values: tuple[Literal, ...]


@dataclass(frozen=True)
class Missing:
    """Whether a column's value is missing."""

    column: Name


@dataclass(frozen=True)
class Not:
    """The opposite of a condition."""

    part: Condition


@dataclass(frozen=True)
class Joined:
    """Conditions joined by "and" or by "or"."""

    word: str
    parts: tuple[Condition, ...]


Condition = Compared | OneOf | Missing | Not | Joined


def parsed(text: str) -> Condition:
    """The condition in a text; raises `ParameterError` if it cannot be parsed."""
    if len(text) > MOST_CHARACTERS:
        raise ParameterError(f"where must have at most {MOST_CHARACTERS:,} characters.")
    return _Parser(list(_tokens(text))).whole()


def columns_of(condition: Condition) -> list[str]:
    """The columns that a condition names, each once."""
    match condition:
        case Joined(_, parts):
            found = [name for part in parts for name in columns_of(part)]
        case Not(part):
            found = columns_of(part)
        case Compared(column, _, Name(other)):
            found = [column.name, other]
        case _:
            found = [condition.column.name]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What the parts of a condition become in the library that has the columns."""

    both: Callable[[Any, Any], Any]
    either: Callable[[Any, Any], Any]
    opposite: Callable[[Any], Any]
    missing: Callable[[Name], Any]
    compared: Callable[[Name, str, Name | Literal], Any]

    def of(self, condition: Condition) -> Any:
        """True, false or null for each row."""
        match condition:
            case Joined(word, parts):
                return reduce(self.both if word == "and" else self.either, map(self.of, parts))
            case Not(part):
                return self.opposite(self.of(part))
            case Missing(column):
                return self.missing(column)
            case OneOf(column, values):
                return reduce(self.either, (self.compared(column, "=", one) for one in values))
            case Compared(column, operator, other):
                return self.compared(column, operator, other)


class _Token(NamedTuple):
    group: str
    text: str


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            _refuse()
        group = str(found.lastgroup)
        word = found[group]
        if group == "name" and word.lower() in WORDS:
            group, word = "word", word.lower()
        yield _Token("name" if group == "quoted" else group, word)
        at = found.end()


def _refuse() -> NoReturn:
    raise ParameterError(f"where is not a valid condition; {HELP}")


class _Parser:
    """Reads tokens from left to right: or binds least, then and, then not."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0

    def whole(self) -> Condition:
        found = self.alternatives()
        if self.at < len(self.tokens):
            _refuse()
        return found

    def next_is(self, group: str, *texts: str) -> bool:
        """Takes the next token if it is one of these."""
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.group == group and (not texts or token.text in texts):
                self.at += 1
                return True
        return False

    @property
    def last(self) -> str:
        return self.tokens[self.at - 1].text

    def alternatives(self) -> Condition:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ParameterError(f"where has more than {DEEPEST} levels of parentheses.")
        found = self.joined("or", lambda: self.joined("and", self.negated))
        self.depth -= 1
        return found

    def joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self.next_is("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def negated(self) -> Condition:
        turned = False
        while self.next_is("word", "not"):
            turned = not turned
        found = self.single()
        return Not(found) if turned else found

    def single(self) -> Condition:
        if self.next_is("sign", "("):
            found = self.alternatives()
            if not self.next_is("sign", ")"):
                _refuse()
            return found
        first = self.operand()
        if self.next_is("sign", *OPERATORS):
            return self.compared(first, OPERATORS[self.last])
        if not isinstance(first, Name):
            _refuse()
        return self.about(first)

    def compared(self, first: Name | Literal, operator: str) -> Condition:
        second = self.operand()
        if isinstance(first, Name):
            return Compared(first, operator, second)
        if not isinstance(second, Name):
            _refuse()
        return Compared(second, MIRRORED[operator], first)

    def about(self, column: Name) -> Condition:
        """What follows a column that is not compared: is null, in (…), or nothing."""
        if self.next_is("word", "is"):
            turned = self.next_is("word", "not")
            if not self.next_is("word", "null"):
                _refuse()
            return Not(Missing(column)) if turned else Missing(column)
        turned = self.next_is("word", "not")
        if self.next_is("word", "in"):
            return Not(self.listed(column)) if turned else self.listed(column)
        if turned:
            _refuse()
        return Compared(column, "=", True)

    def listed(self, column: Name) -> OneOf:
        if not self.next_is("sign", "("):
            _refuse()
        values: list[Literal] = []
        while True:
            value = self.operand()
            if isinstance(value, Name):
                _refuse()
            values.append(value)
            if self.next_is("sign", ")"):
                return OneOf(column, tuple(values))
            if not self.next_is("sign", ","):
                _refuse()

    def operand(self) -> Name | Literal:
        if self.next_is("name"):
            return Name(self.last)
        if self.next_is("text"):
            quote, inside = self.last[0], self.last[1:-1]
            return inside.replace(quote * 2, quote)
        if self.next_is("word", "true", "false"):
            return self.last == "true"
        sign = -1 if self.next_is("sign", "-") else 1
        if not self.next_is("number"):
            _refuse()
        return sign * _number(self.last)


def _number(text: str) -> int | float:
    """A number as it is written; a float beyond 64 bits."""
    number = float(text)
    if number == math.inf:
        raise ParameterError("where has a number that is too large; write a smaller one.")
    return int(text) if text.isdecimal() and number < 2**64 else number

"""Schemas of JSON from outside: bounds on every field, checked before anything is computed.

A schema is a tree of the classes below. Each checks a piece of data (`check`) and describes itself
as JSON Schema (`json_schema`), so every bound is written only once. The schema of a document is
next to the class that it describes; `docs/schema` is generated from all of them.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import show

MOST_RATIONAL_DIGITS = 400
"""The most digits of a numerator or denominator: enough for every float."""
_DIGITS = f"[0-9]{{1,{MOST_RATIONAL_DIGITS}}}"
RATIONAL_PATTERN = f"-?{_DIGITS}(/{_DIGITS})?"
_RATIONAL = re.compile(RATIONAL_PATTERN, re.ASCII)

JsonSchema = dict[str, Any]


class Schema(ABC):
    """A schema for a piece of JSON."""

    @abstractmethod
    def check(self, data: object, name: str) -> None:
        """Raises `ParameterError` unless the data is what this schema describes; `name` says
        where it is. The error never repeats the data."""

    @abstractmethod
    def json_schema(self) -> JsonSchema:
        """The same as JSON Schema, draft 2020-12."""


def _refuse(name: str, allowed: str) -> NoReturn:
    raise ParameterError(f"{name} must be {allowed}; ask its author for a corrected file.")


@dataclass(frozen=True)
class Whole(Schema):
    """A whole number in least..most."""

    least: int
    most: int

    def check(self, data: object, name: str) -> None:
        if type(data) is not int or not self.least <= data <= self.most:
            _refuse(name, f"a whole number from {self.least:,} to {self.most:,}")

    def json_schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Rational(Schema):
    """An exact number as text, "3" or "1/3", in least..most; no exponents, which could make a
    short text a number of millions of digits."""

    least: Fraction
    most: Fraction

    def check(self, data: object, name: str) -> None:
        if type(data) is not str or not _RATIONAL.fullmatch(data):
            _refuse(
                name,
                f'an exact number as text, like "1/3", of {MOST_RATIONAL_DIGITS} digits at most',
            )
        above, _, below = data.partition("/")
        numerator, denominator = int(above), int(below or "1")
        (low, low_unit), (high, high_unit) = (
            bound.as_integer_ratio() for bound in (self.least, self.most)
        )
        if (
            denominator == 0
            or numerator * low_unit < low * denominator
            or numerator * high_unit > high * denominator
        ):
            _refuse(name, self._allowed())

    def _allowed(self) -> str:
        return f"a number from {show(self.least)} to {show(self.most)}"

    def json_schema(self) -> JsonSchema:
        return {
            "type": "string",
            "pattern": f"^{RATIONAL_PATTERN}$",
            "description": f"{self._allowed()}, exact",
        }


@dataclass(frozen=True)
class Real(Schema):
    """A finite number, for forecasts and other figures that are shown but not computed with."""

    def check(self, data: object, name: str) -> None:
        if type(data) not in (int, float) or not math.isfinite(data):  # type: ignore[arg-type]
            _refuse(name, "a finite number")

    def json_schema(self) -> JsonSchema:
        return {"type": "number"}


class Pattern(NamedTuple):
    """The form of a text: a regular expression that means the same in Python and JavaScript, and a
    description in words."""

    regex: str
    words: str = ""


@dataclass(frozen=True)
class Text(Schema):
    """A text of `shortest` to `longest` characters, all of which UTF-8 can encode."""

    longest: int
    shortest: int = 0
    pattern: Pattern | None = None

    def check(self, data: object, name: str) -> None:
        if (
            type(data) is not str
            or not self.shortest <= len(data) <= self.longest
            or any("\ud800" <= letter <= "\udfff" for letter in data)
        ):
            _refuse(name, f"a text of {self.shortest} to {self.longest:,} characters")
        if self.pattern is not None and not re.fullmatch(self.pattern.regex, data, re.ASCII):
            _refuse(name, self.pattern.words or f"a text of the form {self.pattern.regex}")

    def json_schema(self) -> JsonSchema:
        form = {} if self.pattern is None else {"pattern": f"^({self.pattern.regex})$"}
        return {"type": "string", "minLength": self.shortest, "maxLength": self.longest, **form}


@dataclass(frozen=True)
class OneOf(Schema):
    """One of these texts."""

    texts: tuple[str, ...]

    def check(self, data: object, name: str) -> None:
        if type(data) is not str or data not in self.texts:
            _refuse(name, " or ".join(repr(text) for text in self.texts))

    def json_schema(self) -> JsonSchema:
        return {"enum": list(self.texts)}


@dataclass(frozen=True)
class Flag(Schema):
    """True or false."""

    def check(self, data: object, name: str) -> None:
        if type(data) is not bool:
            _refuse(name, "true or false")

    def json_schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Nothing(Schema):
    """JSON's null."""

    def check(self, data: object, name: str) -> None:
        if data is not None:
            _refuse(name, "null")

    def json_schema(self) -> JsonSchema:
        return {"type": "null"}


@dataclass(frozen=True)
class Either(Schema):
    """Data that matches one of these schemas, which is chosen by the type of the data."""

    schemas: tuple[Schema, ...]

    def check(self, data: object, name: str) -> None:
        allowed = []
        for schema in self.schemas:
            try:
                return schema.check(data, name)
            except ParameterError as error:
                allowed.append(str(error).partition(" must be ")[2].partition(";")[0])
        _refuse(name, ", or ".join(allowed))

    def json_schema(self) -> JsonSchema:
        return {"anyOf": [schema.json_schema() for schema in self.schemas]}


@dataclass(frozen=True)
class Listing(Schema):
    """A list of `least` to `most` items of one kind."""

    item: Schema
    least: int
    most: int

    def check(self, data: object, name: str) -> None:
        if type(data) is not list or not self.least <= len(data) <= self.most:
            _refuse(name, f"a list of {self.least:,} to {self.most:,} items")
        for item in data:
            self.item.check(item, f"each of {name}")

    def json_schema(self) -> JsonSchema:
        items = self.item.json_schema()
        return {"type": "array", "items": items, "minItems": self.least, "maxItems": self.most}


@dataclass(frozen=True)
class Record(Schema):
    """An object with exactly these fields."""

    fields: Mapping[str, Schema]
    optional: Mapping[str, Schema] = field(default_factory=dict)
    others: Schema | None = None
    """The schema of all other fields; None if there may be none."""

    def check(self, data: object, name: str) -> None:
        if type(data) is not dict:
            _refuse(name, "an object")
        missing = [known for known in self.fields if known not in data]
        if missing:
            raise ParameterError(
                f"{name} has no {missing[0]!r}; ask its author for a corrected file."
            )
        known = {**self.fields, **self.optional}
        for key, value in data.items():
            schema = known.get(key, self.others)
            if schema is None:
                raise ParameterError(
                    f"{name} has a field that this version does not know; "
                    f"there are {', '.join(known)}."
                )
            schema.check(value, f"{name}.{key}" if key in known else f"each of {name}")

    def json_schema(self) -> JsonSchema:
        known = {**self.fields, **self.optional}
        return {
            "type": "object",
            "properties": {key: schema.json_schema() for key, schema in known.items()},
            "required": list(self.fields),
            "additionalProperties": False if self.others is None else self.others.json_schema(),
        }


@dataclass(frozen=True)
class Tagged(Schema):
    """An object of one of several kinds, which one field names."""

    tag: str
    kinds: Mapping[str, Record]

    def check(self, data: object, name: str) -> None:
        if type(data) is not dict:
            _refuse(name, "an object")
        tag = data.get(self.tag)
        if type(tag) is not str or tag not in self.kinds:
            _refuse(f"{name}.{self.tag}", " or ".join(repr(kind) for kind in self.kinds))
        self.kinds[tag].check(data, name)

    def json_schema(self) -> JsonSchema:
        return {"oneOf": [record.json_schema() for record in self.kinds.values()]}


@dataclass(frozen=True, kw_only=True)
class Anything(Schema):
    """Any JSON of bounded depth and size, for parts that are shown or compared, not computed
    with."""

    depth: int = 8
    longest: int = 2_000
    most_items: int = 10_000
    exact: bool = False
    """Whether only texts, whole numbers, lists and objects are allowed."""

    def check(self, data: object, name: str) -> None:
        self._walk(data, name, self.depth)

    def _walk(self, data: object, name: str, depth: int) -> None:
        if depth < 0:
            _refuse(name, f"nested at most {self.depth} levels deep")
        if isinstance(data, dict | list):
            if len(data) > self.most_items:
                _refuse(name, f"made of parts with at most {self.most_items:,} items")
            for item in data.values() if isinstance(data, dict) else data:
                self._walk(item, name, depth - 1)
        elif isinstance(data, str) and len(data) > self.longest:
            _refuse(name, f"made of texts of at most {self.longest:,} characters")
        elif self.exact and type(data) not in (str, int):
            _refuse(name, "made of texts and whole numbers")
        elif isinstance(data, float) and not math.isfinite(data):
            _refuse(name, "made of finite numbers")

    def json_schema(self) -> JsonSchema:
        return {"description": f"nested at most {self.depth} levels deep"}


ONE_LINE = Pattern(
    r"[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*",
    "a text on one line, without control characters",
)
"""Texts that are shown to people: no control characters, and nothing that reverses the writing
direction."""


def hex_text(size: int) -> Text:
    """The text of `size` bytes in lower-case hexadecimal digits."""
    return Text(2 * size, 2 * size, Pattern(f"[0-9a-f]{{{2 * size}}}"))


HASH_TEXT = hex_text(32)
"""A SHA-256 hash or a 32-byte key."""

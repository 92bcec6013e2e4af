"""What the cells of a column of texts hold: true/false, numbers, dates or texts.

Each different text is looked at once, so a column with few different answers costs little however
many rows it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shuffledp.data.arrays import ColumnType

TRUE_WORDS = ("true", "wahr", "ja", "yes", "oui", "vrai")
FALSE_WORDS = ("false", "falsch", "nein", "no", "non", "faux")
MOSTLY = 0.8
"""A column is of a type if at least this share of its cells is; the others are named."""
SIGN, EXPONENT, SPACES = r"^[+-]?", r"([eE][+-]?[0-9]+)?$", " \u00a0\u202f'"
LONGEST_WHOLE = 18
"""Longer whole numbers do not fit into 64 bits."""
DECIMALS = (".", ",")
SAMPLE, FEW = 10_000, 2_000
"""A column with more than FEW different texts among its first SAMPLE rows has too many to list."""
LEADING_ZERO = r"^[+-]?0[0-9]+$"
"""A code, such as a postcode: as a number it would lose its first digit."""
TIME = r"(?:[ T]([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?))?"
DATES = {
    "year-month-day": (rf"^([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}}){TIME}$", (1, 2, 3)),
    "day.month.year": (rf"^([0-9]{{1,2}})\.([0-9]{{1,2}})\.([0-9]{{4}}){TIME}$", (3, 2, 1)),
    "day/month/year": (rf"^([0-9]{{1,2}})/([0-9]{{1,2}})/([0-9]{{4}}){TIME}$", (3, 2, 1)),
    "month/day/year": (rf"^([0-9]{{1,2}})/([0-9]{{1,2}})/([0-9]{{4}}){TIME}$", (3, 1, 2)),
}
"""How dates are written: the pattern, and where year, month and day are in it."""
HOLDS: dict[ColumnType, str] = {
    "truth": "yes/no",
    "whole": "whole numbers",
    "real": "numbers with decimals",
    "date": "dates",
    "time": "dates with a time",
    "text": "texts",
}


@dataclass(frozen=True, kw_only=True)
class Coded:
    """A column of texts: the different ones, and which of them each row holds (-1: empty)."""

    texts: Any
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, column: Any) -> Coded:
        """The column without spaces around texts; a cell of spaces alone is empty."""
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if len(pc.unique(whole.slice(0, SAMPLE))) > FEW:  # nearly all differ: look at each row
            texts = _trimmed(whole)
            codes = np.arange(len(texts))
            return cls(texts=texts, codes=np.where(np.asarray(texts.is_null()), -1, codes))
        coded = whole.dictionary_encode()
        again = _trimmed(coded.dictionary).dictionary_encode()
        places = np.append(_numbers(again.indices), -1)
        return cls(texts=again.dictionary, codes=places[_numbers(coded.indices)])

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows hold each text."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.texts))

    @property
    def empty(self) -> int:
        """How many rows are empty."""
        return int((self.codes < 0).sum())

    def spread(self, values: Any) -> Any:
        """One value for each row, from one for each text."""
        places = pa.array(self.codes, mask=self.codes < 0)
        return values.take(places)


def _trimmed(texts: Any) -> Any:
    trimmed = pc.utf8_trim_whitespace(texts.cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _numbers(indices: Any) -> NDArray[np.int64]:
    """Indices of a dictionary, with -1 for missing ones."""
    return np.asarray(pc.fill_null(indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, kw_only=True)
class Typed:
    """What a column holds."""

    holds: ColumnType
    values: Any
    """One value for each different text; null where the text does not fit. None for texts."""
    written: str = ""
    """How numbers or dates are written."""

    @property
    def words(self) -> str:
        """The type, and how it is written, for the page."""
        return f"{HOLDS[self.holds]}{f' ({self.written})' if self.written else ''}"

    def unfit(self, coded: Coded) -> NDArray[np.int64]:
        """The rows whose text does not fit the type."""
        if self.values is None:
            return np.zeros(0, np.int64)
        wrong = np.append(np.asarray(self.values.is_null()), False)
        return np.flatnonzero(wrong[coded.codes])


def decimal_sign(columns: Sequence[Coded], otherwise: str) -> str:
    """The decimal sign of a file, by the numbers that can be read in one way only."""
    comma, point = (
        sum(_sum(_matches(one.texts, pattern), one.counts) for one in columns)
        for pattern in (_certain(","), _certain("."))
    )
    return otherwise if comma == point else "," if comma > point else "."


def _certain(sign: str) -> str:
    """A number whose sign before the decimals cannot be one between thousands."""
    other = "." if sign == "," else ","
    two_signs = rf"[0-9]{{1,3}}(?:[{other}][0-9]{{3}})+[{sign}][0-9]+"
    return rf"{SIGN}(?:[0-9]+[{sign}](?:[0-9]{{1,2}}|[0-9]{{4,}})|{two_signs}|0[{sign}][0-9]+)$"


def typed(coded: Coded, decimal: str) -> Typed:
    """The type that all texts of a column have, or nearly all."""
    counts = coded.counts
    total, best, most = int(counts.sum()), Typed(holds="text", values=None), 0
    if not total or _sum(_matches(coded.texts, LEADING_ZERO), counts):
        return best
    for reader in _readers(decimal):
        first = reader(coded.texts.slice(0, SAMPLE))
        if first is None or first.values.null_count > len(first.values) // 2:
            continue
        found = reader(coded.texts)
        assert found is not None
        fitting = _sum(np.asarray(found.values.is_valid()), counts)
        if fitting == total:
            return found
        if found.holds != "truth" and fitting >= MOSTLY * total and fitting > most:
            best, most = found, fitting
    return best


Reader = Callable[[Any], Typed | None]


def _readers(decimal: str) -> Iterator[Reader]:
    """Every way to read texts, the most special first."""
    yield _truths
    for sign in sorted(DECIMALS, key=lambda one: one != decimal):
        for holds in ("whole", "real"):
            yield partial(_numbers_of, holds, sign)
    for written, (pattern, places) in DATES.items():
        yield partial(_dates, written, pattern, places)


def _truths(texts: Any) -> Typed:
    lower = pc.utf8_lower(texts)
    true, false = (pc.is_in(lower, pa.array(words)) for words in (TRUE_WORDS, FALSE_WORDS))
    values = pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))
    return Typed(holds="truth", values=values)


def _numbers_of(holds: ColumnType, sign: str, texts: Any) -> Typed:
    other = "." if sign == "," else ","
    digits = rf"(?:[0-9]+|[0-9]{{1,3}}(?:[{other}{SPACES}][0-9]{{3}})+)"
    whole = holds == "whole"
    pattern = rf"(?:{digits}(?:[{sign}][0-9]*)?|[{sign}][0-9]+){EXPONENT}"
    fits = _matches(texts, rf"{SIGN}{digits}$" if whole else SIGN + pattern)
    if whole:
        fits &= np.asarray(pc.fill_null(pc.less(pc.utf8_length(texts), LONGEST_WHOLE), False))
    some = pc.if_else(pa.array(fits), texts, pa.scalar(None, pa.string()))
    bare = pc.replace_substring_regex(some, rf"[{other}{SPACES}]|^[+]", "")
    numbers = pc.replace_substring(bare, sign, ".").cast(pa.int64() if whole else pa.float64())
    written = "" if whole else f"decimal {'comma' if sign == ',' else 'point'}"
    return Typed(holds=holds, values=numbers, written=written)


def _dates(written: str, pattern: str, places: tuple[int, int, int], texts: Any) -> Typed | None:
    fits = _matches(texts, pattern)
    if not fits.any():
        return None
    year, month, day = places
    some = pc.if_else(pa.array(fits), texts, pa.scalar(None, pa.string()))
    iso = pc.replace_substring_regex(some, pattern, rf"\{year}-0\{month}-0\{day} \4")
    iso = pc.replace_substring_regex(iso, "-0([0-9]{2})", r"-\1")
    iso = pc.replace_substring_regex(pc.utf8_trim_whitespace(iso), " ([0-9]):", r" 0\1:")
    dated = pc.utf8_slice_codeunits(iso, 0, 10)
    days = pc.strptime(dated, format="%Y-%m-%d", unit="s", error_is_null=True)
    real = pc.equal(pc.strftime(days, format="%Y-%m-%d"), dated)  # no 31 February
    days = pc.if_else(real, days, pa.scalar(None, days.type))
    if not pc.any(pc.greater(pc.utf8_length(iso), 10)).as_py():
        return Typed(holds="date", values=days.cast(pa.date32()), written=written)
    clock = pc.utf8_slice_codeunits(iso, 11)
    clock = pc.if_else(pc.equal(clock, ""), "00:00:00", clock)
    clock = pc.if_else(pc.equal(pc.utf8_length(clock), 5), _joined(clock, ":00"), clock)
    whole = pc.binary_join_element_wise(pc.strftime(days, format="%Y-%m-%d"), clock, " ")
    times = pc.strptime(whole, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)
    return Typed(holds="time", values=times, written=written)


def _joined(texts: Any, end: str) -> Any:
    return pc.binary_join_element_wise(texts, pa.scalar(end), "")


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    found = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


def _sum(chosen: NDArray[np.bool_], counts: NDArray[np.int64]) -> int:
    return int(counts[chosen].sum())

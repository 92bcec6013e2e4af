"""What the cells of a column of texts hold: true/false, numbers, dates or texts.

A column is counted part by part, so a file of any length needs little memory. Within a part, each
different text is looked at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

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
SAMPLE = 10_000
"""Types that fit less than half of the first texts are not tried on the rest."""
MOST_DIFFERENT = 40
"""A column with more different texts has too many to list as answers."""
LEADING_ZERO = r"^[+-]?0[0-9]+$"
"""A code, such as a postcode: as a number it would lose its first digit."""
TIME = r"[ T]([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)"
DATES = {
    "year-month-day": (r"^([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})", (1, 2, 3)),
    "day.month.year": (r"^([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})", (3, 2, 1)),
    "day/month/year": (r"^([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})", (3, 2, 1)),
    "month/day/year": (r"^([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})", (3, 1, 2)),
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


def trimmed(texts: Any) -> Any:
    """Texts without spaces around them; one of spaces alone is null."""
    found = pc.utf8_trim_whitespace(texts.cast(pa.string()))
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)


class Reader(NamedTuple):
    """A way to read texts as values of a type."""

    holds: ColumnType
    written: str
    """How numbers or dates are written, for the page."""
    fits: Callable[[Any], NDArray[np.bool_]]
    """Which texts are such values."""
    values: Callable[[Any], Any]
    """The values of the texts; null where one does not fit."""

    @property
    def words(self) -> str:
        """The type, and how it is written, for the page."""
        return f"{HOLDS[self.holds]}{f' ({self.written})' if self.written else ''}"

    def column(self, texts: Any) -> Any:
        """The values of a column of texts; each different text is read once."""
        coded = texts.dictionary_encode()
        return self.values(coded.dictionary).take(coded.indices)


class Column:
    """What is known about a column after some of its parts."""

    def __init__(self, readers: Iterable[str] = ()) -> None:
        self.rows = self.empty = 0
        self.different: Counter[str] | None = Counter()
        """How many rows hold each text; None if there are too many different ones."""
        self.decimals = dict.fromkeys(DECIMALS, 0)
        """How many numbers have this decimal sign for certain."""
        self._untried: tuple[str, ...] | None = tuple(readers)
        self._fitting: dict[str, int] = {}
        self._unfit: dict[str, tuple[int, str]] = {}
        """The first row with a text that does not fit, for each way to read."""
        self._codes = False

    def add(self, texts: Any) -> None:
        """Counts the next part of the column; empty cells are null."""
        counted = texts.drop_null().value_counts()
        different, counts = counted.field("values"), counted.field("counts").to_numpy()
        if len(different):
            self._count(different, counts)
            self._choose_readers(different)
            self._try_readers(texts, different, counts)
        self.empty += texts.null_count
        self.rows += len(texts)

    def _count(self, different: Any, counts: NDArray[np.int64]) -> None:
        if self.different is not None and len(different) <= MOST_DIFFERENT:
            self.different.update(dict(zip(different.to_pylist(), counts.tolist(), strict=True)))
        if len(different) > MOST_DIFFERENT or len(self.different or ()) > MOST_DIFFERENT:
            self.different = None

    def _choose_readers(self, different: Any) -> None:
        """Keeps the ways to read that fit half of the first texts."""
        if self._untried is None:
            return
        some = different.slice(0, SAMPLE)
        kept = [name for name in self._untried if 2 * READERS[name].fits(some).sum() >= len(some)]
        self._fitting, self._untried = dict.fromkeys(kept, 0), None

    def _try_readers(self, texts: Any, different: Any, counts: NDArray[np.int64]) -> None:
        if any(READERS[name].holds in ("whole", "real") for name in self._fitting):
            self._codes |= bool(_matches(different, LEADING_ZERO).any())
            for sign in DECIMALS:
                self.decimals[sign] += int(counts[_matches(different, _certain(sign))].sum())
        for name in self._fitting:
            fits = READERS[name].fits(different)
            self._fitting[name] += int(counts[fits].sum())
            if name not in self._unfit and not fits.all():
                wrong = pc.is_in(texts, different.filter(pa.array(~fits)))
                row = pc.index(wrong, True).as_py()
                self._unfit[name] = (self.rows + row, str(texts[row]))

    @property
    def filled(self) -> int:
        """How many rows are not empty."""
        return self.rows - self.empty

    def reader(self, decimal: str) -> str:
        """The way to read that fits all texts, or nearly all; empty if they are just texts."""
        best, most = "", 0
        if self._codes:
            return best
        for name in sorted(self._fitting, key=lambda one: one.endswith(_other(decimal))):
            fitting = self._fitting[name]
            if fitting == self.filled:
                return name
            if name != "truth" and fitting >= MOSTLY * self.filled and fitting > most:
                best, most = name, fitting
        return best

    def odd(self, reader: str, first_row: int) -> dict[str, Any] | None:
        """How many texts do not fit, and the first of them with its row."""
        if reader not in self._unfit:
            return None
        row, text = self._unfit[reader]
        count = self.filled - self._fitting[reader]
        return {"count": count, "row": first_row + row, "text": text[:60]}


def decimal_sign(columns: Iterable[Column], otherwise: str) -> str:
    """The decimal sign of a file, by the numbers that can be read in one way only."""
    found = Counter({sign: 0 for sign in DECIMALS})
    for one in columns:
        found.update(one.decimals)
    (first, most), (_, next_most) = found.most_common(2)
    return otherwise if most == next_most else first


def _other(sign: str) -> str:
    return "." if sign == "," else ","


def _certain(sign: str) -> str:
    """A number whose sign before the decimals cannot be one between thousands."""
    two_signs = rf"[0-9]{{1,3}}(?:[{_other(sign)}][0-9]{{3}})+[{sign}][0-9]+"
    return rf"{SIGN}(?:[0-9]+[{sign}](?:[0-9]{{1,2}}|[0-9]{{4,}})|{two_signs}|0[{sign}][0-9]+)$"


def _truths(texts: Any) -> Any:
    lower = pc.utf8_lower(texts)
    true, false = (pc.is_in(lower, pa.array(words)) for words in (TRUE_WORDS, FALSE_WORDS))
    return pc.if_else(pc.or_(true, false), true, pa.scalar(None, pa.bool_()))


def _is_number(whole: bool, sign: str, texts: Any) -> NDArray[np.bool_]:
    digits = rf"(?:[0-9]+|[0-9]{{1,3}}(?:[{_other(sign)}{SPACES}][0-9]{{3}})+)"
    if not whole:
        pattern = rf"(?:{digits}(?:[{sign}][0-9]*)?|[{sign}][0-9]+){EXPONENT}"
        return _matches(texts, SIGN + pattern)
    short = pc.fill_null(pc.less(pc.utf8_length(texts), LONGEST_WHOLE), False)
    return _matches(texts, rf"{SIGN}{digits}$") & np.array(short, np.bool_)


def _numbers(whole: bool, sign: str, texts: Any) -> Any:
    fits = pa.array(_is_number(whole, sign, texts))
    some = pc.if_else(fits, texts, pa.scalar(None, pa.string()))
    bare = pc.replace_substring_regex(some, rf"[{_other(sign)}{SPACES}]|^[+]", "")
    return pc.replace_substring(bare, sign, ".").cast(pa.int64() if whole else pa.float64())


def _dates(pattern: str, places: tuple[int, int, int], texts: Any) -> Any:
    """Days, of texts whose beginning is a date; null for 31 February."""
    some = pc.if_else(pa.array(_matches(texts, pattern)), texts, pa.scalar(None, pa.string()))
    year, month, day = places
    iso = pc.replace_substring_regex(some, pattern + ".*$", rf"\{year}-0\{month}-0\{day}")
    iso = pc.replace_substring_regex(iso, "-0([0-9]{2})", r"-\1")
    days = pc.strptime(iso, format="%Y-%m-%d", unit="s", error_is_null=True)
    real = pc.equal(pc.strftime(days, format="%Y-%m-%d"), iso)
    return pc.if_else(real, days, pa.scalar(None, days.type))


def _days(pattern: str, places: tuple[int, int, int], texts: Any) -> Any:
    return _dates(pattern + "$", places, texts).cast(pa.date32())


def _times(pattern: str, places: tuple[int, int, int], texts: Any) -> Any:
    """Dates of which some have a time; the others are at midnight."""
    days = _dates(rf"{pattern}(?:{TIME})?$", places, texts)
    timed = pc.match_substring_regex(texts, rf"{pattern}{TIME}$")
    clock = pc.if_else(
        timed, pc.replace_substring_regex(texts, rf"{pattern}{TIME}$", r"\4:00"), "00:00:00"
    )
    clock = pc.replace_substring_regex(clock, "^([0-9]):", r"0\1:")
    whole = pc.binary_join_element_wise(
        pc.strftime(days, format="%Y-%m-%d"), pc.utf8_slice_codeunits(clock, 0, 8), " "
    )
    return pc.strptime(whole, format="%Y-%m-%d %H:%M:%S", unit="s", error_is_null=True)


def _fit(values: Callable[[Any], Any], texts: Any) -> NDArray[np.bool_]:
    return np.asarray(values(texts).is_valid())


def _all_readers() -> dict[str, Reader]:
    """Every way to read texts by its name, the most special first; those of numbers end with their
    decimal sign."""
    found = {"truth": Reader("truth", "", partial(_fit, _truths), _truths)}
    for sign in DECIMALS:
        written = f"decimal {'comma' if sign == ',' else 'point'}"
        for holds, words in (("whole", ""), ("real", written)):
            how = (holds == "whole", sign)
            found[holds + sign] = Reader(
                holds,  # type: ignore[arg-type]
                words,
                partial(_is_number, *how),
                partial(_numbers, *how),
            )
    for written, date in DATES.items():
        for holds, values in (("date", partial(_days, *date)), ("time", partial(_times, *date))):
            found[f"{holds} {written}"] = Reader(
                holds,  # type: ignore[arg-type]
                written,
                partial(_fit, values),
                values,
            )
    return found


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    found = pc.fill_null(pc.match_substring_regex(texts, pattern), False)
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


READERS = _all_readers()

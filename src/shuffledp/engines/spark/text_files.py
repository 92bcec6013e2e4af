"""CSV files on Spark, read as on one machine: all values of a column determine its type.

Spark's inference differs: it treats other words as missing, unreadable lines as empty, and dates as
times. So every value is read as text, and the requested column gets its type by the rules of
`docs/data.md`. A value that looks like a number or a date but does not follow these rules is
refused, because one machine might read it differently.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any

from shuffledp.data.arrays import MISSING, ColumnType
from shuffledp.data.headers import (
    OPEN_QUOTE,
    THOUSANDS,
    UNCLEAR_POINTS,
    looks_like_value,
    warn_of_header,
)
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.errors import DataError, ParameterError

JAVA_ENCODINGS = {
    "utf-8": "UTF-8",
    "iso8859-1": "ISO-8859-1",
    "ascii": "US-ASCII",
    "utf-16": "UTF-16",
    "utf-32": "UTF-32",
}
"""Encodings that Spark reads, by their Python names."""
TYPES: dict[str, tuple[ColumnType, str]] = {
    "bigint": ("whole", r"-?[0-9]+"),
    "boolean": ("truth", r"true|True|TRUE|false|False|FALSE"),
    "date": ("date", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "timestamp_ntz": (
        "time",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}",
    ),
    "double": ("real", r"-?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?"),
}
"""The kind and the form of values of each Spark type, in the order in which types are tried."""
UNCLEAR = (
    r"(?i)\s*([-+]?[0-9.][-0-9.,:/+eETZ\s]*|[-+]?(inf|infinity|nan)|0x[0-9a-f]+|true|false)\s*"
)
"""The form of a value that might not be a text."""
DECIMAL_COMMA = "^[+-]?[0-9.]+,[0-9]+$"
UNREADABLE = (
    "Spark cannot read the file as CSV; check that it is complete and that all its lines have as "
    "many columns as the first."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class TextTable:
    """A CSV file as a Spark DataFrame of texts, whose columns have no types yet."""

    frame: Any
    lines: Any
    """The unchanged lines of the file."""
    delimiter: str
    columns: list[str]
    """The names of its columns in the header line; in `frame`, Spark renames those that differ at
    most in capital letters."""

    def own(self, name: str) -> str:
        """A column, by its name in the header line, as SQL takes it."""
        return quoted(self.frame.columns[self.columns.index(name)])

    def typed(self, name: str, *, as_text: bool, user: str | None = None) -> Any:
        """This column as `value`, in the type that its values look like (or as texts), with null
        for missing ones; also the column of user ids as `user`, as texts, if one is named."""
        missing = ", ".join(f"'{word}'" for word in _missing_words())
        shown = {"value": self.own(name)} | ({} if user is None else {"user": self.own(user)})
        texts = self.frame.selectExpr(
            *(f"if({one} in ({missing}), null, {one}) as {new}" for new, one in shown.items())
        )
        with spark_failures(UNREADABLE):
            self._check(texts)
            self._refuse_open_quote()
            kind = "string" if as_text else _kind(texts)
            if TYPES.get(kind, ("text",))[0] == "real" and self.delimiter != ",":
                self._refuse_thousands(texts)
            self._warn_of_header(name, kind, texts)
        return texts.withColumn("value", texts["value"].cast(kind))

    def _refuse_open_quote(self) -> None:
        """Refuses a file whose last value seems to contain all lines after a quotation mark that
        is never closed: their number is odd, none is last, and this value has a line break."""
        odd = "sum(length(value) - length(replace(value, '\"', ''))) % 2 = 1"
        lines = self.lines.filter("value rlike '[^\\0]'")  # lines of UTF-16 have bytes of 0
        unclosed = _files(lines, "value", f"{odd} and not max_by(value, place) rlike '\"\\0*$'")
        broken = "max_by(value, place) rlike '[\r\n]'"
        if unclosed and unclosed & _files(self.frame, quoted(self.frame.columns[-1]), broken):
            raise DataError(OPEN_QUOTE)

    def _refuse_thousands(self, texts: Any) -> None:
        """Refuses numbers whose points may separate thousands, in a file whose other columns have
        decimal commas."""
        pointed = texts.filter("contains(value, '.')")
        if pointed.isEmpty() or not pointed.filter(f"not value rlike '{THOUSANDS}'").isEmpty():
            return
        names = self.frame.columns
        commas = " or ".join(f"{quoted(name)} rlike '{DECIMAL_COMMA}'" for name in names)
        if not self.frame.filter(commas).isEmpty():
            raise DataError(UNCLEAR_POINTS)

    @staticmethod
    def _warn_of_header(name: str, kind: str, texts: Any) -> None:
        """Warns if the column's name looks like one of its values."""
        from pyspark.sql.functions import col

        if kind in TYPES:
            like_data = looks_like_value(name, TYPES[kind][0])
        else:
            like_data = not texts.filter(col("value") == name).isEmpty()
        if like_data:
            warn_of_header("the file")

    def _check(self, texts: Any) -> None:
        """Refuses what Spark would silently ignore: bytes that are not text and, in a file with one
        column, an empty line, which is a row without a value."""
        broken = " or ".join(f"contains({name}, '\ufffd')" for name in texts.columns)
        if not texts.filter(broken).isEmpty():
            raise DataError(
                "The file has text that is not UTF-8 (or not in the encoding you named); "
                "name its encoding with --encoding, for example latin-1."
            )
        if len(self.columns) == 1 and not self.lines.filter("value = ''").isEmpty():
            raise DataError(MISSING)


def quoted(name: str) -> str:
    """A column's name as SQL takes it."""
    return f"`{name.replace('`', '``')}`"


def _files(frame: Any, value: str, wanted: str) -> set[str]:
    """The files in which an aggregate of a column, as `value`, and of its `place`s is true."""
    from pyspark.sql.functions import expr

    place, file = "monotonically_increasing_id() as place", "input_file_name() as file"
    files = frame.selectExpr(f"{value} as value", place, file).groupBy("file")
    found = files.agg(expr(wanted).alias("wanted")).filter("wanted").collect()
    return {row.file for row in found}


def read_text_table(session: Any, source: str, delimiter: str, encoding: str) -> TextTable:
    """A CSV file with a header line; quoted values may contain line breaks."""
    form: dict[str, Any] = {"sep": delimiter, "encoding": _java_encoding(encoding), "escape": '"'}
    form |= {"multiLine": True, "inferSchema": False}
    frame = session.read.csv(source, header=True, mode="FAILFAST", **form)
    first = session.read.csv(source, header=False, **form).first()
    if first is None:
        raise DataError(f"{source} is empty; it needs a header line and a line per user.")
    names = [own or other for own, other in zip(first, frame.columns, strict=True)]
    lines = session.read.text(source)
    return TextTable(frame=frame, lines=lines, delimiter=delimiter, columns=names)


def _java_encoding(name: str) -> str:
    """Spark's name of the encoding; Spark supports only a few."""
    try:
        return JAVA_ENCODINGS[codecs.lookup(name).name]
    except (LookupError, KeyError):
        raise ParameterError(
            f"Spark does not read the encoding {name!r}; it reads {', '.join(JAVA_ENCODINGS)}."
        ) from None


def _missing_words() -> list[str]:
    """The words that mean missing values on one machine."""
    import pyarrow.csv as pc

    return list(pc.ConvertOptions().null_values)


def _kind(texts: Any) -> str:
    """Spark's name of the first type that fits all values; string if there is none."""
    from pyspark.sql.functions import col, count_if, expr

    value = col("value")
    fits = {
        kind: value.rlike(f"^({pattern})$") & expr(f"try_cast(value as {kind}) is not null")
        for kind, (_, pattern) in TYPES.items()
    }
    in_64_bits = expr(f"coalesce(try_cast(value as decimal(38)) < {2**64}, false)")
    fits["unsigned"] = value.rlike("^[0-9]+$") & in_64_bits
    fits["unclear"] = value.rlike(f"^({UNCLEAR})$")
    others = [count_if(~test).alias(kind) for kind, test in fits.items()]
    found = texts.filter("value is not null").agg(*others).collect()[0].asDict()
    first = next((kind for kind, others in found.items() if not others), "string")
    if first == "double" and not found["unsigned"]:  # one machine has a type for them
        raise DataError(
            "The column has whole numbers of 64 bits without a sign, which Spark would round; "
            "rewrite them as texts or as smaller numbers."
        )
    if first == "unclear":
        raise DataError(
            "The column's values look like numbers, dates or times, but not all are written like "
            "12, 0.5, true, 2020-01-31 or 2020-01-31T12:00:00; rewrite them, or use Parquet."
        )
    return str(first)

"""A column of a Spark DataFrame: read, compared and grouped in the JVM."""

from __future__ import annotations

import codecs
import datetime as dt
from pathlib import PurePosixPath
from typing import Any

from shuffledp.errors import DataError, ParameterError
from shuffledp.queries.arrays import MISSING
from shuffledp.queries.columns import FileFormat, known_column
from shuffledp.queries.query import ColumnType, Grouping
from shuffledp.queries.values import comparable
from shuffledp.spark.errors import spark_failures

KINDS: dict[str, ColumnType] = {
    "boolean": "truth",
    "byte": "whole",
    "short": "whole",
    "integer": "whole",
    "long": "whole",
    "float": "real",
    "double": "real",
    "decimal": "real",
    "string": "text",
    "char": "text",
    "varchar": "text",
    "date": "date",
    "timestamp": "instant",
    "timestamp_ntz": "time",
}
"""What a column holds, by Spark's name of its type."""
JAVA_ENCODINGS = {
    "utf-8": "UTF-8",
    "iso8859-1": "ISO-8859-1",
    "ascii": "US-ASCII",
    "utf-16": "UTF-16",
    "utf-32": "UTF-32",
}
"""Encodings that Spark reads, by Python's names."""


def read(
    session: Any, source: str, *, encoding: str | None = None, delimiter: str | None = None
) -> Any:
    """The frame behind a path (CSV with a header line, else Parquet) or a table's name."""
    tabs = source.lower().removesuffix(".gz").endswith(".tsv")
    with spark_failures(
        f"Spark cannot read {source}; give the path of Parquet or CSV data that every worker "
        "can see, or the name of a table."
    ):
        if PurePosixPath(source).suffix.lower() in (".csv", ".tsv", ".gz"):
            return session.read.csv(
                source,
                header=True,
                inferSchema=True,
                sep=delimiter or ("\t" if tabs else ","),
                encoding=_java_encoding(encoding or "utf-8"),
            )
        FileFormat(encoding=encoding, delimiter=delimiter).refuse()
        if "/" in source or PurePosixPath(source).suffix.lower() == ".parquet":
            return session.read.parquet(source)
        return session.read.table(source)


def _java_encoding(name: str) -> str:
    """The encoding by the name that Spark knows it by; Spark knows few."""
    try:
        return JAVA_ENCODINGS[codecs.lookup(name).name]
    except (LookupError, KeyError):
        raise ParameterError(
            f"Spark does not read the encoding {name!r}; it reads {', '.join(JAVA_ENCODINGS)}."
        ) from None


def values_of(frame: Any, column: str | None, also: str | None = None) -> Any:
    """The column as `value`, alone or with what `also` selects; NaN becomes missing, and decimals
    become doubles, as on one machine."""
    name = known_column(column, frame.columns)
    quoted = f"`{name.replace('`', '``')}`"
    holds = _type_name(frame, name)
    if holds in ("float", "double", "decimal"):
        kind = "float" if holds == "float" else "double"
        quoted = f"nanvl(cast({quoted} as {kind}), cast(null as {kind}))"
    return frame.selectExpr(f"{quoted} as value", *([] if also is None else [also]))


def _type_name(frame: Any, name: str) -> str:
    return str(frame.schema[name].dataType.typeName())


def column_type(values: Any) -> ColumnType:
    """What kind of values the column `value` holds, by its Spark type."""
    return KINDS.get(_type_name(values, "value"), "other")


def equal_to(values: Any, wanted: object) -> Any:
    """True or false per row: is it the wanted value?"""
    from pyspark.sql.functions import expr, lit

    one, holds = comparable(wanted, column_type(values)), _type_name(values, "value")
    if isinstance(one, dt.date):  # also a datetime
        text = one.isoformat(sep=" ") if isinstance(one, dt.datetime) else one.isoformat()
        same = values["value"] == expr(f"{holds} '{text}'")
    elif holds == "float":
        same = values["value"] == lit(one).cast("float")
    else:
        same = values["value"] == one
    return values.select(same.alias("value"))


def grouped_by(values: Any, grouping: Grouping) -> Any:
    """The column after what may be counted together was made equal: numbers outside 0..largest are
    moved there, or all become −1, which the protocol refuses, so that a column of other numbers
    does not make a group of each."""
    most = grouping.largest
    if most is None:
        return values
    if grouping.clamp:
        sql = f"case when value < 0 then 0 when value > {most} then {most} else value end"
    else:
        fits = f"value >= 0 and value <= {most}"
        if column_type(values) == "real":
            fits += " and value = floor(value)"
        sql = f"case when {fits} then value when value is not null then -1 end"
    return values.selectExpr(f"{sql} as value")


def missing_values() -> DataError:
    """The error to raise for a column with rows that have no value."""
    return DataError(MISSING)

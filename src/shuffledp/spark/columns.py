"""A column of a Spark DataFrame: read, compared and grouped in the JVM."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from shuffledp.errors import DataError, ParameterError
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
    "timestamp": "date",
    "timestamp_ntz": "date",
}
"""What a column holds, by Spark's name of its type."""


def read(session: Any, source: str) -> Any:
    """The frame behind a path (CSV with a header line, else Parquet) or a table's name."""
    with spark_failures(
        f"Spark cannot read {source}; give the path of Parquet or CSV data that every worker "
        "can see, or the name of a table."
    ):
        if PurePosixPath(source).suffix.lower() in (".csv", ".gz"):
            return session.read.csv(source, header=True, inferSchema=True)
        if "/" in source or PurePosixPath(source).suffix.lower() == ".parquet":
            return session.read.parquet(source)
        return session.read.table(source)


def values_of(frame: Any, column: str | None) -> Any:
    """The column alone, as `value`; NaN becomes missing, and decimals become doubles, as on one
    machine."""
    name = _known(column, frame.columns)
    quoted = f"`{name.replace('`', '``')}`"
    if _type_name(frame, name) in ("float", "double", "decimal"):
        quoted = f"nanvl(cast({quoted} as double), cast(null as double))"
    return frame.selectExpr(f"{quoted} as value")


def _type_name(frame: Any, name: str) -> str:
    return str(frame.schema[name].dataType.typeName())


def column_type(values: Any) -> ColumnType:
    """What kind of values the column `value` holds, by its Spark type."""
    return KINDS.get(_type_name(values, "value"), "other")


def equal_to(values: Any, wanted: object) -> Any:
    """True or false per row: is it the wanted value?"""
    one = comparable(wanted, column_type(values))
    return values.select((values["value"] == one).alias("value"))


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


def missing_values(count: int) -> DataError:
    """The error to raise for so many rows without a value."""
    return DataError(
        f"The column has {count:,} missing values; every row is one user with one value: "
        "fill or drop them first."
    )


def _known(column: str | None, names: list[str]) -> str:
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        raise ParameterError(f"Which column? There are {shown}; name one with column (--column).")
    if column not in names:
        raise ParameterError(f"There is no column {column!r}; there are {shown}.")
    return column

"""A column of a Spark frame, ready to be counted in the JVM."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import exact
from shuffledp.queries.columns import DataError
from shuffledp.spark.errors import spark_failures

WHOLE = ("byte", "short", "integer", "long")
FLOATING = ("float", "double", "decimal")


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
    """The column alone, as `value`, with what is no number missing; decimals become doubles, as
    on one machine."""
    name = _known(column, frame.columns)
    quoted = f"`{name.replace('`', '``')}`"
    if kind_of(frame, name) in FLOATING:
        quoted = f"nanvl(cast({quoted} as double), cast(null as double))"
    return frame.selectExpr(f"{quoted} as value")


def kind_of(frame: Any, name: str) -> str:
    """Spark's name of a column's type."""
    return str(frame.schema[name].dataType.typeName())


def is_whole(values: Any) -> bool:
    return kind_of(values, "value") in WHOLE


def equal_to(values: Any, wanted: Any) -> Any:
    """True or false per row: is it the wanted value?"""
    kind = kind_of(values, "value")
    if kind in (*WHOLE, *FLOATING, "boolean"):
        values = values.selectExpr("cast(value as int) as value") if kind == "boolean" else values
        wanted = float(exact(wanted, "the value to compare with"))
    elif kind == "string" and not isinstance(wanted, str):
        return values.selectExpr("if(value is null, null, false) as value")
    return values.select((values["value"] == wanted).alias("value"))


def within(most: int, clamp: bool = False) -> str:
    """SQL: a whole number in 0..most; others are moved there, or have one stand-in for them all, so
    that a column of other numbers, to be refused, does not make a group of each."""
    if clamp:
        return f"case when value < 0 then 0 when value > {most} then {most} else value end"
    return f"case when value >= 0 and value <= {most} then value when value is not null then -1 end"


def missing_values(count: int) -> DataError:
    """The refusal of users without a value."""
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

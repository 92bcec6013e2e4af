"""A column of a Spark DataFrame: read, compared and grouped in the JVM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from shuffledp.data.arrays import MISSING, ColumnType
from shuffledp.data.columns import FileFormat, known_column
from shuffledp.data.filling import WRONG_TYPE
from shuffledp.data.values import comparable
from shuffledp.engines.local import fill_of
from shuffledp.engines.rows_per_user import check_ids
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.text_files import TextTable, quoted, read_text_table
from shuffledp.errors import DataError, InputError, ParameterError
from shuffledp.queries.base import Grouping, Query
from shuffledp.queries.histogram.protocol import Label

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
"""The type of a column's values, by Spark's name for it."""
FILL_TYPES: dict[ColumnType, tuple[type, ...]] = {
    "truth": (bool, int),
    "whole": (int,),
    "real": (int, float),
    "text": (str,),
}
"""Which values may replace missing ones, by the type of the column."""


BYTES = "UTF8_BINARY"
"""Spark's name of the order in which different texts are never equal."""


def read(
    session: Any, source: str, *, encoding: str | None = None, delimiter: str | None = None
) -> Any:
    """The frame for a path of Parquet data or a table's name; for CSV with a header line, its
    texts."""
    given = FileFormat(encoding=encoding, delimiter=delimiter)
    tabs = source.lower().removesuffix(".gz").endswith(".tsv")
    with spark_failures(
        f"Spark cannot read {source}; pass the path of Parquet or CSV data that every worker "
        "can see, or the name of a table."
    ):
        if PurePosixPath(source).suffix.lower() in (".csv", ".tsv", ".gz"):
            separator = delimiter or ("\t" if tabs else ",")
            return read_text_table(session, source, separator, encoding or "utf-8")
        given.refuse()
        if "/" in source or PurePosixPath(source).suffix.lower() == ".parquet":
            return session.read.parquet(source)
        return session.read.table(source)


def values_beside(frame: Any, query: Query[Any], others: Mapping[str, str | None]) -> Any:
    """The column of the query as `value`, filled, checked and compared if the query does so, with
    other columns under the given names."""
    rows = values_of(frame, query.column, as_text=query.reads_texts, others=others)
    value = filled(rows["value"], rows.schema["value"].dataType, fill_of(query))
    rows = rows.withColumn("value", value)
    _check_column(query, rows)
    return rows if query.compared_with is None else _equal_to(rows, query.compared_with)


def values_of(
    frame: Any, column: str | None, *, as_text: bool = False, others: Mapping[str, str | None] = {}
) -> Any:
    """The column as `value`, with other columns under the given names. NaN becomes missing, and
    decimals become doubles, as on one machine. A column of a CSV file gets its type here, or
    remains text."""
    name = known_column(column, frame.columns)
    beside = {
        shown: known_column(other, frame.columns)
        for shown, other in others.items()
        if other is not None
    }
    user = beside.get("user")
    if user == name:
        raise ParameterError("The column of users and the column of values must be different.")
    if isinstance(frame, TextTable):
        frame = frame.typed(name, as_text=as_text, user=user)
        name, beside = "value", {shown: shown for shown in beside}
    if user is not None:
        check_ids(type_of(frame, beside["user"]))
    return frame.selectExpr(
        f"{value_expression(frame, name)} as value",
        *(f"{value_expression(frame, other)} as {shown}" for shown, other in beside.items()),
    )


def _check_column(query: Query[Any], values: Any) -> None:
    """Refuses a column that the query cannot answer, and first of all one with missing values."""
    try:
        query.check_column(column_type(values))
    except InputError:
        with spark_failures():
            missing = values.selectExpr("count_if(value is null)").collect()[0][0]
        if missing:
            raise missing_values() from None
        raise


def value_expression(frame: Any, name: str) -> str:
    """A column in SQL: NaN becomes missing, decimals become doubles, and texts are compared
    character by character. Refuses one that Spark does not tell apart from another."""
    own, kind = quoted(name), frame.schema[name].dataType
    alike = {one for one in frame.columns if one.casefold() == name.casefold()}
    if len(alike) > 1 and frame.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        raise ParameterError(
            f"Another column has the name {name!r}, apart from capital letters, and Spark does not "
            "tell them apart; rename one of them."
        )
    holds = _type_name(frame, name)
    if holds == "string" and getattr(kind, "collation", BYTES) != BYTES:
        return f"collate({own}, '{BYTES}')"
    if holds not in ("float", "double", "decimal"):
        return own
    wide = "float" if holds == "float" else "double"
    return f"nanvl(cast({own} as {wide}), cast(null as {wide}))"


def _type_name(frame: Any, name: str) -> str:
    return str(frame.schema[name].dataType.typeName())


def type_of(frame: Any, name: str) -> ColumnType:
    """The kind of values in a column, from its Spark type."""
    return KINDS.get(_type_name(frame, name), "other")


def column_type(values: Any) -> ColumnType:
    """The kind of values in the column `value`."""
    return type_of(values, "value")


def _equal_to(values: Any, wanted: object) -> Any:
    """For each row, whether it is the wanted value."""
    from pyspark.sql.functions import lit

    one, holds = comparable(wanted, column_type(values)), _type_name(values, "value")
    if isinstance(one, dt.date):
        same = values["value"] == moment(one, holds)
    elif holds == "float":
        same = values["value"] == lit(one).cast("float")
    else:
        same = values["value"] == one
    return values.withColumn("value", same)


def moment(one: dt.date, kind: str) -> Any:
    """A date, or one with a time, as a value of a Spark type of dates."""
    from pyspark.sql.functions import expr

    text = one.isoformat(sep=" ") if isinstance(one, dt.datetime) else one.isoformat()
    return expr(f"{kind} '{text}'")


def filled(value: Any, kind: Any, fill: object) -> Any:
    """A column of Spark type `kind` with `fill` for every missing value."""
    from pyspark.sql.functions import coalesce, lit

    if fill is None:
        return value
    holds = KINDS.get(kind.typeName(), "other")
    if not isinstance(fill, FILL_TYPES.get(holds, ())):
        raise ParameterError(WRONG_TYPE)
    wide = "long" if holds == "whole" else kind
    return coalesce(value.cast(wide), lit(fill).cast(wide))


def place_among(labels: Iterable[Label], value: Any, kind: Any) -> Any:
    """The place of each value of Spark type `kind` among labels, from 0; −1 for one that is not
    among them, and null for a missing one."""
    from pyspark.sql.functions import array, call_function, lit

    wide = "long" if KINDS.get(kind.typeName()) == "whole" else kind  # a label may be larger
    listed = array(*(lit(label).cast(wide) for label in labels))
    return call_function("array_position", listed, value.cast(wide)) - 1


def grouped_by(values: Any, grouping: Grouping) -> Any:
    """The column with numbers outside 0..largest clipped, or all replaced by −1, which the protocol
    refuses. This keeps the number of different values, and so of groups, small."""
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

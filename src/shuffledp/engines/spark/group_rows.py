"""Rows of a Spark DataFrame with the group of each: as one column of pairs."""

from __future__ import annotations

from typing import Any

from shuffledp.data.columns import known_column
from shuffledp.engines.local import fill_of
from shuffledp.engines.spark.columns import KINDS, column_type, equal_to, quoted, value_expression
from shuffledp.engines.spark.persons import filled
from shuffledp.engines.spark.text_files import TextTable
from shuffledp.errors import ParameterError
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import Groups
from shuffledp.queries.options import Options


def group_column(frame: Any, groups: Groups) -> str:
    """The name of the column of groups; refuses a list, a CSV file, and a column without labels."""
    if isinstance(frame, TextTable):
        raise ParameterError(
            "On Spark, groups are read from Parquet data or tables, whose columns have types; "
            "convert the CSV file first."
        )
    if not isinstance(groups.by, str):
        raise ParameterError("On Spark, by must be the name of a column.")
    name = known_column(groups.by, frame.columns)
    groups.check(KINDS.get(frame.schema[name].dataType.typeName(), "other"))
    return name


def pairs(frame: Any, query: Query[Any], options: Options, user: str | None) -> Any:
    """Every row's group, by its number, and its value as one column `value` of pairs: null where
    one of them is missing, and group −1, which the protocol refuses, where a group is not declared;
    the ids of users beside it as `user` if a column of them is named."""
    from pyspark.sql.functions import array, array_position, col, lit, struct, when

    groups, asked = query.grouped, query.of_each_group
    assert groups is not None and groups.labels is not None
    name = group_column(frame, groups)
    rows = values_beside(frame, asked, options, {"label": name, "user": user})
    kind = rows.schema["label"].dataType
    place = array_position(array(*(lit(label).cast(kind) for label in groups.labels)), col("label"))
    pair = struct(
        (place - 1).cast("long").alias("group"), col("value").cast("double").alias("value")
    )
    whole = when(col("label").isNotNull() & col("value").isNotNull(), pair).alias("value")
    return rows.select(whole, *(["user"] if user is not None else []))


def values_beside(
    frame: Any, asked: Query[Any], options: Options, others: dict[str, str | None]
) -> Any:
    """What is asked about as the column `value`, checked, filled, compared and prepared, with other
    columns under the names that are given."""
    name = known_column(options.column, frame.columns)
    beside = [
        f"{quoted(known_column(column, frame.columns))} as {shown}"
        for shown, column in others.items()
        if column is not None
    ]
    rows = frame.selectExpr(f"{value_expression(frame, name)} as value", *beside)
    rows = filled(rows, fill_of(asked, options.missing))
    asked.check_column(column_type(rows))
    if asked.compared_with is not None:
        rows = equal_to(rows, asked.compared_with)
    return rows

"""Several columns of a Spark DataFrame as one: combinations of labels as whole numbers, and pairs
of a user's group and value."""

from __future__ import annotations

import datetime as dt
from typing import Any

from shuffledp.data.arrays import ColumnType
from shuffledp.data.columns import known_column
from shuffledp.engines.local import fill_of
from shuffledp.engines.spark.columns import (
    KINDS,
    column_type,
    equal_to,
    filled,
    moment,
    value_expression,
)
from shuffledp.engines.spark.conditions import KEEP
from shuffledp.engines.spark.keyed import row_key
from shuffledp.engines.spark.text_files import TextTable, quoted
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import Entropy
from shuffledp.queries.base import KeptBounds, Query
from shuffledp.queries.by_group.groups import Groups

NUMBERS: dict[ColumnType, str] = {"truth": "long", "whole": "long", "real": "double"}
"""Spark's type for numbers, by what the column holds."""


def combinations(frame: Any, query: Query[Any], fill: object, user: str | None = None) -> Any:
    """The number of each row's combination of labels as `value`: −1, which the protocol refuses, if
    a label is unknown, and null if a value is missing. User ids are in `user` if their column is
    named."""
    from pyspark.sql.functions import array, call_function, coalesce, col, lit, when

    if isinstance(frame, TextTable):
        raise ParameterError(
            "On Spark, combinations of columns are counted in Parquet data or tables, whose "
            "columns have types; convert the CSV file first."
        )
    names = [known_column(name, frame.columns) for name in query.columns_together]
    kinds = [frame.schema[name].dataType for name in names]
    query.check_columns([KINDS.get(kind.typeName(), "other") for kind in kinds])
    code, unknown = lit(0).cast("long"), lit(False)
    for name, kind, labels in zip(names, kinds, query.label_lists, strict=True):
        value = col(quoted(name))
        value = value if fill is None else coalesce(value, lit(fill).cast(kind))
        listed = array(*(lit(label).cast(kind) for label in labels))
        number = call_function("array_position", listed, value) - 1
        unknown = unknown | (number < 0)
        code = code * len(labels) + number
    shown = [when(unknown, lit(-1)).otherwise(code).alias("value")]
    if user is not None:
        shown.append(col(quoted(known_column(user, frame.columns))).alias("user"))
    if query.where is not None:
        shown.append(col(KEEP).alias("keep"))
    return frame.select(*shown)


def filtered(values: Any, query: Query[Any], *, summed: bool = False) -> Any:
    """The column `value` in which rows with a false `keep` say nothing; ids of users stay. Rows
    that are `summed` have no bounds: those of their sum count."""
    from pyspark.sql.functions import col, lit, when

    outside, holds = query.filtered_value, column_type(values)
    kind = str(values.schema["value"].dataType.typeName())
    if outside is None:
        kind, other = _random_values(holds, query.entropy)
    elif isinstance(outside, dt.datetime):
        kind = "timestamp_ntz" if holds == "date" else kind
        other = moment(outside.replace(tzinfo=dt.UTC) if holds == "instant" else outside, kind)
    else:
        kinds_of_outside: dict[type, str] = {str: "string", float: "double"}
        kind = kinds_of_outside.get(type(outside)) or NUMBERS[holds]
        other = lit(outside).cast(kind)
    value = col("value").cast(kind)
    fits = value if summed or query.kept_bounds is None else _within(value, query.kept_bounds)
    kept = when(col("value").isNull(), lit(None)).when(col("keep"), fits)
    others = [name for name in values.columns if name == "user"]
    return values.select(kept.otherwise(other).alias("value"), *others)


def _within(value: Any, bounds: KeptBounds) -> Any:
    """Values clipped to the bounds; or infinity, which protocols refuse, for those outside."""
    from pyspark.sql.functions import greatest, least, lit, when

    low, high, number = lit(bounds.low), lit(bounds.high), value.cast("double")
    if bounds.clamp:
        return least(greatest(number, low), high)
    return when(number.between(low, high), number).otherwise(lit(float("inf")))


def _random_values(holds: ColumnType, entropy: Entropy) -> tuple[str, Any]:
    """(Spark's type, values of 60 random bits or words of 96): they depend on the row's place and
    on a key that the driver draws, so a task that runs again gives the same."""
    from pyspark.sql.functions import expr

    key = row_key(entropy)
    drawn = f"sha2(concat_ws('|', '{key}', monotonically_increasing_id()), 256)"
    if holds == "whole":
        return "long", expr(f"cast(conv(substring({drawn}, 1, 15), 16, 10) as long)")
    letters = f"translate(substring({drawn}, 1, 24), '0123456789abcdef', 'abcdefghijklmnop')"
    return "string", expr(letters)


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


def pairs(frame: Any, query: Query[Any], user: str | None) -> Any:
    """Every row's group number and value as one column `value` of pairs: null if one of them is
    missing, and group −1, which the protocol refuses, if a group is not declared. User ids are in
    `user` if their column is named."""
    from pyspark.sql.functions import array, call_function, col, lit, struct, when

    groups, asked = query.grouped, query.of_each_group
    assert groups is not None and groups.labels is not None
    name = None if groups.all_in_one else group_column(frame, groups)
    beside = {"label": name, "user": user, "keep": KEEP if query.where is not None else None}
    rows = values_beside(frame, asked, beside)
    if name is None:
        rows = rows.withColumn("label", lit(groups.labels[0]))
    kind = rows.schema["label"].dataType
    listed = array(*(lit(label).cast(kind) for label in groups.labels))
    number = call_function("array_position", listed, col("label")) - 1
    value = col("value").cast("double")
    if query.where is not None:  # excluded rows form a separate group
        number = when(col("keep"), number).otherwise(lit(len(groups.labels)))
        value = when(col("keep"), value).otherwise(lit(query.least_value))
    pair = struct(number.cast("long").alias("group"), value.alias("value"))
    whole = when(col("label").isNotNull() & col("value").isNotNull(), pair).alias("value")
    return rows.select(whole, *(["user"] if user is not None else []))


def values_beside(frame: Any, asked: Query[Any], others: dict[str, str | None]) -> Any:
    """The column of the query as `value`, checked, filled, compared and prepared, with other
    columns under the given names."""
    name = known_column(asked.column, frame.columns)
    beside = [
        f"{quoted(known_column(column, frame.columns))} as {shown}"
        for shown, column in others.items()
        if column is not None
    ]
    rows = frame.selectExpr(f"{value_expression(frame, name)} as value", *beside)
    rows = filled(rows, fill_of(asked))
    asked.check_column(column_type(rows))
    if asked.compared_with is not None:
        rows = equal_to(rows, asked.compared_with)
    return rows

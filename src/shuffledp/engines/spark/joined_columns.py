"""Several columns of a Spark DataFrame as one: combinations of labels as whole numbers, and pairs
of a user's group and value."""

from __future__ import annotations

import datetime as dt
from typing import Any

from shuffledp.data.arrays import ColumnType
from shuffledp.data.columns import known_column
from shuffledp.engines.local import fill_of
from shuffledp.engines.rows_per_user import check_ids
from shuffledp.engines.spark.columns import (
    column_type,
    filled,
    moment,
    place_among,
    type_of,
    value_expression,
    values_beside,
)
from shuffledp.engines.spark.conditions import KEEP
from shuffledp.engines.spark.keyed import row_key
from shuffledp.engines.spark.text_files import TextTable
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import Entropy
from shuffledp.queries.base import KeptBounds, Query
from shuffledp.queries.by_group.groups import Groups
from shuffledp.queries.histogram.protocol import Label

NUMBERS: dict[ColumnType, str] = {"truth": "long", "whole": "long", "real": "double"}
"""Spark's type for numbers, by what the column holds."""


def combinations(frame: Any, query: Query[Any], user: str | None) -> Any:
    """The number of each row's combination of labels as `value`: −1, which the protocol refuses, if
    a label is unknown, and null if a value is missing. User ids are in `user` if their column is
    named."""
    from pyspark.sql.functions import col, expr, lit, when

    _refuse_text(frame, "combinations of columns are counted in")
    names = [known_column(name, frame.columns) for name in query.columns_together]
    query.check_columns([type_of(frame, name) for name in names])
    code, unknown = lit(0).cast("long"), lit(False)
    for name, labels in zip(names, query.label_lists, strict=True):
        value = value_expression(frame, name)
        kind = frame.selectExpr(value).schema.fields[0].dataType
        number = place_among(labels, filled(expr(value), kind, fill_of(query)), kind)
        unknown = unknown | (number < 0)
        code = code * len(labels) + number
    shown = [when(unknown, lit(-1)).otherwise(code).alias("value")]
    if user is not None:
        check_ids(type_of(frame, known_column(user, frame.columns)))
        shown.append(expr(value_expression(frame, user)).alias("user"))
    if query.where is not None:
        shown.append(col(KEEP).alias("keep"))
    return frame.select(*shown)


def _refuse_text(frame: Any, what: str) -> None:
    if isinstance(frame, TextTable):
        raise ParameterError(
            f"On Spark, {what} Parquet data or tables, whose columns have types; convert the CSV "
            "file first."
        )


def filtered(values: Any, query: Query[Any], *, summed: bool = False) -> Any:
    """The column `value` in which rows with a false `keep` say nothing; ids of users stay. Rows
    that are `summed` have no bounds: those of their sum count."""
    from pyspark.sql.functions import col, lit, when

    outside, holds = query.filtered_value, column_type(values)
    kind = str(values.schema["value"].dataType.typeName())
    if outside is None:
        kind, other = _random_values(holds, query.entropy)
    else:
        if isinstance(outside, dt.datetime):
            kind = "timestamp_ntz" if holds == "date" else kind
        else:
            kinds_of_outside: dict[type, str] = {str: "string", float: "double"}
            kind = kinds_of_outside.get(type(outside)) or NUMBERS[holds]
        other = _constant(outside, kind, holds)
    value, above = col("value").cast(kind), query.above_filtered
    if above is not None:
        value = when(value < other, value).otherwise(_constant(above, kind, holds))
    fits = value if summed or query.kept_bounds is None else _within(value, query.kept_bounds)
    kept = when(col("value").isNull(), lit(None)).when(col("keep"), fits)
    others = [name for name in values.columns if name == "user"]
    return values.select(kept.otherwise(other).alias("value"), *others)


def _constant(one: Label | float | dt.date, kind: str, holds: ColumnType) -> Any:
    """The same value of a Spark type in every row; a time without a zone is in UTC."""
    from pyspark.sql.functions import lit

    if not isinstance(one, dt.datetime):
        return lit(one).cast(kind)
    return moment(one.replace(tzinfo=dt.UTC) if holds == "instant" else one, kind)


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
    _refuse_text(frame, "groups are read from")
    if not isinstance(groups.by, str):
        raise ParameterError("On Spark, by must be the name of a column.")
    name = known_column(groups.by, frame.columns)
    groups.check(type_of(frame, name))
    return name


def pairs(frame: Any, query: Query[Any], user: str | None) -> Any:
    """Every row's group number and value as one column `value` of pairs: null if one of them is
    missing, and group −1, which the protocol refuses, if a group is not declared. User ids are in
    `user` if their column is named."""
    from pyspark.sql.functions import col, lit, struct, when

    groups, asked = query.grouped, query.of_each_group
    assert groups is not None and groups.labels is not None
    name = None if groups.all_in_one else group_column(frame, groups)
    beside = {"label": name, "user": user, "keep": KEEP if query.where is not None else None}
    rows = values_beside(frame, asked, beside)
    if name is None:
        rows = rows.withColumn("label", lit(groups.labels[0]))
    number = place_among(groups.labels, col("label"), rows.schema["label"].dataType)
    value = col("value").cast("double")
    if query.where is not None:  # excluded rows form a separate group
        number = when(col("keep"), number).otherwise(lit(len(groups.labels)))
        value = when(col("keep"), value).otherwise(lit(query.least_value))
    pair = struct(number.cast("long").alias("group"), value.alias("value"))
    whole = when(col("label").isNotNull() & col("value").isNotNull(), pair).alias("value")
    return rows.select(whole, *(["user"] if user is not None else []))

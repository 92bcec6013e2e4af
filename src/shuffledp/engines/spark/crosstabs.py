"""Several columns of a Spark DataFrame as one column of whole numbers: combinations of labels."""

from __future__ import annotations

from typing import Any

from shuffledp.data.columns import known_column
from shuffledp.engines.spark.columns import KINDS
from shuffledp.engines.spark.text_files import TextTable
from shuffledp.errors import ParameterError
from shuffledp.queries.base import Query


def combinations(frame: Any, query: Query[Any], fill: object, user: str | None = None) -> Any:
    """The number of each row's combination of labels as `value`: −1 where a label is unknown, which
    the protocol refuses, and null where a value is missing; the ids of users beside it as `user` if
    a column of them is named."""
    from pyspark.sql.functions import array, array_position, coalesce, col, lit, when

    if isinstance(frame, TextTable):
        raise ParameterError(
            "On Spark, combinations of columns are counted in Parquet data or tables, whose "
            "columns have types; convert the CSV file first."
        )
    names = [known_column(name, frame.columns) for name in query.by]
    kinds = [frame.schema[name].dataType for name in names]
    query.check_columns([KINDS.get(kind.typeName(), "other") for kind in kinds])
    code, unknown = lit(0).cast("long"), lit(False)
    for name, kind, labels in zip(names, kinds, query.label_lists, strict=True):
        value = col(f"`{name.replace('`', '``')}`")
        value = value if fill is None else coalesce(value, lit(fill).cast(kind))
        place = array_position(array(*(lit(label).cast(kind) for label in labels)), value) - 1
        unknown = unknown | (place < 0)
        code = code * len(labels) + place
    shown = [when(unknown, lit(-1)).otherwise(code).alias("value")]
    if user is not None:
        shown.append(col(f"`{known_column(user, frame.columns).replace('`', '``')}`").alias("user"))
    return frame.select(*shown)

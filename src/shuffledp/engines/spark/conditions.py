"""Conditions (`where=`) on Spark: the same meaning as on one machine, evaluated in the JVM."""

from __future__ import annotations

import datetime as dt
import operator
from functools import partial
from typing import Any

from shuffledp.data.arrow_conditions import check_kinds, literal_of
from shuffledp.data.columns import known_column
from shuffledp.data.conditions import Literal, Meaning, Name, parsed
from shuffledp.engines.spark.columns import KINDS, moment, value_expression
from shuffledp.engines.spark.text_files import TextTable
from shuffledp.errors import ParameterError

KEEP = "shuffledp_keep"
COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def with_keep(frame: Any, where: object) -> Any:
    """The frame with one more column, `KEEP`: whether the condition is true in a row."""
    from pyspark.sql.functions import coalesce, lit

    if isinstance(frame, TextTable):
        raise ParameterError(
            "On Spark, where is for Parquet data or tables, whose columns have types; convert the "
            "CSV file first."
        )
    if not isinstance(where, str):
        raise ParameterError(
            "On Spark, where must be a condition on columns, for example way = 'bus'."
        )
    if any(name.lower() == KEEP for name in frame.columns):
        raise ParameterError(f"With where, no column may be named {KEEP}; rename it.")
    kept = coalesce(_meaning(frame).of(parsed(where)), lit(False))
    return frame.withColumn(KEEP, kept)


def _meaning(frame: Any) -> Meaning:
    """What conditions mean on a Spark DataFrame."""
    return Meaning(
        both=operator.and_,
        either=operator.or_,
        opposite=operator.invert,
        missing=lambda column: _column(frame, column)[0].isNull(),
        compared=partial(_compared, frame),
    )


def _column(frame: Any, column: Name) -> tuple[Any, str]:
    """(the column, null for NaN; Spark's name of its type)."""
    from pyspark.sql.functions import expr

    name = known_column(column.name, frame.columns)
    kind = str(frame.schema[name].dataType.typeName())
    return expr(value_expression(frame, name)), kind


def _compared(frame: Any, column: Name, sign: str, other: Name | Literal) -> Any:
    from pyspark.sql.functions import lit

    found, type_name = _column(frame, column)
    holds = KINDS.get(type_name, "other")
    compare = COMPARISONS[sign]
    if isinstance(other, Name):
        beside, beside_type = _column(frame, other)
        check_kinds(holds, KINDS.get(beside_type, "other"))
        return compare(found, beside)
    one = literal_of(other, holds, sign)
    if isinstance(one, dt.date):
        return compare(found, moment(one, type_name))
    return compare(found, lit(one).cast("float") if type_name == "float" else lit(one))

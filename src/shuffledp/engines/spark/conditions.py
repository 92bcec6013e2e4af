"""Conditions (`where=`) on Spark: the same meaning as on one machine, evaluated in the JVM."""

from __future__ import annotations

import datetime as dt
from typing import Any

from shuffledp.data.arrow_conditions import check_kinds, literal_of
from shuffledp.data.columns import known_column
from shuffledp.data.conditions import (
    Both,
    Compared,
    Condition,
    Literal,
    Missing,
    Name,
    Not,
    OneOf,
    parsed,
)
from shuffledp.engines.spark.columns import KINDS, moment, value_expression
from shuffledp.engines.spark.text_files import TextTable
from shuffledp.errors import ParameterError

KEEP = "shuffledp_keep"


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
    kept = coalesce(_evaluated(parsed(where), frame), lit(False))
    return frame.withColumn(KEEP, kept)


def _evaluated(condition: Condition, frame: Any) -> Any:
    match condition:
        case Both("and", first, second):
            return _evaluated(first, frame) & _evaluated(second, frame)
        case Both(_, first, second):
            return _evaluated(first, frame) | _evaluated(second, frame)
        case Not(part):
            return ~_evaluated(part, frame)
        case Missing(column):
            return _column(frame, column)[0].isNull()
        case OneOf(column, values):
            found = [_compared(frame, column, "=", value) for value in values]
            for other in found[1:]:
                found[0] = found[0] | other
            return found[0]
        case Compared(column, operator, Name() as other):
            (first, kind), (second, beside) = _column(frame, column), _column(frame, other)
            check_kinds(KINDS.get(kind, "other"), KINDS.get(beside, "other"))
            return _by(operator, first, second)
        case Compared(column, operator, bool() | int() | float() | str() as value):
            return _compared(frame, column, operator, value)
    raise ParameterError("where is not a valid condition.")


def _column(frame: Any, column: Name) -> tuple[Any, str]:
    """(the column, null for NaN; Spark's name of its type)."""
    from pyspark.sql.functions import expr

    name = known_column(column.name, frame.columns)
    kind = str(frame.schema[name].dataType.typeName())
    return expr(value_expression(frame, name)), kind


def _compared(frame: Any, column: Name, operator: str, value: Literal) -> Any:
    from pyspark.sql.functions import lit

    found, type_name = _column(frame, column)
    one = literal_of(value, KINDS.get(type_name, "other"), operator)
    if isinstance(one, dt.date):
        return _by(operator, found, moment(one, type_name))
    return _by(operator, found, lit(one).cast("float") if type_name == "float" else lit(one))


def _by(operator: str, first: Any, second: Any) -> Any:
    return {
        "=": first == second,
        "!=": first != second,
        "<": first < second,
        "<=": first <= second,
        ">": first > second,
        ">=": first >= second,
    }[operator]

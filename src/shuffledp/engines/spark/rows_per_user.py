"""Several rows of one user in a Spark DataFrame: at most k are kept, or all are added up.

Which rows are kept depends only on the rows themselves and a key that the driver draws once:
each row gets the hash of the key, its user, its value and its number among equal rows of the user,
and the k smallest are kept. So a task that runs again keeps the same rows, and sums are added up in
the order of their values. The remaining rows are sorted within each part, so that the draws are the
same, too.
"""

from __future__ import annotations

from typing import Any

from shuffledp.engines.rows_per_user import MISSING_IDS, RowsPerUser, check_sums
from shuffledp.engines.spark.columns import column_type, missing_values
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.keyed import row_key
from shuffledp.errors import DataError
from shuffledp.numbers.entropy import Entropy


def people_in(rows: Any, several: RowsPerUser) -> int:
    """How many different users there are; raises `DataError` if a value or an id is missing, before
    any row is dropped, and if a user's whole numbers may add up to more than 64 bits."""
    from pyspark.sql.functions import expr

    adds_up = several.rows is None and column_type(rows) == "whole"
    largest = "max(abs(cast(value as decimal(20))))" if adds_up else "cast(0 as decimal(20))"
    each = rows.groupBy("user").agg(
        expr("count(*)").alias("rows"),
        expr("count_if(value is null)").alias("missing"),
        expr(largest).alias("largest"),
    )
    facts = ("count(*)", "sum(missing)", "count_if(user is null)", "max(rows)", "max(largest)")
    with spark_failures():
        people, values, ids, most, size = each.selectExpr(*facts).collect()[0]
    if values:
        raise missing_values()
    if ids:
        raise DataError(MISSING_IDS)
    check_sums(int(size or 0), int(most or 0))
    return int(people)


def of_users(rows: Any, several: RowsPerUser, entropy: Entropy) -> Any:
    """Each user's kept rows, or their sums, as the only column `value`."""
    left = _summed(rows) if several.rows is None else _kept(rows, several.rows, entropy)
    return left.sortWithinPartitions("value")


def _kept(rows: Any, most: int, entropy: Entropy) -> Any:
    key = row_key(entropy)
    equal = rows.groupBy("user", "value").count()
    each = equal.selectExpr("user", "value", "explode(sequence(1L, count)) as number")
    hashed = each.selectExpr(
        "user",
        "value",
        f"sha2(concat_ws('|', '{key}', number, cast(user as string), cast(value as string)), 256) "
        "as place",
    )
    ranked = hashed.selectExpr(
        "value", "row_number() over (partition by user order by place) as rank"
    )
    return ranked.where(f"rank <= {most}").select("value")


def _summed(rows: Any) -> Any:
    holds = column_type(rows)
    zero, kind = ("0D", "double") if holds == "real" else ("0L", "long")
    together = rows.selectExpr("user", f"cast(value as {kind}) as value").groupBy("user")
    sums = together.agg({"value": "collect_list"}).toDF("user", "listed")
    return sums.selectExpr(f"aggregate(array_sort(listed), {zero}, (a, x) -> a + x) as value")

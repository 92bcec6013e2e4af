"""Several rows of one user in a Spark DataFrame: at most k are kept, or all are added up.

Which rows are kept depends only on the rows themselves and a key that the driver draws once:
each row gets the hash of the key, its user, its value and its number among equal rows of the user,
and the k smallest are kept. So a task that runs again keeps the same rows, and sums are added up in
the order of their values. The remaining rows are sorted within each part, so that the draws are the
same, too.
"""

from __future__ import annotations

from typing import Any

from shuffledp.data.columns import known_column
from shuffledp.engines.rows_per_user import MISSING_IDS, RowsPerUser, check_ids
from shuffledp.engines.spark.columns import column_type, missing_values, values_of
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.keyed import row_key
from shuffledp.engines.spark.text_files import TextTable
from shuffledp.errors import DataError, ParameterError
from shuffledp.numbers.entropy import Entropy


def check_user_name(user: object) -> str:
    """The name of the column of users; refuses a list of ids, which is not on the cluster."""
    if not isinstance(user, str):
        raise ParameterError("On Spark, user must be the name of a column.")
    return user


def with_users(frame: Any, column: str | None, user: object, *, as_text: bool = False) -> Any:
    """The column as `value`, with the user ids as `user`."""
    user = check_user_name(user)
    names = frame.frame.columns if isinstance(frame, TextTable) else frame.columns
    if known_column(user, names) == column:
        raise ParameterError("The column of users and the column of values must be different.")
    rows = values_of(frame, column, as_text=as_text, user=user)
    check_ids(column_type(rows.selectExpr("user as value")))
    return rows


def refuse_missing(rows: Any) -> None:
    """Raises `DataError` if a value or an id is missing, before any row is dropped."""
    with spark_failures():
        values, ids = rows.selectExpr(
            "count_if(value is null)", "count_if(user is null)"
        ).collect()[0]
    if values:
        raise missing_values()
    if ids:
        raise DataError(MISSING_IDS)


def people_in(rows: Any) -> int:
    """How many different users there are."""
    with spark_failures():
        return int(rows.selectExpr("count(distinct user)").collect()[0][0])


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

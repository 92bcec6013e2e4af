"""The executor on Apache Spark: counts and randomizes where the data is, publishes on the driver.

The plan, the certificate and the result are those of `engines.local`. All data is checked before a
ledger is charged or anything is released.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from shuffledp.engines.local import published
from shuffledp.engines.rows_per_user import RowsPerUser, rows_per_user
from shuffledp.engines.spark.columns import column_type, grouped_by, values_beside
from shuffledp.engines.spark.conditions import KEEP, with_keep
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.joined_columns import combinations, filtered, pairs
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.engines.spark.reports import (
    MOST_PARTS,
    PartWork,
    WholeWork,
    added_up,
    checked_users,
    planned_and_drawn,
)
from shuffledp.engines.spark.rows_per_user import of_users, people_in
from shuffledp.errors import ParameterError
from shuffledp.plans.certificate import certify
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.base import Grouping, Query
from shuffledp.release.publish import Drawn

R = TypeVar("R", bound=Result)
ONE_MACHINE = "it works on one machine only; leave it out, or use shuffledp without Spark."


def run(query: Query[R], data: Any) -> R:
    """The answer to a query about a column of a Spark DataFrame."""
    refuse_local_options(query)
    several = rows_per_user(query)
    where = query.where_text
    if where:
        data = with_keep(data, query.where)
    values = _read(query, data, several)
    query = query.of_column(column_type(values))
    if where and query.grouped is None:
        summed = several is not None and several.rows is None
        values, query = filtered(values, query, summed=summed), query.of_filtered()
    if several is not None:
        several = replace(several, people=people_in(values, several))
        values = of_users(values, several, query.entropy)
        query = several.ask(query)
    return published(query, drawn(query, values), several, where)


def refuse_local_options(query: Query[R]) -> None:
    """Refuses options that work on one machine only."""
    query.refuse(("protocol", "delta", "progress"), ONE_MACHINE)
    query.refuse(("encoding", "delimiter"), "a DataFrame was read already; leave it out.")


def drawn(query: Query[R], values: Any) -> Drawn[R]:
    """The protocol, all users' reports added up, and the certificate of a column `value`, drawn
    where the data is."""
    grouping = query.grouping(column_type(values))
    secret = JobSecret(query.entropy)
    if grouping is None or query.per_user:
        protocol, report = _in_two_jobs(query, values, None, secret)
    elif not grouping.few_values:
        protocol, report = _in_two_jobs(query, values, grouping, secret)
    else:
        work = WholeWork(
            make_plan=query.plan, users=query.users, prepare=query.prepare, secret=secret
        )
        protocol, report = planned_and_drawn(_grouped(values, grouping), work)
    return Drawn(protocol, report, certify(protocol).to_dict())


def _read(query: Query[R], data: Any, several: RowsPerUser | None) -> Any:
    """The column of the query as `value`, with user ids as `user` if a user may have several
    rows, and which rows are kept as `keep` if the query says so."""
    user = None if several is None else several.user
    if not isinstance(user, str | None):
        raise ParameterError("On Spark, user must be the name of a column.")
    if query.grouped is not None:
        return pairs(data, query, user)
    if query.columns_together:
        return combinations(data, query, user)
    keep = None if query.where is None else KEEP
    return values_beside(data, query, {"user": user, "keep": keep})


def _in_two_jobs(
    query: Query[R], values: Any, grouping: Grouping | None, secret: JobSecret
) -> tuple[Protocol[R], Report]:
    """(protocol, report): the first job counts the users, and the second draws for them."""
    with _counted(values, grouping) as (counted, rows, missing):
        users = checked_users(rows, missing, query.users)
        plan: Plan[R] = query.plan(users).renewed(query.entropy)
        work = PartWork(
            protocol=plan.protocol.to_dict(),
            prepare=query.prepare,
            secret=secret,
            per_user=query.per_user,
        )
        return plan.protocol, added_up(counted, work)


def _grouped(values: Any, grouping: Grouping) -> Any:
    """Values and how many rows have each, in one part if they are few."""
    together = grouped_by(values, grouping)
    return together.groupBy("value").count().coalesce(1 if grouping.few_values else MOST_PARTS)


@contextmanager
def _counted(values: Any, grouping: Grouping | None) -> Iterator[tuple[Any, int, int]]:
    """(values, or values and how many rows have each; rows; rows without a value)."""
    if grouping is None:
        with spark_failures():
            rows, missing = values.selectExpr("count(*)", "count_if(value is null)").collect()[0]
        yield values, rows, missing
        return
    with spark_failures():
        tally = _kept(_grouped(values, grouping))
        found = tally.selectExpr("sum(count)", "sum(if(value is null, count, 0))").collect()[0]
    try:
        yield tally, found[0] or 0, found[1] or 0
    finally:
        with spark_failures():
            tally.unpersist()


def _kept(tally: Any) -> Any:
    """The tally, persisted so that it is computed once; twice on services that cannot persist."""
    from pyspark.errors import PySparkException

    try:
        return tally.persist()
    except PySparkException:
        return tally

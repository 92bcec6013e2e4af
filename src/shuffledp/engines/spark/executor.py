"""The executor on Apache Spark: counts and randomizes where the data is, publishes on the driver.

The plan, the certificate and the result are those of `queries.local`. All data is looked at before
a ledger is charged or anything is released.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from shuffledp.engines.local import fill_of, finish_of
from shuffledp.engines.persons import Persons, persons_of
from shuffledp.engines.spark.columns import (
    check_frame,
    column_type,
    equal_to,
    grouped_by,
    missing_values,
    values_of,
)
from shuffledp.engines.spark.crosstabs import combinations
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.group_rows import pairs
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.engines.spark.persons import (
    check_user_name,
    filled,
    of_persons,
    refuse_missing,
    with_users,
)
from shuffledp.engines.spark.reports import (
    MOST_PARTS,
    PartWork,
    WholeWork,
    added_up,
    checked_users,
    planned_and_drawn,
)
from shuffledp.errors import InputError
from shuffledp.plans.certificate import certify
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.base import Grouping, Query
from shuffledp.queries.options import Options
from shuffledp.release.publish import publish

R = TypeVar("R", bound=Result)
ONE_MACHINE = "it works on one machine only; leave it out, or use shuffledp without Spark."


def run(query: Query[R], data: Any, options: Options) -> R:
    """The answer to a query about a column of a Spark DataFrame."""
    refuse_local_options(options)
    check_frame(data)
    persons = persons_of(options.user, options.rows_per_user, query)
    values = _read(query, data, options, persons)
    check_column(query, values)
    if persons is not None:
        refuse_missing(values)
        values = of_persons(values, persons, options.entropy)
        query = persons.ask(query)
    protocol, report = drawn(query, values, options)
    return publish(
        protocol,
        report,
        confidence=options.confidence,
        ledger=options.ledger,
        what=query.name,
        note=options.note,
        certificate=certify(protocol).to_dict(),
        finish=finish_of(query, persons),
        times=1 if persons is None else persons.times,
    )


def refuse_local_options(options: Options) -> None:
    """Refuses what works on one machine only."""
    options.refuse(("protocol", "delta"), f"other protocols run elsewhere: {ONE_MACHINE}")
    options.refuse(("progress",), ONE_MACHINE)
    options.refuse(("encoding", "delimiter"), "a DataFrame was read already; leave it out.")


def drawn(query: Query[R], values: Any, options: Options) -> tuple[Protocol[R], Report]:
    """(protocol, everybody's reports added up) of a column `value`, drawn where the data is."""
    if query.compared_with is not None:
        values = equal_to(values, query.compared_with)
    grouping = query.grouping(column_type(values))
    secret = JobSecret(options.entropy)
    if options.per_user or grouping is None:
        return _in_two_jobs(query, values, None, options, secret)
    if not grouping.few_values:
        return _in_two_jobs(query, values, grouping, options, secret)
    work = WholeWork(
        make_plan=query.plan, users=options.users, prepare=query.prepare, secret=secret
    )
    return planned_and_drawn(_grouped(values, grouping), work)


def _read(query: Query[R], data: Any, options: Options, persons: Persons | None) -> Any:
    """What is asked about as the column `value`, with the ids of users beside it as `user` where
    several rows may be of one."""
    user = None if persons is None else check_user_name(persons.user)
    if query.grouped is not None:
        return pairs(data, query, options, user)
    fill = fill_of(query, options.missing)
    if query.by:
        return combinations(data, query, fill, user)
    if persons is None:
        return filled(values_of(data, options.column, as_text=query.reads_texts), fill)
    rows = with_users(data, options.column, persons.user, as_text=query.reads_texts)
    return filled(rows, fill)


def check_column(query: Query[R], values: Any) -> None:
    """Refuses a column that the query has no answer for; first of all, one with missing values."""
    try:
        query.check_column(column_type(values))
    except InputError:
        with spark_failures():
            missing = values.selectExpr("count_if(value is null)").collect()[0][0]
        if missing:
            raise missing_values() from None
        raise


def _in_two_jobs(
    query: Query[R], values: Any, grouping: Grouping | None, options: Options, secret: JobSecret
) -> tuple[Protocol[R], Report]:
    """(protocol, report): the first job counts the users, and the second draws for them."""
    with _counted(values, grouping) as (counted, rows, missing):
        users = checked_users(rows, missing, options.users)
        plan: Plan[R] = query.plan(users).renewed(options.entropy)
        work = PartWork(
            protocol=plan.protocol.to_dict(),
            prepare=query.prepare,
            secret=secret,
            per_user=options.per_user,
        )
        return plan.protocol, added_up(counted, work)


def _grouped(values: Any, grouping: Grouping) -> Any:
    """Values and how many rows hold each, in one part if they are few."""
    together = grouped_by(values, grouping)
    return together.groupBy("value").count().coalesce(1 if grouping.few_values else MOST_PARTS)


@contextmanager
def _counted(values: Any, grouping: Grouping | None) -> Iterator[tuple[Any, int, int]]:
    """(values, or values and how many rows hold each; rows; rows without a value)."""
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
    """The tally, to be computed once; where a service keeps nothing, it is computed twice."""
    from pyspark.errors import PySparkException

    try:
        return tally.persist()
    except PySparkException:
        return tally

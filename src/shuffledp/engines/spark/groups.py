"""Answers for public groups on Apache Spark, each in its own release."""

from __future__ import annotations

from typing import Any

from shuffledp.engines.groups import check_no_mean, publish_groups
from shuffledp.engines.spark.columns import value_expression, values_beside
from shuffledp.engines.spark.conditions import KEEP, with_keep
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.executor import drawn, refuse_local_options
from shuffledp.engines.spark.joined_columns import filtered, group_column
from shuffledp.errors import DataError
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import MISSING_GROUPS, Groups, public_labels
from shuffledp.queries.by_group.query import GroupableQuery, check_public
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.release.publish import Drawn


def answer(query: GroupableQuery, data: Any, groups: Groups) -> GroupsResult:
    """The answer to a query about a column of a Spark DataFrame, for each public group."""
    from pyspark.sql.functions import expr

    refuse_local_options(query)
    check_public(query)
    group = expr(value_expression(data, group_column(data, groups)))
    where = query.where_text
    if where:
        check_no_mean(query)
        data = with_keep(data, query.where)
    with spark_failures():
        found = [row[0] for row in data.select(group).distinct().collect()]
    if None in found:
        raise DataError(MISSING_GROUPS)
    labels = public_labels(sorted(found), groups)
    batches = [_of_one(query, data.where(group == label)) for label in labels]
    asked = query.of_filtered() if where else query
    return publish_groups(asked, batches, labels, groups, where)


def _of_one(query: Query[Estimate], data: Any) -> Drawn[Estimate]:
    """The protocol of one public group, and the reports of its users."""
    if query.where is None:
        return drawn(query, values_beside(data, query, {}))
    rows = filtered(values_beside(data, query, {"keep": KEEP}), query)
    return drawn(query.of_filtered(), rows)

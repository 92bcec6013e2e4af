"""Answers for public groups on Apache Spark, each in its own release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shuffledp.engines.groups import check_no_mean, publish_groups
from shuffledp.engines.local import fill_of
from shuffledp.engines.spark.columns import filled, values_of
from shuffledp.engines.spark.conditions import KEEP, with_keep
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.executor import check_column, drawn, refuse_local_options
from shuffledp.engines.spark.joined_columns import filtered, group_column, values_beside
from shuffledp.errors import DataError
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import MISSING_GROUPS, Groups, public_labels
from shuffledp.queries.by_group.query import GroupableQuery, check_public
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.histogram.protocol import Label
from shuffledp.release.publish import Drawn


def answer(query: GroupableQuery, data: Any, groups: Groups) -> GroupsResult:
    """The answer to a query about a column of a Spark DataFrame, for each public group."""
    refuse_local_options(query)
    check_public(query)
    name = group_column(data, groups)
    where = query.where_text
    if where:
        check_no_mean(query)
        data = with_keep(data, query.where)
    with spark_failures():
        found = [row[0] for row in data.select(data[name]).distinct().collect()]
    if None in found:
        raise DataError(MISSING_GROUPS)
    labels = public_labels(sorted(found), groups)
    batches = [_of_one(query, data, name, label) for label in labels]
    asked = query.of_filtered() if where else query
    return replace(publish_groups(asked, batches, labels, groups), where=where)


def _of_one(query: Query[Estimate], data: Any, name: str, label: Label) -> Drawn[Estimate]:
    """The protocol of one public group, and the reports of its users."""
    of_group = data.where(data[name] == label)
    if query.where is not None:
        rows = filtered(values_beside(of_group, query, {"keep": KEEP}), query)
        query = query.of_filtered()
    else:
        rows = values_of(of_group, query.column, as_text=query.reads_texts)
        rows = filled(rows, fill_of(query))
    check_column(query, rows)
    return drawn(query, rows)

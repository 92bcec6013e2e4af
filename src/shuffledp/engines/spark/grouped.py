"""Answers by group on Apache Spark: private groups in one release, public ones in one each."""

from __future__ import annotations

from typing import Any

from shuffledp.engines.grouped import publish_groups
from shuffledp.engines.local import fill_of
from shuffledp.engines.spark.columns import check_frame, values_of
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.executor import check_column, drawn, refuse_local_options, run
from shuffledp.engines.spark.group_rows import group_column
from shuffledp.engines.spark.persons import filled
from shuffledp.errors import DataError
from shuffledp.plans.certificate import certify
from shuffledp.protocols.results import Estimate
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import MISSING_GROUPS, Groups, public_labels
from shuffledp.queries.by_group.query import ByGroupQuery, check_public
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Options
from shuffledp.release.publish import Drawn


def answer(query: Query[Estimate], data: Any, options: Options, groups: Groups) -> GroupsResult:
    """The answer to a query about a column of a Spark DataFrame, for each group."""
    if not groups.public:
        return run(ByGroupQuery.of(options, query, groups), data, options)
    refuse_local_options(options)
    check_frame(data)
    check_public(options)
    name = group_column(data, groups)
    with spark_failures():
        found = [row[0] for row in data.select(data[name]).distinct().collect()]
    if None in found:
        raise DataError(MISSING_GROUPS)
    labels = public_labels(sorted(found), groups)
    batches = [_of_one(query, data, name, label, options) for label in labels]
    return publish_groups(query, batches, labels, groups, options)


def _of_one(
    query: Query[Estimate], data: Any, name: str, label: Label, options: Options
) -> Drawn[Estimate]:
    """The protocol of one public group, and the reports of its users."""
    rows = values_of(data.where(data[name] == label), options.column, as_text=query.reads_texts)
    rows = filled(rows, fill_of(query, options.missing))
    check_column(query, rows)
    protocol, report = drawn(query, rows, options)
    return Drawn(protocol, report, certify(protocol).to_dict())

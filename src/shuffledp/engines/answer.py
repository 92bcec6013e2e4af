"""Runs a query where its data is: on Spark for a Spark DataFrame, otherwise on this machine."""

from __future__ import annotations

from typing import Any

from shuffledp.data.columns import collected, settled_source
from shuffledp.engines import groups as groups_here
from shuffledp.engines import local
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.groups import Groups
from shuffledp.queries.by_group.query import ByGroupQuery, GroupableQuery

SPARK_FRAMES = {
    "pyspark.sql.dataframe.DataFrame",
    "shuffledp.engines.spark.text_files.TextTable",
}
"""Base classes of data on a Spark cluster, by name, because pyspark may not be installed."""


def answer(query: Query[Any], data: object) -> Any:
    """The answer to a query about a column, for all users or for each of their groups."""
    data = settled_source(data)
    query = query.as_asked()
    groups = query.user_groups()
    cluster = on_spark(data)
    if not cluster:
        names = local.columns_read(query, groups)
        data = collected(data, names, for_function=callable(query.where))
    if groups is not None:
        assert isinstance(query, GroupableQuery)
        if groups.public:
            return _public_groups(query, data, groups)
        query = ByGroupQuery.of(query, groups)
    if cluster:
        from shuffledp.engines.spark import executor

        return executor.run(query, data)
    return local.answer(query, data)


def _public_groups(query: GroupableQuery, data: object, groups: Groups) -> Any:
    if on_spark(data):
        from shuffledp.engines.spark import groups as groups_on_spark

        return groups_on_spark.answer(query, data, groups)
    return groups_here.answer(query, data, groups)


def on_spark(data: object) -> bool:
    """Whether data is a DataFrame of Spark or Spark Connect, or a file that Spark reads."""
    names = {f"{one.__module__}.{one.__name__}" for one in type(data).__mro__}
    return bool(names & SPARK_FRAMES)

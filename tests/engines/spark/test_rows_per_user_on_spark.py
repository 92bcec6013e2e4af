"""Several rows per user and declared missing values on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from chi2 import p_value

from shuffledp import CrosstabResult, SeededEntropy
from shuffledp import spark as cluster
from shuffledp.engines.rows_per_user import RowsPerUser
from shuffledp.engines.spark.columns import values_of
from shuffledp.engines.spark.rows_per_user import of_users
from shuffledp.errors import DataError, ParameterError, ValueOutOfRange

ONE = RowsPerUser(user="id", rows=1)


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """2,000 users with ten rows each: nine times 0 and once 1."""
    return spark.range(20_000).selectExpr(
        "concat('u', id div 10) as id", "cast(id % 10 = 0 as int) as bit", "id % 10 as number"
    )


def numbers(frame: Any) -> list[int]:
    return [int(row[0]) for row in frame.collect()]


def test_the_choice_is_uniform_and_the_same_however_the_rows_lie(rows: Any) -> None:
    pairs = values_of(rows, "number", others={"user": "id"})
    found = [
        sorted(numbers(of_users(pairs.repartition(parts), ONE, SeededEntropy(1))))
        for parts in (1, 5)
    ]
    assert found[0] == found[1] and len(found[0]) == 2_000
    assert p_value(np.array(found[0]), [0.1] * 10) > 1e-4
    other = sorted(numbers(of_users(pairs, ONE, SeededEntropy(2))))
    assert other != found[0]  # another key makes another choice
    bits = numbers(of_users(values_of(rows, "bit", others={"user": "id"}), ONE, SeededEntropy(1)))
    assert p_value(np.array(bits), [0.9, 0.1]) > 1e-4  # equal rows are told apart
    assert p_value(np.array(bits), [0.5, 0.5]) < 1e-9


def test_queries_per_person(rows: Any) -> None:
    kept = cluster.count(rows, column="bit", epsilon=8, user="id", rows_per_user=2)
    assert (kept.users, kept.rows_kept) == (2_000, 4_000)
    assert kept.epsilon == 8 and "at most 2" in kept.neighbours
    sums = cluster.real_sum(
        rows.selectExpr("id", "number / 2.0 as half"),
        column="half",
        epsilon=8,
        user="id",
        bounds=(0, 20),
    )
    assert (sums.users, sums.rows_kept) == (2_000, None)
    assert abs(sums.value - 2_000 * 20) < 30 * sums.rmse


@pytest.fixture
def old_rules(spark: Any) -> Iterator[None]:
    """A session of the user, in which numbers that are too large are cut without an error."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield
    spark.conf.set("spark.sql.ansi.enabled", "true")


@pytest.mark.usefixtures("old_rules")
def test_large_numbers_are_not_cut(spark: Any) -> None:
    frame = spark.range(3_000).selectExpr(
        "cast(if(id % 3 = 0, null, 44) as tinyint) as small", "1L << 62 as large", "id % 3 as id"
    )
    asked: dict[str, Any] = {"by": ["small"], "domains": {"small": [44, 300]}, "missing": 300}
    found = cluster.histogram(frame, epsilon=8, **asked)
    assert np.allclose(found.values, [2_000, 1_000], atol=30 * found.rmse)
    with pytest.raises(DataError, match="add up to more than 64 bits"):
        cluster.integer_sum(frame, column="large", largest=9, epsilon=8, user="id")


def test_ids_are_checked_in_every_kind_of_query(rows: Any) -> None:
    odd = rows.selectExpr("*", "cast(number as double) as share", "'a' as place")
    asked: dict[str, Any] = {"column": "bit", "epsilon": 8, "user": "share", "rows_per_user": 1}
    for more in ({}, {"where": "number > 3"}, {"by": "place", "groups": ["a", "b"]}):
        with pytest.raises(DataError, match="ids of users must be"):
            cluster.count(odd, **asked, **more)
    domains: dict[str, Any] = {"place": ["a", "b"]}
    with pytest.raises(DataError, match="ids of users must be"):
        cluster.histogram(
            odd, epsilon=8, by=["place"], domains=domains, user="share", rows_per_user=1
        )


def test_missing_values_and_bad_declarations(rows: Any) -> None:
    gaps = rows.selectExpr("id", "if(number = 3, null, number) as number")
    found = cluster.integer_sum(gaps, column="number", epsilon=8, largest=9, missing=3)
    assert abs(found.value - 90_000) < 30 * found.rmse
    words = rows.selectExpr("id", "if(number = 3, null, 'some') as word")
    labels = cluster.histogram(
        words, column="word", epsilon=8, labels=["some", "else"], missing="bucket"
    )
    assert np.allclose(labels.values, [18_000, 0, 2_000], atol=30 * labels.rmse)
    with pytest.raises(DataError, match="missing values"):
        cluster.count(gaps, column="number", equals=1, epsilon=8, user="id", rows_per_user=1)
    nobody = rows.selectExpr("if(number = 3, null, id) as id", "bit")
    with pytest.raises(DataError, match="column of user ids"):
        cluster.count(nobody, column="bit", epsilon=8, user="id", rows_per_user=1)
    with pytest.raises(ParameterError, match="value of the column's type"):
        cluster.integer_sum(gaps, column="number", epsilon=8, largest=9, missing="none")
    with pytest.raises(ParameterError, match="name of a column"):
        cluster.count(rows, column="bit", epsilon=8, user=["a"], rows_per_user=1)


def test_combinations_of_columns(spark: Any) -> None:
    frame = spark.range(12_000).selectExpr(
        "concat('c', id % 3) as country", "id % 4 as year", "cast(id as string) as id"
    )
    domains: dict[str, Any] = {"country": ["c0", "c1", "c2"], "year": [0, 1, 2, 3]}
    found = cluster.histogram(frame, epsilon=8, by=["country", "year"], domains=domains)
    assert isinstance(found, CrosstabResult)
    assert np.allclose(found.values, 1_000, atol=30 * found.rmse)
    each = cluster.histogram(
        frame, epsilon=8, by=["year"], domains={"year": range(4)}, user="id", rows_per_user=1
    )
    assert each.users == 12_000
    gaps = frame.selectExpr("if(year = 3, null, country) as country", "year")
    with pytest.raises(DataError, match="missing"):
        cluster.histogram(gaps, epsilon=8, by=["country", "year"], domains=domains)
    with pytest.raises(ValueOutOfRange, match="not on the list of labels"):
        cluster.histogram(frame, epsilon=8, by=["country"], domains={"country": ["c0", "c1"]})

"""Answers by group on a cluster: the same as on one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp import GroupsResult
from shuffledp import spark as cluster
from shuffledp.errors import DataError, ParameterError, ShuffleDPError, ValueOutOfRange

GROUPS = ["g0", "g1", "g2"]


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """6,000 users, 2,000 in each group."""
    return spark.range(6_000).selectExpr(
        "concat('g', id % 3) as place",
        "id % 3 as number",
        "(id div 3) % 2 = 0 as bikes",
        "(id div 3) % 4 as visits",
        "((id div 3) % 10) / 2.0 + id % 3 as hours",
        "cast(id div 2 as string) as person",
        "if((id div 3) % 2 = 0, 'bike', 'walk') as way",
    )


def near(found: GroupsResult, truth: list[float], jump: float = 0) -> bool:
    """Within what noise does in all but one of 10⁷ batches. `jump` is what the rare jumps of users
    do where they are far beyond the RMSE."""
    return bool(np.allclose(found.values, truth, atol=max(30 * found.rmse, jump)))


@pytest.mark.parametrize("how", [{"groups": GROUPS}, {"groups_public": True}])
def test_every_answer_by_group(rows: Any, how: dict[str, Any]) -> None:
    shared: dict[str, Any] = {"epsilon": 8, "by": "place", **how}
    count = cluster.count(rows, column="bikes", **shared)
    equal = cluster.count(rows, column="way", equals="bike", **shared)
    visits = cluster.integer_sum(rows, column="visits", largest=3, **shared)
    mean = cluster.mean(rows, column="hours", bounds=(0, 7), **shared)
    assert near(count, [1_000] * 3, 5) and near(equal, [1_000] * 3, 5)
    assert near(visits, [3_000] * 3)
    assert near(mean, [2.25, 3.25, 4.25])
    for found in (count, visits, mean):
        assert found.labels == tuple(GROUPS) and found.users == 6_000 and found.by == "place"
        assert found.public == ("groups_public" in how) and found.certificate is not None
    if "groups" in how:
        assert count.certificate is not None
        assert shuffledp.verify(count.certificate).protocol.query == "by-group"


def test_a_count_of_many_groups_is_sparse(spark: Any) -> None:
    many = spark.range(6_000).selectExpr("concat('g', id % 500) as place", "id % 2 = 0 as bikes")
    asked: dict[str, Any] = {
        "column": "bikes",
        "epsilon": 8,
        "by": "place",
        "groups": [f"g{number}" for number in range(500)],
        "error_at": 10,
    }
    for per_user in (False, True):
        found = cluster.count(many, per_user=per_user, **asked)
        assert found.certificate is not None and found.messages_per_user < 2
        assert shuffledp.verify(found.certificate).protocol.cells[0].kind == "sparse"
        truth = np.array([12 * (number % 2 == 0) for number in range(500)])
        assert near(found, truth.tolist())
        assert ((found.low <= truth) & (found.high >= truth)).mean() > 0.9
        assert abs(found.values.sum() - truth.sum()) < 6 * np.sqrt(500) * found.rmse


def test_whole_numbers_as_groups_users_and_row_by_row(rows: Any) -> None:
    asked: dict[str, Any] = {"column": "bikes", "epsilon": 8, "by": "number", "groups": 3}
    assert near(cluster.count(rows, per_user=True, **asked), [1_000] * 3)
    found = cluster.count(rows, user="person", rows_per_user=1, **asked)
    assert found.users == 3_000 and "at most 1" in found.neighbours
    sums = cluster.real_sum(
        rows, column="hours", bounds=(0, 7), epsilon=8, by="place", groups=GROUPS, rmse=90
    )
    assert near(sums, [4_500, 6_500, 8_500])


def test_a_column_of_groups_with_a_point_in_its_name_is_no_field(rows: Any) -> None:
    named = rows.selectExpr(
        "bikes", "named_struct('name', 'else') as place", "place as `place.name`"
    )
    asked: dict[str, Any] = {"column": "bikes", "epsilon": 8, "by": "place.name"}
    assert cluster.count(named, groups_public=True, **asked).labels == tuple(GROUPS)


def test_bad_declarations_get_one_sentence(rows: Any) -> None:
    gaps = rows.selectExpr("if(number = 1, null, place) as place", "bikes")
    asked: dict[str, Any] = {"column": "bikes", "epsilon": 1, "by": "place"}
    cases: list[tuple[Any, dict[str, Any], type[ShuffleDPError], str]] = [
        (rows, {}, ParameterError, "declare them"),
        (rows, {"groups": GROUPS[:2]}, ValueOutOfRange, "groups that were not declared"),
        (
            rows,
            {"groups": GROUPS[:2], "groups_public": True},
            ValueOutOfRange,
            "groups that were not declared",
        ),
        (rows, {"groups": [1, 2]}, ValueOutOfRange, "declared groups are whole"),
        (rows, {"by": ["g0"], "groups": GROUPS}, ParameterError, "name of a column"),
        (rows, {"by": "hours", "groups_public": True}, ValueOutOfRange, "texts or whole"),
        (rows, {"groups_public": True, "user": "person"}, ParameterError, "in parallel only"),
        (rows, {"groups": GROUPS, "column": "visits"}, ValueOutOfRange, "outside"),
        (gaps, {"groups": GROUPS}, DataError, "missing"),
        (gaps, {"groups_public": True}, DataError, "column of groups"),
    ]
    for frame, given, error, sentence in cases:
        with pytest.raises(error, match=sentence):
            cluster.count(frame, **{**asked, **given})

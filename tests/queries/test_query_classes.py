"""Queries: planned once, checked when asked, and told how their column may be grouped."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any, get_args

import numpy as np
import pytest

from shuffledp.data.arrays import ColumnType
from shuffledp.data.values import comparable
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.queries.base import Grouping
from shuffledp.queries.count.query import CountQuery
from shuffledp.queries.histogram.query import HistogramQuery
from shuffledp.queries.integer_sum.query import IntegerSumQuery
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.real_sum.query import MeanQuery, RealSumQuery

KINDS: tuple[ColumnType, ...] = get_args(ColumnType)


def test_a_plan_is_made_once_for_equal_queries() -> None:
    one, two = CountQuery(epsilon=1), CountQuery(epsilon="1", equals=["unhashable"])
    assert one.plan(50) is two.plan(50)
    assert one.plan(50) is not one.plan(51)
    assert one.plan(50) is not CountQuery(epsilon=1, rmse=9).plan(50)
    assert RealSumQuery(epsilon=8, bounds=(0, 1)) != MeanQuery(epsilon=8, bounds=(0, 1))


def test_queries_travel_to_workers() -> None:
    for query in (
        CountQuery(epsilon=1),
        IntegerSumQuery(epsilon=1, largest=5, clamp=True),
        HistogramQuery(epsilon=1, labels=["a", "b"], other="c"),
        QuantilesQuery(
            epsilon=1, bounds=(0, 1), probabilities=0.5, bins=8, clamp=True, points=False
        ),
    ):
        assert pickle.loads(pickle.dumps(query)) == query


def test_which_columns_may_be_grouped() -> None:
    count = CountQuery(epsilon=1)
    assert count.grouping("truth") == Grouping()
    assert count.grouping("whole") == count.grouping("real") == Grouping(largest=1)
    total = IntegerSumQuery(epsilon=1, largest=5, clamp=True)
    assert total.grouping("whole") == Grouping(largest=5, clamp=True)
    assert all(RealSumQuery(epsilon=1, bounds=(0, 1)).grouping(kind) is None for kind in KINDS)
    numbered, named = (
        HistogramQuery(epsilon=1, labels=7),
        HistogramQuery(epsilon=1, labels=["a", "b"]),
    )
    assert numbered.grouping("whole") == Grouping(largest=6)
    assert named.grouping("text") == Grouping(few_values=False)


def test_unknown_numbers_are_grouped_only_where_another_label_takes_them() -> None:
    with_other = HistogramQuery(epsilon=1, labels=3, other="else")
    assert with_other.buckets == (0, 1, 2, "else")
    assert with_other.grouping("whole") == Grouping(largest=2)
    last_takes_all = HistogramQuery(epsilon=1, labels=2, other=2)
    assert last_takes_all.grouping("whole") == Grouping(largest=1)  # 2 and −1 both go to 2
    assert last_takes_all.changed(epsilon=2).buckets == (0, 1, 2)
    assert HistogramQuery(epsilon=1, labels=[1, 2]).grouping("whole") == Grouping(few_values=False)


@pytest.mark.parametrize("kind", ["text", "date", "other"])
def test_columns_that_a_count_cannot_take(kind: ColumnType) -> None:
    with pytest.raises(ValueOutOfRange, match="equals="):
        CountQuery(epsilon=1).grouping(kind)
    with pytest.raises(ValueOutOfRange, match="whole numbers"):
        IntegerSumQuery(epsilon=1, largest=5).grouping(kind)


def test_a_mean_is_its_sum_divided_by_the_rows() -> None:
    query = MeanQuery(epsilon=8, bounds=(0, 4))
    plan = query.plan(1000)
    total = plan.run(np.full(1000, 3.0))
    found = query.finish(total)
    assert (found.query, found.value, found.rmse) == ("mean", total.value / 1000, total.rmse / 1000)
    assert found.errors is not None and total.errors is not None
    assert np.allclose(found.errors()[0] * 1000, total.errors()[0])


def test_one_quantile_or_several() -> None:
    def asked(probabilities: Any) -> QuantilesQuery:
        return QuantilesQuery(epsilon=1, bounds=(0, 1), probabilities=probabilities, bins=8)

    assert asked("0.5").shown == (0.5,)
    assert asked((0.1, "0.9")).shown == (0.1, 0.9)
    mistakes: list[Any] = [[], 1, [0.5, 2], "x"]
    for wrong in mistakes:
        with pytest.raises(ParameterError):
            asked(wrong)


def test_a_value_to_count_gets_the_columns_type() -> None:
    assert comparable("TRUE", "truth") is True and comparable(0, "truth") is False
    assert comparable(str(2**53 + 1), "whole") == 2**53 + 1
    assert comparable("0.5", "real") == 0.5
    assert comparable("2020-01-01", "date") == dt.date(2020, 1, 1)
    for wanted, kind in ((1, "text"), ("1.5", "whole"), ("never", "date"), ("x", "other")):
        with pytest.raises(ParameterError):
            comparable(wanted, kind)  # type: ignore[arg-type]

"""Questions: planned once, checked when asked, and told how their column may be grouped."""

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
from shuffledp.queries.options import Options
from shuffledp.queries.quantiles.query import QuantilesQuery
from shuffledp.queries.questions import (
    CountQuery,
    HistogramQuery,
    IntegerSumQuery,
    MeanQuery,
    RealSumQuery,
)

NOTHING = Options()
KINDS: tuple[ColumnType, ...] = get_args(ColumnType)


def test_a_plan_is_made_once_for_equal_queries() -> None:
    one, two = CountQuery.of(NOTHING, 1), CountQuery.of(NOTHING, "1", equals=["unhashable"])
    assert one.plan(50) is two.plan(50)
    assert one.plan(50) is not one.plan(51)
    assert one.plan(50) is not CountQuery.of(Options.checked({"rmse": 9}), 1).plan(50)
    assert RealSumQuery.of(NOTHING, 8, (0, 1), False) != MeanQuery.of(NOTHING, 8, (0, 1), False)


def test_queries_travel_to_workers() -> None:
    for query in (
        CountQuery.of(NOTHING, 1),
        IntegerSumQuery.of(NOTHING, 1, 5, True),
        HistogramQuery.of(NOTHING, 1, ["a", "b"], "c"),
        QuantilesQuery.of(NOTHING, 1, (0, 1), 0.5, 8, True),
    ):
        assert pickle.loads(pickle.dumps(query)) == query


def test_which_columns_may_be_grouped() -> None:
    count = CountQuery.of(NOTHING, 1)
    assert count.grouping("truth") == Grouping()
    assert count.grouping("whole") == count.grouping("real") == Grouping(largest=1)
    total = IntegerSumQuery.of(NOTHING, 1, 5, True)
    assert total.grouping("whole") == Grouping(largest=5, clamp=True)
    assert all(RealSumQuery.of(NOTHING, 1, (0, 1), False).grouping(kind) is None for kind in KINDS)
    numbered, named = (
        HistogramQuery.of(NOTHING, 1, 7, None),
        HistogramQuery.of(NOTHING, 1, ["a", "b"], None),
    )
    assert numbered.grouping("whole") == Grouping(largest=6)
    assert named.grouping("text") == Grouping(few_values=False)


def test_unknown_numbers_are_grouped_only_where_another_label_takes_them() -> None:
    with_other = HistogramQuery.of(NOTHING, 1, 3, "else")
    assert with_other.labels == (0, 1, 2, "else")
    assert with_other.grouping("whole") == Grouping(largest=2)
    last_takes_all = HistogramQuery.of(NOTHING, 1, 3, 2)
    assert last_takes_all.grouping("whole") == Grouping(largest=1)  # 2 and −1 both go to 2
    assert HistogramQuery.of(NOTHING, 1, [1, 2], None).grouping("whole") == Grouping(
        few_values=False
    )


@pytest.mark.parametrize("kind", ["text", "date", "other"])
def test_columns_that_a_count_cannot_take(kind: ColumnType) -> None:
    with pytest.raises(ValueOutOfRange, match="equals="):
        CountQuery.of(NOTHING, 1).grouping(kind)
    with pytest.raises(ValueOutOfRange, match="whole numbers"):
        IntegerSumQuery.of(NOTHING, 1, 5, False).grouping(kind)


def test_a_mean_is_its_sum_divided_by_the_rows() -> None:
    query = MeanQuery.of(NOTHING, 8, (0, 4), False)
    plan = query.plan(1000)
    total = plan.run(np.full(1000, 3.0))
    found = query.finish(total)
    assert (found.query, found.value, found.rmse) == ("mean", total.value / 1000, total.rmse / 1000)
    assert found.errors is not None and total.errors is not None
    assert np.allclose(found.errors()[0] * 1000, total.errors()[0])


def test_one_quantile_or_several() -> None:
    assert QuantilesQuery.of(NOTHING, 1, (0, 1), "0.5", 8, False).probabilities == (0.5,)
    assert QuantilesQuery.of(NOTHING, 1, (0, 1), (0.1, "0.9"), 8, False).probabilities == (0.1, 0.9)
    mistakes: list[Any] = [[], 1, [0.5, 2], "x"]
    for wrong in mistakes:
        with pytest.raises(ParameterError):
            QuantilesQuery.of(NOTHING, 1, (0, 1), wrong, 8, False)


def test_a_value_to_count_gets_the_columns_type() -> None:
    assert comparable("TRUE", "truth") is True and comparable(0, "truth") is False
    assert comparable(str(2**53 + 1), "whole") == 2**53 + 1
    assert comparable("0.5", "real") == 0.5
    assert comparable("2020-01-01", "date") == dt.date(2020, 1, 1)
    for wanted, kind in ((1, "text"), ("1.5", "whole"), ("never", "date"), ("x", "other")):
        with pytest.raises(ParameterError):
            comparable(wanted, kind)  # type: ignore[arg-type]

"""`where=` on Spark means what it means on one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import shuffledp
from shuffledp.data.arrow_conditions import kept_rows
from shuffledp.data.columns import FileFormat
from shuffledp.engines.spark.conditions import KEEP, with_keep
from shuffledp.errors import ParameterError

ROWS = 900
CONDITIONS = [
    "way = 'bus'",
    "not (way = 'bus') or fare is null",
    "way in ('bus', 'walk') and age >= 18",
    "way is not null and not yes",
    "fare > 1.5 and fare < age",
    "not fare > 1.5",
    "day >= '2024-05-10'",
    "age > 30.5",
]


def table() -> pd.DataFrame:
    n = np.arange(ROWS)
    return pd.DataFrame(
        {
            "way": np.array(["bus", "walk", "bike", None], object)[n % 4],
            "age": n % 90,
            "fare": np.where(n % 5 == 4, np.nan, n % 7 * 1.5),
            "yes": n % 2 == 0,
            "day": (np.datetime64("2024-05-01") + n % 30).astype(object),
            "place": np.array(["a", "b"])[n % 2],
            "row": n,
        }
    )


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(
        table().astype(object).where(table().notna(), None).to_dict("records"),
        "way string, age long, fare double, yes boolean, day date, place string, row long",
    )


def test_conditions_keep_the_same_rows_as_on_one_machine(frame: Any) -> None:
    for condition in CONDITIONS:
        rows = with_keep(frame, condition).select("row", KEEP).collect()
        there = np.array([keep for _, keep in sorted(tuple(row) for row in rows)])
        here = kept_rows(condition, table(), ROWS, FileFormat())
        assert (there == here).all() and 0 < here.sum() < ROWS, condition


def test_answers_are_about_the_rows_that_fit(frame: Any) -> None:
    data, where = table(), "way = 'bus' and age >= 18"
    part = data[(data.way == "bus") & (data.age >= 18)]
    asked: dict[str, Any] = {"epsilon": 8, "where": where}
    count = shuffledp.count(frame, column="place", equals="a", **asked)
    assert abs(count.value - (part.place == "a").sum()) < 8 * count.rmse
    assert count.users == ROWS and count.where == where
    total = shuffledp.integer_sum(frame, column="age", largest=100, **asked)
    assert abs(total.value - part.age.sum()) < 8 * total.rmse
    labels = shuffledp.histogram(frame, column="place", labels=["a", "b"], **asked)
    assert labels.labels == ("a", "b")
    assert np.abs(labels.values - [len(part), 0]).max() < 8 * labels.rmse
    grouped = shuffledp.integer_sum(
        frame, column="age", largest=100, by="place", groups=["a", "b"], **asked
    )
    assert np.abs(grouped.values - [part.age.sum(), 0]).max() < 8 * grouped.rmse
    mean = shuffledp.mean(frame, column="age", bounds=(0, 100), mse_overhead=8, **asked)
    assert mean.query == "mean" and abs(mean.value - part.age.mean()) < 8 * mean.rmse


def test_what_spark_does_not_take_is_refused(frame: Any) -> None:
    with pytest.raises(ParameterError, match="must be a condition"):
        shuffledp.count(frame, column="yes", epsilon=1, where=lambda rows: rows)
    with pytest.raises(ParameterError, match="leave where out"):
        shuffledp.frequencies(frame, column="place", epsilon=8, candidates=["a"], where="yes")

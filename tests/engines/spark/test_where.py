"""`where=` on Spark means what it means on one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from chance import reach

import shuffledp
from shuffledp.data.arrow_conditions import kept_rows
from shuffledp.data.columns import FileFormat
from shuffledp.engines.spark.conditions import KEEP, with_keep
from shuffledp.engines.spark.joined_columns import filtered
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.queries.frequencies.query import FrequenciesQuery

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
    assert abs(count.value - (part.place == "a").sum()) <= reach(count)
    assert count.users == ROWS and count.where == where
    total = shuffledp.integer_sum(frame, column="age", largest=100, **asked)
    assert abs(total.value - part.age.sum()) <= reach(total)
    labels = shuffledp.histogram(frame, column="place", labels=["a", "b"], **asked)
    assert labels.labels == ("a", "b")
    assert np.abs(labels.values - [len(part), 0]).max() <= reach(labels)
    grouped = shuffledp.integer_sum(
        frame, column="age", largest=100, by="place", groups=["a", "b"], **asked
    )
    assert np.abs(grouped.values - [part.age.sum(), 0]).max() <= reach(grouped)
    mean = shuffledp.mean(frame, column="age", bounds=(0, 100), mse_overhead=8, **asked)
    assert mean.query == "mean"
    assert abs(mean.value - part.age.mean()) < 14 * mean.rmse  # a user's rare jump is 5 RMSE


@pytest.mark.parametrize("candidates", [["a", "b"], []], ids=["histogram", "table"])
def test_frequencies_of_some_rows(frame: Any, candidates: list[str]) -> None:
    """Rows that are left out hold random labels: none of them is one of the candidates, and they
    are all different, so that they do not fill one bucket."""
    asked: dict[str, Any] = {"column": "place", "epsilon": 8, "seed": 3}
    found = shuffledp.frequencies(frame, candidates=candidates, where="age < 30", **asked)
    part = table()[table().age < 30].place.value_counts()
    shown = found if candidates else found.showing(["a", "b"])  # type: ignore[attr-defined]
    assert found.users == ROWS and found.where == "age < 30"
    assert np.abs(shown.values - part[["a", "b"]].to_numpy()).max() < 8 * shown.rmse
    # the twin: without the condition there are three times as many
    everybody = shuffledp.frequencies(frame, candidates=["a", "b"], **asked)
    assert np.abs(everybody.values - part[["a", "b"]].to_numpy()).min() > 8 * shown.rmse


def test_frequencies_of_numbers_of_some_rows_per_user(frame: Any) -> None:
    asked: dict[str, Any] = {"column": "age", "epsilon": 8, "user": "row", "rows_per_user": 1}
    found = shuffledp.frequencies(frame, candidates=[3, 80], where="age < 30", seed=3, **asked)
    assert found.users == ROWS
    assert np.abs(found.values - [ROWS / 90, 0]).max() < 8 * found.rmse


def test_heavy_hitters_of_some_rows(spark: Any) -> None:
    """Words that are frequent only among the rows that are left out are not found."""
    rows = pd.DataFrame({"word": ["bus", "walk"] * 4_000, "group": [0, 0, 1, 1] * 2_000})
    words = spark.createDataFrame(rows)
    asked: dict[str, Any] = {"column": "word", "epsilon": 8, "seed": 4}
    for where, expected in (("group = 1", {"bus", "walk"}), ("word = 'bus'", {"bus"})):
        found = shuffledp.heavy_hitters(words, where=where, **asked)
        assert set(found.labels) == expected and found.users == len(rows)
        fits = rows.query(where.replace(" = ", " == "))
        true = [(fits.word == word).sum() for word in found.labels]
        assert np.abs(found.values - true).max() < 8 * found.rmse


def test_labels_of_rows_that_are_left_out_are_all_different_and_stay(frame: Any) -> None:
    """A task that runs again gives the same, and another query gives others."""
    query = FrequenciesQuery(epsilon=1, column="place", where="age < 0")
    rows = with_keep(frame, query.where).selectExpr("place as value", f"{KEEP} as keep")
    drawn = filtered(rows, query)
    first, again, other = (
        [row[0] for row in one.collect()] for one in (drawn, drawn, filtered(rows, query))
    )
    assert first == again and len(set(first)) == ROWS and not set(first) & set(other)


@pytest.mark.parametrize("last", ["2024-05-30", "2024-05-30T12:00"])
def test_quantiles_of_dates_of_some_rows(frame: Any, last: str) -> None:
    asked: dict[str, Any] = {"epsilon": 8, "bounds": ("2024-05-01", last), "seed": 5}
    found = shuffledp.quantiles(frame, column="day", where="age < 15", **asked)
    here = shuffledp.quantiles(table(), column="day", where="age < 15", **asked)
    assert found.users == ROWS
    for there, one in zip(found.shown(), here.shown(), strict=True):
        assert abs(there.value - one.value) < (
            2 if "T" not in last else 2 * 86_400
        )  # all kept rows are in the first half of May
    short: dict[str, Any] = {**asked, "bounds": ("2024-05-01", "2024-05-12")}
    with pytest.raises(ValueOutOfRange, match="outside"):
        shuffledp.quantiles(frame, column="day", where="age < 15", **short)


@pytest.mark.parametrize(
    ("value", "bounds"),
    [("15", (0, 13)), ("8D", (0, 7)), ("date'2024-05-14'", ("2024-05-01", "2024-05-12"))],
    ids=["whole", "real", "date"],
)
def test_no_kept_value_is_taken_for_an_excluded_row(spark: Any, value: str, bounds: Any) -> None:
    """Excluded rows get a value above the bounds, which a kept row may have, too."""
    rows = spark.range(60).selectExpr(f"{value} as value", "id < 40 as kept")
    asked: dict[str, Any] = {"column": "value", "epsilon": 8, "bounds": bounds, "where": "kept"}
    with pytest.raises(ValueOutOfRange, match="outside"):
        shuffledp.quantiles(rows, **asked)
    found = shuffledp.quantiles(rows, **asked, clamp=True)
    assert found.counts.sum() == pytest.approx(40, abs=5)


def test_bounds_are_those_of_kept_rows(frame: Any) -> None:
    """Rows that are left out hold 0; kept values between 0 and the bounds are not allowed for
    that reason."""
    asked: dict[str, Any] = {"column": "age", "epsilon": 8, "bounds": (20, 100), "rmse": 400}
    with pytest.raises(ValueOutOfRange):
        shuffledp.real_sum(frame, where="age >= 19", **asked)
    data = table()
    for where, clamp in (("age >= 20", False), ("yes", True)):
        found = shuffledp.real_sum(frame, where=where, clamp=clamp, **asked)
        fits = data.age[data.yes].clip(20) if clamp else data.age[data.age >= 20]
        assert abs(found.value - fits.sum()) <= reach(found)


def test_what_spark_does_not_take_is_refused(frame: Any) -> None:
    with pytest.raises(ParameterError, match="must be a condition"):
        shuffledp.count(frame, column="yes", epsilon=1, where=lambda rows: rows)

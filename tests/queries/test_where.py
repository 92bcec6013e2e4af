"""`where=`: answers about some rows, with the number of these rows kept private."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run

import shuffledp
from shuffledp.data.arrow_conditions import kept_rows
from shuffledp.data.columns import FileFormat
from shuffledp.data.conditions import columns_of, parsed
from shuffledp.errors import DataError, ParameterError, ValueOutOfRange
from shuffledp.queries.quantiles.query import QuantilesQuery

ROWS = 2_000


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    n = np.arange(ROWS)
    return pd.DataFrame(
        {
            "way": np.array(["bus", "walk", "bike", None], object)[n % 4],
            "age": n % 90,
            "fare": np.where(n % 5 == 4, np.nan, n % 7 * 1.5),
            "yes": n % 2 == 0,
            "day": pd.Timestamp("2024-05-01") + pd.to_timedelta(n % 30, unit="D"),
            "tall name": n % 3,
            "place": np.array(["a", "b"])[n % 2],
        }
    )


CONDITIONS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "way = 'bus'": lambda d: d.way == "bus",
    "way != 'bus'": lambda d: d.way.notna() & (d.way != "bus"),
    "not (way = 'bus')": lambda d: d.way.notna() & (d.way != "bus"),
    "way is null or age < 10": lambda d: d.way.isna() | (d.age < 10),
    'way in ("bus", "walk") and age >= 18': lambda d: d.way.isin(["bus", "walk"]) & (d.age >= 18),
    "way not in ('bus')": lambda d: d.way.notna() & (d.way != "bus"),
    "yes": lambda d: d.yes,
    "not yes and age = 3": lambda d: ~d.yes & (d.age == 3),
    "yes = false": lambda d: ~d.yes,
    "fare > 1.5": lambda d: d.fare > 1.5,
    "not fare > 1.5": lambda d: d.fare <= 1.5,
    "fare is not null": lambda d: d.fare.notna(),
    "18 <= age and age <= 30.5": lambda d: (d.age >= 18) & (d.age <= 30),
    "day >= '2024-05-20T00:00'": lambda d: d.day >= "2024-05-20",
    "`tall name` = 2": lambda d: d["tall name"] == 2,
    "fare > age": lambda d: d.fare > d.age,
    "age > -1": lambda d: d.age > -1,
    "way = 'bus' or way = 'walk' and yes": lambda d: (d.way == "bus") | ((d.way == "walk") & d.yes),
}


def sources(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """The same table in every form."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, folder / "t.parquet")
    frame.assign(day=frame.day.dt.strftime("%Y-%m-%dT%H:%M:%S")).to_csv(
        folder / "t.csv", index=False
    )
    named = frame.assign(way=frame.way.astype("category"))
    return {
        "pandas": frame,
        "pandas categories": named,
        "polars": pl.from_arrow(table),
        "arrow": table,
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
    }


def test_conditions_mean_the_same_in_every_source(frame: pd.DataFrame, tmp_path: Path) -> None:
    for name, data in sources(frame, tmp_path).items():
        for condition, expected in CONDITIONS.items():
            kept = kept_rows(condition, data, ROWS, FileFormat())
            wanted = np.asarray(expected(frame), bool)
            assert (kept == wanted).all(), (name, condition)
            assert 0 < wanted.sum() < ROWS or condition == "age > -1"  # else it shows nothing


@pytest.mark.parametrize(
    "text",
    [
        "",
        "way",
        "way =",
        "way = bus = 3",
        "1 = 1",
        "'a' = 'b'",
        "way = 'bus' and",
        "(way = 'bus'",
        "__import__('os').system('x')",
        "way.str.len() > 3",
        "way = 'bus'; drop",
        "age in ()",
        "age in (way)",
        "way is 3",
        "way not 3",
        "(" * 60 + "yes" + ")" * 60,
        "x" * 10_001,
        "age = 'three'",
        "way = 3",
        "yes < true",
        "way > age",
        "day > 'yesterday'",
        "height > 3",
    ],
)
def test_what_is_no_condition_is_refused_in_one_sentence(frame: pd.DataFrame, text: str) -> None:
    with pytest.raises(ParameterError) as refused:
        shuffledp.count(frame, column="yes", epsilon=1, where=text)
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


def test_columns_of_a_condition() -> None:
    assert columns_of(parsed("a = 1 and (b is null or not c in (1, 2)) and a < d")) == list("abcd")


def test_every_answer_is_about_the_rows_that_fit(frame: pd.DataFrame) -> None:
    where, fits = "way = 'bus' and age >= 18", (frame.way == "bus") & (frame.age >= 18)
    asked: dict[str, Any] = {"epsilon": 8, "where": where}
    part = frame[fits]
    count = shuffledp.count(frame, column="yes", **asked)
    assert near(count, part.yes.sum()) and count.users == ROWS
    equals = shuffledp.count(frame, column="place", equals="a", **asked)
    assert near(equals, (part.place == "a").sum())
    assert near(shuffledp.integer_sum(frame, column="age", largest=100, **asked), part.age.sum())
    total = shuffledp.real_sum(frame, column="age", bounds=(0, 100), rmse=200, **asked)
    assert near(total, part.age.sum())
    labels = shuffledp.histogram(frame, column="tall name", labels=3, **asked)
    assert labels.labels == (0, 1, 2)
    assert np.abs(labels.values - np.bincount(part["tall name"])).max() < 8 * labels.rmse
    places = shuffledp.histogram(frame, column="place", labels=["a"], other="else", **asked)
    assert places.labels == ("a", "else")
    assert np.abs(places.values - [len(part), 0]).max() < 8 * places.rmse
    domains: dict[str, Any] = {"place": ["a", "b"], "tall name": 3}
    table = shuffledp.histogram(frame, by=["place", "tall name"], domains=domains, **asked)
    assert len(table.values) == 6 and abs(table.values.sum() - len(part)) < 20 * table.rmse
    found = shuffledp.frequencies(frame, column="place", candidates=["a", "b"], **asked)
    assert np.abs(found.values - [len(part), 0]).max() < 8 * found.rmse


def near(result: Any, expected: float) -> bool:
    return bool(abs(result.value - expected) < 8 * result.rmse + 1e-9)


def test_a_mean_of_some_rows_is_a_ratio_of_two_private_numbers(frame: pd.DataFrame) -> None:
    asked: dict[str, Any] = {"column": "age", "bounds": (0, 100), "epsilon": 8, "mse_overhead": 8}
    true = frame[frame.way == "bus"].age.mean()
    runs = [shuffledp.mean(frame, where="way = 'bus'", seed=run, **asked) for run in range(20)]
    for found in runs:
        assert found.query == "mean" and abs(found.value - true) < 8 * found.rmse
        assert found.users == ROWS
    # 95 % intervals hold the truth in fewer of 20 runs with a probability of 3 in 100,000
    assert sum(found.low <= true <= found.high for found in runs) >= 14
    # the twin: intervals around the mean of all rows
    away = frame.age.mean() - true
    assert sum(found.low + away <= true <= found.high + away for found in runs) < 14


def test_groups_and_users_go_with_a_condition(frame: pd.DataFrame) -> None:
    where, fits = "way = 'bus' or way = 'walk'", frame.way.isin(["bus", "walk"])
    asked: dict[str, Any] = {"column": "age", "epsilon": 8, "by": "place", "where": where}
    true = frame[fits].groupby("place").age.sum()
    for more in ({"groups": ["a", "b"]}, {"groups_public": True}):
        sums = shuffledp.integer_sum(frame, largest=100, **asked, **more)
        assert sums.labels == ("a", "b") and sums.users == ROWS
        assert np.abs(sums.values - true.to_numpy()).max() < 8 * sums.rmse
        assert "how many fit stays private" in sums.about
    bounds: dict[str, Any] = {"bounds": (0, 100), "mse_overhead": 8}
    means = shuffledp.mean(frame, groups=["a", "b"], **bounds, **asked)
    true = frame[fits].groupby("place").age.mean()
    assert np.abs(means.values - true.to_numpy()).max() < 8 * means.rmse
    with pytest.raises(ParameterError, match="public groups"):
        shuffledp.mean(frame, groups_public=True, **bounds, **asked)
    ids = np.arange(ROWS) // 2
    per_user = shuffledp.integer_sum(
        frame, column="age", largest=200, epsilon=8, user=ids.tolist(), where=where
    )
    assert per_user.users == ROWS // 2 and near(per_user, frame[fits].age.sum())


def test_a_condition_does_not_change_the_plan_or_what_is_published(frame: pd.DataFrame) -> None:
    """Whatever the condition keeps, the same number is public and the same protocol runs."""
    asked: dict[str, Any] = {"column": "yes", "epsilon": 1, "seed": 1}
    one, none = (shuffledp.count(frame, where=text, **asked) for text in ("yes", "age = 91"))
    assert one.certificate == none.certificate and one.users == none.users == ROWS
    assert one.where == one.to_dict()["where"] == "yes" and f"public: {ROWS:,} users" in str(one)
    everybody = shuffledp.count(frame, **asked)
    assert "where" not in everybody.to_dict() and "public: 2,000 users" in str(everybody)
    # the twin: a filtered frame shows the exact number of its rows
    assert shuffledp.count(frame[frame.way == "bus"], **asked).users == 500


def test_functions_are_for_frames_and_say_yes_or_no(frame: pd.DataFrame, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"column": "yes", "epsilon": 8}
    found = shuffledp.count(frame, where=lambda rows: rows.way == "bus", **asked)
    assert near(found, 500) and found.where == "by a function of the data"
    polars = pl.from_pandas(frame)
    assert near(shuffledp.count(polars, where=lambda rows: rows["age"] < 45, **asked), 516)
    assert near(shuffledp.count([True] * 9, epsilon=8, where=lambda rows: [True] * 9), 9)
    for wrong in (lambda d: d.age, lambda d: [True], lambda d: [None] * ROWS):
        with pytest.raises(DataError, match="every row"):
            shuffledp.count(frame, where=wrong, **asked)
    with pytest.raises(ParameterError, match="index of where differs"):
        shuffledp.count(frame, where=lambda d: (d.age < 9).sort_values(), **asked)
    with pytest.raises(ParameterError, match="For a file, where must be a condition"):
        shuffledp.count("sample:commute", where=lambda d: d, column="bikes", epsilon=8)
    with pytest.raises(ParameterError, match="names columns"):
        shuffledp.count([True, False], where="yes", epsilon=8)
    with pytest.raises(ParameterError, match="condition or a function"):
        shuffledp.count(frame, where=cast("Any", 3), **asked)


def test_values_outside_the_bounds_are_refused_where_rows_are_kept(frame: pd.DataFrame) -> None:
    asked: dict[str, Any] = {"column": "age", "epsilon": 8, "rmse": 400}
    with pytest.raises(ValueOutOfRange):
        shuffledp.real_sum(frame, bounds=(20, 100), where="yes", **asked)
    found = shuffledp.real_sum(frame, bounds=(20, 100), where="age >= 20", **asked)
    assert near(found, frame.age[frame.age >= 20].sum())  # rows that are left out hold 0


def test_the_command_takes_a_condition(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys,
        "count",
        "sample:commute",
        "--column",
        "bikes",
        "--epsilon",
        "8",
        "--where",
        "way = 'bike'",
    )
    assert code == 0 and "stays private" in " ".join(out.split())
    code, _, error = run(
        capsys,
        "count",
        "sample:commute",
        "--column",
        "bikes",
        "--epsilon",
        "8",
        "--where",
        "way ==",
    )
    assert code != 0 and "condition" in error


def quantiles_table(rows: int) -> pd.DataFrame:
    """Kept rows are higher than the others."""
    rng = np.random.default_rng(8)
    group = rng.integers(0, 4, rows)
    real = np.clip(rng.normal(40 + 20 * (group == 1), 10), 0, 100)
    days = pd.Timestamp("2024-05-01") + pd.to_timedelta(np.floor(real), unit="D")
    return pd.DataFrame({"group": group, "real": real, "whole": real.astype(int), "day": days})


QUANTILES: dict[str, Any] = {
    "real": (0, 100),
    "whole": (0, 100),
    "day": ("2024-05-01", "2024-08-09"),
}


@pytest.mark.parametrize("column", QUANTILES)
def test_quantiles_of_some_rows(column: str) -> None:
    table = quantiles_table(5_000)
    asked = {
        "epsilon": 8,
        "bounds": QUANTILES[column],
        "bins": 28,
        "probabilities": [0.1, 0.5, 0.9],
    }
    found = shuffledp.quantiles(table, column=column, where="group = 1", **asked)
    held = table[column][table.group == 1]
    numbers = held.astype("datetime64[s]").astype(np.int64) // 86_400 if column == "day" else held
    truth = np.quantile(numbers, [0.1, 0.5, 0.9], method="inverted_cdf")
    shown = found.shown()
    assert found.users == 5_000 and found.where == "group = 1"
    assert [one.low <= true <= one.high for one, true in zip(shown, truth, strict=True)] == [
        True
    ] * 3
    assert max(abs(one.value - true) for one, true in zip(shown, truth, strict=True)) < 4
    if column == "real":
        everybody = found.between(0, 200)
        assert everybody.low <= len(held) <= everybody.high and everybody.rmse > 0
        # twin: the quantiles of all rows are others
        whole = shuffledp.quantiles(table, column=column, **asked).shown()
        assert abs(whole[1].value - truth[1]) > 8


def test_intervals_of_quantiles_of_some_rows_hold_the_truth() -> None:
    """95 % intervals, 60 runs; the twin takes the number of kept rows for known and wrong."""
    table = quantiles_table(2_000)
    query = QuantilesQuery(epsilon=1, bounds=(0, 100), bins=28, where="group = 1")
    kept = (table.group == 1).to_numpy()
    asked, values = query.of_filtered(), query.filtered(table.real.to_numpy(), kept)
    protocol, entropy = asked.plan(len(table)).protocol, shuffledp.SeededEntropy(4)
    tally = protocol.tally(protocol.encode(values))
    truth = float(np.quantile(table.real[kept], 0.5, method="inverted_cdf"))
    held = missed = 0
    for _ in range(60):
        view = protocol.release(protocol.aggregate_tally(tally, entropy))
        one = asked.finish(protocol.analyze(view)).quantile(0.5)
        held += one.low <= truth <= one.high
        wrong = protocol.analyze(view).quantile(0.5)  # the median of all rows, those above included
        missed += not wrong.low <= truth <= wrong.high
    assert held >= 53 and missed == 60


def test_kept_values_outside_the_bounds_are_refused_or_clipped() -> None:
    """Also those between the bound and the bin of the other rows."""
    values = pd.DataFrame({"x": [5.0, 10.0, 11.0] * 300, "keep": [True, True, True] * 300})
    asked: dict[str, Any] = {"column": "x", "epsilon": 8, "bounds": (0, 10), "bins": 14}
    with pytest.raises(ValueOutOfRange, match="outside"):
        shuffledp.quantiles(values, where="keep", **asked)
    found = shuffledp.quantiles(values, where="keep", clamp=True, **asked).quantile(0.99)
    assert found.value <= 10 and found.high <= 10
    query = QuantilesQuery(epsilon=8, bounds=(0, 10), bins=14, where="keep")
    with pytest.raises(ValueOutOfRange, match="outside"):  # where rows are filtered elsewhere
        query.of_filtered().prepare(np.array([5.0, 11.0]))


def test_the_float_nearest_to_a_bound_is_in_the_last_bin_with_a_condition_too() -> None:
    """0.1 is a little above 1/10."""
    values = np.array([0.1] * 50)
    query = QuantilesQuery(epsilon=8, bounds=("0.03", "0.1"), bins=14, where="keep", points=False)
    found = query.filtered(values, np.ones(50, bool))
    assert (found < 0.1).all() and (found == query.of_filtered().prepare(values)).all()
    result = shuffledp.quantiles(
        pd.DataFrame({"x": values, "keep": True}),
        column="x",
        epsilon=8,
        bounds=(0, "0.1"),
        bins=7,
        where="keep",
        seed=1,
    )
    assert result.counts[13] == pytest.approx(50, abs=2)  # the last of 14 bins


@pytest.mark.parametrize("more", [{"where": "age > 9"}, {"by": "way", "groups": ["bus", "walk"]}])
def test_the_error_about_rows_of_users_names_the_query_that_was_asked(
    frame: pd.DataFrame, more: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"column": "age", "bounds": (0, 90), "user": "place", "epsilon": 1}
    with pytest.raises(ParameterError, match=f"^For mean with {next(iter(more))}, say how many"):
        shuffledp.mean(frame, **asked, **more)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "csv", "parquet"])
def test_values_may_be_missing_in_rows_that_are_excluded(
    frame: pd.DataFrame, tmp_path: Path, kind: str
) -> None:
    csv, parquet = tmp_path / "t.csv", tmp_path / "t.parquet"
    frame.to_csv(csv, index=False)
    pq.write_table(pa.Table.from_pandas(frame), parquet)
    data: Any = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
        "csv": csv,
        "parquet": parquet,
    }[kind]
    held: dict[str, Any] = {"epsilon": 8, "where": "fare is not null"}
    total = shuffledp.real_sum(data, column="fare", bounds=(0, 9), **held)
    assert total.users == ROWS and abs(total.value - frame.fare.sum()) < 8 * total.rmse
    halves = shuffledp.quantiles(data, column="fare", bounds=(0, 9), probabilities=0.5, **held)
    assert halves.users == ROWS
    ways = shuffledp.histogram(
        data, column="way", labels=["bus", "walk", "bike"], epsilon=8, where="way is not null"
    )
    assert (np.abs(ways.values - ROWS / 4) < 8 * ways.rmse).all()
    with pytest.raises(DataError, match="missing"):  # the twin: kept rows need values
        shuffledp.real_sum(data, column="fare", bounds=(0, 9), epsilon=8, where="age > 9")

"""What readers once answered wrongly without a word, or with an error that was no sentence."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chance import reach

import shuffledp
from shuffledp.data.arrow_conditions import kept_rows
from shuffledp.data.columns import AS_IT_IS, FileFormat, column_of
from shuffledp.engines.rows_per_user import summed
from shuffledp.errors import DataError, ParameterError

USERS = 2_000


def read(source: object, column: str | None = None, **how: Any) -> tuple[str, list[Any]]:
    found = column_of(source, column, FileFormat(**how))
    return found.holds, found.values().tolist()


def kept(where: str, data: object, rows: int = 3) -> list[bool]:
    return [bool(one) for one in kept_rows(where, data, rows, AS_IT_IS)]


def near(result: Any, truth: float) -> bool:
    return bool(abs(result.value - truth) <= reach(result))


# decimals


@pytest.fixture
def decimals() -> pa.Table:
    return pa.table({"price": pa.array([Decimal("0.3"), Decimal("0.7"), Decimal("0.6")] * 60)})


def test_decimals_are_the_nearest_doubles(decimals: pa.Table, tmp_path: Path) -> None:
    pq.write_table(decimals, tmp_path / "table.parquet")
    for source in (decimals, tmp_path / "table.parquet", pl.from_arrow(decimals)):
        assert read(source, "price")[1][:3] == [0.3, 0.7, 0.6]
        found = shuffledp.count(source, column="price", equals=0.7, epsilon=8)
        assert near(found, 60)
    places = [Decimal(number).scaleb(-4) for number in range(1, 5_000, 7)]
    assert read(pa.table({"price": places}), "price")[1] == [float(one) for one in places]


def test_conditions_compare_decimals(decimals: pa.Table) -> None:
    assert kept("price = 0.3 or price = 0.7", decimals, 180)[:3] == [True, True, False]


# columns that belong together


def lazy_polars() -> Any:
    """Every user twice; the value says whose it is. A group comes in any order."""
    users = np.tile(np.arange(USERS), 2)
    frame = pl.LazyFrame({"user": users, "group": users % 2, "value": users % 2})
    return frame.group_by("user").agg(pl.col("group").first(), pl.col("value").first())


def lazy_duckdb() -> Any:
    """The same of more users, in a table, so that several threads read it."""
    connection = pytest.importorskip("duckdb").connect()
    connection.execute("create table t as select i % 50_000 as u from range(2_000_000) rows(i)")
    return connection.sql('select u as "user", u % 2 as "group", u % 2 as value from t group by u')


def test_a_condition_beside_the_only_column_of_a_lazy_frame() -> None:
    """The value is 0 where it is kept, so none is 1."""
    only = lazy_polars().select("value")
    assert abs(shuffledp.count(only, epsilon=8, where="value = 0").value) < 5


@pytest.mark.parametrize("made", [lazy_polars, lazy_duckdb])
def test_a_function_of_a_lazy_frame_is_refused(made: Callable[[], Any]) -> None:
    asked: dict[str, Any] = {"epsilon": 8, "column": "value", "where": lambda one: one}
    groups: dict[str, Any] = {"by": "group", "groups": [0, 1]}
    for more in ({}, groups):
        with pytest.raises(ParameterError, match="collect the frame first"):
            shuffledp.count(made(), **asked, **more)


def test_dates_that_are_no_whole_days_fall_on_their_day() -> None:
    column = pa.array([-1, 0, 86_399_999], pa.int64()).view(pa.date64())
    assert [str(day) for day in column_of(column).values()] == [
        "1969-12-31",
        "1970-01-01",
        "1970-01-01",
    ]


@pytest.mark.parametrize("made", [lazy_polars, lazy_duckdb])
def test_lazy_frames_are_evaluated_once(made: Any) -> None:
    asked: dict[str, Any] = {"column": "value", "epsilon": 8}
    grouped = shuffledp.count(made(), by="group", groups=[0, 1], **asked)
    assert abs(grouped.values[0]) <= reach(grouped)
    assert near(shuffledp.count(made(), where="group = 0", **asked), 0)
    domains = {"group": [0, 1], "value": [0, 1]}
    table = shuffledp.histogram(made(), by=list(domains), domains=domains, epsilon=8)
    assert abs(table.values[1]) <= reach(table)


def test_lazy_frames_of_wrong_columns_are_refused_with_all_names() -> None:
    with pytest.raises(ParameterError, match="no column 'else'; there are user, group, value"):
        shuffledp.count(lazy_polars(), column="value", by="else", groups=[0, 1], epsilon=8)


def test_columns_of_duckdb_with_one_name_are_refused() -> None:
    duckdb = pytest.importorskip("duckdb")
    for other in ("a", "A"):
        relation = duckdb.connect().sql(f"select 1 as a, 0 as {other}")
        with pytest.raises(ParameterError, match="Two columns are named 'a'"):
            column_of(relation, "a")


def test_a_column_with_a_point_in_its_name_is_no_field(tmp_path: Path) -> None:
    table = pa.table({"pay": [{"gross": 1}, {"gross": 2}], "pay.gross": [7, 8]})
    pq.write_table(table, tmp_path / "table.parquet")
    assert read(tmp_path / "table.parquet", "pay.gross") == ("whole", [7, 8])


# lists and arrays


def test_lists_of_numpy_times_are_times() -> None:
    times = np.array(["2024-05-01T10:00", "2024-05-02T11:00"], "datetime64[ns]")
    assert read(list(times)) == read(times.astype("datetime64[us]"))
    gap = np.append(times, np.datetime64("NaT"))
    assert read(gap, fill=times[0])[1] == read([*times, times[0]])[1]
    with pytest.raises(DataError, match="missing"):
        read(list(gap))
    with pytest.raises(DataError, match="other than true/false"):
        read(list(times - times[0]))


def test_long_and_short_numpy_numbers_in_lists() -> None:
    assert read([np.longdouble("1.5"), np.float32(0.5)]) == ("real", [1.5, 0.5])
    assert read([np.float32("nan"), np.float32(0.5)], fill=1.0)[1] == [1.0, 0.5]
    with pytest.raises(DataError, match="other than true/false"):
        read([np.clongdouble(1)])


def test_rows_of_a_user_in_single_precision_are_added_in_double() -> None:
    users = np.zeros(4, np.int64)
    assert summed(users, np.array([2**24, 1, 1, 1], np.float32)).tolist() == [2**24 + 3]
    assert summed(users, np.full(4, 60_000, np.float16)).tolist() == [
        240_000 // 32 * 32 - 128 + 128
    ]


@pytest.mark.parametrize("bounds", [(10, 100), (-20, -10)])
def test_unsigned_values_are_clipped_on_both_sides(bounds: tuple[int, int]) -> None:
    values = np.array([5, 20, 200] * 100, np.uint8)
    found = shuffledp.quantiles(values, bounds=bounds, points=True, clamp=True, epsilon=8)
    assert bounds[0] <= found.quantile(0.5).value <= bounds[1]


def test_an_entry_of_a_dictionary_that_no_row_has_is_not_missing() -> None:
    column = pa.DictionaryArray.from_arrays([0, 1, 0], [1.5, 2.5, float("nan")])
    assert read(pa.table({"a": column}), "a") == ("real", [1.5, 2.5, 1.5])


# files


def test_a_packed_file_with_capital_letters(tmp_path: Path) -> None:
    (tmp_path / "PEOPLE.CSV.GZ").write_bytes(gzip.compress(b"a\n1\n2\n"))
    assert read(tmp_path / "PEOPLE.CSV.GZ") == ("whole", [1, 2])


def test_texts_in_parquet_that_are_not_utf_8(tmp_path: Path) -> None:
    texts = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": texts}), tmp_path / "table.parquet", use_dictionary=False)
    column = column_of(tmp_path / "table.parquet", "a")
    assert column.coded is not None and column.counted is not None
    for read_all in (column.batches, column.coded, column.counted):
        with pytest.raises(DataError, match="not UTF-8"):
            list(read_all())


def test_unsigned_numbers_of_64_bits_in_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    numbers = [2**63 + 1, 2**63, 7]
    path.write_text("a\n" + "\n".join(map(str, numbers)), encoding="utf-8")
    assert read(path) == read(np.array(numbers, np.uint64)) == ("whole", numbers)


def test_points_between_thousands_after_many_whole_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shuffledp.data.files.BLOCK_BYTES", 64)
    path = tmp_path / "table.csv"
    path.write_text("a;b\n" + "1;0,5\n" * 50 + "1.234;0,5\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"may be\s+1234 or 1\.234"):
        read(path, "a", delimiter=";")


# conditions


def test_conditions_compare_unsigned_numbers_exactly() -> None:
    frame = pd.DataFrame({"u": np.array([2**63, 2**53, 2**53 + 1], np.uint64), "x": [1, 2, 3]})
    assert kept("u = 9007199254740993", frame) == [False, False, True]
    assert kept("u = 9223372036854775808", frame) == [True, False, False]
    assert kept("u > -1 and x < u", frame) == [True, True, True]


def test_conditions_compare_nanoseconds_with_every_year() -> None:
    times = pa.table({"t": pa.array([0, 1_000, 2_000], pa.timestamp("ns"))})
    assert kept("t < '9999-01-01T00:00' and t > '0002-01-01T00:00'", times) == [True] * 3
    assert kept("t > '1970-01-01T00:00:00.000001'", times) == [False, False, True]


def test_conditions_compare_half_precision() -> None:
    table = pa.table({"x": pa.array(np.array([0.5, 1.5, 2.5], np.float16))})
    assert kept("x > 1", table) == [False, True, True]


def test_conditions_with_many_parts() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]})
    assert kept(" or ".join(["x=2"] * 1_400), frame) == [False, True, False]


@pytest.mark.parametrize("number", ["1e400", "9" * 400, "9" * 5_000])
def test_numbers_that_are_too_large_for_a_condition(number: str) -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]})
    with pytest.raises(ParameterError, match="too large"):
        kept(f"x < {number}", frame)
    assert kept(f"x < 1{'0' * 30}", frame) == [True] * 3

"""Spark reads a table as the readers of one machine do: the same tally, or the same refusal."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chance import reach
from readers import QUERIES, as_sources, outcome

import shuffledp
from shuffledp import spark as cluster
from shuffledp.data.columns import FileFormat, column_of
from shuffledp.engines.spark import columns, executor
from shuffledp.errors import DataError, ParameterError, ShuffleDPError
from shuffledp.queries.base import Query

COLUMNS: dict[str, list[Any]] = {
    "truth": [True, False, True],
    "whole": [0, 3, 7, -1],
    "real": [0.5, 1.0, 5.0],
    "text": ["a", "b,c", "a", "東京"],
    "known texts": ["a", "b,c", "Köln"],
    "date": [dt.date(2020, 2, 29), dt.date(2020, 3, 1)],
    "gaps": [1, None, 0],
    "texts with gaps": ["a", None],
}


def spark_refusal(frame: Any, query: Query[Any]) -> tuple[Any, Any] | None:
    """What Spark's executor refuses; None if it answers."""
    try:
        executor.run(replace(query, column="value"), frame)
    except ShuffleDPError as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("kind", COLUMNS)
def test_spark_refuses_what_one_machine_refuses(spark: Any, tmp_path: Path, kind: str) -> None:
    sources = as_sources(COLUMNS[kind], tmp_path)
    frame = spark.read.parquet(str(tmp_path / "table.parquet")).cache()
    for name, query in QUERIES.items():
        here = outcome(name, *sources["parquet"])
        there = spark_refusal(frame, query)
        if there is None:
            assert isinstance(here[0], int), (name, here)
        else:
            assert there == here, name
    frame.unpersist()


@pytest.mark.parametrize(
    ("sql", "right", "wrong"),
    [
        ("timestamp'2020-01-01 12:00:00+01:00'", "2020-01-01T11:00Z", "2020-01-01T12:00"),
        ("timestamp_ntz'2020-01-01 12:00:00'", "2020-01-01T12:00", "2020-01-01"),
        ("date'2020-01-01'", "2020-01-01", "2020-01-01T00:00"),
        ("cast(0.1 as float)", "0.1", "x"),
        ("cast(0.1 as double)", 0.1, "x"),
    ],
    ids=["instant", "time", "date", "float", "double"],
)
def test_values_are_compared_as_on_one_machine(
    spark: Any, sql: str, right: object, wrong: object
) -> None:
    frame = spark.range(200).selectExpr(f"{sql} as value")
    assert cluster.count(frame, epsilon=8, equals=right).value == pytest.approx(200, abs=5)
    with pytest.raises(ParameterError):
        cluster.count(frame, epsilon=8, equals=wrong)


def test_labels_of_true_and_false_on_spark(spark: Any) -> None:
    frame = spark.range(300).selectExpr("id % 3 = 0 as value")
    found = cluster.histogram(frame, epsilon=8, labels=[True, False])
    assert np.abs(found.values - [100, 200]).max() <= reach(found)
    total = cluster.integer_sum(frame, epsilon=8, largest=1)
    assert total.value == pytest.approx(100, abs=reach(total))


def test_the_ledger_keeps_sparks_results(spark: Any, tmp_path: Path) -> None:
    ledger = shuffledp.Ledger.create(tmp_path / "budget.json", 1)
    frame = spark.range(100).selectExpr("id / 100 as value")
    found = cluster.mean(frame, epsilon=1, bounds=(0, 1), ledger=ledger, note="from Spark")
    (entry,) = ledger.entries()
    assert entry.result == found.to_dict() and entry.note == "from Spark"


def test_missing_values_are_not_counted_out_loud(spark: Any) -> None:
    frame = spark.range(100).selectExpr("if(id % 7 = 0, null, id % 2) as value")
    with pytest.raises(DataError, match="has missing values") as caught:
        cluster.count(frame, epsilon=8)
    assert not any(character.isdigit() for character in str(caught.value))


CSV_COLUMNS = {
    "whole": ["0", "3", "-7", "007"],
    "too large": ["1", "99999999999999999999"],
    "real": ["0.5", "1", "1e3", ".5", "-2."],
    "truth": ["true", "False", "TRUE"],
    "date": ["2020-02-29", "2020-03-01"],
    "time": ["2020-02-29T12:00:00", "2020-03-01 00:00:00"],
    "words": ["a", "12 Main St", "5"],
    "gaps": ["1", "", "0"],
    "words for gaps": ["1", "N/A", "0"],
    "texts with gaps": ["a", "NULL"],
    "quotes and breaks": ["a", 'say ""no""', "b,c", "line\nbreak"],
}
UNCLEAR = {
    "plus": ["+5", "1"],
    "spaces": [" 5", "1"],
    "infinite": ["inf", "1"],
    "words and digits": ["true", "1"],
    "hours": ["12:30", "12:31"],
    "no such date": ["2020-02-30", "2020-03-01"],
    "zones": ["2020-02-29T12:00:00Z"],
    "hexadecimal": ["0x10"],
}


def csv_file(folder: Path, texts: list[str], only: bool = False) -> str:
    path = folder / "column.csv"
    lines = [f'"{text}"' for text in texts] if only else [f'x,"{text}"' for text in texts]
    path.write_text("\n".join(["value" if only else "other,value", *lines, ""]))
    return str(path)


@pytest.mark.parametrize("kind", CSV_COLUMNS)
def test_csv_columns_have_the_types_of_one_machine(spark: Any, tmp_path: Path, kind: str) -> None:
    path = csv_file(tmp_path, CSV_COLUMNS[kind])
    here = column_of(path, "value")
    values = columns.values_of(columns.read(spark, path), "value")
    missing = [row.value for row in values.collect()].count(None)
    assert columns.column_type(values) == here.holds
    try:
        mine = [value for batch in here.batches() for value in batch.tolist()]
    except DataError:
        assert missing == 1
        return
    assert missing == 0 and [row.value for row in values.collect()] == mine
    texts = columns.values_of(columns.read(spark, path), "value", as_text=True)
    assert columns.column_type(texts) == "text"


def test_twin_sparks_own_guess_differs(spark: Any, tmp_path: Path) -> None:
    path = csv_file(tmp_path, CSV_COLUMNS["words for gaps"])
    own = columns.values_of(spark.read.csv(path, header=True, inferSchema=True), "value")
    assert columns.column_type(own) != column_of(path, "value").holds


@pytest.mark.parametrize("kind", UNCLEAR)
def test_csv_columns_of_unclear_type_are_refused(spark: Any, tmp_path: Path, kind: str) -> None:
    table = columns.read(spark, csv_file(tmp_path, UNCLEAR[kind]))
    with pytest.raises(DataError, match="use Parquet"):
        columns.values_of(table, "value")


def test_csv_numbers_that_spark_would_change_are_refused(spark: Any, tmp_path: Path) -> None:
    path = csv_file(tmp_path, ["1", "9223372036854775809"])
    assert column_of(path, "value").holds == "whole"
    with pytest.raises(DataError, match="64 bits without a sign"):
        columns.values_of(columns.read(spark, path), "value")
    table = tmp_path / "thousands.csv"
    table.write_text("value;other\n1.234;0,5\n1.500;2,5\n")
    with pytest.raises(DataError, match=r"numbers such as 1\.234"):
        column_of(table, "value", FileFormat(delimiter=";"))
    with pytest.raises(DataError, match=r"numbers such as 1\.234"):
        columns.values_of(columns.read(spark, str(table), delimiter=";"), "value")
    table.write_text("value;other\n1.234;0.5\n1.500;2.5\n")
    values = columns.values_of(columns.read(spark, str(table), delimiter=";"), "value")
    assert [row.value for row in values.collect()] == [1.234, 1.5]


def test_csv_lines_that_spark_would_pass_over_are_refused(spark: Any, tmp_path: Path) -> None:
    alone = Path(csv_file(tmp_path, ["1", "0"], only=True))
    columns.values_of(columns.read(spark, str(alone)), None)  # complete: taken
    alone.write_text("value\n1\n\n0\n")
    with pytest.raises(DataError, match="has missing values"):
        columns.values_of(columns.read(spark, str(alone)), None)
    alone.write_bytes("value\nKöln\n".encode("latin-1"))
    with pytest.raises(DataError, match="encoding"):
        columns.values_of(columns.read(spark, str(alone)), None)
    alone.write_text("other,value\n1,2\n1\n")
    with pytest.raises(ShuffleDPError):
        columns.values_of(columns.read(spark, str(alone)), "value")


def test_files_of_another_encoding_on_spark(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_text("Stadt;n\n" + "Köln;1\nBonn;2\n" * 50, encoding="latin-1")
    frame = columns.read(spark, str(path), encoding="latin-1", delimiter=";")
    found = cluster.count(frame, column="Stadt", equals="Köln", epsilon=8)
    assert found.value == pytest.approx(50, abs=5)
    with pytest.raises(ParameterError, match="read already"):
        executor.run(replace(QUERIES["count"], encoding="latin-1"), frame)


def test_header_lines_mean_the_same_as_on_one_machine(spark: Any, tmp_path: Path) -> None:
    """Spark renames columns whose names differ at most in capital letters."""
    path = tmp_path / "header.csv"
    path.write_text("a,a,b,B\n1,0,1,0\n" + "1,0,1,0\n" * 49)
    questions: list[dict[str, Any]] = [{"column": column} for column in ("a", "a0", "b", "B")]
    for asked in (*questions, {"column": "b", "user": "B", "rows_per_user": 1}):
        found: list[object] = []
        for count, data in (
            (shuffledp.count, str(path)),
            (cluster.count, columns.read(spark, str(path))),
        ):
            try:
                found.append(round(count(data, **asked, epsilon=16).value))
            except ParameterError as error:
                found.append(str(error))
        assert found[0] == found[1], asked
    with pytest.raises(ParameterError, match="Two columns are named 'a'"):
        columns.values_of(columns.read(spark, str(path)), "b", others={"user": "a"})
    path.write_text("")
    with pytest.raises(DataError, match="is empty; it needs a header line"):
        columns.read(spark, str(path))


@pytest.mark.parametrize(
    "lines",
    [
        '1,a\n0,"b\n1,c\n1,d\n',
        '1,a\n0,"b\n1,c',
        '1,5"\n0,"a\nb"\n',
        '1,5"\n0,"a\nb"\n\n',
        '1,"a\nb"\n0,5"\n',
        '1,5"\n0,"a\nb"\n1,c\n',
        "1,a\n",
    ],
)
def test_quotation_marks_mean_the_same_as_on_one_machine(
    spark: Any, tmp_path: Path, lines: str
) -> None:
    path = tmp_path / "marks.csv"
    path.write_text("n,name\n" + lines)
    found: list[object] = []
    for count, data in (
        (shuffledp.count, str(path)),
        (cluster.count, columns.read(spark, str(path))),
    ):
        try:
            found.append(count(data, column="n", epsilon=8).users)
        except DataError as error:
            found.append(str(error))
    assert found[0] == found[1]
    assert ("never closed" in str(found[0])) == (lines.count('"') == 1 and '"b' in lines)


def test_quotation_marks_are_counted_in_each_file(spark: Any, tmp_path: Path) -> None:
    """Also in UTF-16, whose line breaks Spark does not see among the bytes."""
    folder = tmp_path / "parts.csv"
    folder.mkdir()
    for lines, closed in (('1,5"\n0,"b\nc"\n', True), ('1,5\n0,"b\n1,c\n', False)):
        (folder / "one.csv").write_text("n,file\n" + lines)
        (folder / "two.csv").write_text('n,file\n1,5"\n0,"a\nb"\n1,c\n')
        wide = tmp_path / "wide.csv"
        wide.write_bytes(("n,file\n" + lines).encode("utf-16"))
        for table, rows in (
            (columns.read(spark, str(folder)), 5),
            (columns.read(spark, str(wide), encoding="utf-16"), 2),
        ):
            if closed:
                assert cluster.count(table, column="n", epsilon=8).users == rows
                continue
            with pytest.raises(DataError, match="never closed"):
                cluster.count(table, column="n", epsilon=8)


def test_user_ids_in_another_encoding_are_refused(spark: Any, tmp_path: Path) -> None:
    """Read as UTF-8, all of these users would have the same id."""
    path = tmp_path / "ids.csv"
    path.write_bytes("id,yes\né,1\nè,1\n".encode("latin-1"))
    asked: dict[str, Any] = {"column": "yes", "user": "id", "rows_per_user": 1, "epsilon": 8}
    with pytest.raises(DataError, match="not UTF-8"):
        cluster.count(columns.read(spark, str(path)), **asked)
    table = columns.read(spark, str(path), encoding="latin-1")
    assert cluster.count(table, **asked).users == 2


def test_texts_that_spark_takes_for_equal_are_told_apart(spark: Any) -> None:
    """In a column with a collation, as on one machine."""
    if not hasattr(spark.range(1).selectExpr("'a'").schema.fields[0].dataType, "collation"):
        pytest.skip("this Spark has no collations")
    rows = spark.range(60).selectExpr("if(id < 20, 'A', 'a') collate UTF8_LCASE as word", "1 as n")
    asked: dict[str, Any] = {"epsilon": 8, "seed": 1}
    labels = ["a", "A"]
    for found in (
        cluster.histogram(rows, column="word", labels=labels, **asked),
        cluster.histogram(rows, by=["word"], domains={"word": labels}, **asked),
        cluster.count(rows, column="n", by="word", groups=labels, **asked),
    ):
        assert np.abs(found.values - [40, 20]).max() < 8 * found.rmse + 1
    kept = cluster.count(rows, column="n", where="word = 'A'", **asked)
    assert abs(kept.value - 20) < 8 * kept.rmse + 1
    assert cluster.count(rows, column="n", user="word", rows_per_user=1, **asked).users == 2


def test_columns_that_spark_does_not_tell_apart_are_refused(spark: Any) -> None:
    rows = spark.range(20).selectExpr("1 as n", "0 as N", "1 as m", "1 as shuffledp_keep")
    assert cluster.count(rows, column="m", epsilon=8).users == 20
    for asked in ({"column": "n"}, {"column": "m", "user": "N", "rows_per_user": 1}):
        with pytest.raises(ParameterError, match="apart from capital letters"):
            cluster.count(rows, epsilon=8, **asked)
    with pytest.raises(ParameterError, match="no column may be named shuffledp_keep"):
        cluster.count(rows, column="shuffledp_keep", epsilon=8, where="m = 1")

"""What once gave a wrong answer or a traceback: now right, or refused in one sentence."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp
from shuffledp import SeededEntropy
from shuffledp.errors import DataError, ParameterError, ShuffleDPError, ValueOutOfRange
from shuffledp.protocols.results import Result

ROWS = 400
CITIES = ["Köln", "Bonn"] * (ROWS // 2)
FLAGS = [True, False] * (ROWS // 2)
WHOLE = [0, 1, 2, 3] * (ROWS // 4)


def near(result: Any, expected: float) -> bool:
    return bool(abs(float(result) - expected) < 12 * result.rmse + 1e-9)


# right


def test_unsigned_numbers_beyond_the_signed_ones_are_clamped_upwards() -> None:
    values = np.array([2**63 + 5, 0] * 50, dtype=np.uint64)
    found = shuffledp.integer_sum(values, epsilon=8, largest=3, clamp=True)
    assert near(found, 150)
    with pytest.raises(ValueOutOfRange):
        shuffledp.integer_sum(values, epsilon=8, largest=3)
    small = np.array([3, 0] * 50, dtype=np.uint64)
    assert near(shuffledp.integer_sum(small, epsilon=8, largest=3), 150)


def test_masked_values_are_missing_and_a_mask_of_nothing_is_not() -> None:
    with pytest.raises(DataError, match="missing"):
        shuffledp.integer_sum(
            np.ma.array([1, 2, 3], mask=[False, True, False]), epsilon=8, largest=3
        )
    whole: object = np.ma.array(WHOLE, mask=[False] * ROWS)
    assert near(shuffledp.integer_sum(whole, epsilon=8, largest=3), 1.5 * ROWS)


@pytest.fixture
def latin(tmp_path: Path) -> Path:
    path = tmp_path / "latin.csv"
    path.write_text("Stadt;n\n" + "".join(f"{city};1\n" for city in CITIES), encoding="latin-1")
    return path


def test_files_in_another_encoding(latin: Path, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"column": "Stadt", "equals": "Köln", "epsilon": 8, "delimiter": ";"}
    with pytest.raises(DataError, match="encoding"):
        shuffledp.count(latin, **asked)
    assert near(shuffledp.count(latin, **asked, encoding="latin-1"), ROWS / 2)
    with pytest.raises(ParameterError, match="no encoding 'latin-99'"):
        shuffledp.count(latin, **asked, encoding="latin-99")
    header = tmp_path / "header.csv"
    header.write_text("Straße\n1\n0\n", encoding="latin-1")
    with pytest.raises(DataError, match="encoding"):
        shuffledp.count(header, epsilon=8)
    assert shuffledp.count(header, epsilon=8, encoding="latin-1").users == 2


def test_formats_of_files(tmp_path: Path) -> None:
    lines = "way\tn\n" + "".join(f"{city}\t{n}\n" for city, n in zip(CITIES, WHOLE, strict=True))
    (tmp_path / "t.tsv").write_text(lines)
    with gzip.open(tmp_path / "t.csv.gz", "wt", encoding="utf-8") as file:
        file.write(lines.replace("\t", ","))
    folder = tmp_path / "parts"
    (folder / "year=2020").mkdir(parents=True)
    pq.write_table(pa.table({"way": CITIES, "n": WHOLE}), folder / "year=2020" / "0.parquet")
    for source in (tmp_path / "t.tsv", tmp_path / "t.csv.gz", folder):
        found = shuffledp.count(source, column="way", equals="Köln", epsilon=8)
        assert near(found, ROWS / 2) and found.users == ROWS
    assert near(shuffledp.count(folder, column="year", equals=2020, epsilon=8), ROWS)
    for wrong in ({"encoding": "latin-1"}, {"delimiter": ";"}):
        with pytest.raises(ParameterError, match="CSV files"):
            shuffledp.count(folder, column="n", equals=1, epsilon=8, **wrong)  # type: ignore[call-overload]
        with pytest.raises(ParameterError, match="CSV files"):
            shuffledp.count(FLAGS, epsilon=8, **wrong)  # type: ignore[call-overload]


def test_texts_that_look_like_numbers_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    path.write_text("id,code\n" + "1,007\n2,7\n" * 100)
    assert near(shuffledp.count(path, column="code", equals="007", epsilon=8), 100)
    assert near(shuffledp.count(path, column="code", equals=7, epsilon=8), 200)
    found = shuffledp.histogram(path, column="code", labels=["007", "7"], epsilon=8)
    assert np.abs(found.values - 100).max() < 12 * found.rmse


def test_an_empty_line_is_a_missing_value_in_a_file_of_one_column(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("n\n1\n\n0\n")
    with pytest.raises(DataError, match="missing"):
        shuffledp.count(path, epsilon=8)


def test_a_type_that_only_later_lines_show(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("shuffledp.data.files.BLOCK_BYTES", 64)
    path = tmp_path / "late.csv"
    path.write_text("id,n\n" + "1,1\n" * 100 + "2,1.5\n")
    found = shuffledp.count(path, column="n", equals="1.5", epsilon=8)
    assert found.users == 101 and near(found, 1)


BERLIN = pd.Series(pd.to_datetime(["2020-01-01 12:00"] * ROWS)).dt.tz_localize("Europe/Berlin")
NAIVE = pd.Series(pd.to_datetime(["2020-01-01 12:00"] * ROWS))
DAYS = pa.chunked_array([pa.array([dt.date(2020, 1, 1)] * ROWS)])


@pytest.mark.parametrize(
    ("column", "right", "wrong"),
    [
        (BERLIN, "2020-01-01T12:00+01:00", ["2020-01-01", "2020-01-01T12:00", "now"]),
        (BERLIN, "2020-01-01 11:00:00Z", [dt.date(2020, 1, 1), 5]),
        (NAIVE, "2020-01-01T12:00", ["2020-01-01", "2020-01-01T12:00Z", "2020"]),
        (NAIVE, dt.datetime(2020, 1, 1, 12), ["2020-13-01T12:00"]),
        (DAYS, "2020-01-01", ["2020-01-01T00:00", "2020-01", "01/01/2020"]),
        (DAYS, np.datetime64("2020-01-01"), [np.datetime64("2020-01-01T00:00")]),
    ],
    ids=["zone", "UTC", "time", "datetime", "day", "datetime64"],
)
def test_dates_are_compared_with_their_like(
    column: object, right: object, wrong: list[object]
) -> None:
    assert near(shuffledp.count(column, equals=right, epsilon=8), ROWS)
    for one in wrong:
        with pytest.raises(ParameterError, match="for example 2020-"):
            shuffledp.count(column, equals=one, epsilon=8)


def test_quantiles_of_times_and_not_of_instants() -> None:
    bounds = ("2020-01-01T00:00", "2020-01-02T00:00")
    found = shuffledp.quantiles(NAIVE, epsilon=8, bounds=bounds, probabilities=0.5)
    assert "2020-01-01T" in str(found)
    zoned = shuffledp.quantiles(BERLIN, epsilon=8, bounds=bounds, probabilities=0.5)
    assert "2020-01-01T" in str(zoned)


def test_labels_of_every_type() -> None:
    cut = pd.cut(pd.Series(WHOLE), 2)
    results = [
        shuffledp.histogram(cut, epsilon=8, labels=cut.cat.categories),
        shuffledp.histogram(pd.cut(np.array(WHOLE), 2), epsilon=8, labels=cut.cat.categories),
        shuffledp.histogram(FLAGS, epsilon=8, labels=[True, False]),
        shuffledp.histogram(FLAGS, epsilon=8, labels=(np.True_, np.False_)),  # type: ignore[arg-type]
        shuffledp.histogram(pl.Series(CITIES, dtype=pl.Categorical), epsilon=8, labels=CITIES[:2]),
        shuffledp.histogram([0, 1] * 200, epsilon=8, labels=np.int64(2)),  # type: ignore[arg-type]
        shuffledp.histogram([0, 1] * 200, epsilon=8, labels=np.arange(2)),
    ]
    for found in results:
        assert np.abs(found.values - ROWS / 2).max() < 12 * found.rmse
    assert results[0].labels == tuple(str(one) for one in cut.cat.categories)
    assert results[2].labels == (True, False)
    numbers = shuffledp.histogram([1, 0] * 200, epsilon=8, labels=[1, 0])  # 1 == True in Python
    assert [type(label) for label in numbers.labels] == [int, int]
    with pytest.raises(ParameterError, match="one kind"):
        shuffledp.histogram(FLAGS, epsilon=8, labels=[True, "no"])
    central = shuffledp.histogram(FLAGS, epsilon=8, labels=[True, False], protocol="central")
    assert central.labels == (True, False)


def test_labels_of_another_type_are_not_all_counted_as_other() -> None:
    for data, labels in ((WHOLE, ["0", "1"]), (CITIES, [1, 2]), (FLAGS, ["True", "False"])):
        with pytest.raises(ValueOutOfRange, match="no label does"):
            shuffledp.histogram(data, epsilon=8, labels=labels, other="else")


@pytest.mark.parametrize("probabilities", [np.array([0.25, 0.5]), np.array(0.5), pd.Series([0.5])])
def test_probabilities_may_be_an_array(probabilities: Any) -> None:
    found = shuffledp.quantiles(
        [0.5] * 9, epsilon=8, bounds=(0, 1), bins=2, probabilities=probabilities
    )
    assert len(found.shown()) == np.size(probabilities)


def test_clamping_is_said() -> None:
    asked: dict[str, Any] = {"epsilon": 8, "bounds": (0, 1)}
    for query in (shuffledp.real_sum, shuffledp.mean, shuffledp.quantiles):
        assert query([5.0] * 9, **asked, clamp=True).to_dict()["clamped"] is True
        assert query([0.5] * 9, **asked).to_dict()["clamped"] is False
    found = shuffledp.integer_sum([1], epsilon=8, largest=2, clamp=True)
    assert found.clamped and "[clamped]" in str(found)


# results


def every_result() -> list[Result]:
    return [
        shuffledp.count(FLAGS, epsilon=1),
        shuffledp.integer_sum(WHOLE, epsilon=1, largest=3),
        shuffledp.mean(WHOLE, epsilon=1, bounds=(0, 3)),
        shuffledp.histogram(FLAGS, epsilon=1, labels=[True, False]),
        shuffledp.quantiles(WHOLE, epsilon=1, bounds=(0, 4), bins=4),
        shuffledp.count(FLAGS, epsilon=1, protocol="central"),
    ]


def test_results_can_be_pickled() -> None:
    for result in every_result():
        again = pickle.loads(pickle.dumps(result))
        assert again.to_dict() == result.to_dict() and str(again) == str(result)
        assert again.plot() is not None


def test_an_estimate_is_a_number_and_a_seed_repeats_it() -> None:
    found = [shuffledp.count(FLAGS, epsilon=1, seed=7) for _ in range(2)]
    assert float(found[0]) == found[0].value == found[1].value
    assert found[0].seeded and "not private" in str(found[0])
    assert found[0].value == shuffledp.count(FLAGS, epsilon=1, entropy=SeededEntropy(7)).value


def test_as_many_digits_as_the_error_deserves() -> None:
    assert shuffledp.count(FLAGS, epsilon=1).texts()[0][1].count(".") == 1
    rough = shuffledp.count(FLAGS, epsilon="0.01", seed=1)
    for shown in (rough, replace(rough, value=-900.0, low=-1700.0, high=-200.0)):  # cut to 0 … 0
        ((_, value, low, high),) = shown.texts()
        assert "." not in value + low + high
    tiny = shuffledp.mean([0.0001] * ROWS, epsilon=8, bounds=(0, "0.001"))
    assert len(tiny.texts()[0][1].partition(".")[2]) >= 5


def test_reports_add_up_with_sum() -> None:
    plan = shuffledp.plan_count(3, 1)
    reports = [plan.randomize(1) for _ in range(3)]
    assert sum(reports).users == 3  # type: ignore[union-attr]
    with pytest.raises(TypeError):
        5 + reports[0]


# planning


def test_a_wrong_type_is_refused_before_anything_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "shuffledp.queries.integer_sum.query.plan_integer_sum",
        lambda *_, **__: pytest.fail("planned"),
    )
    with pytest.raises(ValueOutOfRange, match="has real numbers"):
        shuffledp.integer_sum([0.5], epsilon=1, largest=100)


@pytest.mark.parametrize("name", ["histogram", "quantiles", "mean"])
def test_the_same_query_is_planned_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask: dict[str, Callable[[bool], object]] = {
        "histogram": lambda _: shuffledp.histogram(WHOLE, epsilon="1.01", labels=4),
        "quantiles": lambda second: shuffledp.quantiles(
            WHOLE,
            epsilon="1.01",
            bounds=(0, 4),
            bins=4,
            clamp=second,
            probabilities=0.1 if second else 0.9,
        ),
        "mean": lambda second: shuffledp.mean(WHOLE, epsilon="1.01", bounds=(0, 3), clamp=second),
    }
    ask[name](False)
    for planner in (
        "histogram.query.plan_histogram",
        "quantiles.query.plan_quantiles",
        "real_sum.query.plan_real_sum",
    ):
        monkeypatch.setattr(
            f"shuffledp.queries.{planner}", lambda *_, **__: pytest.fail("planned again")
        )
    ask[name](True)


@pytest.mark.parametrize("ask", [shuffledp.mean, shuffledp.quantiles])
def test_bounds_may_be_an_array(ask: Any) -> None:
    found = [
        ask([1.5] * 40, epsilon=1, bounds=bounds, seed=1).to_dict()
        for bounds in ((0, 2), np.array([0, 2]))
    ]
    assert found[0] == found[1]


# refused

TWO = pd.DataFrame(np.c_[FLAGS, FLAGS], columns=["a", "a"])
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "clamp as text": (
        lambda: shuffledp.mean([1], epsilon=1, bounds=(0, 1), clamp="no"),  # type: ignore[call-overload]
        "True or False",
    ),
    "per_user as text": (
        lambda: shuffledp.count([1], epsilon=1, per_user="no"),  # type: ignore[call-overload]
        "True or False",
    ),
    "entropy": (lambda: shuffledp.count([1], epsilon=1, entropy=42), "seed="),  # type: ignore[call-overload]
    "seed": (lambda: shuffledp.count([1], epsilon=1, seed=1.5), "whole number or a text"),  # type: ignore[call-overload]
    "seed of time": (
        lambda: shuffledp.count([1], epsilon=1, seed=np.timedelta64(1, "s")),  # type: ignore[call-overload]
        "whole number or a text",
    ),
    "epsilon as array": (
        lambda: shuffledp.count([1], epsilon=np.array([1, 2])),  # type: ignore[call-overload]
        "finite number",
    ),
    "confidence beyond every float": (
        lambda: shuffledp.count([1], epsilon=1, confidence="1e400"),
        "must lie above 0",
    ),
    "negative confidence beyond every float": (
        lambda: shuffledp.count([1], epsilon=1, confidence="-1e400"),
        "must lie above 0",
    ),
    "seed of nanoseconds": (
        lambda: shuffledp.count([1], epsilon=1, seed=np.timedelta64(1, "ns")),  # type: ignore[call-overload]
        "whole number or a text",
    ),
    "labels of nanoseconds": (
        lambda: shuffledp.plan_histogram(100, 1, np.timedelta64(5, "ns")),
        "list of labels",
    ),
    "bounds without a float between them": (
        lambda: shuffledp.real_sum(
            [0.1] * 300, epsilon=1, bounds=(Fraction(1, 10), Fraction(1, 10) + Fraction(1, 10**19))
        ),
        "outside",
    ),
    "seed that is not text": (
        lambda: shuffledp.count([1], epsilon=1, seed="\ud800"),
        "surrogate",
    ),
    "missing as array": (
        lambda: shuffledp.count([1], epsilon=1, missing=np.array([1, 2])),  # type: ignore[call-overload]
        "value of the column's type",
    ),
    "groups of time": (
        lambda: shuffledp.count([1], epsilon=1, by=["a"], groups=np.timedelta64(2000, "s")),  # type: ignore[call-overload]
        "must be a list",
    ),
    "nothing heavy": (
        lambda: shuffledp.histogram([1], epsilon=1, labels=3, heavy=None),  # type: ignore[arg-type]
        "must be a list",
    ),
    "heavy lists": (
        lambda: shuffledp.histogram([1], epsilon=1, labels=3, heavy=[[1], [2]]),  # type: ignore[list-item]
        "one of the labels",
    ),
    "seed and entropy": (
        lambda: shuffledp.count([1], epsilon=1, seed=1, entropy=SeededEntropy(1)),
        "not both",
    ),
    "max_messages": (
        lambda: shuffledp.quantiles([1], epsilon=1, bounds=(0, 1), max_messages=np.int64(3)),  # type: ignore[arg-type]
        "max_messages",
    ),
    "names that are numbers": (
        lambda: shuffledp.count(pd.DataFrame({0: FLAGS, 1: FLAGS}), epsilon=1, column="0"),
        "names must be texts",
    ),
    "two columns of a name": (lambda: shuffledp.count(TWO, epsilon=1, column="a"), "Two columns"),
    "two in Arrow": (
        lambda: shuffledp.count(pa.table([FLAGS, FLAGS], names=["a", "a"]), epsilon=1, column="a"),
        "Two columns",
    ),
    "column that is a number": (
        lambda: shuffledp.count(pd.DataFrame({"a": FLAGS}), epsilon=1, column=0),  # type: ignore[call-overload]
        "must be the name of a column",
    ),
    "complex in pandas": (lambda: shuffledp.count(pd.Series([1j]), epsilon=1), "convert"),
    "complex in NumPy": (
        lambda: shuffledp.mean(np.array([1j]), epsilon=1, bounds=(0, 1)),
        "must be numbers",
    ),
    "huge in pandas": (
        lambda: shuffledp.integer_sum(pd.Series([2**70]), epsilon=1, largest=3),
        "64 bits",
    ),
    "huge in a list": (
        lambda: shuffledp.integer_sum([2**70], epsilon=1, largest=3, clamp=True),
        "64 bits",
    ),
    "nan among objects": (
        lambda: shuffledp.histogram(
            np.array(["a", np.nan], dtype=object), epsilon=1, labels=["a", "nan"]
        ),
        "missing",
    ),
    "none among objects": (
        lambda: shuffledp.count(np.array(["a", None], dtype=object), epsilon=1, equals="a"),
        "missing",
    ),
    "numbers among texts": (lambda: shuffledp.count(["a", 1], epsilon=1, equals="a"), "mixes"),
    "bytes": (lambda: shuffledp.count([b"a"], epsilon=1, equals="a"), "convert"),
    "a path with a null": (lambda: shuffledp.count("a\0.csv", epsilon=1), "not text"),
    "a path that is not text": (lambda: shuffledp.count("a\udcf6.csv", epsilon=1), "not text"),
    "no quantiles": (
        lambda: shuffledp.quantiles([1.0], epsilon=1, bounds=(0, 2), probabilities=[]),
        "which quantiles",
    ),
    "one group": (
        lambda: shuffledp.count([0, 1], epsilon=1, by=["a", "a"], groups=["a"]),
        "Groups must be 2 to",
    ),
    "one group twice": (
        lambda: shuffledp.count([0, 1], epsilon=1, by=["a", "a"], groups=["a", "a"]),
        "Two buckets or groups",
    ),
    "groups without end": (
        lambda: shuffledp.count([1], epsilon=1, by=["a"], groups=itertools.count()),
        "Groups must be 2 to",
    ),
    "labels without end": (
        lambda: shuffledp.histogram([1], epsilon=1, labels=itertools.count()),
        "2 to 1,000,000 buckets",
    ),
    "delimiter": (lambda: shuffledp.count("x.csv", epsilon=1, delimiter="::"), "one character"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name: str) -> None:
    call, says = REFUSED[name]
    with pytest.raises(ShuffleDPError, match=says) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 250


def test_folders_are_called_folders(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="folder without Parquet files"):
        shuffledp.count(tmp_path, epsilon=1)
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(ParameterError, match="folder"):
        shuffledp.count(tmp_path / "x.csv", epsilon=1)
    (tmp_path / "y.png").mkdir()
    with pytest.raises(ParameterError, match="is a folder"):
        shuffledp.count(FLAGS, epsilon=1).plot(str(tmp_path / "y.png"))

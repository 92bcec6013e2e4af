"""Answers that were wrong without a word: now refused, counted rightly, or shown with a warning."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shuffledp
from shuffledp.data import files
from shuffledp.data.columns import FileFormat, column_of
from shuffledp.errors import DataError, InputError, ParameterError, ValueOutOfRange
from shuffledp.queries.frequencies.result import FrequenciesResult
from shuffledp.queries.histogram.query import HistogramQuery
from shuffledp.queries.histogram.result import CrosstabResult
from shuffledp.queries.real_sum.protocol import RealSumProtocol

ROWS = 400


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"yes": [True, False] * (ROWS // 2), "n": np.arange(ROWS) % 4, "place": ["a", "b"] * 200}
    )


# the index of pandas


@pytest.mark.parametrize("given", ["by", "user"])
def test_a_series_with_another_index_is_refused(frame: pd.DataFrame, given: str) -> None:
    sorted_rows = frame.sort_values("place")
    asked: dict[str, Any] = {"column": "n", "largest": 3, "epsilon": 8, given: frame["place"]}
    if given == "by":
        asked["groups"] = ["a", "b"]
    with pytest.raises(ParameterError, match=f"index of {given} differs"):
        shuffledp.integer_sum(sorted_rows, **asked)
    with pytest.raises(ParameterError, match=f"index of {given} differs"):
        shuffledp.integer_sum(sorted_rows["n"], **{**asked, "column": None})


def test_series_with_the_same_index_and_values_without_one_are_taken(frame: pd.DataFrame) -> None:
    asked: dict[str, Any] = {"column": "n", "largest": 3, "epsilon": 8, "groups": ["a", "b"]}
    shuffled = frame.sample(frac=1, random_state=1)
    for by in (shuffled["place"], shuffled["place"].to_numpy(), shuffled["place"].tolist()):
        found = shuffledp.integer_sum(shuffled, by=by, **asked)
        assert abs(found.values[0] - 200) < 8 * found.rmse  # 0 and 2, 100 times each
    polars = shuffledp.integer_sum(pl.from_pandas(frame), by=frame["place"], **asked)
    assert polars.users == ROWS


class DerivedFrame(pd.DataFrame):  # type: ignore[misc]
    """A data frame of another package, as GeoPandas has them."""

    @property
    def _constructor(self) -> type[DerivedFrame]:
        return DerivedFrame


@pytest.mark.parametrize("wrap", [DerivedFrame, narwhals.from_native])
@pytest.mark.parametrize("given", ["by", "user", "where"])
def test_derived_and_wrapped_frames_have_an_index(
    frame: pd.DataFrame, wrap: Callable[[pd.DataFrame], Any], given: str
) -> None:
    asked: dict[str, Any] = {"column": "n", "largest": 3, "epsilon": 8}
    beside: Any = {"by": frame["place"], "user": frame["n"], "where": lambda _: frame["yes"]}[given]
    asked |= {"groups": ["a", "b"]} if given == "by" else {}
    with pytest.raises(ParameterError, match=f"index of {given} differs"):
        shuffledp.integer_sum(wrap(frame.sort_values("place")), **{**asked, given: beside})
    with pytest.raises(ParameterError, match=f"index of {given} differs"):
        wrapped = wrap(frame)[{"by": "place", "user": "n", "where": "yes"}[given]]
        beside = (lambda _: wrapped) if given == "where" else wrapped
        shuffledp.integer_sum(frame.sort_values("place"), **{**asked, given: beside})


def test_by_and_user_have_the_same_index(frame: pd.DataFrame) -> None:
    asked: dict[str, Any] = {"groups": ["a", "b"], "rows_per_user": 1, "epsilon": 8}
    shuffled = frame.sample(frac=1, random_state=1)
    values = shuffled["yes"].tolist()
    with pytest.raises(ParameterError, match="index of user differs from that of by"):
        shuffledp.count(values, by=shuffled["place"], user=frame["n"], **asked)
    assert shuffledp.count(values, by=shuffled["place"], user=shuffled["n"], **asked).users == 4


# columns of pandas


def test_sparse_columns_and_indices_of_several_levels() -> None:
    sparse = pd.Series(pd.arrays.SparseArray([0, 0, 1, 0] * 50))
    asked: dict[str, Any] = {"epsilon": 8, "seed": 1}
    data = pd.DataFrame({"n": sparse, "m": 1})
    for found in (
        shuffledp.count(sparse, **asked),
        shuffledp.count(data, column="n", **asked),
        shuffledp.count(data, column="m", where="n = 1", **asked),
    ):
        assert found.users == 200 and abs(found.value - 50) < 8 * found.rmse + 1
    gaps = pd.Series(pd.arrays.SparseArray([np.nan, 0.0, 1.0]))
    with pytest.raises(DataError, match="missing values"):
        shuffledp.real_sum(gaps, bounds=(0, 1), **asked)
    with pytest.raises(DataError, match="A MultiIndex is not a column"):
        shuffledp.count(pd.MultiIndex.from_tuples([(1, 2), (0, 1)]), **asked)


# labels


def test_labels_of_two_kinds_are_refused() -> None:
    mixed: tuple[list[Any], ...] = ([1, "2"], [True, "a"], [0, True])
    for labels in mixed:
        with pytest.raises(ParameterError, match="use one kind"):
            shuffledp.histogram([1, 2] * 50, epsilon=8, labels=labels)
    with pytest.raises(ParameterError, match="use one kind"):
        HistogramQuery(epsilon=1, labels=["a", 1], missing="bucket")
    assert HistogramQuery(epsilon=1, labels=[1, 2], other="else").buckets == (1, 2, "else")


def test_labels_may_be_an_arrow_array() -> None:
    labels = pa.array(["a", "b"])
    found = shuffledp.histogram(["a", "b"] * 50, epsilon=8, labels=labels)
    assert found.labels == ("a", "b")
    groups = shuffledp.count([1] * 100, epsilon=8, by=["a", "b"] * 50, groups=labels)
    assert groups.labels == ("a", "b")


def test_the_label_for_all_others_is_none_of_the_labels() -> None:
    with pytest.raises(ParameterError, match="other must not be one of the labels"):
        shuffledp.histogram(["a", "b", "c"] * 50, epsilon=8, labels=["a", "b"], other="b")
    for labels, other in (([1, 2], "2"), (3, "1"), (["1", "2"], 2), ([True, False], "true")):
        with pytest.raises(ParameterError, match="other must not be one of the labels"):
            HistogramQuery(epsilon=1, labels=labels, other=other)
    found = shuffledp.histogram(["a", "b", "c"] * 50, epsilon=8, labels=["a"], other="b")
    assert found.labels == ("a", "b") and abs(found.values[1] - 100) < 8 * found.rmse


def test_the_bucket_for_missing_values_is_none_of_the_labels() -> None:
    for labels, other in ((["a", "missing"], None), (["a", "b"], "missing")):
        with pytest.raises(ParameterError, match='adds a label "missing"'):
            HistogramQuery(epsilon=1, labels=labels, other=other, missing="bucket")
    with pytest.raises(ParameterError, match='adds a label "missing"'):
        domains = {"way": ["a", "missing"], "sex": ["f", "m"]}
        gaps = pl.DataFrame({"way": ["a", None], "sex": ["f", "m"]})
        shuffledp.histogram(gaps, epsilon=8, by=list(domains), domains=domains, missing="bucket")
    found = shuffledp.histogram(
        ["a", "b", None] * 50, epsilon=8, labels=["a", "b"], missing="bucket"
    )
    assert found.labels == ("a", "b", "missing") and abs(found.values[2] - 50) < 8 * found.rmse


# people


def test_users_are_people_not_rows() -> None:
    ids, values = np.repeat(np.arange(100), 5), np.tile([0, 1, 2, 3, 4], 100)
    asked: dict[str, Any] = {"epsilon": 24, "user": ids, "rows_per_user": 3}
    counted = shuffledp.count(values > 1, **asked)
    assert (counted.users, counted.rows_kept, counted.reports) == (100, 300, 300)
    mean = shuffledp.mean(values, bounds=(0, 4), mse_overhead=100, **asked)
    assert mean.users == 100 and 0 <= mean.value <= 4
    median = shuffledp.quantiles(values, bounds=(0, 4), points=True, **asked)
    assert median.users == 100 and 1 <= median.quantile(0.5).value <= 3  # a rank among 300 rows
    assert median.between(0, 5).value == 300
    once = shuffledp.count([True, False] * 50, epsilon=8)
    assert once.rows_kept is None and "rows_kept" not in once.to_dict()


# files


def csv(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "lines",
    ["12.5\n3\n4\n", "2020-01-31\n2020-02-01\n2020-02-03\n", "walk\nbike\nwalk\n", "1\n0\n1\n"],
)
def test_a_first_line_that_looks_like_data_is_warned_of(tmp_path: Path, lines: str) -> None:
    path = csv(tmp_path, lines)
    with pytest.warns(UserWarning, match="looks like a row of data"):
        assert column_of(path).rows == 2


@pytest.mark.parametrize(
    "lines",
    [
        "walk,3\nbike,4\nwalk,5\n",
        "walk,2020-01-31\nbike,2020-02-01\n",
        "walk,31/01/2020\nbike,01/02/2020\n",
        "walk,nan\nbike,1.5\n",
        "walk,NA\nbike,x\n",
    ],
)
def test_every_column_of_the_first_line_is_looked_at(tmp_path: Path, lines: str) -> None:
    path = csv(tmp_path, lines)
    with pytest.warns(UserWarning, match="looks like a row of data"):
        shuffledp.histogram(path, column="walk", labels=["walk", "bike"], other="else", epsilon=8)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (shuffledp.histogram, {"labels": ["walk", "bike"]}),
        (shuffledp.histogram, {"labels": ["walk"], "other": "else"}),
        (shuffledp.histogram, {"by": ["walk"], "domains": {"walk": ["walk", "bike"]}}),
        (shuffledp.frequencies, {"candidates": ["walk", "bike"]}),
        (shuffledp.count, {"equals": "walk"}),
    ],
)
def test_a_first_line_with_a_label_that_no_other_row_has_is_warned_of(
    tmp_path: Path, query: Any, asked: dict[str, Any]
) -> None:
    path = csv(tmp_path, "walk\nbike\nbike\n")
    with pytest.warns(UserWarning, match="looks like a row of data"):
        assert query(path, epsilon=8, **asked).users == 2


def test_what_is_no_text_is_not_compared_with_the_first_line(tmp_path: Path) -> None:
    path = csv(tmp_path, "way\nwalk\nbike\n")
    with pytest.raises(InputError):
        shuffledp.count(path, equals=pd.NA, epsilon=8)


def test_a_first_line_with_a_group_that_no_other_row_has_is_warned_of(tmp_path: Path) -> None:
    path = csv(tmp_path, "north,yes\nsouth,1\nsouth,0\n")
    with pytest.warns(UserWarning, match="looks like a row of data"):
        shuffledp.count(path, column="yes", by="north", groups=["north", "south"], epsilon=8)


def test_ordinary_headers_are_not_warned_of(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    path = csv(tmp_path, "n,way,2020\n1,walk,x\n0,bike,y\n")
    assert shuffledp.count(path, column="n", epsilon=8).users == 2
    assert shuffledp.count(path, column="2020", equals="x", epsilon=8).users == 2
    labels = ["walk", "bike", "x", "n"]  # n is the name of another column
    assert shuffledp.histogram(path, column="way", labels=labels, epsilon=8).users == 2
    assert shuffledp.count("sample:commute", column="bikes", epsilon=8).users == 10_000
    assert not [one for one in recwarn if "row of data" in str(one.message)]


def test_points_between_thousands_are_refused_beside_decimal_commas(tmp_path: Path) -> None:
    semicolons = FileFormat(delimiter=";")
    path = csv(tmp_path, "price;km\n" + "1,5;1.234\n2,25;12\n" * 50)
    with pytest.raises(DataError, match=r"1234 or 1\.234"):
        shuffledp.real_sum(path, column="km", epsilon=8, bounds=(0, 9999), delimiter=";")
    assert column_of(path, "price", semicolons).rows == 100
    decimals = csv(tmp_path, "price;km\n" + "1,5;1.234\n2,25;12.5\n" * 50)
    assert column_of(decimals, "km", semicolons).rows == 100  # 12.5 has no thousands
    points = csv(tmp_path, "price;km\n" + "1.5;1.234\n2.25;12.125\n" * 50)
    assert column_of(points, "km", semicolons).rows == 100


@pytest.mark.parametrize(
    ("first", "later", "holds"),
    [
        ("", "2.5", "real"),
        ("", "true", "truth"),
        ("", "2024-01-31", "date"),
        ("", "2024-01-31T12:00", "time"),
        ("1", "2.5", "real"),
        ("1", "true", "truth"),
        ("2", "true", "text"),
        ("2024-01-31", "2024-01-31T12:00:00", "time"),
        ("2024-01-31T12:00:00", "2024-01-31T12:00:00.5", "time"),
        ("2024-01-31T12:00:00Z", "2024-01-31T12:00:00.5Z", "instant"),
        ("1", "a", "text"),
    ],
)
def test_all_values_of_a_csv_column_decide_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, later: str, holds: str
) -> None:
    monkeypatch.setattr(files, "BLOCK_BYTES", 100)
    path = csv(tmp_path, "n,m\n" + f"{first},1\n" * 50 + f"{later},1\n")
    assert column_of(path, "n").holds == holds


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_quotation_mark_that_is_never_closed_is_refused(tmp_path: Path, end: str) -> None:
    """All lines after it would be part of one value, and so of one user."""
    path = csv(tmp_path, 'n,name\n1,a\n0,"b\n1,c\n1,d' + end)
    with pytest.raises(DataError, match="never closed"):
        shuffledp.count(path, column="n", epsilon=8)
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match="never closed"):
        shuffledp.count(packed, column="n", epsilon=8)


@pytest.mark.parametrize(
    "lines", ['1,5"\n0,b\n', '1,5"\n0,"a\nb"\n', '1,"a\nb"\n0,c\n', '1,"a""\nb"\n0,"c"']
)
def test_other_quotation_marks_are_read(tmp_path: Path, lines: str) -> None:
    assert shuffledp.count(csv(tmp_path, "n,name\n" + lines), column="n", epsilon=8).users == 2


# some rows


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64"])
def test_excluded_rows_match_no_candidate_whatever_the_width_of_the_numbers(dtype: str) -> None:
    rows = 20_000
    values = np.zeros(rows, dtype)
    values[:100] = 5
    data = pd.DataFrame({"n": values, "kept": np.arange(rows) < 2_000})
    found = shuffledp.frequencies(
        data, column="n", epsilon=8, candidates=[5, 7, 9], where="kept", seed=1
    )
    assert np.abs(found.values - [100, 0, 0]).max() < 6 * found.rmse + 1


def test_unsigned_numbers_beyond_the_signed_ones_are_not_excluded() -> None:
    values = np.array([2**63] * 1_000 + [2**64 - 1] * 500 + [1] * 500, np.uint64)
    data = pd.DataFrame({"n": values, "kept": True})
    found = shuffledp.histogram(data, column="n", epsilon=8, labels=[1, -1], other=0, where="kept")
    assert np.abs(found.values - [500, 0, 1_500]).max() < 6 * found.rmse + 1


def test_a_condition_does_not_change_the_cells_of_a_histogram(frame: pd.DataFrame) -> None:
    asked: dict[str, Any] = {"column": "place", "epsilon": 1, "labels": ["a", "b"]}
    asked |= {"cell": "sparse", "error_at": 5}
    plain, kept = (shuffledp.histogram(frame, where=where, **asked) for where in (None, "yes"))
    assert plain.certificate is not None and kept.certificate is not None
    assert kept.certificate["cells"][0]["kind"] == plain.certificate["cells"][0]["kind"] == "sparse"
    assert kept.messages_per_user < 2 * plain.messages_per_user


@pytest.mark.parametrize("clamp", [False, True])
def test_bounds_are_those_of_a_users_sum_with_a_condition_too(clamp: bool) -> None:
    data = pd.DataFrame({"id": np.repeat(np.arange(1_000), 2), "n": [-50, 100] * 1_000})
    data["kept"] = True
    asked: dict[str, Any] = {"column": "n", "user": "id", "epsilon": 8, "clamp": clamp}
    for where in (None, "kept"):
        asked["where"] = where
        real = shuffledp.real_sum(data, bounds=(0, 100), **asked)
        whole = shuffledp.integer_sum(data, largest=100, **asked)
        for found in (real, whole):
            assert abs(found.value - 50_000) < 6 * found.rmse


# what results say


def test_every_estimate_of_a_result_has_its_guarantee(frame: pd.DataFrame) -> None:
    asked: dict[str, Any] = {"column": "n", "user": "n", "rows_per_user": 90, "epsilon": 8}
    asked["where"] = "yes"
    quantiles = shuffledp.quantiles(frame, bounds=(0, 2), clamp=True, **asked)
    table = shuffledp.frequencies(pd.concat([frame] * 10), **asked)
    assert isinstance(table, FrequenciesResult)
    for whole, each in (
        (quantiles, [*quantiles.shown(), quantiles.between(0, 1), quantiles.between(0, 2)]),
        (table, [table.frequency(2)]),
    ):
        for one in each:
            shown, said = one.to_dict(), whole.to_dict()
            for name in ("epsilon", "neighbours", "users", "rows_kept", "where", "clamped"):
                assert shown[name] == said[name], name
            assert one.about == whole.about and one.marks() == whole.marks()


@pytest.mark.parametrize("name", ["low", "size", "estimate"])
def test_a_column_named_like_a_number_stays_in_a_frame(frame: pd.DataFrame, name: str) -> None:
    frame[name] = frame["place"]
    groups = shuffledp.count(frame, column="yes", by=name, groups_public=True, epsilon=8)
    assert groups.to_frame("pandas")[f"{name} (label)"].tolist() == ["a", "b"]
    assert groups.to_frame("pandas")["low"].tolist() == groups.low.tolist()
    frame["share"] = frame["n"]
    several = shuffledp.histogram(
        frame, by=[name, "share"], domains={name: ["a", "b"], "share": [0, 1, 2, 3]}, epsilon=8
    )
    assert isinstance(several, CrosstabResult)
    assert set(several.to_frame("pandas").iloc[:, 0]) == {"a", "b"}
    shares = several.shares_frame("share", name, "pandas")
    assert set(shares["share (label)"]) == {0, 1, 2, 3} and shares["share"].max() <= 1


def test_a_table_is_asked_about_labels_not_letters() -> None:
    found = shuffledp.frequencies(["walk", "w"] * 5_000, epsilon=8)
    numbers = shuffledp.frequencies(np.arange(10_000) % 4, epsilon=8)
    assert isinstance(found, FrequenciesResult) and isinstance(numbers, FrequenciesResult)
    with pytest.raises(ParameterError, match="must be a list"):
        found.showing("walk")
    assert numbers.showing(np.arange(2)).labels == (0, 1)
    assert abs(numbers.frequency(np.arange(4)[3]).value - 2_500) < 100


# labels


@pytest.mark.parametrize("label", ["a" * 1_001, "\ud800", 2**64, -(2**63) - 1])
def test_labels_that_no_certificate_can_contain_are_refused(label: str | int) -> None:
    labels = [label, "b" if isinstance(label, str) else 1]
    for plan in (
        lambda: shuffledp.plan_histogram(1_000, 1, labels),
        lambda: shuffledp.plan_by_group(1_000, 1, labels),
        lambda: shuffledp.plan_frequencies(1_000, 1, candidates=labels),
    ):
        with pytest.raises(ParameterError, match="Labels must be"):
            plan()


def test_combinations_with_the_same_name_are_refused() -> None:
    domains = {"a": ["x", "x × y"], "b": ["y × z", "z"]}
    data = pd.DataFrame({"a": ["x"] * 100, "b": ["z"] * 100})
    with pytest.raises(ParameterError, match="the same label"):
        shuffledp.histogram(data, by=["a", "b"], domains=domains, epsilon=8)


def test_a_value_is_no_label_that_only_resembles_it() -> None:
    histogram = shuffledp.plan_histogram(1_000, 1, ["a", "b"])
    with pytest.raises(ValueOutOfRange):
        histogram.randomize("a\0")
    groups = shuffledp.plan_by_group(1_000, 1, [0, 1])
    for label in (True, 1.0, "1"):
        with pytest.raises(ValueOutOfRange, match="not declared"):
            groups.randomize((label, 1))


# dates


def test_dates_at_the_ends_of_the_calendar() -> None:
    plan = shuffledp.plan_quantiles(1_000, 1, ("2013-01-01T00:00", "2013-12-31T00:00"))
    for text in ("0001-01-01T00:00+05:00", "9999-12-31T23:59-05:00"):
        with pytest.raises(ValueOutOfRange, match="a date from"):
            plan.protocol.parse(text)
    assert plan.protocol.parse("2013-01-31T08:30:00+01:00") == np.datetime64("2013-01-31T07:30")
    assert plan.protocol.parse("20130131T0830") == np.datetime64("2013-01-31T08:30")
    days = pd.DataFrame({"day": pd.to_datetime(["2013-05-05"] * 400).date, "kept": True})
    asked: dict[str, Any] = {"column": "day", "bounds": ("2000-01-01", "9999-12-31"), "epsilon": 8}
    whole = shuffledp.quantiles(days, **asked).between("2000-01-01", "9999-12-31")
    assert abs(whole.value - 400) < 6 * whole.rmse + 1
    with pytest.raises(ParameterError, match="after the year 9999"):
        shuffledp.quantiles(days, where="kept", **asked)


# bounds


def test_a_value_written_like_its_bound_is_within() -> None:
    data = pd.DataFrame({"n": [0.1, 0.05] * 1_000, "kept": [True] * 2_000})
    asked: dict[str, Any] = {
        "column": "n",
        "bounds": ("0.05", "0.1"),
        "epsilon": 8,
    }  # as in --bounds
    for where in (None, "kept"):
        found = shuffledp.real_sum(data, where=where, **asked)
        assert abs(found.value - 150) < 6 * found.rmse + 0.1
        assert abs(shuffledp.mean(data, where=where, **asked).value - 0.075) < 0.01
        assert shuffledp.quantiles(data, where=where, **asked).quantile(0.9).high > 0.099
    protocol = shuffledp.plan_real_sum(1_000, 1, bounds=("1/3", "0.7")).protocol
    assert isinstance(protocol, RealSumProtocol)
    for text, bound in (("0.7", protocol.high), ("0.3333333333333333", protocol.low)):
        assert abs(Fraction(protocol.parse(text)) - bound) < Fraction(1, 10**15)
        assert protocol.low <= Fraction(protocol.parse(text)) <= protocol.high
    assert protocol.encode(protocol.sample_values(100)).max() <= protocol.grid * protocol.dither + (
        protocol.dither - 1
    )
    for value in (0.7000000000000001, 0.333333333333333, np.nan):
        with pytest.raises(ValueOutOfRange):
            protocol.encode(np.array([value]))
        with pytest.raises(ValueOutOfRange):
            protocol.parse(str(value))


# batches


def test_a_batch_of_another_protocol_is_neither_released_nor_analyzed() -> None:
    counts, histogram = shuffledp.plan_count(10, 1), shuffledp.plan_histogram(100, 1, ["a", "b"])
    batch = histogram.aggregate(np.array(["a"] * 100))
    with pytest.raises(InputError, match="another protocol"):
        counts.release(batch)
    with pytest.raises(InputError, match="another protocol"):
        counts.analyze(histogram.release(batch))

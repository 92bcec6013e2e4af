"""Several rows per user, and missing values that the caller declares."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chi2 import p_value
from command_line import run

import shuffledp
from shuffledp import Ledger, SeededEntropy
from shuffledp.data.columns import column_of
from shuffledp.data.filling import is_missing
from shuffledp.engines.rows_per_user import kept, numbered, summed
from shuffledp.errors import DataError, InputError, ParameterError, ValueOutOfRange

USERS = 3_000


def frame() -> pd.DataFrame:
    """Users with one to five rows; those with more rows hold larger values."""
    ids = np.repeat(np.arange(USERS), 1 + np.arange(USERS) % 5)
    return pd.DataFrame(
        {
            "id": [f"user {n}" for n in ids],
            "yes": ids % 2 == 0,
            "hours": (ids % 5).astype(float),
            "visits": ids % 5,
            "way": np.where(ids % 2 == 0, "bike", "walk"),
        }
    )


def test_one_row_of_each_user_is_kept_and_every_row_has_the_same_chance() -> None:
    ids = np.repeat(np.arange(4_000), 10)
    values = np.tile(np.arange(10), 4_000)
    left = kept(ids, values, 1, SeededEntropy(1))
    assert left.size == 4_000 and p_value(left, [0.1] * 10) > 1e-4
    first = values[np.unique(ids, return_index=True)[1]]
    assert p_value(first, [0.1] * 10) < 1e-9  # the first row of each is no random choice
    assert kept(ids, values, 3, SeededEntropy(1)).size == 12_000
    assert kept(ids, values, 99, SeededEntropy(1)).size == 40_000


def test_a_user_with_very_many_rows_is_one_user() -> None:
    ids = np.append(np.zeros(100_000, int), np.arange(1, 101))
    left = kept(ids, np.append(np.ones(100_000), np.zeros(100)), 2, SeededEntropy(2))
    assert left.size == 102 and left.sum() == 2
    sums = summed(ids, np.append(np.ones(100_000), np.zeros(100)))
    assert sorted(sums) == [0] * 100 + [100_000]


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(3)
    ids, values = rng.integers(0, 50, 5_000), rng.normal(size=5_000) * 10.0 ** rng.integers(0, 9)
    order = rng.permutation(5_000)
    assert (np.sort(summed(ids, values)) == np.sort(summed(ids[order], values[order]))).all()
    with pytest.raises(DataError, match="64 bits"):
        summed(np.zeros(4, int), np.full(4, 2**62))


def test_users_are_told_apart_by_their_ids_however_these_are_stored() -> None:
    texts = ["b", "a", "b", "007", "7"]
    coded = pa.array(texts).dictionary_encode()
    for ids in (texts, pa.array(texts), pa.chunked_array([texts[:2], texts[2:]]), coded):
        assert numbered(column_of(ids)).tolist() == [0, 1, 0, 2, 3]
    assert numbered(column_of(np.array([9, 4, 9]))).tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="missing"):
        numbered(column_of(pa.array(["a", None])))


def test_epsilon_is_per_person_and_the_result_says_so(tmp_path: Path) -> None:
    data, ledger = frame(), Ledger.create(tmp_path / "budget.json", 3)
    found = shuffledp.count(
        data, column="yes", epsilon=2, user="id", rows_per_user=2, ledger=ledger
    )
    assert found.epsilon == 2 and ledger.remaining() == 1
    assert found.certificate is not None and found.certificate["epsilon"] == "1"  # of one row
    rows = np.minimum(1 + np.arange(USERS) % 5, 2).sum()
    assert found.users == USERS and "at most 2 were kept" in found.neighbours
    assert found.reports == found.rows_kept == found.to_dict()["rows_kept"] == rows
    true = np.minimum(1 + np.arange(0, USERS, 2) % 5, 2).sum()
    assert abs(found.value - true) < 30 * found.rmse
    assert found.to_dict()["neighbours"] == found.neighbours


def test_sums_of_a_users_rows_are_moved_into_the_bounds() -> None:
    data = frame()
    totals = (1 + np.arange(USERS) % 5) * (np.arange(USERS) % 5)
    found = shuffledp.real_sum(data, column="hours", epsilon=4, user="id", bounds=(0, 10))
    assert found.users == USERS and found.clamped and "added up" in found.neighbours
    assert abs(found.value - np.minimum(totals, 10).sum()) < 30 * found.rmse
    whole = shuffledp.integer_sum(data, column="visits", epsilon=4, user="id", largest=10)
    assert abs(whole.value - np.minimum(totals, 10).sum()) < 30 * whole.rmse


QUESTIONS: dict[str, Callable[..., Any]] = {
    "histogram": lambda **asked: shuffledp.histogram(
        frame(), column="way", labels=["bike", "walk"], **asked
    ),
    "frequencies": lambda **asked: shuffledp.frequencies(
        frame(), column="way", candidates=["bike", "tram"], **asked
    ),
    "quantiles": lambda **asked: shuffledp.quantiles(
        frame(), column="hours", bounds=(0, 5), bins=5, **asked
    ),
    "mean": lambda **asked: shuffledp.mean(frame(), column="hours", bounds=(0, 5), **asked),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_query_takes_one_row_per_user(name: str) -> None:
    found = QUESTIONS[name](epsilon=4, user="id", rows_per_user=1)
    assert found.users == USERS and found.epsilon == 4
    with pytest.raises(ParameterError, match="rows_per_user=1"):
        QUESTIONS[name](epsilon=4, user="id")


def test_ids_as_a_list_beside_a_list_of_values() -> None:
    found = shuffledp.count([1, 0, 1, 1] * 500, epsilon=8, user=[1, 1, 2, 3] * 500, rows_per_user=1)
    assert found.users == 3


@pytest.mark.parametrize(
    ("asked", "error", "sentence"),
    [
        ({"rows_per_user": 2}, ParameterError, "needs user="),
        ({"user": "id", "rows_per_user": 0}, ParameterError, "rows_per_user"),
        ({"user": "id", "rows_per_user": 1.5}, ParameterError, "rows_per_user"),
        ({"user": "nobody", "rows_per_user": 1}, ParameterError, "no column 'nobody'"),
        ({"user": "hours", "rows_per_user": 1}, DataError, "ids of users must be texts"),
        ({"user": [1, 2], "rows_per_user": 1}, DataError, "for every row"),
        ({"user": "gaps", "rows_per_user": 1}, DataError, "column of user ids has missing"),
        (
            {"user": "id", "rows_per_user": 1, "protocol": "local"},
            ParameterError,
            "need shuffledp's protocol",
        ),
        ({"missing": "drop"}, ParameterError, "refused: the number of remaining rows"),
        ({"missing": "bucket"}, ParameterError, "is for histograms"),
        ({"missing": [0]}, ParameterError, "missing must be"),
    ],
)
def test_bad_declarations_get_one_sentence(
    asked: dict[str, Any], error: type[InputError], sentence: str
) -> None:
    data = frame().assign(gaps=[None, *frame()["id"][1:]])
    with pytest.raises(error, match=sentence):
        shuffledp.count(data, column="yes", epsilon=1, **asked)


def test_ids_in_a_csv_file_are_texts_as_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    asked: dict[str, Any] = {"column": "yes", "user": "id", "rows_per_user": 1, "epsilon": 8}
    for ids in (["007", "7", "7", "07"], ["12.0", "12", "1e1"], ["2020-01-31", "true", "5"]):
        path.write_text("id,yes\n" + "".join(f"{one},1\n" for one in ids))
        assert shuffledp.count(path, **asked).users == 3
    pd.read_csv(path).assign(id=[7, 7, 8]).to_parquet(tmp_path / "rows.parquet")
    assert shuffledp.count(tmp_path / "rows.parquet", **asked).users == 2
    for gap in ("", "NA"):
        path.write_text(f"id,yes\n7,1\n{gap},1\n")
        with pytest.raises(DataError, match="column of user ids has missing values"):
            shuffledp.count(path, **asked)


# missing values

GAPS: dict[str, list[Any]] = {
    "km": [1.0, None, 3.0, float("nan")] * 500,
    "way": ["bike", None, "walk", "bike"] * 500,
}


def sources(tmp_path: Path, column: str) -> dict[str, Any]:
    """The same column with gaps, from every kind of source."""
    table = pa.table({column: pa.array([None if is_missing(v) else v for v in GAPS[column]])})
    pq.write_table(table, tmp_path / "gaps.parquet")
    lines = ["" if is_missing(v) else str(v) for v in GAPS[column]]
    (tmp_path / "gaps.csv").write_text(f"{column},n\n" + "".join(f"{v},1\n" for v in lines))
    return {
        "list": GAPS[column],
        "pandas": pd.Series(GAPS[column]),
        "categories": pd.Series(GAPS[column], dtype="category" if column == "way" else float),
        "polars": pl.Series(GAPS[column], strict=False),
        "arrow": table[column],
        "array": np.array(GAPS[column], object if column == "way" else float),
        "parquet": str(tmp_path / "gaps.parquet"),
        "csv": str(tmp_path / "gaps.csv"),
    }


def test_a_value_stands_for_missing_ones_in_every_source(tmp_path: Path) -> None:
    for name, source in sources(tmp_path, "km").items():
        asked = {"column": "km"} if name == "csv" else {}
        found = shuffledp.real_sum(source, epsilon=8, bounds=(0, 4), missing=2, **asked)  # type: ignore[call-overload]
        assert found.users == 2_000 and abs(found.value - 4_000) < 30 * found.rmse, name
        with pytest.raises(InputError, match="missing values"):
            shuffledp.real_sum(source, epsilon=8, bounds=(0, 4), **asked)  # type: ignore[call-overload]


def test_missing_labels_get_a_bucket_in_every_source(tmp_path: Path) -> None:
    for name, source in sources(tmp_path, "way").items():
        asked = {"column": "way"} if name == "csv" else {}
        found = shuffledp.histogram(
            source,
            epsilon=8,
            labels=["bike", "walk"],
            missing="bucket",
            **asked,  # type: ignore[arg-type]
        )
        assert found.labels == ("bike", "walk", "missing")
        assert np.allclose(found.values, [1_000, 500, 500], atol=30 * found.rmse), name


def test_what_stands_for_missing_values_must_fit_the_column(tmp_path: Path) -> None:
    for name, source in sources(tmp_path, "km").items():
        asked = {"column": "km"} if name == "csv" else {}
        with pytest.raises((ParameterError, DataError, ValueOutOfRange)):
            shuffledp.real_sum(source, epsilon=8, bounds=(0, 4), missing="none", **asked)  # type: ignore[call-overload]


def test_a_fraction_is_not_rounded_where_whole_numbers_are_missing(tmp_path: Path) -> None:
    table = pa.table({"n": [1, None] * 500, "m": [1] * 1_000})
    pq.write_table(table, tmp_path / "gaps.parquet")
    (tmp_path / "gaps.csv").write_text("n,m\n" + "1,1\n,1\n" * 500)
    asked: dict[str, Any] = {"column": "n", "epsilon": 8, "bounds": (0, 1)}
    for name in ("gaps.parquet", "gaps.csv"):
        with pytest.raises(ParameterError, match="value of the column's type"):
            shuffledp.real_sum(tmp_path / name, missing=0.5, **asked)
        found = shuffledp.real_sum(tmp_path / name, missing=1.0, **asked)
        assert abs(found.value - 1_000) < 8 * found.rmse
    found = shuffledp.real_sum(table, missing=0.5, **asked)  # in memory, they become real numbers
    assert abs(found.value - 750) < 8 * found.rmse


def test_the_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame().to_csv(path, index=False)
    asked = ["count", str(path), "--column", "yes", "--epsilon", "2", "--user", "id"]
    code, out, _ = run(capsys, *asked, "--rows-per-user", "1", "--json")
    data = json.loads(out)
    assert code == 0 and data["users"] == USERS and Fraction(data["epsilon_exact"]) == 2
    code, out, _ = run(capsys, *asked, "--rows-per-user", "1")
    assert code == 0 and "protects all rows of any one user" in out
    code, _, error = run(capsys, *asked)
    assert code == 2 and "rows_per_user=1" in error
    gaps = sources(tmp_path, "km")["csv"]
    code, out, _ = run(
        capsys,
        "mean",
        gaps,
        "--column",
        "km",
        "--bounds",
        "0,4",
        "--epsilon",
        "8",
        "--missing",
        "2",
    )
    assert code == 0
    code, _, error = run(
        capsys,
        "mean",
        gaps,
        "--column",
        "km",
        "--bounds",
        "0,4",
        "--epsilon",
        "8",
        "--missing=drop",
    )
    assert code == 2 and "refused" in error

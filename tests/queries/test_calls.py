"""Queries on this machine: every kind of column, every result, every first mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import shuffledp
from shuffledp.errors import ParameterError, ShortBatchError, ShuffleDPError, ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.protocols.results import Result

WORDS = np.array(["walk", "bike", "car"])
ROWS = 2000
LABELS = WORDS[np.arange(ROWS) % 3]
FLAGS = np.arange(ROWS) % 4 == 0
REALS = np.linspace(0, 10, ROWS)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    table = pa.table({"way": LABELS.tolist(), "flag": FLAGS, "km": REALS})
    pq.write_table(table, tmp_path / "data.parquet", row_group_size=300)
    table.to_pandas().to_csv(tmp_path / "data.csv", index=False)
    return {kind: str(tmp_path / f"data.{kind}") for kind in ("csv", "parquet")}


def columns(values: NDArray[Any]) -> dict[str, object]:
    return {
        "list": values.tolist(),
        "numpy": values,
        "pandas": pd.Series(values),
        "polars": pl.Series("x", values.tolist()),
        "arrow": pa.chunked_array([values[:700].tolist(), values[700:].tolist()]),
    }


@pytest.mark.parametrize("kind", columns(FLAGS))
def test_every_kind_of_column_counts_the_same(kind: str) -> None:
    estimate = shuffledp.count(columns(FLAGS)[kind], epsilon=8, entropy=SeededEntropy(kind))
    assert estimate.value == pytest.approx(500, abs=3) and estimate.users == ROWS
    labels = columns(LABELS)[kind]
    histogram = shuffledp.histogram(
        labels, epsilon=8, labels=WORDS.tolist(), entropy=SeededEntropy(kind)
    )
    assert np.abs(histogram.values - [667, 667, 666]).max() < 4
    total = shuffledp.real_sum(
        columns(REALS)[kind], epsilon=8, bounds=(0, 10), entropy=SeededEntropy(kind)
    )
    assert total.value == pytest.approx(REALS.sum(), abs=60)


@pytest.mark.parametrize(
    "frame",
    [
        lambda: pd.DataFrame({"a": FLAGS, "b": REALS}),
        lambda: pl.DataFrame({"a": FLAGS, "b": REALS}),
        lambda: pl.LazyFrame({"a": FLAGS, "b": REALS}),
        lambda: pa.table({"a": FLAGS, "b": REALS}),
    ],
    ids=["pandas", "polars", "lazy", "arrow"],
)
def test_frames_need_a_column(frame: Callable[[], object]) -> None:
    assert shuffledp.count(frame(), epsilon=8, column="a").value == pytest.approx(500, abs=4)
    with pytest.raises(ParameterError, match="Which column"):
        shuffledp.count(frame(), epsilon=8)
    with pytest.raises(ParameterError, match="no column 'c'; there are a, b"):
        shuffledp.count(frame(), epsilon=8, column="c")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files(files: dict[str, str], kind: str) -> None:
    path = files[kind]
    assert shuffledp.count(path, epsilon=8, column="flag").value == pytest.approx(500, abs=4)
    assert shuffledp.count(path, epsilon=8, column="way", equals="bike").value == pytest.approx(
        667, abs=4
    )
    found = shuffledp.quantiles(path, epsilon=8, bounds=(0, 10), column="km")
    assert found.quantile(0.5).value == pytest.approx(5, abs=0.1)
    mean = shuffledp.mean(path, epsilon=8, bounds=(0, 10), column="km", per_user=True)
    assert mean.value == pytest.approx(5, abs=0.05)


def test_integer_sums_and_clamping() -> None:
    values = np.arange(1000) % 11
    estimate = shuffledp.integer_sum(values, epsilon=8, largest=10)
    assert estimate.value == pytest.approx(values.sum(), abs=30)
    with pytest.raises(ValueOutOfRange):
        shuffledp.integer_sum(values, epsilon=1, largest=9)
    clamped = shuffledp.integer_sum(values, epsilon=8, largest=9, clamp=True)
    assert clamped.value == pytest.approx(np.minimum(values, 9).sum(), abs=30)


BAD: dict[str, Callable[[], object]] = {
    "nan": lambda: shuffledp.real_sum([0.5, float("nan")], epsilon=1, bounds=(0, 1)),
    "inf": lambda: shuffledp.real_sum([0.5, float("inf")], epsilon=1, bounds=(0, 1)),
    "missing": lambda: shuffledp.count([1, None], epsilon=1),
    "missing in pandas": lambda: shuffledp.count(pd.Series([True, None]), epsilon=1),
    "missing in polars": lambda: shuffledp.count(pl.Series([True, None]), epsilon=1),
    "empty": lambda: shuffledp.count([], epsilon=1),
    "not 0 or 1": lambda: shuffledp.count([0, 1, 2], epsilon=1),
    "text without equals": lambda: shuffledp.count(["yes", "no"], epsilon=1),
    "out of range": lambda: shuffledp.mean([5.0], epsilon=1, bounds=(0, 1)),
    "unknown label": lambda: shuffledp.histogram(["a", "z"], epsilon=1, labels=["a", "b"]),
    "duplicate bucket": lambda: shuffledp.histogram(["a"], epsilon=1, labels=["a", "a"]),
    "wrong type": lambda: shuffledp.real_sum(["a"], epsilon=1, bounds=(0, 1)),
    "two dimensions": lambda: shuffledp.count(np.zeros((2, 2), int), epsilon=1),
    "no column": lambda: shuffledp.count(object(), epsilon=1),
    "no file": lambda: shuffledp.count("nothing.csv", epsilon=1),
    "wrong suffix": lambda: shuffledp.count("data.xls", epsilon=1),
    "largest 0": lambda: shuffledp.integer_sum([1], epsilon=1, largest=0),
    "bounds in the wrong order": lambda: shuffledp.real_sum([1], epsilon=1, bounds=(1, 0)),
    "confidence": lambda: shuffledp.count([1, 0], epsilon=1, confidence=1.5),
    "quantile": lambda: shuffledp.quantiles([0.5], epsilon=1, bounds=(0, 1), probabilities=[2]),
    "epsilon nan": lambda: shuffledp.count([1], epsilon=float("nan")),
    "epsilon true": lambda: shuffledp.count([1], epsilon=True),
}


@pytest.mark.parametrize("name", BAD)
def test_first_mistakes_get_one_sentence(name: str) -> None:
    with pytest.raises(ShuffleDPError) as caught:
        BAD[name]()
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 250


def test_one_row_is_enough_and_fewer_than_users_is_not() -> None:
    assert shuffledp.count([1], epsilon=1).users == 1
    with pytest.raises(ShortBatchError):
        shuffledp.count([1, 0, 1], epsilon=1, users=4)
    assert shuffledp.count([1, 0, 1], epsilon=1, users=2).users == 3


def test_results_print_and_plot(tmp_path: Path) -> None:
    results: list[Result] = [
        shuffledp.count(FLAGS, epsilon=1),
        shuffledp.histogram(LABELS, epsilon=1, labels=WORDS.tolist()),
        shuffledp.mean(REALS, epsilon=1, bounds=(0, 10)),
        shuffledp.quantiles(REALS, epsilon=1, bounds=(0, 10)),
    ]
    for number, result in enumerate(results):
        assert "ε = 1" in str(result) and result._repr_html_().startswith("<table>")
        path = tmp_path / f"{number}.png"
        result.plot(str(path))
        assert path.read_bytes().startswith(b"\x89PNG")
        assert result.to_dict()["certificate"]["epsilon"] == "1"
        assert len(repr(result)) < 120 and "ε = 1" in repr(result)
    with pytest.raises(ParameterError, match="no folder"):
        results[0].plot(str(tmp_path / "no" / "such.png"))


@pytest.mark.parametrize(
    "data", [FLAGS, FLAGS.tolist(), pd.Series(FLAGS)], ids=["array", "list", "Series"]
)
def test_a_columns_name_beside_one_column_is_refused(data: object) -> None:
    with pytest.raises(ParameterError, match="already one column"):
        shuffledp.count(data, epsilon=1, column="flag")


RIVAL: dict[str, Callable[[], Result]] = {
    "count": lambda: shuffledp.count(FLAGS, epsilon=1, protocol="central"),
    "equals": lambda: shuffledp.count(LABELS, epsilon=1, equals="bike", protocol="central"),
    "delta": lambda: shuffledp.count(FLAGS, epsilon=1, protocol="gkmp20", delta="1e-6"),
    "integer_sum": lambda: shuffledp.integer_sum(
        [0, 9], epsilon=1, largest=5, clamp=True, protocol="central"
    ),
    "real_sum": lambda: shuffledp.real_sum(REALS, epsilon=1, bounds=(0, 10), protocol="central"),
    "histogram": lambda: shuffledp.histogram(
        LABELS, epsilon=1, labels=["walk", "bike"], other="else", protocol="central"
    ),
}


@pytest.mark.parametrize("name", RIVAL)
def test_other_protocols_answer_too(name: str) -> None:
    found = RIVAL[name]()
    assert isinstance(found, Result)
    assert found.users in (2, ROWS) and found.to_dict()["protocol"] in ("central", "gkmp20")


@pytest.mark.parametrize(
    "option",
    [
        {"per_user": True},
        {"progress": print},
        {"rmse": 3},
        {"mse_overhead": 1},
        {"relative_error": "0.1"},
        {"max_messages": 5},
        {"expected": 9999},
        {"ledger": "budget.json"},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_that_other_protocols_do_not_have_are_refused(option: Any) -> None:
    with pytest.raises(ParameterError, match=f"option {next(iter(option))} cannot be used"):
        shuffledp.count(FLAGS, epsilon=1, protocol="central", **option)


def test_delta_without_a_protocol_and_protocols_without_an_answer_are_refused() -> None:
    with pytest.raises(ParameterError, match="option delta"):
        shuffledp.count(FLAGS, epsilon=1, delta="1e-6")
    with pytest.raises(ParameterError, match="real_sum"):
        shuffledp.mean(REALS, epsilon=1, bounds=(0, 10), protocol="central")
    with pytest.raises(ParameterError, match="No other protocol answers quantiles"):
        shuffledp.quantiles(REALS, epsilon=1, bounds=(0, 10), protocol="central")
    with pytest.raises(ParameterError, match="max_messages"):
        shuffledp.quantiles(REALS, epsilon=1, bounds=(0, 10), max_messages=5)


def test_progress_is_told_every_row() -> None:
    for per_user in (False, True):
        told: list[int] = []
        shuffledp.count(FLAGS, epsilon=1, progress=told.append, per_user=per_user)
        assert sum(told) == ROWS


def test_a_ledger_may_be_given_as_it_is(tmp_path: Path) -> None:
    ledger = shuffledp.Ledger.create(tmp_path / "budget.json", 1)
    shuffledp.integer_sum([0, 1, 2], epsilon=1, largest=2, ledger=ledger)
    assert [entry.what for entry in ledger.entries()] == ["integer-sum"]

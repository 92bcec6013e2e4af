"""The front door: every kind of column, every first mistake."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp
from shuffledp.errors import (
    BudgetExceeded,
    InputError,
    ParameterError,
    SeededError,
    ShortBatchError,
    ShuffleDPError,
    ValueOutOfRange,
)
from shuffledp.exact.seeded import SeededEntropy
from shuffledp.queries.ledger import Ledger

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


def columns(values: np.ndarray) -> dict[str, object]:
    return {
        "list": values.tolist(),
        "numpy": values,
        "pandas": pd.Series(values),
        "polars": pl.Series("x", values.tolist()),
        "arrow": pa.chunked_array([values[:700].tolist(), values[700:].tolist()]),
    }


@pytest.mark.parametrize("kind", columns(FLAGS))
def test_every_kind_of_column_counts_the_same(kind: str) -> None:
    estimate = shuffledp.count(columns(FLAGS)[kind], 8, entropy=SeededEntropy(kind))
    assert estimate.value == pytest.approx(500, abs=3) and estimate.users == ROWS
    labels = columns(LABELS)[kind]
    histogram = shuffledp.histogram(labels, 8, WORDS.tolist(), entropy=SeededEntropy(kind))
    assert np.abs(histogram.values - [667, 667, 666]).max() < 4
    total = shuffledp.total(columns(REALS)[kind], 8, bounds=(0, 10), entropy=SeededEntropy(kind))
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
def test_frames_need_a_column(frame) -> None:  # type: ignore[no-untyped-def]
    assert shuffledp.count(frame(), 8, column="a").value == pytest.approx(500, abs=4)
    with pytest.raises(ParameterError, match="Which column"):
        shuffledp.count(frame(), 8)
    with pytest.raises(ParameterError, match="no column 'c'; there are a, b"):
        shuffledp.count(frame(), 8, column="c")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files(files: dict[str, str], kind: str) -> None:
    path = files[kind]
    assert shuffledp.count(path, 8, column="flag").value == pytest.approx(500, abs=4)
    assert shuffledp.count(path, 8, column="way", equals="bike").value == pytest.approx(667, abs=4)
    found = shuffledp.quantiles(path, 8, (0, 10), column="km")
    assert found.quantile(0.5).value == pytest.approx(5, abs=0.1)
    mean = shuffledp.mean(path, 8, (0, 10), column="km", per_user=True)
    assert mean.value == pytest.approx(5, abs=0.05)


def test_integer_sums_and_clamping() -> None:
    values = np.arange(1000) % 11
    estimate = shuffledp.total(values, 8, largest=10)
    assert estimate.value == pytest.approx(values.sum(), abs=30)
    with pytest.raises(ValueOutOfRange):
        shuffledp.total(values, 1, largest=9)
    clamped = shuffledp.total(values, 8, largest=9, clamp=True)
    assert clamped.value == pytest.approx(np.minimum(values, 9).sum(), abs=30)


BAD = {
    "nan": lambda: shuffledp.total([0.5, float("nan")], 1, bounds=(0, 1)),
    "inf": lambda: shuffledp.total([0.5, float("inf")], 1, bounds=(0, 1)),
    "missing": lambda: shuffledp.count([1, None], 1),
    "missing in pandas": lambda: shuffledp.count(pd.Series([True, None]), 1),
    "missing in polars": lambda: shuffledp.count(pl.Series([True, None]), 1),
    "empty": lambda: shuffledp.count([], 1),
    "not 0 or 1": lambda: shuffledp.count([0, 1, 2], 1),
    "text without equals": lambda: shuffledp.count(["yes", "no"], 1),
    "out of range": lambda: shuffledp.mean([5.0], 1, (0, 1)),
    "unknown label": lambda: shuffledp.histogram(["a", "z"], 1, ["a", "b"]),
    "duplicate bucket": lambda: shuffledp.histogram(["a"], 1, ["a", "a"]),
    "wrong type": lambda: shuffledp.total(["a"], 1, bounds=(0, 1)),
    "two dimensions": lambda: shuffledp.count(np.zeros((2, 2), int), 1),
    "no column": lambda: shuffledp.count(object(), 1),
    "no file": lambda: shuffledp.count("nothing.csv", 1),
    "wrong suffix": lambda: shuffledp.count("data.xls", 1),
    "neither bounds nor largest": lambda: shuffledp.total([1], 1),
    "confidence": lambda: shuffledp.count([1, 0], 1, confidence=1.5),
    "quantile": lambda: shuffledp.quantiles([0.5], 1, (0, 1), [2]),
    "epsilon nan": lambda: shuffledp.count([1], float("nan")),
    "epsilon true": lambda: shuffledp.count([1], True),
}


@pytest.mark.parametrize("name", BAD)
def test_first_mistakes_get_one_sentence(name: str) -> None:
    with pytest.raises(ShuffleDPError) as caught:
        BAD[name]()
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 250


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a\n")
    (tmp_path / "holes.csv").write_text("a,b\n1,2\n,3\n")
    (tmp_path / "not.parquet").write_text("hello")
    for name in ("empty.csv", "header.csv", "not.parquet"):
        with pytest.raises(InputError):
            shuffledp.count(str(tmp_path / name), 1, column="a")
    with pytest.raises(InputError, match="1 missing"):
        shuffledp.count(str(tmp_path / "holes.csv"), 1, column="a")


def test_one_row_is_enough_and_fewer_than_users_is_not() -> None:
    assert shuffledp.count([1], 1).users == 1
    with pytest.raises(ShortBatchError):
        shuffledp.count([1, 0, 1], 1, users=4)
    assert shuffledp.count([1, 0, 1], 1, users=2).users == 3


def test_results_print_and_plot(tmp_path: Path) -> None:
    results = [
        shuffledp.count(FLAGS, 1),
        shuffledp.histogram(LABELS, 1, WORDS.tolist()),
        shuffledp.mean(REALS, 1, (0, 10)),
        shuffledp.quantiles(REALS, 1, (0, 10)),
    ]
    for number, result in enumerate(results):
        assert "ε = 1" in str(result) and result._repr_html_().startswith("<table>")
        path = tmp_path / f"{number}.png"
        result.plot(str(path))
        assert path.read_bytes().startswith(b"\x89PNG")
        assert result.to_dict()["certificate"]["epsilon"] == "1"
    with pytest.raises(ParameterError, match="picture"):
        results[0].plot(str(tmp_path / "no" / "such.png"))


def test_the_ledger_refuses_before_it_records(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = Ledger.create(path, "1.5")
    shuffledp.count(FLAGS, 1, ledger=path)
    assert ledger.remaining() == shuffledp.queries.ledger.Fraction(1, 2)
    with pytest.raises(BudgetExceeded, match=r"0\.5 left of 1\.5"):
        shuffledp.count(FLAGS, 1, ledger=path)
    with pytest.raises(ValueOutOfRange):
        shuffledp.count([5], "0.1", ledger=path)  # bad data is found before anything is spent
    with pytest.raises(SeededError):
        shuffledp.count(FLAGS, "0.1", ledger=path, entropy=SeededEntropy(1))
    assert len(ledger.entries()) == 1
    for _ in range(5):
        ledger.spend("0.1", "exactly a tenth")
    assert ledger.remaining() == 0
    with pytest.raises(ParameterError, match="exists"):
        Ledger.create(path, 1)
    with pytest.raises(ParameterError, match="no ledger"):
        Ledger(tmp_path / "none.json").spend(1, "x")
    path.write_text("{}")
    with pytest.raises(ParameterError, match="is no ledger"):
        ledger.remaining()


def _race(path: str, tries: int, results) -> None:  # type: ignore[no-untyped-def]
    done = 0
    for _ in range(tries):
        try:
            Ledger(path).spend("0.01", f"by {os.getpid()}")
            done += 1
        except BudgetExceeded:
            pass
    results.put(done)


def test_processes_that_race_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "race.json")
    Ledger.create(path, 1)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    racers = [context.Process(target=_race, args=(path, 60, results)) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert sum(results.get(timeout=5) for _ in racers) == 100
    assert Ledger(path).remaining() == 0 and len(Ledger(path).entries()) == 100


def test_memory_of_a_streamed_file_stays_flat(tmp_path: Path) -> None:
    """A file of 300 MB of raw values, counted with much less than that."""
    path = tmp_path / "big.parquet"
    schema = pa.schema([("x", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(38):
            batch = pa.record_batch([pa.array(np.random.default_rng(1).random(1_000_000))], schema)
            writer.write_batch(batch)
    code = (
        "import re, shuffledp\n"
        f"shuffledp.total({str(path)!r}, 1, bounds=(0, 1))\n"
        "print(re.search('VmHWM:\\\\s+(\\\\d+)', open('/proc/self/status').read())[1])"
    )
    peak = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(peak.stdout) < 330_000  # kB; imports alone take about a third of it

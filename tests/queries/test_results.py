"""Results: short in print, whole in JSON, and a histogram as a data frame."""

from __future__ import annotations

import json
from importlib import util
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shuffledp
from shuffledp.errors import InputError, MissingExtra, ParameterError, ShortBatchError
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.numbers.exact import counted
from shuffledp.protocols.report import View

COLUMNS = ["label", "estimate", "clipped", "low", "high", "joint_low", "joint_high"]


@pytest.fixture(scope="module")
def histogram() -> shuffledp.HistogramResult:
    return shuffledp.histogram(["a", "b", "b"] * 50, epsilon=8, labels=["a", "b"])


@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        (None, pd.DataFrame),
        ("pandas", pd.DataFrame),
        ("polars", pl.DataFrame),
        ("pyarrow", pa.Table),
    ],
)
def test_a_histogram_as_a_frame(
    histogram: shuffledp.HistogramResult, backend: str | None, kind: type
) -> None:
    frame: Any = histogram.to_frame(backend)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert names == COLUMNS and len(frame) == 2
    assert isinstance(frame, kind)


def test_frames_of_what_is_installed(
    histogram: shuffledp.HistogramResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = util.find_spec
    missing: set[str] = set()
    monkeypatch.setattr(
        "shuffledp.protocols.frames.find_spec",
        lambda name: None if name in missing else find_spec(name),
    )
    missing |= {"pandas"}
    assert isinstance(histogram.to_frame(), pl.DataFrame)
    missing |= {"polars"}
    assert isinstance(histogram.to_frame(), pa.Table)
    missing |= {"pyarrow"}
    with pytest.raises(MissingExtra, match="pyarrow"):
        histogram.to_frame()
    missing.clear()
    missing |= {"narwhals"}
    with pytest.raises(MissingExtra, match="narwhals"):
        histogram.to_frame("pandas")
    with pytest.raises(ParameterError, match="pandas, polars, pyarrow"):
        histogram.to_frame("excel")


def test_labels_of_two_types_are_texts_in_a_frame() -> None:
    found = shuffledp.histogram([0, 1, 5] * 50, epsilon=8, labels=2, other="else")
    assert found.to_frame("pyarrow")["label"].to_pylist() == ["0", "1", "else"]


RESULTS: dict[str, Any] = {
    "count": lambda: shuffledp.count([True] * 50, epsilon=8),
    "histogram": lambda: shuffledp.histogram([0, 1] * 25, epsilon=8, labels=2),
    "quantiles": lambda: shuffledp.quantiles([0.5] * 50, epsilon=8, bounds=(0, 1), bins=4),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_print_shortly_and_go_into_json(name: str) -> None:
    result: shuffledp.Result = RESULTS[name]()
    assert len(repr(result)) < 120 and "50 users" in repr(result)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["query"] == name and data["epsilon_exact"] == "8" and data["users"] == 50
    assert "pure ε-DP" in result._repr_html_()


def test_one_user_is_not_several() -> None:
    plan = shuffledp.plan_count(1, 1)
    found = plan.analyze(plan.release(plan.aggregate(np.ones(1, int))))
    for text in (str(found), repr(found), found._repr_html_(), repr(plan)):
        assert "1 user" in text and "1 users" not in text
    assert counted(2, "user") == "2 users" and counted(0, "batch", "batches") == "0 batches"


def test_what_weakens_a_result_is_marked_everywhere() -> None:
    found = shuffledp.count(np.ones(50, int), epsilon=8, entropy=SeededEntropy(1)).clamp(0, 50)
    for text in (str(found), repr(found), found._repr_html_()):
        assert "[seeded: not private]" in text and "[clamped]" in text
    assert found.to_dict()["privacy"] == "none: seeded"


def test_a_secret_report_cannot_be_analyzed_nor_a_view_of_too_few_users() -> None:
    plan = shuffledp.plan_count(1000, 1)
    report = plan.randomize(1)
    with pytest.raises(ParameterError, match="a report is secret"):
        plan.analyze(report)  # type: ignore[arg-type]
    short = View(users=999, plus=report.plus, minus=report.minus)
    with pytest.raises(ShortBatchError):
        plan.analyze(short)
    with pytest.raises(InputError, match="Only a report"):
        plan.release(short)  # type: ignore[arg-type]
